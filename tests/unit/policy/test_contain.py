"""Containment: each ceiling of plan and dispatch widened in turn is named; what is narrower passes."""

from __future__ import annotations

from typing import Any

import pytest

from gnus_node.policy.contain import (
    PASSES,
    dispatch_within,
    expert_role,
    mandate_within_policies,
    named_experts,
    plan_within_mandate,
    policies_apply,
)
from gnus_node.records.authority import Ceilings, Dispatch, Policy, Remaining, RequestMandate
from gnus_node.records.enums import (
    ApprovalMode,
    ExpertRole,
    MemoryMode,
    PrivacyMode,
    ProcessingPass,
    RoleName,
    Stage,
)
from gnus_node.records.plan import Assignment, ExecutionPlan, SelectedCore, SelectedElm
from tests.unit.policy.test_ceilings import BASE, WIDER, with_
from tests.vectors.support import UUID, sample

WORKER, VERIFIER = bytes([1]) * 32, bytes([2]) * 32
OTHER_UUID = "00000000-0000-4000-8000-000000000001"


def changed(part: Any, path: str, value: Any) -> Any:
    """A copy of a record with one field, of a part perhaps, changed."""
    head, _, rest = path.partition(".")
    inner = changed(getattr(part, head), rest, value) if rest else value
    return type(part).model_validate({k: v for k, v in vars(part).items() if v is not None} | {head: inner})


def mandate(**change: Any) -> RequestMandate:
    base = sample(RequestMandate)
    values = {k: v for k, v in vars(base).items() if v is not None}
    return RequestMandate.model_validate(
        values | {"ceilings": BASE, "generation": 2, "request_id": UUID, "intermediary_id": "node-1"} | change
    )


MANDATE = mandate()


def assign(stage: Stage, role: RoleName, key: bytes, expert: str | None = None) -> Assignment:
    values: dict[str, Any] = {"stage": stage, "role": role, "node_id": "node-1", "key": key, "fallback": False}
    return Assignment.model_validate(values | ({"expert_id": expert} if expert else {}))


def make_plan() -> ExecutionPlan:
    values: dict[str, Any] = {k: v for k, v in vars(sample(ExecutionPlan)).items() if v is not None}
    plan = ExecutionPlan.model_validate(
        values
        | {
            "request_id": UUID,
            "generation": 2,
            "query_hash": MANDATE.query.commitment,
            "selected_core": SelectedCore(core_id="core", version="1"),
            "selected_elms": (SelectedElm(elm_id="elm", version="1", role=ExpertRole.PRIMARY_DRAFT, capabilities=("tool.files.read",)),),
            "privacy_mode": PrivacyMode.RESTRICTED,
            "memory_mode": MemoryMode.TRUSTED_ONLY,
            "max_turns": 3,
            "intermediary_id": "node-1",
            "assignments": (
                assign(Stage.DRAFT, RoleName.SEMANTIC_CORE, WORKER, "core"),
                assign(Stage.DRAFT, RoleName.ELM_WORKER, WORKER, "elm"),
                assign(Stage.VERIFY, RoleName.VERIFIER, VERIFIER),
            ),
        }
    )
    for path, value in (
        ("execution_graph.stages", (Stage.DRAFT, Stage.TOOL, Stage.VERIFY)),
        ("constraints.max_tokens", 100),
        ("constraints.max_wall_ms", 1000),
        ("constraints.max_spend", 10),
        ("tool_policy.require_dry_run", True),
        ("tool_policy.human_approval", False),
        ("tool_policy.capability_whitelist", ("tool.files.read",)),
        ("tool_policy.allowlisted_domains", ("docs.example",)),
        ("tool_policy.allowlisted_paths", ("/srv/docs", "/srv/docs/a")),
        ("sandbox_profile.default_deny", True),
        ("attestation_requirements.require_task_attestation", True),
        ("attestation_requirements.require_tool_attestation", True),
    ):
        plan = changed(plan, path, value)
    return plan


PLAN = make_plan()


def test_a_plan_that_uses_all_it_may_is_within() -> None:
    assert plan_within_mandate(PLAN, MANDATE) == []


WIDENED: list[tuple[str, Any]] = [
    ("request_id", OTHER_UUID),
    ("generation", 1),
    ("generation", 3),
    ("query_hash", bytes(32)),
    ("constraints.max_tokens", 101),
    ("constraints.max_wall_ms", 1001),
    ("constraints.max_spend", 11),
    ("max_turns", 4),
    ("privacy_mode", PrivacyMode.PLAINTEXT),
    ("memory_mode", MemoryMode.POLICY_SCOPED),
    ("tool_policy.capability_whitelist", ("tool.files.read", "tool.web.fetch")),
    ("tool_policy.capability_whitelist", ("tool.files",)),
    ("tool_policy.allowlisted_domains", ("docs.example", "evil.example")),
    ("tool_policy.allowlisted_domains", ("example",)),
    ("tool_policy.allowlisted_paths", ("/srv",)),
    ("tool_policy.allowlisted_paths", ("/srv/docs/../x",)),
    ("tool_policy.allowlisted_paths", ("/etc", "/srv/docs")),
    ("tool_policy.require_dry_run", False),
    ("intermediary_id", "node-2"),
    ("sandbox_profile.default_deny", False),
    ("attestation_requirements.require_task_attestation", False),
    ("attestation_requirements.require_tool_attestation", False),
]


