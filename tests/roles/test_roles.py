"""The nine roles: their entry points, their contract, and that a fault in one costs its neighbours nothing."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import gnus_node.node as composition
from gnus_node.loader import ROLE_GROUP, load_class, load_roles
from gnus_node.net import rpc
from gnus_node.net.services import SERVICES
from gnus_node.records.enums import Outcome, RoleName
from gnus_node.records.errors import GnusError
from gnus_node.role import RoleHost
from gnus_node.wire.message import Message
from tests.nodes import installed_roles
from tests.roles.conformance import check_class, check_life
from tests.unit.flow.house import READ, SUM, open_house

SERVES: dict[str, set[str]] = {
    "ingress": set(),
    "router": {"router.route"},
    "semantic_core": {"core.run"},
    "elm_worker": {"expert.run"},
    "verifier": {"verifier.synthesize"},
    "memory_index": {"memory.retrieve", "memory.put", "memory.search", "memory.remember"},
    "grounding": {"grounding.retrieve"},
    "tool_intermediary": {"tools.mediate", "tools.effects"},
    "settlement": {"settlement.settle"},
}
HOSTED = pytest.mark.parametrize("name", installed_roles())


def test_each_of_the_nine_roles_has_one_entry_point() -> None:
    points = sorted((p.name, p.value) for p in set(entry_points(group=ROLE_GROUP)))
    assert [name for name, _ in points] == sorted(RoleName)
    assert set(SERVES) == set(RoleName)


def test_every_role_serves_what_is_declared_for_it() -> None:
    for role, services in SERVES.items():
        for name in services:
            assert SERVICES[name].roles == (RoleName(role),)


@HOSTED
def test_a_role_has_the_shape_of_one(name: str) -> None:
    (target,) = {p.value for p in entry_points(group=ROLE_GROUP, name=name)}
    check_class(load_class(target), RoleName(name))


class Stranger:
    """A role of a third party, for the conformance check itself."""

    name = RoleName.ROUTER

    async def open(self, host: RoleHost) -> None:
        """Serve."""

    async def work(self) -> None:
        """Nothing."""

    async def aclose(self) -> None:
        """Nothing."""


def test_the_check_refuses_what_is_no_role() -> None:
    check_class(Stranger, RoleName.ROUTER)
    wrong: list[type[Any]] = [
        type("Named", (Stranger,), {"name": RoleName.VERIFIER}),
        type("Shared", (Stranger,), {"seen": []}),
        type("Sync", (Stranger,), {"aclose": lambda self: None}),
        type("Asks", (Stranger,), {"__init__": lambda self, config: None}),
    ]
    for kind in wrong:
        with pytest.raises(AssertionError):
            check_class(kind, RoleName.ROUTER)


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> dict[str, RoleHost]:
    """The host that a node gave to each of its roles."""
    given: dict[str, RoleHost] = {}
    make = composition._House.host

    def keep(self: Any, role: RoleName) -> RoleHost:
        given[role] = make(self, role)
        return given[role]

    monkeypatch.setattr(composition._House, "host", keep)
    return given


@HOSTED
async def test_a_role_opens_serves_works_and_closes(
    name: str, hosts: dict[str, RoleHost], tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_house(tmp_path / "node"):
        (role,) = load_roles([RoleName(name)])
        await check_life(role, hosts[name], SERVES[name])


@HOSTED
async def test_each_role_has_its_own_signer_and_no_other(
    name: str, hosts: dict[str, RoleHost], tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_house(tmp_path / "node") as house:
        mine = hosts[name].context
        holder = house.node.context.trust.state.keys[mine.signer.key]
        assert (holder.role, holder.node_id, mine.role) == (name, house.node.context.node_id, name)
        others = [h.context for other, h in hosts.items() if other != name]
        assert all(h.signer.key != mine.signer.key and h.fence is not mine.fence for h in others)


async def test_junk_sent_to_every_service_is_refused_and_the_node_still_answers(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_house(tmp_path / "node") as house:
        transport = house.node.context.transport
        served = {s for name in installed_roles() for s in SERVES[name]}
        for service in sorted(served):
            for message in (Message(), Message((b"junk",), {}, b"box", {"dispatch": b"x" * 32, "query": 1})):
                with pytest.raises(GnusError) as error:
                    await rpc.request(transport, transport.local_key, service, message, budget_ms=1000)
                assert error.value.code != "INTERNAL", f"{service} took junk for granted"
        assert (await house.ask(SUM)).answer == "84"


@pytest.mark.parametrize(("target", "question"), [("roles.verifier:Verifier", READ), ("roles.memory_index:MemoryIndex", SUM)])
async def test_a_role_whose_handlers_raise_hurts_no_neighbour(
    target: str, question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """What needs the role ends in a typed error; what does not need it is answered; the node stops in order."""
    kind = load_class(target)
    opens = kind.open
    broken = [True]

    async def open_broken(self: Any, host: RoleHost) -> None:
        def serve(name: str, handler: Any) -> None:
            async def raises(request: Any) -> Message:
                if broken[0]:
                    raise RuntimeError("a fault")
                result: Message = await handler(request)
                return result

            host.serve(name, raises)

        await opens(self, replace(host, serve=serve))

    monkeypatch.setattr(kind, "open", open_broken)
    async with open_house(tmp_path / "node") as house:
        found = await house.ask(question)
        if kind.name is RoleName.VERIFIER:
            assert (found.outcome, found.answer) == (Outcome.FAILED, "")
        else:
            assert (found.outcome, found.answer) == (Outcome.ANSWERED, "84"), "a plan can do without memory"
        await house.settled()
        broken[0] = False
        assert (await house.ask(READ)).answer == "The release codename is Blue Heron."


async def test_a_role_that_does_not_open_stops_the_start_and_closes_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    closed: list[RoleName] = []
    for name in installed_roles():
        kind = type(load_roles([RoleName(name)])[0])

        async def aclose(self: Any, inner: Any = kind.aclose) -> None:
            closed.append(self.name)
            if hasattr(self, "_hosted") or self.name not in (RoleName.SEMANTIC_CORE, RoleName.ELM_WORKER):
                await inner(self)

        monkeypatch.setattr(kind, "aclose", aclose)

    async def refuses(self: Any, host: RoleHost) -> None:
        raise GnusError("CONFIG", "no")

    monkeypatch.setattr(load_class("roles.verifier:Verifier"), "open", refuses)
    with pytest.raises((GnusError, ExceptionGroup)) as error:
        async with open_house(tmp_path / "node"):
            pytest.fail("the node opened without its verifier")
    assert "CONFIG" in str(_leaf(error.value))
    opened = installed_roles()[: installed_roles().index("verifier") + 1]
    assert closed == list(reversed(opened)), "last opened, first closed"


def _leaf(error: BaseException) -> BaseException:
    return _leaf(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
