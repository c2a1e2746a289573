"""Each JSON example of the seed reads as written, with one fixed map for its placeholders (DESIGN.md section 4)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from gnus_node.records.base import View
from gnus_node.records.errors import GnusError
from gnus_node.records.jsontext import read_view, write_view
from gnus_node.records.views import (
    CapabilityManifestView,
    DryRunResultView,
    ExecutionPlanView,
    ExpertOutputView,
    MemoryEventView,
    SanitizedDataView,
    TaskRecordView,
    ToolAttestationView,
    dump,
    read_as,
)
from gnus_node.records.views.record import SeedView

SEED = Path(__file__).parents[2] / "vectors" / "seed"
VIEWS: dict[str, type[SeedView]] = {
    "ExecutionPlan": ExecutionPlanView,
    "ExpertOutput": ExpertOutputView,
    "CapabilityManifest": CapabilityManifestView,
    "MemoryEvent": MemoryEventView,
    "TaskRecord": TaskRecordView,
    "DryRunResult": DryRunResultView,
    "ToolAttestation": ToolAttestationView,
    "SanitizedData": SanitizedDataView,
}
PLACEHOLDERS = {
    "uuid": "0f1e2d3c-4b5a-4697-8877-665544332211",
    "sha256": "sha256:" + "00" * 32,
    "sha256:...": "sha256:" + "00" * 32,
    "ed25519:base64": "ed25519:" + base64.b64encode(bytes(64)).decode(),
    "ed25519:...": "ed25519:" + base64.b64encode(bytes(64)).decode(),
    "cid://...": "cid://" + "00" * 32,
}


def fill(value: Any) -> Any:
    """The placeholder map: fixed values, and of ``a|b|c`` the first."""
    if isinstance(value, dict):
        return {key: fill(item) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item) for item in value]
    if isinstance(value, str):
        return PLACEHOLDERS.get(value, value.split("|")[0])
    return value


def example(name: str) -> Any:
    return fill(read_view((SEED / f"{name}.json").read_bytes()))


@pytest.mark.parametrize("name", VIEWS)
def test_example_reads_as_written(name: str) -> None:
    view = read_as(VIEWS[name], example(name))
    again = read_as(VIEWS[name], read_view(write_view(dump(view))))
    assert again == view


def _compare(view: Any, given: Any, where: str) -> None:
    """Every value of the example is in the view, under its own name; what the view has beyond it must be listed as ours."""
    if isinstance(view, View) and isinstance(given, dict):
        fields = set(type(view).model_fields)
        assert set(given) <= fields, where
        if isinstance(view, SeedView):
            assert fields - set(given) == set(type(view).OURS), where
        for key, item in given.items():
            _compare(getattr(view, key), item, f"{where}.{key}")
    elif isinstance(view, tuple | list):
        assert len(view) == len(given), where
        for one, two in zip(view, given, strict=True):
            _compare(one, two, where)
    elif isinstance(view, dict):
        assert set(view) == set(given), where
        for key in view:
            _compare(view[key], given[key], f"{where}.{key}")
    elif where.endswith(("capabilities", "capability_whitelist")):
        assert view == str(given).replace(":", ".", 1), where
    else:
        assert view == given, where


@pytest.mark.parametrize("name", VIEWS)
def test_fields_are_the_seeds_and_the_rest_is_listed_as_ours(name: str) -> None:
    given = example(name)
    view = read_as(VIEWS[name], given)
    _compare(view, given, name)
    ours = {field for field, info in VIEWS[name].model_fields.items() if not info.is_required()}
    assert ours >= VIEWS[name].OURS, "a field of ours must be optional in the view"


@pytest.mark.parametrize("name", VIEWS)
def test_every_field_of_the_seed_is_needed_unless_a_body_may_lack_it(name: str) -> None:
    may_lack = {"selected_core", "plan_hash", "request_id"} if name in ("ExecutionPlan", "TaskRecord", "MemoryEvent") else set()
    given = example(name)
    for key in given:
        less = {k: v for k, v in given.items() if k != key}
        if key in may_lack and not VIEWS[name].model_fields[key].is_required():
            read_as(VIEWS[name], less)
        else:
            with pytest.raises(GnusError, match="MALFORMED"):
                read_as(VIEWS[name], less)


@pytest.mark.parametrize("name", VIEWS)
def test_unknown_fields_nulls_and_other_types_are_refused(name: str) -> None:
    given = example(name)
    with pytest.raises(GnusError, match="extra_forbidden"):
        read_as(VIEWS[name], given | {"surprise": 1})
    for key in given:
        free = key in ("answer", "structured_fields")  # free JSON takes objects, and an answer arrays
        for bad in (None, 7.5) if free else (None, 7.5, [["x"]], {"k": {"k": 1}}):
            with pytest.raises(GnusError, match="MALFORMED"):
                read_as(VIEWS[name], given | {key: bad})


@pytest.mark.parametrize("name", VIEWS)
def test_a_duplicate_key_is_refused(name: str) -> None:
    text = (SEED / f"{name}.json").read_text()
    key = next(iter(json.loads(text)))
    with pytest.raises(GnusError, match="MALFORMED: a duplicate key"):
        read_view(text.rstrip().removesuffix("}") + f', "{key}": "again"}}')


def test_booleans_and_counts_are_not_coerced() -> None:
    given = example("ExecutionPlan")
    for path, bad in (
        (("constraints", "max_tokens"), "4096"),
        (("constraints", "max_tokens"), True),
        (("tool_policy", "human_approval"), 0),
        (("tool_policy", "human_approval"), "false"),
        (("attestation_requirements", "min_reputation"), "0.7"),
        (("attestation_requirements", "min_reputation"), True),
        (("execution_graph", "mode"), "SWARM"),
    ):
        changed = given | {path[0]: given[path[0]] | {path[1]: bad}}
        with pytest.raises(GnusError, match="MALFORMED"):
            read_as(ExecutionPlanView, changed)


def test_the_seeds_capability_spellings_are_read_to_one() -> None:
    view = read_as(ExecutionPlanView, example("ExecutionPlan"))
    assert view.selected_elms[0].capabilities == ("tool.web.fetch", "memory.retrieve")
    assert view.tool_policy.capability_whitelist == ("tool.web.fetch.readonly",)
    assert example("ExecutionPlan")["tool_policy"]["capability_whitelist"] == ["tool:web.fetch.readonly"]


def test_a_whole_number_is_a_whole_score() -> None:
    given = example("ExecutionPlan")
    given["attestation_requirements"]["min_reputation"] = 1
    assert str(read_as(ExecutionPlanView, given).attestation_requirements.min_reputation) == "1.0000"
    given["attestation_requirements"]["min_reputation"] = 2
    with pytest.raises(GnusError, match="MALFORMED"):
        read_as(ExecutionPlanView, given)
