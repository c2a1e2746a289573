"""ExecutionPlan, the router's signed decision (18.1.3.1)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gnus_node.records.authority import CapabilityName, Domainname, PathRoot
from gnus_node.records.base import (
    Amount,
    Body,
    Count,
    Digest,
    Generation,
    Label,
    Listing,
    Millis,
    Name,
    NodeId,
    Part,
    PublicKey,
    RecordId,
    Score,
    SortedSet,
    Uuid,
    Version,
)
from gnus_node.records.enums import (
    ExecutionMode,
    ExpertRole,
    Intent,
    MemoryMode,
    PrivacyMode,
    Risk,
    RoleName,
    SandboxPlatform,
    Stage,
    Topology,
)


class SelectedCore(Part):
    """The Semantic Core expert of a plan."""

    core_id: Name
    version: Version


class SelectedElm(Part):
    """One ELM of a plan, its role in it and the capabilities it may use."""

    elm_id: Name
    version: Version
    role: ExpertRole
    capabilities: SortedSet[CapabilityName]


class ExecutionGraph(Part):
    """Mode, topology and the set of stages; the order of stages is the flow table's."""

    mode: ExecutionMode
    topology: Topology
    stages: Annotated[SortedSet[Stage], Field(max_length=6)]


class Constraints(Part):
    """What the whole plan may use."""

    max_tokens: Count
    max_wall_ms: Millis
    max_spend: Amount


class AttestationRequirements(Part):
    """What must be attested, and by whom at least."""

    require_task_attestation: bool
    require_tool_attestation: bool
    min_reputation: Score


class ToolPolicy(Part):
    """Which tools a plan may propose (18.1.3.1.4)."""

    require_dry_run: bool
    human_approval: bool
    capability_whitelist: SortedSet[CapabilityName]
    allowlisted_domains: SortedSet[Domainname]
    allowlisted_paths: SortedSet[PathRoot]


class SandboxProfile(Part):
    """The least isolation real executions get."""

    default_deny: bool
    platform: SandboxPlatform


class Assignment(Part):
    """Who may execute what: one (stage, role, key). Experts carry their id and signed registry entry."""

    stage: Stage
    role: RoleName
    node_id: NodeId
    key: PublicKey
    expert_id: Name | None = None
    entry: RecordId | None = None
    fallback: bool
    """True where it runs only if another fails or drafts diverge."""


class ExecutionPlan(Body):
    """The seed's plan (18.1.3.1.4) and what binds it: mandate, generation, assignments, the pinned intermediary."""

    KIND = "execution_plan"
    SEED = "18.1.3.1.4"
    request_id: Uuid
    query_hash: Digest
    """The commitment of the query, as in the mandate."""
    selected_core: SelectedCore | None = None
    selected_elms: Annotated[Listing[SelectedElm], Field(max_length=16)]
    execution_graph: ExecutionGraph
    constraints: Constraints
    privacy_mode: PrivacyMode
    attestation_requirements: AttestationRequirements
    tool_policy: ToolPolicy
    memory_mode: MemoryMode
    sandbox_profile: SandboxProfile
    # ours (docs/protocol/extensions.md)
    mandate: RecordId
    generation: Generation
    intent: Intent
    risk: Risk
    reasons: Annotated[Listing[Label], Field(max_length=32)]
    assignments: Annotated[Listing[Assignment], Field(max_length=64)]
    intermediary_id: NodeId | None = None
    """The one node that takes every non-read call of this request; pinned across generations."""
    max_turns: Annotated[int, Field(ge=1, le=16)]
    hints: Annotated[Listing[RecordId], Field(max_length=8)]
    """Retrieval results the router planned with."""
