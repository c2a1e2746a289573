"""The power is cut at every named point of the flow, and between them, with several requests in flight. After the restart every accepted
request has a terminal whose audit holds, and no effect has happened twice: counted at the effect itself, a file that each run appends to.
"""

from __future__ import annotations

import ast
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gnus_node.flow.accept import FlowLimits
from gnus_node.flow.table import COORDINATOR, OWNER, State
from tests.nodes import installed_roles

ROOT = Path(__file__).parent.parent.parent
RECOVERING = "ingress.own_effects"
"""Passed only by what a restart takes up."""
CHAIN = 5
"""Deaths of one node in a row; between two of them it must come to rest."""


def flight(number: int) -> list[dict[str, Any]]:
    """Requests in flight at a time: a write, a read, a calculation."""
    return [
        {"text": f"Append the tag alpha-{number} to counter.txt", "key": f"once-{number}"},
        {"text": "What is the release codename in notes.md?"},
        {"text": "What is seven times twelve?"},
    ]


ESCALATES = {"text": "What is the airspeed of a swallow?"}
WAITS = {"text": "In counter.txt append a tag"}
HURRIES = {"text": "What is three times twelve?", "wall_ms": 2}


def leaves(number: int) -> dict[str, Any]:
    """A write whose caller leaves at the first sign of progress."""
    return {"text": f"Append the tag gamma-{number} to counter.txt", "leave": True}


def everything(number: int) -> list[dict[str, Any]]:
    """All kinds: also an abstention, one that waits for a person, one without time, one whose caller leaves."""
    return [*flight(number), ESCALATES, WAITS, HURRIES, leaves(number)]


def flight_past(point: str, number: int) -> list[dict[str, Any]]:
    """The flight, with the request that is needed to pass a point."""
    more = {
        "router.escalate": [ESCALATES],
        "ingress.own_parked": [WAITS],
        "ingress.own_close": [HURRIES],
        "ingress.failed": [HURRIES],
        "ingress.cancelled": [leaves(number)],
    }
    return [*more.get(point, []), *flight(number)]


