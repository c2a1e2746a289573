"""What experts are and say: manifest, registry entry, output package with proposals (18.1.3.2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gnus_node.records.authority import CapabilityName
from gnus_node.records.base import (
    Body,
    Committed,
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
from gnus_node.records.enums import AnswerType, BackendKind, CapabilityScope, Domain, ExpertRole, UsageSource, WireEnum


class EvidenceType(WireEnum):
    """What an expert's evidence points to."""

    MEMORY_POINTER = "memory_pointer"
    CITATION = "citation"
    TOOL_OUTPUT = "tool_output"
    CONTRADICTION = "contradiction"
    """A passage that answers as well and says otherwise."""


class OutputEvidence(Part):
    """One reference of an output: an item of a signed evidence record, and the span of its text the answer rests on."""

    type: EvidenceType
    record: RecordId
    item: Name
    span_start: Count
    span_end: Count


class ToolProposal(Part):
    """A proposed tool call; never executed by the proposer (18.1.3.2.6). Arguments are one RFC 8785 JSON text."""

    tool_call_id: Uuid
    tool_name: Name
    arguments: Committed
    reason: Committed | None = None
    expected_side_effects: Label | None = None


class Usage(Part):
    """What a generation used. ``wall_ms`` is inference alone, ``queue_ms`` the wait for a slot."""

    prompt_tokens: Count
    completion_tokens: Count
    cached_tokens: Count
    wall_ms: Millis
    queue_ms: Millis
    source: UsageSource


class ExpertOutput(Body):
    """The seed's output package (18.1.3.2.3), bound to its Dispatch."""

    KIND = "expert_output"
    SEED = "18.1.3.2.3"
    request_id: Uuid
    expert_id: Name
    expert_version: Version
    expert_role: ExpertRole
    answer: Committed
    confidence: Score
    """0 with no ``calibration_id`` means uncalibrated: no vote (DESIGN.md section 9)."""
    evidence: Annotated[Listing[OutputEvidence], Field(max_length=64)]
    tool_calls: Annotated[Listing[ToolProposal], Field(max_length=16)]
    # ours
    answer_type: AnswerType
    abstained: Name | None = None
    """Reason code where the expert declines; the answer is then empty."""
    calibration_id: Name | None = None
    dispatch: RecordId
    generation: Generation
    turn: Count
    backend_kind: BackendKind
    model_id: Name
    model_license: Label
    artifact_hash: Digest | None = None
    usage: Usage


class CapabilityConstraint(Part):
    """One named constraint of a required capability, e.g. domains."""

    name: Name
    values: SortedSet[Name]


class RequiredCapability(Part):
    """A capability a manifest declares (18.1.3.2.5)."""

    name: CapabilityName
    scope: CapabilityScope
    constraints: Listing[CapabilityConstraint]


class Availability(WireEnum):
    """Words of ``sandbox_requirements``."""

    DISABLED = "disabled"
    READONLY = "readonly"
    ENABLED = "enabled"
    COARSE = "coarse"
    HOST_ATTESTED = "host_attested"


class SandboxRequirements(Part):
    """What a runtime may be given (18.1.3.2.5); enforced for every backend kind, or the backend is refused."""

    network: Availability
    filesystem: Availability
    clock: Availability
    randomness: Availability
    ipc: Availability | None = None


class CapabilityManifest(Body):
    """The seed's capability manifest (18.1.3.2.5)."""

    KIND = "capability_manifest"
    SEED = "18.1.3.2.5"
    module_name: Name
    module_version: Version
    artifact_hash: Digest
    required_capabilities: Listing[RequiredCapability]
    sandbox_requirements: SandboxRequirements


class ExpertEntry(Body):
    """A registry entry: this worker offers this expert (DESIGN.md section 9). The router chooses only from entries."""

    KIND = "expert_entry"
    expert_id: Name
    expert_version: Version
    expert_role: ExpertRole
    domains: SortedSet[Domain]
    backend_kind: BackendKind
    model_id: Name
    model_license: Label
    artifact_hash: Digest | None = None
    calibration_id: Name | None = None
    manifest: RecordId
    node_id: NodeId
    key: PublicKey
    slots: Count
    max_context_tokens: Count
