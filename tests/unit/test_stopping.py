"""Told to stop, a node finishes what is under way and takes nothing new; told twice, it goes at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from gnus_node.records.errors import GnusError
from gnus_node.stopping import Stop, drain
from tests.sim.swarm_world import open_swarm
from tests.swarms import NINE
from tests.unit.flow.house import SUM, open_house


async def test_a_question_under_way_is_answered_and_a_new_one_refused(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_house(tmp_path / "node") as house:
        found: list[str] = []
        stopping = trio.Event()
        house.at["router.draft"] = lambda _facts: stopping.set()

        async def ask() -> None:
            found.append((await house.ask(SUM)).answer)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await stopping.wait()
            await drain(house.node, 20)
            assert found == ["84"]
            with pytest.raises(GnusError, match="BUSY"):
                await house.ask(SUM)


async def test_a_leaving_node_is_passed_over_and_in_the_end_refuses(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_swarm(tmp_path / "w", {**NINE, "worker2": ("elm_worker",)}) as swarm:
        router = swarm.nodes["router"].context.directory
        first = router.experts("local")[0].peer.node_id
        leaving = next(node for node in swarm.nodes.values() if node.context.node_id == first)
        await drain(leaving, 1)
        assert router.experts("local")[0].peer.node_id != first, "peers were told"
        leaving.gate.refusing = True
        answer = await swarm.ask("What is seven times twelve?")
        assert getattr(answer, "answer", answer) == "84"


async def test_the_second_word_is_an_order() -> None:
    with trio.CancelScope() as scope:
        stop = Stop(scope)
        stop.gently()
        stop.tell()
        await stop.wait()
        assert not scope.cancel_called
        stop.tell()
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_before_it_runs_the_first_word_is_an_order() -> None:
    with trio.CancelScope() as scope:
        Stop(scope).tell()
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
