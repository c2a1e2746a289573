"""What the Tool Intermediary signs: dry run, sanitised data, attestations (18.1.3.8)."""

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
    Millis,
    Name,
    NodeId,
    Part,
    ReasonCode,
    RecordId,
    SortedSet,
    Uuid,
)
from gnus_node.records.enums import AttestationPhase, DryRunKind, EffectClass, EffectState, WireEnum


class ContentType(WireEnum):
    """Content types sanitised data may have (18.1.3.8.7)."""

    TEXT = "text/plain"
    JSON = "application/json"
    MARKDOWN = "text/markdown"


class MockOutput(Part):
    """What a dry run shows instead of the real output."""

    content_type: ContentType
    preview: Committed


class DryRunResult(Body):
    """The seed's dry-run result (18.1.3.8.5). ``simulated_effects`` commits to its RFC 8785 JSON."""

    KIND = "dry_run_result"
    SEED = "18.1.3.8.5"
    tool_call_id: Uuid
    dry_run_ok: bool
    simulated_effects: Committed
    mock_output: MockOutput
    risk_flags: SortedSet[Name]
    human_approval_required: bool
    # ours
    request_id: Uuid
    dry_run_kind: DryRunKind


class StripReport(Part):
    """What sanitising took out (18.1.3.8.7)."""

    removed_zero_width_chars: Count
    removed_active_content: bool
    instruction_scrub_applied: bool
    removed_lines: Count


class SanitizedData(Body):
    """The seed's sanitised data (18.1.3.8.7); the only form in which a tool's output reaches prompts and memory."""

    KIND = "sanitized_data"
    SEED = "18.1.3.8.7"
    tool_call_id: Uuid
    source_hash: Digest
    """SHA-256 of the raw output."""
    content_type: ContentType
    plain_text: Committed
    structured_fields: Committed
    """Commits to RFC 8785 JSON, ``{}`` where there are none."""
    strip_report: StripReport
    # ours
    request_id: Uuid
    risk_flags: SortedSet[Name]
    sanitizer_version: Name


class ToolAttestation(Body):
    """The seed's attestation (18.1.3.8.6): one for every dry run, blocked ones too; a second binds the real output."""

    KIND = "tool_attestation"
    SEED = "18.1.3.8.6"
    request_id: Uuid
    tool_call_id: Uuid
    dry_run_ok: bool
    safe_to_execute: bool
    safe_to_memorize: bool
    provenance_hash: Digest
    """Digest of the sanitised data this attestation covers (the mock output's in the first phase)."""
    capability_hash: Digest
    policy_hash: Digest
    sanitizer_version: Name
    intermediary_node_id: NodeId
    timestamp_ms: Millis
    reason_code: ReasonCode
    # ours
    phase: AttestationPhase
    generation: Generation
    turn: Annotated[int, Field(ge=0, le=16)]
    tool_name: Name
    capability: CapabilityName
    effect_class: EffectClass
    effect_key: Digest
    effect_state: EffectState
    dry_run_kind: DryRunKind
    expert_output: RecordId
    dispatch: RecordId
    dry_run: RecordId | None = None
    first_attestation: RecordId | None = None
    sanitized: RecordId | None = None
    approval: RecordId | None = None
    isolation: Name
    """What really isolated the run; never a stronger word than a canary proved."""


class EffectSummary(Part):
    """One effect of a request as its intermediary recorded it, for successors and for PARTIAL_EFFECTS."""

    effect_key: Digest
    tool_call_id: Uuid
    tool_name: Name
    effect_class: EffectClass
    state: EffectState
    turn: Annotated[int, Field(ge=0, le=16)]
    attestation: RecordId | None = None


class EffectReport(Body):
    """All effects of one request, signed by its pinned intermediary; a successor router asks for it first."""

    KIND = "effect_report"
    request_id: Uuid
    generation: Generation
    dispatch: RecordId | None = None
    """The mediation this closes; absent where a successor router asked."""
    effects: Annotated[tuple[EffectSummary, ...], Field(max_length=64)]