@pytest.mark.parametrize(("path", "value"), WIDENED)
def test_each_field_of_a_plan_widened_is_named(path: str, value: Any) -> None:
    assert plan_within_mandate(changed(PLAN, path, value), MANDATE) == [path]


@pytest.mark.parametrize(("field", "value"), [w for w in WIDER if w[0] not in ("pre_granted", "approval_floor")])
def test_a_mandate_narrowed_under_a_plan_is_named(field: str, value: Any) -> None:
    """The other way round: the plan stays, each ceiling of the mandate is lowered."""
    lower: dict[str, Any] = {
        "capabilities": (),
        "domains": (),
        "paths": ("/srv/docs/a",),
        "max_tokens": 99,
        "max_wall_ms": 999,
        "max_spend": 9,
        "max_turns": 2,
        "privacy_floor": PrivacyMode.PRIVATE_BOUNDARY,
        "memory_floor": MemoryMode.NONE,
    }
    assert plan_within_mandate(PLAN, mandate(ceilings=with_(BASE, **{field: lower[field]}))) != []


def test_an_expert_may_not_hold_a_capability_the_mandate_lacks() -> None:
    elm = SelectedElm(elm_id="elm", version="1", role=ExpertRole.PRIMARY_DRAFT, capabilities=("tool.web.fetch",))
    assert plan_within_mandate(changed(PLAN, "selected_elms", (elm,)), MANDATE) == ["selected_elms.capabilities"]


@pytest.mark.parametrize(
    ("floor", "asked", "fine"),
    [
        (ApprovalMode.DELEGATED, False, True),
        (ApprovalMode.DEFAULT, False, True),
        (ApprovalMode.STEP_BY_STEP, False, False),
        (ApprovalMode.STEP_BY_STEP, True, True),
    ],
)
def test_step_by_step_needs_a_person(floor: ApprovalMode, asked: bool, fine: bool) -> None:
    found = plan_within_mandate(changed(PLAN, "tool_policy.human_approval", asked), mandate(ceilings=with_(BASE, approval_floor=floor)))
    assert found == ([] if fine else ["tool_policy.human_approval"])


def test_stricter_modes_are_allowed() -> None:
    for path, value in (("privacy_mode", PrivacyMode.PRIVATE_BOUNDARY), ("memory_mode", MemoryMode.NONE), ("constraints.max_spend", 0)):
        assert plan_within_mandate(changed(PLAN, path, value), MANDATE) == []


@pytest.mark.parametrize(
    ("assignments", "name"),
    [
        (PLAN.assignments[:1], "assignments.expert_id"),
        ((*PLAN.assignments, assign(Stage.DRAFT, RoleName.ELM_WORKER, WORKER, "stranger")), "assignments.expert_id"),
        ((*PLAN.assignments, assign(Stage.GROUND, RoleName.GROUNDING, WORKER)), "assignments.stage"),
    ],
)
def test_experts_are_assigned_exactly_and_in_the_plans_stages(assignments: Any, name: str) -> None:
    assert plan_within_mandate(changed(PLAN, "assignments", assignments), MANDATE) == [name]


def test_a_plan_may_assign_all_of_its_stages() -> None:
    exact = changed(PLAN, "execution_graph.stages", (Stage.DRAFT, Stage.VERIFY))
    assert plan_within_mandate(exact, MANDATE) == []


def test_an_expert_named_twice_and_a_tool_stage_without_an_intermediary() -> None:
    twice = (*PLAN.selected_elms, *PLAN.selected_elms)
    assert plan_within_mandate(changed(PLAN, "selected_elms", twice), MANDATE) == ["selected_elms: repeated expert"]
    core = changed(PLAN, "selected_core", SelectedCore(core_id="elm", version="1"))
    assert "selected_elms: repeated expert" in plan_within_mandate(core, MANDATE)
    assert plan_within_mandate(changed(PLAN, "intermediary_id", None), MANDATE) == ["intermediary_id"]


def test_who_is_named() -> None:
    assert named_experts(PLAN) == ("core", "elm")
    assert expert_role(PLAN, "core") is ExpertRole.SEMANTIC_CORE
    assert expert_role(PLAN, "elm") is ExpertRole.PRIMARY_DRAFT
    assert expert_role(PLAN, "stranger") is None
    assert named_experts(changed(PLAN, "selected_core", None)) == ("elm",)


# ---- mandates and policies


