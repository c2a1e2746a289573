"""JSON Schema of every JSON view, generated (18.1.5, 18.1.11): ``gnus-node schema list|export`` and ``schemas/*.json``.

Names are the seed's spelling; ``$id`` is ``gnus://schema/NAME``. Schemas describe views, not signed bytes. What a schema cannot say (the
exact number of decimal places, one spelling of base64, sortedness, duplicate keys) the readers check besides.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gnus_node.records.base import Body, View
from gnus_node.records.catalog import BODIES
from gnus_node.records.enums import ProcessingPass, TrustClass, WireEnum
from gnus_node.records.errors import GnusError
from gnus_node.records.memory import MemoryEvent
from gnus_node.records.services import MEMORY_EVENT, SERVICES, Service, Shape
from gnus_node.records.views import (
    ErrorView,
    HeaderView,
    MemoryEventView,
    MemoryProvenanceMetadataView,
    ToolPolicyView,
    ToolProposalView,
    view_for,
    view_of,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PREFIX = "gnus://schema/"

_BODIES: dict[str, type[Body]] = {body.__name__: body for body in BODIES}
_VIEWS: dict[str, type[View]] = {
    MemoryEvent.__name__: MemoryEventView,
    "ToolProposal": ToolProposalView,
    "ToolPolicy": ToolPolicyView,
    "MemoryProvenanceMetadata": MemoryProvenanceMetadataView,
    "Header": HeaderView,
    "Error": ErrorView,
}
_ENUMS: dict[str, type[WireEnum]] = {"TrustClass": TrustClass, "ProcessingPass": ProcessingPass}
_PARTS = ("request", "response", "error", "attestation")


class _Generator(GenerateJsonSchema):
    """Optional means absent here, never null; field titles that repeat the name are left out."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def plain(model: Any) -> dict[str, Any]:
    """The bare schema of a view or part of one."""
    schema = TypeAdapter(model).json_schema(schema_generator=_Generator)
    schema.pop("title", None)
    for part in schema.get("$defs", {}).values():
        part.pop("title", None)
    return schema


def _whole(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": DIALECT, "$id": PREFIX + name, "title": name, **schema}


def _services() -> dict[str, tuple[Service, str]]:
    found = {}
    for service in SERVICES.values():
        for part in _PARTS:
            if part != "attestation" or service.attestation:
                found[f"service/{service.name}/{part}"] = (service, part)
    return found


def names() -> list[str]:
    """Every schema's name: records first, then the parts the seed names, then services."""
    return [*_BODIES, *_VIEWS, *_ENUMS, *_services()]


def schema_for(name: str) -> dict[str, Any]:
    """JSON Schema 2020-12 of one JSON view. Raises ``NOT_FOUND``."""
    if name in _BODIES:
        return _whole(name, plain(view_for(_BODIES[name])))
    if name in _VIEWS:
        return _whole(name, plain(_VIEWS[name]))
    if name in _ENUMS:
        enum = _ENUMS[name]
        return _whole(name, {"type": "string", "enum": [str(m) for m in enum], "description": (enum.__doc__ or "").strip()})
    found = _services().get(name)
    if found is None:
        raise GnusError("NOT_FOUND", "no schema of this name", fix="see gnus-node schema list")
    return _whole(name, _service_part(*found))


def _ref(kind: str) -> dict[str, str]:
    body = MemoryEvent if kind == MEMORY_EVENT else next(b for b in BODIES if kind == b.KIND)
    return {"$ref": PREFIX + body.__name__}


def _service_part(service: Service, part: str) -> dict[str, Any]:
    if part == "error":
        return {"description": f"How {service.name} fails.", "$ref": PREFIX + "Error"}
    if part == "attestation":
        return {"description": f"The signed record by which {service.name} answers for its work.", **_ref(service.attestation)}
    shape = service.request if part == "request" else service.response
    return _message(service, part, shape)


def _message(service: Service, part: str, shape: Shape) -> dict[str, Any]:
    args = plain(view_of(shape.args))
    defs = args.pop("$defs", None)
    kinds = shape.kinds()
    records: dict[str, Any] = {"type": "array", "items": {"anyOf": [_ref(k) for k in kinds]} if kinds else False}
    contains: list[dict[str, Any]] = [{"contains": _ref(kind)} for kind in shape.must]
    if shape.one_of:
        contains.append({"contains": {"anyOf": [_ref(k) for k in shape.one_of]}})
    if contains:
        records["allOf"] = contains
    what = f"{service.name}: {service.what}. The {part}"
    what += ", all items of the stream together." if shape.streamed else "."
    schema: dict[str, Any] = {
        "type": "object",
        "description": what + " Sealed parcels travel beside it and have no JSON form.",
        "properties": {"service": {"const": service.name}, "args": args, "records": records},
        "required": ["service", "args", "records"],
        "additionalProperties": False,
    }
    if defs:
        schema["$defs"] = defs
    return schema


def view(body: type[Body]) -> type[View]:
    """The view a record kind's schema describes."""
    return MemoryEventView if body is MemoryEvent else view_for(body)


def file_name(name: str) -> str:
    """The file a schema is exported to."""
    return name.replace("/", ".") + ".json"


def text(name: str) -> str:
    """One schema as it stands in its file."""
    return json.dumps(schema_for(name), indent=2, ensure_ascii=False) + "\n"


def export(directory: Path) -> list[Path]:
    """Write every schema into a directory, made where missing. Files of schemas that are no more are removed."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name in names():
        path = directory / file_name(name)
        path.write_text(text(name), encoding="utf-8")
        written.append(path)
    for path in set(directory.glob("*.json")) - set(written):
        if f'"$id": "{PREFIX}' in path.read_text(encoding="utf-8", errors="replace")[:400]:
            path.unlink()
    return written
