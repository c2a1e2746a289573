"""Containment: a mandate within its policies, a plan within its mandate, a dispatch within its plan (DESIGN.md section 2). Pure.

Each function lists what is wider, by field name. Every node that acts on a record calls these itself; nobody takes another's word.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnus_node.policy.ceilings import merge, path_within, wider_fields
from gnus_node.records.authority import Ceilings, Dispatch, Policy, RequestMandate
from gnus_node.records.enums import ApprovalMode, ExpertRole, ProcessingPass, Stage
from gnus_node.records.plan import ExecutionPlan

PASSES: dict[Stage, frozenset[ProcessingPass]] = {
    Stage.MEMORY: frozenset({ProcessingPass.RETRIEVAL}),
    Stage.GROUND: frozenset({ProcessingPass.RETRIEVAL, ProcessingPass.VERIFICATION}),
    Stage.DRAFT: frozenset({ProcessingPass.INFERENCE, ProcessingPass.COMPUTE}),
    Stage.TOOL: frozenset({ProcessingPass.COMPUTE, ProcessingPass.DATA_TRANSFORM}),
    Stage.VERIFY: frozenset({ProcessingPass.VERIFICATION, ProcessingPass.INFERENCE, ProcessingPass.COMPUTE}),
    Stage.SYNTHESIZE: frozenset({ProcessingPass.VERIFICATION}),
}
"""Which processing passes a stage may be dispatched with (18.1.5.2)."""


def policies_apply(mandate: RequestMandate, policies: Sequence[Policy]) -> list[str]:
    """What is wrong with the policies of a mandate: another tenant's, or another subject's.

    Whether one had ended when the mandate was made is ``evidence``'s to check, which sees the mandate's header.
    """
    wrong = []
    for policy in policies:
        if policy.tenant != mandate.tenant:
            wrong.append(f"policy {policy.policy_id}: tenant")
        subjects = {"any", mandate.project, mandate.principal}
        if policy.subject not in subjects:
            wrong.append(f"policy {policy.policy_id}: subject")
    return wrong


def mandate_within_policies(mandate: RequestMandate, policies: Sequence[Policy]) -> list[str]:
    """Fields in which a mandate's ceilings are wider than the merge of its policies."""
    return wider_fields(mandate.ceilings, merge(p.ceilings for p in policies))


def plan_within_mandate(plan: ExecutionPlan, mandate: RequestMandate) -> list[str]:
    """Fields in which a plan is wider than, or not of, its mandate. The seed's privacy and memory modes may only be stricter."""
    top: Ceilings = mandate.ceilings
    tools = plan.tool_policy
    capabilities = set(top.capabilities)
    checks: list[tuple[str, bool]] = [
        ("request_id", plan.request_id == mandate.request_id),
        ("generation", plan.generation == mandate.generation),
        ("query_hash", plan.query_hash == mandate.query.commitment),
        ("constraints.max_tokens", plan.constraints.max_tokens <= top.max_tokens),
        ("constraints.max_wall_ms", plan.constraints.max_wall_ms <= top.max_wall_ms),
        ("constraints.max_spend", plan.constraints.max_spend <= top.max_spend),
        ("max_turns", plan.max_turns <= top.max_turns),
        ("privacy_mode", plan.privacy_mode.rank() >= top.privacy_floor.rank()),
        ("memory_mode", plan.memory_mode.rank() >= top.memory_floor.rank()),
        ("tool_policy.capability_whitelist", set(tools.capability_whitelist) <= capabilities),
        ("tool_policy.allowlisted_domains", set(tools.allowlisted_domains) <= set(top.domains)),
        ("tool_policy.allowlisted_paths", all(path_within(p, top.paths) for p in tools.allowlisted_paths)),
        ("tool_policy.require_dry_run", tools.require_dry_run),
        ("tool_policy.human_approval", tools.human_approval or top.approval_floor is not ApprovalMode.STEP_BY_STEP),
        ("intermediary_id", plan.intermediary_id in (None, mandate.intermediary_id)),
        ("sandbox_profile.default_deny", plan.sandbox_profile.default_deny),
        ("attestation_requirements.require_task_attestation", plan.attestation_requirements.require_task_attestation),
        ("attestation_requirements.require_tool_attestation", plan.attestation_requirements.require_tool_attestation),
        ("selected_elms.capabilities", all(set(e.capabilities) <= capabilities for e in plan.selected_elms)),
    ]
    return [name for name, fine in checks if not fine] + _assignments(plan)


def named_experts(plan: ExecutionPlan) -> tuple[str, ...]:
    """Every expert a plan names, the core included."""
    core = (plan.selected_core.core_id,) if plan.selected_core else ()
    return core + tuple(e.elm_id for e in plan.selected_elms)


def expert_role(plan: ExecutionPlan, expert_id: str) -> ExpertRole | None:
    """The role an expert plays in a plan, or None where it is not named."""
    if plan.selected_core and plan.selected_core.core_id == expert_id:
        return ExpertRole.SEMANTIC_CORE
    return next((e.role for e in plan.selected_elms if e.elm_id == expert_id), None)


def _assignments(plan: ExecutionPlan) -> list[str]:
    """A plan assigns its experts exactly, and only in its own stages."""
    names = named_experts(plan)
    assigned = {a.expert_id for a in plan.assignments if a.expert_id is not None}
    wrong = []
    if len(set(names)) != len(names):
        wrong.append("selected_elms: repeated expert")
    if assigned != set(names):
        wrong.append("assignments.expert_id")
    if not {a.stage for a in plan.assignments} <= set(plan.execution_graph.stages):
        wrong.append("assignments.stage")
    if Stage.TOOL in plan.execution_graph.stages and plan.intermediary_id is None:
        wrong.append("intermediary_id")
    if any(a.node_id != plan.intermediary_id for a in plan.assignments if a.stage is Stage.TOOL):
        wrong.append("assignments.intermediary_id")
    if any((a.expert_id is None) is (a.stage is Stage.DRAFT) for a in plan.assignments if a.stage is not Stage.VERIFY):
        wrong.append("assignments.stage: experts draft, and nobody else")
    return wrong


def dispatch_within(dispatch: Dispatch, mandate: RequestMandate, plan: ExecutionPlan | None) -> list[str]:
    """What is wrong with a dispatch. Without a plan only retrieval may be dispatched (DECISIONS, Authority)."""
    wrong = []
    if dispatch.request_id != mandate.request_id:
        wrong.append("request_id")
    if dispatch.generation != mandate.generation:
        wrong.append("generation")
    if dispatch.processing_pass not in PASSES[dispatch.stage]:
        wrong.append("processing_pass")
    top = mandate.ceilings
    limits = (top.max_tokens, top.max_wall_ms, top.max_spend)
    if plan is None:
        if dispatch.stage is not Stage.MEMORY or dispatch.expert_id is not None:
            wrong.append("stage: only memory retrieval goes without a plan")
    else:
        limits = (plan.constraints.max_tokens, plan.constraints.max_wall_ms, plan.constraints.max_spend)
        if dispatch.turn > plan.max_turns:
            wrong.append("turn")
        place = (dispatch.stage, dispatch.peer, dispatch.node_id, dispatch.expert_id)
        if place not in {(a.stage, a.key, a.node_id, a.expert_id) for a in plan.assignments}:
            wrong.append("assignment")
    remaining = (dispatch.remaining.tokens, dispatch.remaining.wall_ms, dispatch.remaining.spend)
    for name, value, limit in zip(("tokens", "wall_ms", "spend"), remaining, limits, strict=True):
        if value > limit:
            wrong.append(f"remaining.{name}")
    return wrong
