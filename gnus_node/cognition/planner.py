"""From a question to an execution plan (18.1.3.1.5): the smallest effective set, each choice a pure function with its reason.

Everything is chosen within the mandate: a plan is made by narrowing it. The planner sees the question's text, the registry's offers and the
peers; it neither signs nor sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gnus_node.cognition.intent import Classified, classify, risk_of
from gnus_node.net.directory import Offer, Peer
from gnus_node.records.authority import RequestMandate
from gnus_node.records.enums import (
    ApprovalMode,
    BackendKind,
    Domain,
    ExecutionMode,
    ExpertRole,
    Intent,
    MemoryMode,
    Risk,
    RoleName,
    SandboxPlatform,
    Stage,
    Topology,
)
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.plan import (
    Assignment,
    AttestationRequirements,
    Constraints,
    ExecutionGraph,
    ExecutionPlan,
    SandboxProfile,
    SelectedCore,
    SelectedElm,
    ToolPolicy,
)

FILE_CAPABILITY = "tool.files.read.readonly"
MAX_EXPERTS = 8
"""Most experts a plan names, fallbacks included."""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """What the planner decides from. ``hosts`` lists granted, live peers by role, best first; ``offers`` the registry's experts."""

    question: str
    mandate: Signed[RequestMandate]
    hosts: Mapping[RoleName, Sequence[Peer]]
    offers: Sequence[Offer]
    hints: tuple[bytes, ...] = ()
    platform: SandboxPlatform = SandboxPlatform.IN_PROCESS
    min_reputation: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One expert of the plan: its offer, the role it plays, and whether it only steps in."""

    offer: Offer
    role: ExpertRole
    fallback: bool

    def standby(self, offers: Sequence[Offer]) -> Offer | None:
        """The same expert on another node, which takes over where this one's does not answer. It must be able to all that the plan says of it."""
        mine = self.offer.entry
        needed = {c.name for c in self.offer.manifest.body.required_capabilities}
        same = (mine.body.expert_id, mine.body.expert_version, mine.body.expert_role, mine.header.role)
        for other in offers:
            entry = other.entry
            able = needed <= {c.name for c in other.manifest.body.required_capabilities}
            elsewhere = other.peer.node_id != self.offer.peer.node_id
            if elsewhere and able and same == (entry.body.expert_id, entry.body.expert_version, entry.body.expert_role, entry.header.role):
                return other
        return None


def plan_request(given: PlanInput) -> ExecutionPlan:
    """The plan for a question. Raises ``NO_EXPERT`` where nobody capable is reachable."""
    top = given.mandate.body.ceilings
    found = classify(given.question)
    risk, risk_reason = risk_of(given.question, found.intent)
    tools = FILE_CAPABILITY in top.capabilities and bool(top.paths) and given.mandate.body.intermediary_id is not None
    choices, why = choose_experts(found, given.offers, tools=tools)
    if not any(not c.fallback for c in choices):
        raise GnusError("NO_EXPERT", f"no reachable expert for intent {found.intent}")
    grounded = _needs_ground(choices) and bool(given.hosts.get(RoleName.GROUNDING))
    acting = any(c.role is ExpertRole.TOOL_SUPPORT for c in choices)
    stages = choose_stages(grounded=grounded, acting=acting, memory=top.memory_floor is not MemoryMode.NONE)
    mode, topology = choose_graph(choices, acting=acting)
    core = next((c for c in choices if c.role is ExpertRole.SEMANTIC_CORE), None)
    elms = [c for c in choices if c is not core]
    reasons = (*found.reasons, risk_reason, *why, f"mode: {mode}, topology: {topology}")
    memory_mode = max(top.memory_floor, MemoryMode.TRUSTED_ONLY if risk is Risk.HIGH else MemoryMode.POLICY_SCOPED, key=lambda m: m.rank())
    return ExecutionPlan(
        request_id=given.mandate.body.request_id,
        query_hash=given.mandate.body.query.commitment,
        selected_core=SelectedCore(core_id=core.offer.entry.body.expert_id, version=core.offer.entry.body.expert_version) if core else None,
        selected_elms=tuple(_elm(c, top.capabilities) for c in elms),
        execution_graph=ExecutionGraph(mode=mode, topology=topology, stages=tuple(sorted(stages))),
        constraints=Constraints(max_tokens=top.max_tokens, max_wall_ms=top.max_wall_ms, max_spend=top.max_spend),
        privacy_mode=top.privacy_floor,
        attestation_requirements=AttestationRequirements(
            require_task_attestation=True, require_tool_attestation=True, min_reputation=given.min_reputation
        ),
        tool_policy=ToolPolicy(
            require_dry_run=True,
            human_approval=top.approval_floor is ApprovalMode.STEP_BY_STEP,
            capability_whitelist=_tool_capabilities(elms, top.capabilities) if acting else (),
            allowlisted_domains=(),
            allowlisted_paths=top.paths if acting else (),
        ),
        memory_mode=memory_mode,
        sandbox_profile=SandboxProfile(default_deny=True, platform=given.platform),
        mandate=given.mandate.id,
        generation=given.mandate.body.generation,
        intent=found.intent,
        risk=risk,
        reasons=tuple(r[:200] for r in reasons),
        assignments=_assign(given, choices, stages),
        intermediary_id=given.mandate.body.intermediary_id if acting else None,
        max_turns=top.max_turns if acting else 1,
        hints=given.hints,
    )


