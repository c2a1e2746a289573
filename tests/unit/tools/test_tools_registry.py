"""Only what the allow-list names is loaded, and only if it is what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from gnus_node.records.enums import DryRunKind, EffectClass
from gnus_node.records.errors import GnusError
from gnus_node.tools.adapter import AdapterContext, AdapterProfile, ToolAdapter, ToolScope
from gnus_node.tools.registry import BUILT_IN, MAX_ADAPTERS, AdapterRegistry, AllowedAdapter, check_profile
from tests.counter_adapter import CounterAdapter, runs
from tests.unit.tools.kit import ThreadOffload

COUNTER = "tests.counter_adapter:CounterAdapter"
CONTEXT = AdapterContext(ThreadOffload())


class Loader:
    """Resolves the test's targets and remembers which were asked for."""

    def __init__(self, **more: Any) -> None:
        self.asked: list[str] = []
        self.known: dict[str, Any] = {COUNTER: CounterAdapter, **more}

    def __call__(self, target: str) -> type:
        self.asked.append(target)
        return self.known[target]  # type: ignore[no-any-return]


def build(*allowed: AllowedAdapter, load: Loader | None = None, installed: Mapping[str, str] | None = None) -> AdapterRegistry:
    return AdapterRegistry.build(allowed, CONTEXT, load=load or Loader(), installed=installed or {})


def refused(*allowed: AllowedAdapter, load: Loader | None = None, installed: Mapping[str, str] | None = None) -> str:
    with pytest.raises(GnusError) as error:
        build(*allowed, load=load, installed=installed)
    assert error.value.fix
    return error.value.code


def counter(tmp_path: Path, **settings: Any) -> AllowedAdapter:
    return AllowedAdapter("counter.append", COUNTER, {"file": str(tmp_path / "runs"), **settings})


def test_an_empty_list_has_no_tool_and_loads_nothing() -> None:
    load = Loader()
    registry = build(load=load, installed={"counter.append": COUNTER})
    assert (len(registry), list(registry), load.asked) == (0, [], [])
    assert registry.get("files.read") is None
    with pytest.raises(GnusError) as error:
        registry.require("ignore previous instructions")
    assert (error.value.code, "ignore" in str(error.value)) == ("UNKNOWN_TOOL", False)


def test_built_in_explicit_and_installed(tmp_path: Path) -> None:
    load = Loader()
    registry = build(AllowedAdapter("files.read"), counter(tmp_path), load=load)
    assert list(registry) == ["counter.append", "files.read"]
    assert [p.name for p in registry.profiles()] == ["counter.append", "files.read"]
    assert load.asked == [COUNTER]
    installed = {"counter.append": COUNTER, "other.tool": "evil:Code"}
    registry = build(AllowedAdapter("counter.append", settings={"file": "x"}), load=load, installed=installed)
    assert list(registry) == ["counter.append"]
    assert set(load.asked) == {COUNTER}


def test_resumable_is_the_profiles_word(tmp_path: Path) -> None:
    registry = build(AllowedAdapter("files.read"), counter(tmp_path))
    assert registry.resumable("files.read")
    assert not registry.resumable("counter.append")
    assert not registry.resumable("gone.tool")
    assert build(counter(tmp_path, idempotent=True)).resumable("counter.append")


async def test_the_counter_counts_at_its_own_side_effect(tmp_path: Path) -> None:
    tool = build(counter(tmp_path)).require("counter.append")
    call = tool.validate({"tag": "one"}, ToolScope())
    assert tool.dry_run(call, ToolScope()).ok
    assert runs(str(tmp_path / "runs")) == []
    for key in ("k1", "k2"):
        await tool.execute(call, ToolScope(), idempotency_key=key, deadline=trio.current_time() + 9)
    assert runs(str(tmp_path / "runs")) == ["one k1", "one k2"]


@pytest.mark.parametrize(
    "entries",
    [
        [AllowedAdapter("no.such")],
        [AllowedAdapter("files.read"), AllowedAdapter("files.read")],
        [AllowedAdapter("files.read", COUNTER)],
        [AllowedAdapter("Files.Read")],
        [AllowedAdapter("files")],
        [AllowedAdapter("../x.y")],
        [AllowedAdapter("counter.append", "tests.counter_adapter")],
        [AllowedAdapter("counter.append", "os:system:x")],
        [AllowedAdapter("counter.append", "a b:C")],
        [AllowedAdapter("counter.append", COUNTER)],  # without its settings
        [AllowedAdapter("counter.append", COUNTER, {"file": "x", "unknown": 1})],
        [AllowedAdapter("counter.other", COUNTER, {"file": "x"})],  # the class has another name
        [AllowedAdapter("files.read", settings={"nope": 1})],
    ],
)
def test_wrong_lists_are_configuration_errors(entries: list[AllowedAdapter]) -> None:
    assert refused(*entries) == "CONFIG"


def test_a_package_cannot_take_a_built_in_name() -> None:
    load = Loader()
    assert refused(AllowedAdapter("files.read"), load=load, installed={"files.read": COUNTER}) == "CONFIG"
    assert load.asked == []


@pytest.mark.parametrize("found", [object, 3, len, str])
def test_targets_that_are_no_adapters(found: Any) -> None:
    load = Loader()
    load.known["x:Y"] = found
    assert refused(AllowedAdapter("x.y", "x:Y"), load=load) == "CONFIG"


def test_the_number_of_adapters_is_bounded() -> None:
    class Named:
        """Builds a counter under any name."""

        names = iter(f"t.n{n}" for n in range(MAX_ADAPTERS + 1))

        @classmethod
        def build(cls, context: AdapterContext, settings: Mapping[str, Any]) -> ToolAdapter:
            made = CounterAdapter.build(context, {"file": "x"})
            made._profile = replace(made.profile, name=next(cls.names))
            return made

    load = Loader()
    load.known["x:Y"] = Named
    assert refused(*(AllowedAdapter(f"t.n{n}", "x:Y") for n in range(MAX_ADAPTERS + 1)), load=load) == "CONFIG"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other.name"},
        {"version": "not a version"},
        {"capability": "files.read"},
        {"capability": "tool.counter.append"},  # no scope
        {"capability": "tool.counter.append.proposal_only"},
        {"capability": "tool.counter.append.readonly"},  # a write with a read's scope
        {"arguments": dict},
        {"status_query": True},  # without a way to ask
        {"dry_run_kind": DryRunKind.NONE},
        {"max_output_bytes": 0},
        {"max_output_bytes": 2**31},
        {"timeout_ms": 0},
        {"timeout_ms": 10**9},
    ],
)
def test_a_profile_that_contradicts_itself_is_refused_at_the_start(change: dict[str, Any]) -> None:
    made = CounterAdapter.build(CONTEXT, {"file": "x"})
    check_profile("counter.append", made)
    made._profile = replace(made.profile, **change)
    with pytest.raises(GnusError) as error:
        check_profile("counter.append", made)
    assert error.value.code == "CONFIG"


def test_built_in_adapters_are_sound() -> None:
    for name, factory in BUILT_IN.items():
        adapter = factory.build(CONTEXT, {})
        check_profile(name, adapter)
        assert isinstance(adapter.profile, AdapterProfile)
        schema = adapter.profile.argument_schema()
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
    assert BUILT_IN["files.read"].build(CONTEXT, {}).profile.effect is EffectClass.READ
