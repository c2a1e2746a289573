"""How often a request waits for the disk before its answer, as the metrics say it and as the store itself counts it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio.testing

from gnus_node.flow.run import MAX_COMMITS, commits_said
from gnus_node.records.enums import Outcome
from tests.unit.flow.house import READ, SUM, WRITE, House, open_house


@pytest.fixture
async def house(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> AsyncIterator[House]:
    # what is written behind goes out after a second at the latest, and no second passes while a request runs in virtual time: so every
    # commit of the store is one that was waited for
    async with open_house(tmp_path / "node", flush_ms=1000) as opened:
        yield opened


def metric(house: House, name: str) -> float:
    found = re.search(rf"^gnus_{re.escape(name)} ([0-9.]+)$", house.node.metrics.render().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize(
    ("question", "outcome", "commits"),
    [
        (SUM, Outcome.ANSWERED, 1),
        (READ, Outcome.ANSWERED, 1),
        ("What is the airspeed of a swallow?", Outcome.ABSTAINED, 1),
        (WRITE, None, 3),
    ],
)
async def test_commits_before_the_answer(house: House, question: str, outcome: Outcome | None, commits: int) -> None:
    counted: list[int] = []
    house.at["answer.queued"] = lambda _facts: counted.append(house.node.store.commits)
    before = house.node.store.commits
    answered = await house.ask(question)
    assert outcome in (None, answered.outcome)
    assert counted[0] - before == commits, "as the store counts"
    assert metric(house, "request_commits_sum") == commits
    assert metric(house, "request_commits_count") == 1
    assert metric(house, 'durable_commits_total{point="acceptance"}') == 1
    assert (
        metric(house, 'durable_commits_total{point="executing"}') == metric(house, 'durable_commits_total{point="outcome"}') == commits // 3
    )


async def test_no_request_but_one_that_writes_waits_more_than_twice(house: House) -> None:
    for question in (SUM, READ, "What is the airspeed of a swallow?", "How many metres are 3 km?"):
        await house.ask(question)
    assert metric(house, 'request_commits_bucket{le="2.0"}') == metric(house, "request_commits_count") == 4


@pytest.mark.parametrize("word", [None, True, -1, 1.0, "3", b"3", (1,)])
def test_a_peer_s_junk_counts_nothing(word: object) -> None:
    assert commits_said(word) == 0


def test_a_peer_s_word_is_bounded() -> None:
    assert (commits_said(2), commits_said(2**60)) == (2, MAX_COMMITS)
