"""Published schemas: the files are what the program generates, the seed's own mini-schemas hold, every service has its contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gnus_node.records import extensions, schema
from gnus_node.records.catalog import BODIES
from gnus_node.records.enums import ProcessingPass, TrustClass
from gnus_node.records.errors import CODES, GnusError
from gnus_node.records.services import (
    ANY,
    SERVICES,
    EffectsArgs,
    GetArgs,
    MediateArgs,
    NoArgs,
    PutAnswer,
    RetrieveArgs,
    check_kinds,
    read_args,
    service,
    write_args,
)
from gnus_node.wire.kinds import KINDS
from gnus_node.wire.message import Message, decode_message
from tests.vectors.support import UUID, sample

ROOT = Path(__file__).parents[3]
SEED = ROOT / "tests" / "vectors" / "seed"
SEED_NAMES = {
    "ExecutionPlan",
    "ExpertOutput",
    "CapabilityManifest",
    "ToolProposal",
    "DryRunResult",
    "ToolAttestation",
    "SanitizedData",
    "MemoryEvent",
    "TaskRecord",
    "ToolPolicy",
    "MemoryProvenanceMetadata",
    "TrustClass",
    "ProcessingPass",
    "SynthesisResult",
    "Error",
}


def test_the_published_files_are_what_is_generated() -> None:
    """After a change: ``make schemas``."""
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "schemas").glob("*.json")}
    assert files == {schema.file_name(name): schema.text(name) for name in schema.names()}


def test_the_page_of_our_fields_is_what_is_generated() -> None:
    assert (ROOT / "docs" / "protocol" / "extensions.md").read_text(encoding="utf-8") == extensions.markdown()


def test_exporting_writes_all_and_removes_what_is_no_more(tmp_path: Path) -> None:
    (tmp_path / "Old.json").write_text('{"$schema": "x", "$id": "gnus://schema/Old"}')
    (tmp_path / "mine.json").write_text('{"a": 1}')
    written = schema.export(tmp_path / ".")
    assert len(written) == len(schema.names()) == len({p.name for p in written})
    assert not (tmp_path / "Old.json").exists()
    assert (tmp_path / "mine.json").exists(), "only schemas of ours are removed"


def test_names_are_the_seeds_and_every_kind_and_service_has_one() -> None:
    names = schema.names()
    assert len(names) == len(set(names))
    assert set(names) >= SEED_NAMES
    assert {body.__name__ for body in BODIES} <= set(names)
    for name in SERVICES:
        for part in ("request", "response", "error"):
            assert f"service/{name}/{part}" in names
        assert (f"service/{name}/attestation" in names) == bool(SERVICES[name].attestation)
    with pytest.raises(GnusError, match="NOT_FOUND"):
        schema.schema_for("Nothing")


def walk(value: Any) -> Any:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


@pytest.mark.parametrize("name", schema.names())
def test_each_schema_is_whole(name: str) -> None:
    found = schema.schema_for(name)
    assert found["$id"] == f"gnus://schema/{name}"
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    published = {f"gnus://schema/{n}" for n in schema.names()}
    for part in walk(found):
        ref = part.get("$ref")
        if ref is not None:
            assert ref in published or ref.removeprefix("#/$defs/") in found["$defs"]
        if part.get("type") == "object" and "properties" in part:
            assert part["additionalProperties"] is False, "unknown fields are refused"
        if part.get("type") == "array":
            assert "maxLength" not in part
        assert part.get("type") != "null", "optional means absent, never null"
        assert "default" not in part or isinstance(part["default"], dict)
    assert json.loads(schema.text(name)) == found


def test_the_enumerations() -> None:
    assert schema.schema_for("TrustClass")["enum"] == ["lower_trust", "higher_trust"]
    assert set(schema.schema_for("ProcessingPass")["enum"]) == {
        "inference",
        "compute",
        "data_transform",
        "verification",
        "retrieval",
        "retrain",
    }
    assert len(TrustClass) == 2
    assert len(ProcessingPass) == 6
    assert schema.schema_for("Error")["properties"]["code"]["enum"] == list(CODES)


def fits(value: dict[str, Any], kind: str) -> bool:
    """Whether each thing our schema allows is of the type the seed's schema names."""
    if "anyOf" in value:
        return all(fits(v, kind) for v in value["anyOf"])
    return value.get("type", "object" if "$ref" in value else "string") == kind