def choose_experts(found: Classified, offers: Sequence[Offer], *, tools: bool) -> tuple[list[Choice], list[str]]:
    """The smallest set that can answer, first the ones that draft, then those that step in if all of them abstain."""
    cores = [o for o in offers if o.entry.body.expert_role is ExpertRole.SEMANTIC_CORE]
    math = [o for o in offers if Domain.MATH in o.entry.body.domains and o.entry.body.expert_role is ExpertRole.DOMAIN_EXPERT]
    readers = [o for o in offers if o.entry.body.expert_role is ExpertRole.PRIMARY_DRAFT]
    helpers = [o for o in offers if o.entry.body.expert_role is ExpertRole.TOOL_SUPPORT]
    primary: list[Choice] = []
    why: list[str] = []
    if found.numeric and math:
        primary.extend(Choice(o, ExpertRole.DOMAIN_EXPERT, False) for o in _distinct(math)[:1])
        why.append("experts: the question calculates, so a math expert")
    if found.intent is Intent.FILE and tools and helpers:
        primary.append(Choice(helpers[0], ExpertRole.TOOL_SUPPORT, False))
        why.append("experts: the question names a file, so a tool proposer")
    if found.intent is Intent.FACT and readers:
        primary.extend(Choice(o, ExpertRole.PRIMARY_DRAFT, False) for o in _distinct(readers)[:4])
        why.append("experts: a fact, so each reader of a corpus drafts by itself")
    core_first = found.intent is not Intent.ARITHMETIC and not (found.intent is Intent.FACT and readers)
    if cores:
        only_math = found.intent is Intent.ARITHMETIC and bool(primary)
        fallback = only_math or not core_first
        primary.append(Choice(cores[0], ExpertRole.SEMANTIC_CORE, fallback and bool(primary)))
        why.append("experts: the semantic core " + ("steps in if all abstain" if fallback and len(primary) > 1 else "drafts"))
    elif readers and not any(c.role is ExpertRole.PRIMARY_DRAFT for c in primary):
        fallback = bool(primary) and found.intent is Intent.ARITHMETIC
        primary.extend(Choice(o, ExpertRole.PRIMARY_DRAFT, fallback) for o in _distinct(readers)[:2])
        why.append("experts: no semantic core, so readers stand in")
    return primary[:MAX_EXPERTS], why


def _distinct(offers: Sequence[Offer]) -> list[Offer]:
    """One offer for each expert id, in the order given."""
    seen: dict[str, Offer] = {}
    for offer in offers:
        seen.setdefault(offer.entry.body.expert_id, offer)
    return list(seen.values())


