"""docs/protocol/extensions.md, generated: which fields and records are ours and not the seed's (DESIGN.md section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gnus_node.records import schema
from gnus_node.records.base import Body, View
from gnus_node.records.catalog import BODIES
from gnus_node.records.evidence import SynthesisResult
from gnus_node.records.memory import MemoryEvent
from gnus_node.records.views import SEED_VIEWS, SIGNATURE_NAMES, MemoryEventView, MemoryProvenanceMetadataView, SeedView, ToolProposalView

_HEAD = """# Fields and records that are ours

Generated from the views (`gnus_node/records/views`) by `make schemas`; do not edit. The JSON view of a record has the seed's field
names. What is listed here is added: optional in the view, so that each example of the seed reads as written, and part of the signed body
where the body has it. Digests read `sha256:<hex>`, keys `ed25519:<hex>`, signatures `ed25519:<base64>`, content addresses `cid://<hex>`;
a free text is the text, or `{commitment, size}` where it is withheld.
"""


_WORDS = {"string": "text", "integer": "integer", "number": "decimal", "boolean": "boolean", "object": "object"}


def _type(value: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in value:
        return f"`{str(value['$ref']).rsplit('/', 1)[-1].removesuffix('View')}`"
    if "anyOf" in value:
        return " or ".join(_type(v) for v in value["anyOf"])
    if "enum" in value and len(value["enum"]) <= 12:
        return " | ".join(map(str, value["enum"]))
    if value.get("type") == "array":
        return "list of " + _type(value.get("items", {}))
    if "pattern" in value:
        prefix = str(value["pattern"]).lstrip("^").split(":", 1)[0]
        return f"`{prefix}:`" if prefix in ("sha256", "ed25519", "x25519", "swarm", "hex", "cid") else "text"
    return _WORDS.get(str(value.get("type")), "any")


def _ours(view: type[SeedView], at: str) -> Iterator[tuple[str, str]]:
    """Path and type of each field of ours, parts included."""
    properties = schema.plain(view)["properties"]
    for name, info in view.model_fields.items():
        if name in view.OURS:
            yield at + name, _type(properties[name])
            continue
        for part in _parts(info.annotation):
            yield from _ours(part, f"{at}{name}.")


def _parts(annotation: Any) -> Iterator[type[SeedView]]:
    if isinstance(annotation, type) and issubclass(annotation, SeedView):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _parts(inner)


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return ["", "| field | type |", "|---|---|", *(f"| `{name}` | {kind.replace('|', chr(92) + '|')} |" for name, kind in rows), ""]


def _seed_section(body: type[Body], view: type[SeedView]) -> list[str]:
    return [f"## {body.__name__} ({body.SEED})", *_table(list(_ours(view, "")))]


def markdown() -> str:
    """The whole page."""
    lines = [_HEAD, "# In the seed's records", ""]
    for view in SEED_VIEWS:
        lines += _seed_section(view.BODY, view)
    lines += _seed_section(MemoryEvent, MemoryEventView)
    lines += ["## ToolProposal (18.1.5.2.2)", *_table(list(_ours(ToolProposalView, "")))]
    lines += [
        "The seed names these without an example; their fields are ours:",
        "",
        f"- `SynthesisResult` ({SynthesisResult.SEED}): {_fields(schema.view(SynthesisResult))}",
        f"- `MemoryProvenanceMetadata` (18.1.5.2.1): {_fields(MemoryProvenanceMetadataView)}",
        "",
        "# Records that are ours",
        "",
        "Each also has `record_id`, `signature` and `header`.",
        "",
    ]
    for body in BODIES:
        if not body.SEED:
            what = (body.__doc__ or "").strip().split("\n")[0]
            lines.append(f"- **`{body.__name__}`** (kind `{body.KIND}`): {what} Fields: {_fields(schema.view(body), body)}.")
    return "\n".join(lines).rstrip() + "\n"


def _fields(view: type[View], body: type[Body] | None = None) -> str:
    hidden = {"record_id", "header", SIGNATURE_NAMES.get(body, "signature")} if body else {"record_id", "header"}
    return ", ".join(f"`{name}`" + ("" if info.is_required() else "?") for name, info in view.model_fields.items() if name not in hidden)
