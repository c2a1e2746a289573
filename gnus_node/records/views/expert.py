"""Views of expert output, tool proposal and capability manifest (18.1.3.2.3, 18.1.3.2.5, 18.1.5.2.2)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from gnus_node.records import expert
from gnus_node.records.base import Body, Label, Name, Uri, Uuid, Version, View
from gnus_node.records.enums import AnswerType, BackendKind, CapabilityScope, ExpertRole, UsageSource
from gnus_node.records.errors import GnusError
from gnus_node.records.expert import Availability, EvidenceType
from gnus_node.records.views.record import HeaderView, RecordView, SeedView, Whole, structured
from gnus_node.records.views.scalars import (
    MAX_FREE_TEXT,
    Capability,
    DigestText,
    FreeArray,
    FreeObject,
    FreeText,
    Items,
    ScoreNumber,
    SignatureText,
    Withheld,
)


class EvidenceRefView(SeedView):
    """One reference of an output. ``ref`` is ``cid://`` and the evidence record's digest, with the item as fragment, or a foreign URI."""

    OURS: ClassVar[frozenset[str]] = frozenset({"record", "item", "span_start", "span_end"})

    type: EvidenceType
    ref: Uri
    record: DigestText | None = None
    item: Name | None = None
    span_start: Whole | None = None
    span_end: Whole | None = None


class ToolProposalView(SeedView):
    """A proposed tool call; a proposal only. ``reason`` is text where it is shown, so that the seed's own schema holds."""

    OURS: ClassVar[frozenset[str]] = frozenset({"reason_withheld"})

    tool_call_id: Uuid
    tool_name: Name
    arguments: FreeObject | Withheld
    reason: Annotated[str, Field(max_length=MAX_FREE_TEXT)] | None = None
    expected_side_effects: Label | None = None
    reason_withheld: Withheld | None = None


class UsageView(View):
    """What a generation used."""

    prompt_tokens: Whole
    completion_tokens: Whole
    cached_tokens: Whole
    wall_ms: Whole
    queue_ms: Whole
    source: UsageSource


def _evidence(shown: dict[str, Any]) -> dict[str, Any]:
    address = shown["record"].removeprefix("sha256:")
    return {"type": shown["type"], "ref": f"cid://{address}#{shown['item']}", **shown}


def _proposal(shown: dict[str, Any], withheld: dict[str, Any]) -> dict[str, Any]:
    arguments = shown["arguments"]
    found = structured(arguments, dict) if isinstance(arguments, str) else None
    plain = shown | {"arguments": withheld["arguments"] if found is None else found}
    if isinstance(plain.get("reason"), dict):
        plain["reason_withheld"] = plain.pop("reason")
    return plain


class ExpertOutputView(RecordView):
    """The seed's output package. An answer of type ``json`` that holds an object or array is shown as such,
    any other as its text; arguments that are no object stay withheld."""

    BODY: ClassVar[type[Body]] = expert.ExpertOutput
    SIGNATURE: ClassVar[str] = "expert_signature"
    OURS: ClassVar[frozenset[str]] = frozenset(
        {
            "answer_type",
            "abstained",
            "calibration_id",
            "dispatch",
            "generation",
            "turn",
            "backend_kind",
            "model_id",
            "model_license",
            "artifact_hash",
            "usage",
            "record_id",
            "header",
        }
    )

    request_id: Uuid
    expert_id: Name
    expert_version: Version
    expert_role: ExpertRole
    answer: FreeText | FreeObject | FreeArray
    confidence: ScoreNumber
    evidence: Items[EvidenceRefView]
    tool_calls: Items[ToolProposalView]
    expert_signature: SignatureText
    answer_type: AnswerType | None = None
    abstained: Name | None = None
    calibration_id: Name | None = None
    dispatch: DigestText | None = None
    generation: Annotated[int, Field(ge=1, le=2**31)] | None = None
    turn: Whole | None = None
    backend_kind: BackendKind | None = None
    model_id: Name | None = None
    model_license: Label | None = None
    artifact_hash: DigestText | None = None
    usage: UsageView | None = None
    record_id: DigestText | None = None
    header: HeaderView | None = None

    @classmethod
    def adapt(cls, shown: dict[str, Any], withheld: dict[str, Any]) -> dict[str, Any]:
        """Evidence gets its ``ref``, proposals their arguments as objects, a structured answer its structure."""
        answer = shown["answer"]
        if shown["answer_type"] is AnswerType.JSON and isinstance(answer, str):
            found = structured(answer, (dict, list))
            answer = answer if found is None else found
        return shown | {
            "answer": answer,
            "evidence": [_evidence(e) for e in shown["evidence"]],
            "tool_calls": [_proposal(c, w) for c, w in zip(shown["tool_calls"], withheld["tool_calls"], strict=True)],
        }


class RequiredCapabilityView(SeedView):
    """A capability a manifest declares; ``constraints`` maps a name to its values."""

    name: Capability
    scope: CapabilityScope
    constraints: dict[Name, Items[Name]]


class SandboxRequirementsView(SeedView):
    """What a runtime may be given."""

    OURS: ClassVar[frozenset[str]] = frozenset({"ipc"})

    network: Availability
    filesystem: Availability
    clock: Availability
    randomness: Availability
    ipc: Availability | None = None


def _required(shown: dict[str, Any]) -> dict[str, Any]:
    named = {c["name"]: c["values"] for c in shown["constraints"]}
    if len(named) != len(shown["constraints"]):
        raise GnusError("MALFORMED", "a constraint is named twice")
    return shown | {"constraints": named}


class CapabilityManifestView(RecordView):
    """The seed's capability manifest."""

    BODY: ClassVar[type[Body]] = expert.CapabilityManifest
    OURS: ClassVar[frozenset[str]] = frozenset({"record_id", "header"})

    module_name: Name
    module_version: Version
    artifact_hash: DigestText
    signature: SignatureText
    required_capabilities: Items[RequiredCapabilityView]
    sandbox_requirements: SandboxRequirementsView
    record_id: DigestText | None = None
    header: HeaderView | None = None

    @classmethod
    def adapt(cls, shown: dict[str, Any], withheld: dict[str, Any]) -> dict[str, Any]:
        """Constraints become a map. Raises ``MALFORMED`` where one is named twice."""
        return shown | {"required_capabilities": [_required(r) for r in shown["required_capabilities"]]}
