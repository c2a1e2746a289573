"""Every setting does something: one that nothing reads would be obeyed by nobody, and the operator would not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from gnus_node.cli.main import main
from gnus_node.config.model import NodeConfig
from gnus_node.evidence.bundle import import_charter, import_trust
from gnus_node.records.authority import RoleGrant, SwarmCharter
from gnus_node.wire.signed import open_record
from tests.house.rules import ROOT


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def keys_of(model: type[BaseModel]) -> set[str]:
    found = set(model.model_fields)
    for field in model.model_fields.values():
        for inner in models_in(field.annotation):
            found |= keys_of(inner)
    return found


def test_each_key_is_read_outside_the_settings():
    keys = keys_of(NodeConfig)
    assert {"operator", "profile", "data_dir", "max_running", "kind"} <= keys
    rooms = [file for folder in ("gnus_node", "roles") for file in (ROOT / folder).rglob("*.py") if file.parent.name != "config"]
    code = "\n".join(file.read_text() for file in rooms)
    assert [key for key in sorted(keys) if not re.search(rf"\.{key}\b", code)] == []


def test_operator_and_profile_of_the_settings_are_signed_at_init(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    settings = tmp_path / "node.toml"
    settings.write_text('[node]\ndata_dir = "data"\noperator = "acme"\nprofile = "small_swarm"\n')
    assert main(["init", "--config", str(settings), "--json"]) == 0, capsys.readouterr()
    assert not (tmp_path / "data" / "node.toml").exists(), "the settings are where they were"
    records = [open_record(raw) for raw in import_trust((tmp_path / "data" / "trust.json").read_text())]
    assert {r.body.operator for r in records if isinstance(r.body, RoleGrant)} == {"acme"}
    charter = open_record(import_charter((tmp_path / "data" / "charter.json").read_text()))
    assert isinstance(charter.body, SwarmCharter)
    assert str(charter.body.profile) == "small_swarm"
