"""JSON views of records, with the seed's field names (DESIGN.md section 4; DECISIONS, Bytes).

A view is what JSON shows of a record, and a class of its own beside the signed body: digests, keys and signatures are text, scores and
amounts exact decimals, free texts the text itself or ``{commitment, size}`` where withheld. Each example of the seed reads as written,
placeholders aside; fields of ours stand under their own names and are optional where the seed gives the record
(docs/protocol/extensions.md lists them). A view carries no authority: that is in the signed bytes.

Invariants: unknown fields, nulls, coerced types and extra digits are refused; free JSON cannot pose as a withheld text; what ``to_view``
gives, ``view_for`` reads.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gnus_node.records.base import Body, Part, View
from gnus_node.records.catalog import BY_KIND
from gnus_node.records.enums import Tier, WireEnum
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import SynthesisResult
from gnus_node.records.views.derive import record_view_of, show_part, view_of
from gnus_node.records.views.error import ErrorView
from gnus_node.records.views.expert import CapabilityManifestView, ExpertOutputView, ToolProposalView
from gnus_node.records.views.memory import MemoryEventView, MemoryProvenanceMetadataView
from gnus_node.records.views.plan import ExecutionPlanView, ToolPolicyView
from gnus_node.records.views.record import HeaderView, RecordView, SeedView, dump, read_as, show_header
from gnus_node.records.views.scalars import Texts, Withheld, signature_text
from gnus_node.records.views.settlement import TaskRecordView
from gnus_node.records.views.tools import DryRunResultView, SanitizedDataView, ToolAttestationView

SEED_VIEWS: tuple[type[RecordView], ...] = (
    ExecutionPlanView,
    ExpertOutputView,
    CapabilityManifestView,
    DryRunResultView,
    ToolAttestationView,
    SanitizedDataView,
    TaskRecordView,
)
"""Views of records of which the seed gives an example."""

SIGNATURE_NAMES: dict[type[Body], str] = {SynthesisResult: "synthesis_signature", **{v.BODY: v.SIGNATURE for v in SEED_VIEWS}}
"""The seed's names of signatures; every other record's is ``signature``."""

_BY_BODY: dict[type[Body], type[RecordView]] = {view.BODY: view for view in SEED_VIEWS}


def view_for(body: type[Body]) -> type[View]:
    """The view class of a record kind: the seed's own, or the derived one."""
    return _BY_BODY.get(body) or record_view_of(body, HeaderView, SIGNATURE_NAMES.get(body, "signature"))


def to_view(signed: Signed[Any], texts: Texts) -> dict[str, Any]:
    """Any opened record as plain JSON values for ``jsontext.write_view``: body fields, ``record_id``, signature, ``header``.

    ``texts`` maps commitments to the texts the reader may see, checked by the caller against their salts; all others are shown as
    ``{commitment, size}``. Raises ``COMMITMENT_MISMATCH``, ``MALFORMED`` for a text that is not what its field holds.
    """
    own = _BY_BODY.get(type(signed.body))
    if own is not None:
        return own.from_signed(signed, texts).to_json()
    name = SIGNATURE_NAMES.get(type(signed.body), "signature")
    values = show_part(signed.body, texts) | {
        "record_id": f"sha256:{signed.id.hex()}",
        name: signature_text(signed.signature),
        "header": show_header(signed.header),
    }
    return dump(read_as(view_for(type(signed.body)), values))


def json_plain(part: Part) -> dict[str, Any]:
    """An unsigned body or part in its fields' JSON form, for printing: absent fields left out, texts withheld, decimals as numbers.

    Not for reading back: ``to_view`` and ``write_view`` keep every number exact.
    """
    shown = _numbers(show_part(part, {}))
    return shown if isinstance(shown, dict) else {}


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if isinstance(value, Tier):
        return value.name
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, WireEnum) else value


def read_record(kind: str, value: object) -> View:
    """Read plain JSON values (of ``jsontext.read_view``) as the view of a kind. Raises ``UNKNOWN_KIND``, ``MALFORMED``."""
    body = BY_KIND.get(kind)
    if body is None:
        raise GnusError("UNKNOWN_KIND", "no record of this kind has a view")
    return read_as(view_for(body), value)


__all__ = [
    "SEED_VIEWS",
    "SIGNATURE_NAMES",
    "CapabilityManifestView",
    "DryRunResultView",
    "ErrorView",
    "ExecutionPlanView",
    "ExpertOutputView",
    "HeaderView",
    "MemoryEventView",
    "MemoryProvenanceMetadataView",
    "RecordView",
    "SanitizedDataView",
    "SeedView",
    "TaskRecordView",
    "Texts",
    "ToolAttestationView",
    "ToolPolicyView",
    "ToolProposalView",
    "View",
    "Withheld",
    "dump",
    "json_plain",
    "read_as",
    "read_record",
    "to_view",
    "view_for",
    "view_of",
]
