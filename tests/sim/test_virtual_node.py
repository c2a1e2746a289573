"""The whole node under virtual time: one seed is one run, whatever the process, its hash seed, its time zone or its folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import trio
import trio._core._run as scheduler

from simulations.virtual.run import Ran, seeded_scheduler
from tests.sim.world import run

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("virtual") / "node"


@pytest.fixture(scope="module")
def first(folder: Path) -> Ran:
    return run(7, folder)


def test_the_pinned_trio_lets_its_scheduler_be_seeded() -> None:
    assert trio.__version__ == "0.35.0", "look at trio._core._run before changing the pin"
    assert isinstance(scheduler._ALLOW_DETERMINISTIC_SCHEDULING, bool)
    orders = []
    for seed in (1, 1, 2, 3, 4, 5):
        with seeded_scheduler(seed):
            orders.append(trio.run(_order))
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 1


async def _order() -> list[int]:
    seen: list[int] = []

    async def step(number: int) -> None:
        for _ in range(5):
            await trio.lowlevel.checkpoint()
            seen.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(step, number)
    return seen


def test_the_run_answers_what_was_asked(first: Ran) -> None:
    assert [(outcome, answer) for _id, outcome, answer in first.answers] == [
        ("answered", "84"),
        ("answered", "The release codename is Blue Heron."),
        ("abstained", ""),
        ("abstained", ""),
        ("pending_approval", ""),
        ("answered", "The release date is 12 May 2031."),
        ("answered", "7"),
        ("answered", "7"),
    ]
    assert first.answers[-1][0] == first.answers[-2][0], "a repeat under one key is one request"
    assert first.points > 100
    assert len(first.records) > 60


def test_the_same_seed_is_the_same_run_in_this_process(first: Ran, folder: Path) -> None:
    assert run(7, folder) == first


@pytest.mark.parametrize("hash_seed", ["1", "4711"])
def test_the_same_seed_is_the_same_run_in_another_process(first: Ran, folder: Path, tmp_path: Path, hash_seed: str) -> None:
    changed = {"PYTHONHASHSEED": hash_seed, "TZ": "Pacific/Chatham", "PYTHONPATH": str(ROOT), "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim.world", "7", str(folder)],
        cwd=tmp_path,
        env={**os.environ, **changed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(asdict(first)))


def test_another_seed_is_another_run(first: Ran, folder: Path) -> None:
    other = run(8, folder)
    assert not set(other.records) & set(first.records)
    assert (other.trace, other.state) != (first.trace, first.state)
    assert [a[1:] for a in other.answers] == [a[1:] for a in first.answers], "what is answered is no matter of chance"