def policy(**change: Any) -> Policy:
    values = {k: v for k, v in vars(sample(Policy)).items() if v is not None}
    named = {"tenant": MANDATE.tenant, "subject": "any", "ceilings": BASE, "policy_id": "p"}
    return Policy.model_validate(values | named | change)


def test_policies_apply_to_their_tenant_and_subject() -> None:
    for subject in ("any", MANDATE.project, MANDATE.principal):
        assert policies_apply(MANDATE, [policy(subject=subject)]) == []
    assert policies_apply(MANDATE, [policy(tenant="other")]) == ["policy p: tenant"]
    assert policies_apply(MANDATE, [policy(subject="other")]) == ["policy p: subject"]
    assert policies_apply(MANDATE, [policy(), policy(tenant="other", subject="other")]) == ["policy p: tenant", "policy p: subject"]


@pytest.mark.parametrize(("field", "value"), WIDER)
def test_a_mandate_wider_than_its_policies_is_named(field: str, value: Any) -> None:
    wide = mandate(ceilings=with_(BASE, **{field: value}))
    assert mandate_within_policies(wide, [policy()]) == [field]
    generous: Ceilings = with_(BASE, **{field: value})
    # one generous policy beside a strict one does not help
    assert mandate_within_policies(wide, [policy(ceilings=generous), policy()]) == [field]
    assert mandate_within_policies(MANDATE, [policy()]) == []


# ---- dispatches


def dispatch(**change: Any) -> Dispatch:
    values: dict[str, Any] = {k: v for k, v in vars(sample(Dispatch)).items() if v is not None}
    named: dict[str, Any] = {
        "request_id": UUID,
        "generation": 2,
        "stage": Stage.DRAFT,
        "processing_pass": ProcessingPass.INFERENCE,
        "turn": 3,
        "expert_id": "elm",
        "peer": WORKER,
        "node_id": "node-1",
        "remaining": Remaining(tokens=100, wall_ms=1000, spend=10),
    }
    return Dispatch.model_validate({k: v for k, v in (values | named | change).items() if v is not None})


def retrieval(**change: Any) -> Dispatch:
    named = {"stage": Stage.MEMORY, "processing_pass": ProcessingPass.RETRIEVAL, "expert_id": None, "plan": None, "turn": 0}
    return dispatch(**(named | change))


def test_a_dispatch_that_the_plan_names_is_within() -> None:
    assert dispatch_within(dispatch(), MANDATE, PLAN) == []
    assert dispatch_within(retrieval(), MANDATE, None) == []


DISPATCHES: list[tuple[dict[str, Any], str]] = [
    ({"request_id": OTHER_UUID}, "request_id"),
    ({"generation": 1}, "generation"),
    ({"processing_pass": ProcessingPass.RETRIEVAL}, "processing_pass"),
    ({"processing_pass": ProcessingPass.RETRAIN}, "processing_pass"),
    ({"turn": 4}, "turn"),
    ({"peer": VERIFIER}, "assignment"),
    ({"node_id": "node-2"}, "assignment"),
    ({"expert_id": "stranger"}, "assignment"),
    ({"expert_id": None}, "assignment"),
    ({"stage": Stage.VERIFY}, "assignment"),
    ({"remaining": Remaining(tokens=101, wall_ms=1000, spend=10)}, "remaining.tokens"),
    ({"remaining": Remaining(tokens=100, wall_ms=1001, spend=10)}, "remaining.wall_ms"),
    ({"remaining": Remaining(tokens=100, wall_ms=1000, spend=11)}, "remaining.spend"),
]


@pytest.mark.parametrize(("change", "name"), DISPATCHES)
def test_each_field_of_a_dispatch_out_of_its_plan_is_named(change: dict[str, Any], name: str) -> None:
    assert dispatch_within(dispatch(**change), MANDATE, PLAN) == [name]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"stage": Stage.GROUND}, ["stage: only memory retrieval goes without a plan"]),
        ({"expert_id": "elm"}, ["stage: only memory retrieval goes without a plan"]),
        ({"remaining": Remaining(tokens=101, wall_ms=1001, spend=11)}, ["remaining.tokens", "remaining.wall_ms", "remaining.spend"]),
        ({"generation": 3}, ["generation"]),
    ],
)
def test_before_a_plan_only_retrieval_goes(change: dict[str, Any], names: list[str]) -> None:
    assert dispatch_within(retrieval(**change), MANDATE, None) == names


def test_a_dispatch_is_bound_by_the_plans_own_narrower_limits() -> None:
    tight = changed(PLAN, "constraints.max_tokens", 50)
    assert dispatch_within(dispatch(), MANDATE, tight) == ["remaining.tokens"]


def test_every_stage_has_its_passes_and_retraining_is_never_dispatched() -> None:
    assert set(PASSES) == set(Stage)
    assert all(passes and ProcessingPass.RETRAIN not in passes for passes in PASSES.values())