def points() -> tuple[str, ...]:
    """Every point that the code names, from the code."""
    found: set[str] = set()
    for file in sorted((ROOT / "gnus_node").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "point" and node.args:
                found |= set(_names(node.args[0]))
    return tuple(sorted(found))


def _names(name: ast.expr) -> list[str]:
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return [name.value]
    if isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        prefix = str(name.values[0].value)
        machine = {"router.": COORDINATOR, "ingress.": OWNER}[prefix]
        # A router answers in its terminal states without a point. OWN_ACCEPT's points are acceptance.commit and acceptance.committed.
        return [prefix + s for s, row in machine.items() if s is not State.OWN_ACCEPT and not (row.terminal and machine is COORDINATOR)]
    return []  # the definition of a probe, not a point of the flow


POINTS = points()
UNREACHABLE = set() if "grounding" in installed_roles() else {"router.ground"}


class Launcher:
    """The process that runs nodes."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.cluster.launcher"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, folder: Path, **job: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"folder": str(folder), **job}) + "\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.process.stdout.readline())
        return result

    def dies(self, node: Mortal, **job: Any) -> None:
        """Run a node that must come to rest after its last death, if there was one, and then die by SIGKILL."""
        result = self.run(node.folder, known=sorted(node.rested), **job)
        assert result["status"] == -signal.SIGKILL, result["said"][-3:]
        said = [row for row in result["said"] if "terminals" in row]
        if node.deaths and not job.get("early"):
            node.check(said[:1])
        node.accepted += [row["accepted"] for row in result["said"] if "accepted" in row]
        node.deaths += 1

    def heals(self, node: Mortal, **job: Any) -> Counter[str]:
        """Run a node that must come to rest; the points it passed."""
        result = self.run(node.folder, known=sorted(node.rested), **job)
        assert result["status"] == 0, result["said"][-1]
        rests = [row for row in result["said"] if "terminals" in row]
        node.check(rests[:-1])
        node.accepted += [row["accepted"] for row in result["said"] if "accepted" in row]
        node.check(rests[-1:])
        return Counter(result["said"][-1]["seen"])

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    found = Launcher()
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def undisturbed(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How often a run without a kill passes each point."""
    return launcher.heals(Mortal(tmp_path_factory.mktemp("undisturbed") / "node"), questions=everything(0))


@pytest.fixture
def node(tmp_path: Path) -> Mortal:
    return Mortal(tmp_path / "node")


@dataclass
class Mortal:
    """One node's folder, how often it has died, and what it had accepted."""

    folder: Path
    deaths: int = 0
    accepted: list[str] = field(default_factory=list)
    rested: dict[str, str | None] = field(default_factory=dict)
    """Requests that have come to rest, with the tag they asked to append."""

    def check(self, rests: list[dict[str, Any]]) -> None:
        """What must hold of a node each time it has come to rest."""
        for rested in rests:
            self._check(rested)

    def _check(self, rested: dict[str, Any]) -> None:
        rows = {row["request"]: row for row in rested["terminals"]}
        assert {*self.accepted, *self.rested} <= set(rows), "an accepted request is gone"
        assert all(row["phase"] == "settled" for row in rows.values())
        fresh = [row for request, row in rows.items() if request not in self.rested]
        self.rested |= {row["request"]: tag_of(row) for row in fresh}
        lines = [line.split() for line in rested["lines"]]
        tags = Counter(tag for tag, _key in lines)
        keys = Counter(key for _tag, key in lines)
        assert all(n == 1 for n in (*tags.values(), *keys.values())), f"an effect happened twice: {lines}"
        asked = Counter(tag for tag in self.rested.values() if tag)
        assert set(tags) <= set(asked), "an effect that nobody asked for, proved or approved"
        assert all(n == 1 for n in asked.values())
        for row in fresh:
            check_terminal(row, happened=tag_of(row) in tags)


def tag_of(row: dict[str, Any]) -> str | None:
    """The tag that a request's text asks to append."""
    return row["text"].split("the tag ")[1].split()[0] if "the tag " in row["text"] else None


def check_terminal(row: dict[str, Any], *, happened: bool) -> None:
    """What must hold of one request; ``happened``: its effect is seen in the world."""
    assert row["audit"], row
    effects = {state for tool, state in row["effects"] if tool == "counter.append"}
    if happened:
        assert effects & {"done", "indeterminate", "executing"}, ("an effect happened, and its request's terminal hides it", row)
    if row["outcome"] == "partial_effects":
        assert effects, row
    if row["text"] == "What is seven times twelve?":
        assert (row["outcome"], row["answer"]) == ("answered", "84"), row
    if row["text"].startswith("What is the release"):
        assert (row["outcome"], row["answer"]) == ("answered", "The release codename is Blue Heron."), row
    if row["text"] == WAITS["text"]:
        assert (row["outcome"], effects) == ("pending_approval", {"awaiting_approval"}), row
    if row["text"].startswith("Append the tag alpha"):
        assert (row["outcome"], effects) in [
            ("abstained", {"done"}),
            ("partial_effects", {"done"}),
            ("partial_effects", {"indeterminate"}),
        ], row


def test_the_flight_passes_every_point_but_those_of_recovery(undisturbed: Counter[str]) -> None:
    assert set(POINTS) - set(undisturbed) == {RECOVERING} | UNREACHABLE
    assert set(undisturbed) <= set(POINTS), "a point that the list does not find in the code"


LIVELY = [p for p in POINTS if p != RECOVERING and p not in UNREACHABLE]


@pytest.mark.parametrize("first", range(0, len(LIVELY), CHAIN))
def test_killed_at_every_point(first: int, launcher: Launcher, node: Mortal) -> None:
    for number, point in enumerate(LIVELY[first : first + CHAIN]):
        most = 1 if point.startswith("effect") or len(flight_past(point, 0)) > 3 else 2
        launcher.dies(node, questions=flight_past(point, number), point=point, hit=random.Random(point).randint(1, most))
    launcher.heals(node)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment(seed: int, launcher: Launcher, node: Mortal) -> None:
    moments = random.Random(seed)
    for number in range(CHAIN):
        launcher.dies(node, questions=[*flight(number), leaves(number)], after_ms=moments.uniform(5, 300))
    launcher.heals(node)


@pytest.mark.parametrize("point", [RECOVERING, "effect.executed", "answer.queued"])
def test_killed_again_while_recovering(point: str, launcher: Launcher, node: Mortal) -> None:
    launcher.dies(node, questions=flight(0), point="router.draft", hit=2)
    launcher.dies(node, point=point, hit=1, early=True)
    launcher.dies(node, point="ingress.own_run", hit=1, early=True)
    launcher.heals(node)


def test_a_request_that_takes_the_node_down_each_time_is_closed(launcher: Launcher, node: Mortal) -> None:
    launcher.dies(node, questions=[ESCALATES], point="router.draft")
    for _ in range(FlowLimits().max_recoveries - 1):
        launcher.dies(node, point="router.draft", early=True)
    result = launcher.run(node.folder, point="router.draft", early=True)
    assert result["status"] == 0, result["said"][-1]
    (row,) = next(row for row in result["said"] if "terminals" in row)["terminals"]
    assert (row["outcome"], row["reason"]) == ("failed", "INTERNAL")
