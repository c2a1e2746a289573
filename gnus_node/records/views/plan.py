"""Views of the execution plan and its tool policy (18.1.3.1.4)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from gnus_node.records import plan
from gnus_node.records.authority import Domainname, PathRoot
from gnus_node.records.base import Body, Label, Name, NodeId, Uuid, Version, View
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
from gnus_node.records.views.record import HeaderView, RecordView, SeedView, Whole
from gnus_node.records.views.scalars import AmountNumber, Capability, DigestText, Items, KeyText, ScoreNumber, SignatureText


class SelectedCoreView(SeedView):
    """The Semantic Core expert of a plan."""

    core_id: Name
    version: Version


class SelectedElmView(SeedView):
    """One ELM of a plan."""

    elm_id: Name
    version: Version
    role: ExpertRole
    capabilities: Items[Capability]


class ExecutionGraphView(SeedView):
    """Mode, topology and stages."""

    mode: ExecutionMode
    topology: Topology
    stages: Items[Stage]


class ConstraintsView(SeedView):
    """What the whole plan may use; ``max_spend`` in GNUS."""

    max_tokens: Whole
    max_wall_ms: Whole
    max_spend: AmountNumber


class AttestationRequirementsView(SeedView):
    """What must be attested, and by whom at least."""

    require_task_attestation: bool
    require_tool_attestation: bool
    min_reputation: ScoreNumber


class ToolPolicyView(SeedView):
    """Which tools a plan may propose."""

    require_dry_run: bool
    human_approval: bool
    capability_whitelist: Items[Capability]
    allowlisted_domains: Items[Domainname]
    allowlisted_paths: Items[PathRoot]


class SandboxProfileView(SeedView):
    """The least isolation real executions get."""

    default_deny: bool
    platform: SandboxPlatform


class AssignmentView(View):
    """Who may execute what."""

    stage: Stage
    role: RoleName
    node_id: NodeId
    key: KeyText
    expert_id: Name | None = None
    entry: DigestText | None = None
    fallback: bool


class ExecutionPlanView(RecordView):
    """The router's signed plan."""

    BODY: ClassVar[type[Body]] = plan.ExecutionPlan
    SIGNATURE: ClassVar[str] = "plan_signature"
    OURS: ClassVar[frozenset[str]] = frozenset(
        {
            "mandate",
            "generation",
            "intent",
            "risk",
            "reasons",
            "assignments",
            "intermediary_id",
            "max_turns",
            "hints",
            "record_id",
            "header",
        }
    )

    request_id: Uuid
    query_hash: DigestText
    selected_core: SelectedCoreView | None = None
    selected_elms: Items[SelectedElmView]
    execution_graph: ExecutionGraphView
    constraints: ConstraintsView
    privacy_mode: PrivacyMode
    attestation_requirements: AttestationRequirementsView
    tool_policy: ToolPolicyView
    memory_mode: MemoryMode
    sandbox_profile: SandboxProfileView
    plan_signature: SignatureText
    mandate: DigestText | None = None
    generation: Annotated[int, Field(ge=1, le=2**31)] | None = None
    intent: Intent | None = None
    risk: Risk | None = None
    reasons: Items[Label] | None = None
    assignments: Items[AssignmentView] | None = None
    intermediary_id: NodeId | None = None
    max_turns: Annotated[int, Field(ge=1, le=16)] | None = None
    hints: Items[DigestText] | None = None
    record_id: DigestText | None = None
    header: HeaderView | None = None
