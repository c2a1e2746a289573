"""Nodes of a swarm vanish at every state of the machine, one and in ordered pairs, in virtual time: every request ends in an answer or a typed
error, no answer is wrong, no effect happens twice and none is hidden. A node that vanished goes on by itself meanwhile, as one that was
stopped does, and comes back into a world that has moved on: it is fenced. ``GNUS_KILL_ALL=1`` runs all of it, otherwise a part of each.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.testing

from gnus_node.flow.table import COORDINATOR, OWNER
from gnus_node.net.health import Health
from gnus_node.ports.submit import Answered
from gnus_node.records.enums import RoleName
from gnus_node.records.errors import GnusError
from tests.sim.swarm_world import Swarm, open_swarm
from tests.swarms import DOUBLED, NINE

ROUTER = tuple(f"router.{state}" for state, row in COORDINATOR.items() if not row.terminal)
INGRESS = ("acceptance.committed", *(f"ingress.{state}" for state in OWNER if state in ("own_run", "own_verify")))
EFFECT = ("effect.start", "effect.executing", "effect.executed", "effect.recorded")
POINTS = (*INGRESS, *ROUTER, *EFFECT)
VICTIMS = ("ingress", "router", "elm_worker", "verifier", "memory_index", "grounding", "tool_intermediary", "settlement")
ALL = os.environ.get("GNUS_KILL_ALL") == "1"
BACK_S = 4.0
"""Virtual seconds until a node that vanished is there again."""
WALL_S = 20.0
Case = tuple[str, tuple[str, ...]]
"""A point, and who vanishes when it is passed, each a point later."""


def questions(number: int) -> dict[str, str]:
    """One of each kind, by the answer that is right."""
    return {
        "84": "What is seven times twelve?",
        "The release codename is Blue Heron.": "What is the release codename in notes.md?",
        f"tag-{number}": f"Append the tag tag-{number} to counter.txt",
        "": "What is the airspeed of a swallow?",
    }


def run_cases(folder: Path, roles: Mapping[str, tuple[str, ...]], cases: list[Case], back_s: float) -> Counter[str]:
    """One swarm, one case after another: at the first passing of a point its victims vanish, each at a point of its own."""
    found: Counter[str] = Counter()

    async def main() -> None:
        async with open_swarm(folder, roles) as swarm:
            for number, (point, victims) in enumerate(cases):
                await _case(swarm, number, point, victims, back_s, found)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), strict_exception_groups=True)
    return found


async def _case(swarm: Swarm, number: int, point: str, victims: tuple[str, ...], back_s: float, found: Counter[str]) -> None:
    left = [_used(swarm, role) for role in victims]
    cut_at: list[float] = []

    def passed(name: str, _facts: Mapping[str, str | int]) -> None:
        if left and (name == point or cut_at):
            swarm.cut(left.pop(0))
            cut_at.append(trio.current_time())

    swarm.passed.append(passed)
    results: dict[str, Answered | GnusError] = {}
    asked = questions(number)

    async def one(right: str, question: str) -> None:
        results[right] = await swarm.ask(question)

    async def come_back() -> None:
        with trio.fail_after(60 * WALL_S):
            while not cut_at or trio.current_time() < cut_at[-1] + back_s:  # noqa: ASYNC110  in virtual time
                await trio.sleep(0.25)
        swarm.mend()

    with trio.fail_after(3 * WALL_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_back)
            async with trio.open_nursery() as asking:
                for right, question in asked.items():
                    asking.start_soon(one, right, question)
            nursery.cancel_scope.cancel()
    swarm.passed.remove(passed)
    assert cut_at, f"nothing passed {point}"
    swarm.mend()
    for node in swarm.nodes.values():
        node.context.directory.health = Health()
    await swarm.acquainted()
    where = (point, victims)
    for right, result in results.items():
        ended = "answers" if _ended_well(swarm, right, result, where) else "errors"
        found[ended] += "ingress" not in victims  # who owns the requests is gone: that they end is all that is promised
    for result in results.values():
        if isinstance(result, Answered):
            await swarm.audit(result.request_id)


def _used(swarm: Swarm, role: str) -> str:
    """The node that a role's calls would go to now."""
    peer = swarm.front.context.directory.hosts(RoleName(role), "local")[0]
    return next(name for name, node in swarm.nodes.items() if node.context.node_id == peer.node_id)


def _ended_well(swarm: Swarm, right: str, result: Answered | GnusError, where: object) -> bool:
    """Check one end; whether it is an answer, rather than a typed error."""
    if right.startswith("tag-"):
        lines = swarm.lines()
        assert lines.count(right) <= 1, (where, lines)
        effects = {e["state"] for e in result.effects} if isinstance(result, Answered) else set()
        hidden = right in lines and not effects & {"done", "indeterminate", "executing"}
        unknown = not isinstance(result, Answered) or result.reason_code == "EFFECT_INDETERMINATE"
        assert not hidden or unknown, (where, "an effect happened, and its terminal hides it", result)
        return isinstance(result, Answered) and str(result.outcome) in ("abstained", "partial_effects")
    if not isinstance(result, Answered) or str(result.outcome) == "failed":
        code = result.code if isinstance(result, GnusError) else result.reason_code
        assert code not in ("INTERNAL", "CHAIN_BROKEN", "OK"), (where, right, code)
        return False
    if str(result.outcome) == "answered":
        assert result.answer == right, (where, result.answer)
    else:
        assert str(result.outcome) == "abstained", (where, result)
    return str(result.outcome) == ("answered" if right else "abstained")


def test_the_flight_passes_every_point_of_the_matrix() -> None:
    seen: Counter[str] = Counter()

    async def main() -> None:
        async with open_swarm(Path(tempfile.mkdtemp()) / "w", NINE) as swarm:
            swarm.passed.append(lambda name, _facts: seen.update([name]))
            for question in questions(0).values():
                await swarm.ask(question)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert set(POINTS) <= set(seen)


def some(cases: list[Case], part: int) -> list[Case]:
    """One of ``part`` cases, or all."""
    return cases if ALL else cases[::part]


@pytest.mark.timeout(0 if ALL else 300)
def test_one_of_each_role_vanishes_at_every_state_and_comes_back(tmp_path: Path) -> None:
    found = run_cases(tmp_path / "w", DOUBLED, some([(p, (v,)) for v, p in itertools.product(VICTIMS, POINTS)], 7), BACK_S)
    assert found["answers"] >= 0.95 * found.total(), found


@pytest.mark.timeout(0 if ALL else 300)
def test_the_only_one_of_a_role_vanishes_for_good(tmp_path: Path) -> None:
    run_cases(tmp_path / "w", NINE, some([(p, (v,)) for v, p in itertools.product(VICTIMS, POINTS)], 11), 10 * WALL_S)


@pytest.mark.timeout(0 if ALL else 300)
def test_ordered_pairs_vanish_at_every_state_of_the_router(tmp_path: Path) -> None:
    pairs = itertools.product(itertools.permutations(VICTIMS, 2), ROUTER)
    found = run_cases(tmp_path / "w", DOUBLED, some([(p, pair) for pair, p in pairs], 19), BACK_S)
    assert found["answers"] >= 0.95 * found.total(), found