def _needs_ground(choices: Sequence[Choice]) -> bool:
    """Symbolic experts calculate and propose; every other one reads evidence."""
    return any(c.offer.entry.body.backend_kind is not BackendKind.SYMBOLIC for c in choices)


def choose_stages(*, grounded: bool, acting: bool, memory: bool) -> set[Stage]:
    """The set of stages; the flow table fixes their order."""
    stages = {Stage.DRAFT, Stage.SYNTHESIZE}
    if memory:
        stages.add(Stage.MEMORY)
    if grounded:
        stages.add(Stage.GROUND)
    if acting:
        stages.add(Stage.TOOL)
    return stages


def choose_graph(choices: Sequence[Choice], *, acting: bool) -> tuple[ExecutionMode, Topology]:
    """Mode and topology from who drafts (18.1.3.1.4)."""
    drafting = [c for c in choices if not c.fallback]
    if acting:
        return ExecutionMode.AGENT, Topology.SEQUENTIAL
    if len(drafting) > 1:
        return ExecutionMode.SWARM, Topology.PARALLEL_WITH_ARBITER
    if drafting and drafting[0].role is ExpertRole.SEMANTIC_CORE:
        return ExecutionMode.SINGLE_NODE, Topology.SINGLE
    return ExecutionMode.ELM_ASSISTED, Topology.SINGLE


def _elm(choice: Choice, ceiling: tuple[str, ...]) -> SelectedElm:
    entry = choice.offer.entry.body
    declared = {c.name for c in choice.offer.manifest.body.required_capabilities}
    return SelectedElm(
        elm_id=entry.expert_id, version=entry.expert_version, role=choice.role, capabilities=tuple(sorted(declared & set(ceiling)))
    )


def _tool_capabilities(elms: Sequence[Choice], ceiling: tuple[str, ...]) -> tuple[str, ...]:
    """Tool capabilities that an expert of the plan declares and the mandate allows."""
    declared = {c.name for e in elms for c in e.offer.manifest.body.required_capabilities if c.name.startswith("tool.")}
    return tuple(sorted(declared & set(ceiling)))


def _assign(given: PlanInput, choices: Sequence[Choice], stages: set[Stage]) -> tuple[Assignment, ...]:
    """Who executes what. Infrastructure roles get their best host; a second one stands by where there is one."""
    places: list[Assignment] = []
    wanted = ((Stage.GROUND, RoleName.GROUNDING), (Stage.SYNTHESIZE, RoleName.VERIFIER))
    for stage, role in wanted:
        if stage in stages:
            hosts = given.hosts.get(role, ())
            if not hosts:
                raise GnusError("NO_EXPERT", f"no reachable {role}")
            places.extend(
                Assignment(stage=stage, role=role, node_id=h.node_id, key=h.role_key, fallback=i > 0) for i, h in enumerate(hosts[:2])
            )
    if Stage.TOOL in stages:
        pinned = [h for h in given.hosts.get(RoleName.TOOL_INTERMEDIARY, ()) if h.node_id == given.mandate.body.intermediary_id]
        if not pinned:
            raise GnusError("UNREACHABLE", "the pinned intermediary is not reachable; tools are blocked")
        places.append(
            Assignment(stage=Stage.TOOL, role=RoleName.TOOL_INTERMEDIARY, node_id=pinned[0].node_id, key=pinned[0].role_key, fallback=False)
        )
    for choice in choices:
        places.append(_draft_place(choice.offer, choice.fallback))
        standby = choice.standby(given.offers)
        if standby is not None:
            places.append(_draft_place(standby, True))
    # The memory stage is dispatched before the plan, under the mandate alone; its assignment has no place here.
    return tuple(places)


def _draft_place(offer: Offer, fallback: bool) -> Assignment:
    """An expert's place. The first of an expert is its own; a later one is its standby."""
    entry = offer.entry
    return Assignment(
        stage=Stage.DRAFT,
        role=RoleName(entry.header.role.value),
        node_id=offer.peer.node_id,
        key=offer.peer.role_key,
        expert_id=entry.body.expert_id,
        entry=entry.id,
        fallback=fallback,
    )
