"""Views of what the Tool Intermediary signs: dry run, attestation, sanitised data (18.1.3.8.5 to 18.1.3.8.7)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from gnus_node.records import tools
from gnus_node.records.base import Body, Name, NodeId, ReasonCode, Uuid
from gnus_node.records.enums import AttestationPhase, DryRunKind, EffectClass, EffectState
from gnus_node.records.errors import GnusError
from gnus_node.records.tools import ContentType
from gnus_node.records.views.record import HeaderView, RecordView, SeedView, Whole, dump, read_as, structured
from gnus_node.records.views.scalars import Capability, DigestText, FreeObject, FreeText, Items, SignatureText, Withheld


class SimulatedEffectsView(SeedView):
    """What a real run would touch."""

    network_requests: Items[str]
    filesystem_access: Items[str]
    secrets_required: bool


def _effects(shown: Any) -> dict[str, Any] | None:
    found = structured(shown, dict) if isinstance(shown, str) else None
    try:
        return dump(read_as(SimulatedEffectsView, found)) if found is not None else None
    except GnusError:
        return None


class MockOutputView(SeedView):
    """What a dry run shows instead of the real output."""

    content_type: ContentType
    preview: FreeText


class DryRunResultView(RecordView):
    """The seed's dry-run result."""

    BODY: ClassVar[type[Body]] = tools.DryRunResult
    OURS: ClassVar[frozenset[str]] = frozenset({"request_id", "dry_run_kind", "signature", "record_id", "header"})

    tool_call_id: Uuid
    dry_run_ok: bool
    simulated_effects: SimulatedEffectsView | Withheld
    mock_output: MockOutputView
    risk_flags: Items[Name]
    human_approval_required: bool
    request_id: Uuid | None = None
    dry_run_kind: DryRunKind | None = None
    signature: SignatureText | None = None
    record_id: DigestText | None = None
    header: HeaderView | None = None

    @classmethod
    def adapt(cls, shown: dict[str, Any], withheld: dict[str, Any]) -> dict[str, Any]:
        """The simulated effects' text becomes their object; one of another shape stays withheld."""
        return shown | {"simulated_effects": _effects(shown["simulated_effects"]) or withheld["simulated_effects"]}


class ToolAttestationView(RecordView):
    """The seed's attestation."""

    BODY: ClassVar[type[Body]] = tools.ToolAttestation
    SIGNATURE: ClassVar[str] = "intermediary_signature"
    OURS: ClassVar[frozenset[str]] = frozenset(
        {
            "phase",
            "generation",
            "turn",
            "tool_name",
            "capability",
            "effect_class",
            "effect_key",
            "effect_state",
            "dry_run_kind",
            "expert_output",
            "dispatch",
            "dry_run",
            "first_attestation",
            "sanitized",
            "approval",
            "isolation",
            "record_id",
            "header",
        }
    )

    request_id: Uuid
    tool_call_id: Uuid
    dry_run_ok: bool
    safe_to_execute: bool
    safe_to_memorize: bool
    provenance_hash: DigestText
    capability_hash: DigestText
    policy_hash: DigestText
    sanitizer_version: Name
    intermediary_node_id: NodeId
    timestamp_ms: Whole
    reason_code: ReasonCode
    intermediary_signature: SignatureText
    phase: AttestationPhase | None = None
    generation: Annotated[int, Field(ge=1, le=2**31)] | None = None
    turn: Annotated[int, Field(ge=0, le=16)] | None = None
    tool_name: Name | None = None
    capability: Capability | None = None
    effect_class: EffectClass | None = None
    effect_key: DigestText | None = None
    effect_state: EffectState | None = None
    dry_run_kind: DryRunKind | None = None
    expert_output: DigestText | None = None
    dispatch: DigestText | None = None
    dry_run: DigestText | None = None
    first_attestation: DigestText | None = None
    sanitized: DigestText | None = None
    approval: DigestText | None = None
    isolation: Name | None = None
    record_id: DigestText | None = None
    header: HeaderView | None = None


class StripReportView(SeedView):
    """What sanitising took out."""

    OURS: ClassVar[frozenset[str]] = frozenset({"removed_lines"})

    removed_zero_width_chars: Whole
    removed_active_content: bool
    instruction_scrub_applied: bool
    removed_lines: Whole | None = None


class SanitizedDataView(RecordView):
    """The seed's sanitised data."""

    BODY: ClassVar[type[Body]] = tools.SanitizedData
    OURS: ClassVar[frozenset[str]] = frozenset({"request_id", "risk_flags", "sanitizer_version", "signature", "record_id", "header"})

    tool_call_id: Uuid
    source_hash: DigestText
    content_type: ContentType
    plain_text: FreeText
    structured_fields: FreeObject | Withheld
    strip_report: StripReportView
    request_id: Uuid | None = None
    risk_flags: Items[Name] | None = None
    sanitizer_version: Name | None = None
    signature: SignatureText | None = None
    record_id: DigestText | None = None
    header: HeaderView | None = None

    @classmethod
    def adapt(cls, shown: dict[str, Any], withheld: dict[str, Any]) -> dict[str, Any]:
        """The structured fields' text becomes their object; one that is no object stays withheld."""
        fields = shown["structured_fields"]
        found = structured(fields, dict) if isinstance(fields, str) else None
        return shown | {"structured_fields": withheld["structured_fields"] if found is None else found}
