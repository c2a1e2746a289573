"""How well peers answer: the breaker, silence, and the retry budget. It orders and forbids nothing."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gnus_node.net.health import FAIR_BUDGET_MS, MAX_OPEN_S, MAX_TOKENS, OPEN_S, SILENT_PROBES, TRIPS, Health
from gnus_node.records.errors import GnusError


def test_not_being_reached_opens_the_breaker_and_an_answer_closes_it() -> None:
    health = Health()
    health.failed("a", "UNREACHABLE", 0.0, 1000)
    assert not health.well("a", OPEN_S / 2)
    assert health.rank("a", OPEN_S / 2) > health.rank("b", OPEN_S / 2)
    assert health.well("a", OPEN_S * 1.01)
    health.failed("a", "UNREACHABLE", 1.0, 1000)
    assert not health.well("a", 1.0 + OPEN_S * 1.5), "the second time it is open for longer"
    for _ in range(50):
        health.failed("a", "UNREACHABLE", 2.0, 1000)
    assert health.well("a", 2.0 + MAX_OPEN_S * 1.01)
    health.answered("a")
    assert health.well("a", 2.0)


@pytest.mark.parametrize("code", ["PROTOCOL", "INTERNAL", "DEADLINE"])
def test_other_failures_open_it_after_some_in_a_row(code: str) -> None:
    health = Health()
    for _ in range(TRIPS - 1):
        health.failed("a", code, 0.0, FAIR_BUDGET_MS)
    assert health.well("a", 0.0)
    health.failed("a", "FENCED", 0.0, FAIR_BUDGET_MS)  # an answer: it starts anew
    health.failed("a", code, 0.0, FAIR_BUDGET_MS)
    assert health.well("a", 0.0)
    for _ in range(TRIPS):
        health.failed("a", code, 0.0, FAIR_BUDGET_MS)
    assert not health.well("a", 0.0)


def test_a_caller_without_time_says_nothing_of_the_peer() -> None:
    health = Health()
    for _ in range(10):
        health.failed("a", "DEADLINE", 0.0, FAIR_BUDGET_MS - 1)
    assert health.well("a", 0.0)


def test_who_is_busy_or_leaving_or_gone_comes_later() -> None:
    health = Health()
    health.connected(["a", "b", "c", "d"])
    health.failed("b", "BUSY", 0.0, 1000)
    health.said("c", leaving=True)
    health.connected(["a", "b", "c"])
    ranks = [health.rank(n, 0.0) for n in "abcd"]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == 4
    assert not health.well("d", 0.0)
    health.connected(["a", "b", "c", "d"])
    assert health.rank("d", 0.0) == health.rank("a", 0.0), "back again, it starts anew"


async def test_retries_are_a_part_of_the_calls() -> None:
    health = Health()
    assert sum(health.may_retry() for _ in range(100)) == MAX_TOKENS
    for number in range(100):
        with health.calling("a", float(number)):
            pass
    assert sum(health.may_retry() for _ in range(100)) in (9, 10), "a tenth of a hundred calls, but for rounding"


async def test_the_calls_of_a_silent_peer_are_given_up(autojump_clock: trio.testing.MockClock) -> None:
    health = Health()
    ended: list[str] = []

    async def call(peer: str) -> None:
        try:
            with health.calling(peer, 0.0):
                await trio.sleep(100)
            ended.append(f"{peer} answered")
        except GnusError as error:
            ended.append(f"{peer} {error.code}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, "a")
        nursery.start_soon(call, "b")
        await trio.testing.wait_all_tasks_blocked()
        assert health.waiting(1.0) == ()
        assert health.waiting(5.0) == ("a", "b")
        health.no_sign("a", 5.0)
        health.said("a", leaving=False)  # it lives after all
        for _ in range(SILENT_PROBES):
            health.no_sign("a", 6.0)
    assert ended == ["a UNREACHABLE", "b answered"]
    assert health.waiting(1000.0) == ()
    assert not health.well("a", 6.0)