@pytest.mark.parametrize("name", ["ToolProposal", "ToolAttestation"])
def test_what_is_valid_here_is_valid_under_the_seeds_own_schema(name: str) -> None:
    seeds = json.loads((SEED / f"schema.{name}.json").read_text())
    ours = schema.schema_for(name)
    assert seeds["$id"] == ours["$id"]
    assert set(seeds["required"]) <= set(ours["required"]), "what the seed requires, we require"
    for field, rule in seeds["properties"].items():
        assert fits(ours["properties"][field], rule["type"]), field


# ---- services


def test_every_service_names_real_kinds() -> None:
    for row in SERVICES.values():
        for shape in (row.request, row.response):
            assert set(shape.kinds()) <= set(ANY)
        assert row.attestation in ("", *ANY)
        if row.attestation:
            assert row.attestation in row.response.kinds(), "the attestation comes back with the work"
    assert set(ANY) == {kind for kind, _ in KINDS} | {"memory_event"}
    assert set(SERVICES) == {
        "router.route",
        "memory.retrieve",
        "memory.put",
        "grounding.retrieve",
        "expert.run",
        "tools.mediate",
        "tools.effects",
        "verifier.synthesize",
        "settlement.settle",
        "records.get",
    }


@pytest.mark.parametrize("name", SERVICES)
def test_a_message_is_held_to_its_shape(name: str) -> None:
    for shape in (SERVICES[name].request, SERVICES[name].response):
        least = [*shape.must, *shape.one_of[:1]]
        check_kinds(shape, least)
        check_kinds(shape, [*least, *shape.may, *shape.may])
        for kind in shape.must:
            with pytest.raises(GnusError, match=f"MALFORMED: the message must carry a {kind}"):
                check_kinds(shape, [k for k in least if k != kind])
        if shape.one_of:
            with pytest.raises(GnusError, match="MALFORMED: the message must carry one of"):
                check_kinds(shape, shape.must)
        for kind in set(ANY) - set(shape.kinds()):
            with pytest.raises(GnusError, match=f"MALFORMED: the message may not carry a {kind}"):
                check_kinds(shape, [*least, kind])
        with pytest.raises(GnusError, match="MALFORMED: the message carries an unknown kind"):
            check_kinds(shape, [*least, "the user's words"])


def test_arguments_travel_and_are_read_strictly() -> None:
    args = MediateArgs(tool_call_id=UUID, selected=True)
    frame = Message(args=write_args(args)).encode()
    assert read_args(MediateArgs, decode_message(frame).args) == args
    for bad in ({}, {"tool_call_id": UUID}, {"tool_call_id": UUID, "selected": 1}, {"tool_call_id": UUID, "selected": True, "x": 1}):
        with pytest.raises(GnusError, match="MALFORMED"):
            read_args(MediateArgs, bad)
    with pytest.raises(GnusError, match="MALFORMED"):
        read_args(NoArgs, {"x": 1})
    for limit in (0, 65, True, "5"):
        with pytest.raises(GnusError, match="MALFORMED"):
            read_args(RetrieveArgs, {"limit": limit})
    ids = tuple(bytes([n]) * 32 for n in range(65))
    assert read_args(GetArgs, {"ids": ids[:64]})
    for wrong in ((), ids, ids[1::-1], (b"x",)):
        with pytest.raises(GnusError, match="MALFORMED"):
            read_args(GetArgs, {"ids": wrong})
    secret = "the user's own words"
    with pytest.raises(GnusError) as error:
        read_args(EffectsArgs, {"request_id": secret, "generation": 1})
    assert secret not in str(error.value)


@pytest.mark.parametrize("name", SERVICES)
def test_every_argument_model_travels(name: str) -> None:
    for shape in (SERVICES[name].request, SERVICES[name].response):
        for full in (True, False):
            args = sample(shape.args, full=full) if shape.args.__name__ not in ("GetArgs",) else GetArgs(ids=(bytes(32),))
            assert read_args(shape.args, decode_message(Message(args=write_args(args)).encode()).args) == args
    assert PutAnswer(admitted=False, reason_code="NO").event is None


def test_an_unknown_service() -> None:
    assert service("expert.run").name == "expert.run"
    with pytest.raises(GnusError, match="UNKNOWN_SERVICE"):
        service("nothing")
