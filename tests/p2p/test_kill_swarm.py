"""Processes of a swarm are killed with requests in flight, each role at points all over the flow, and some in pairs; or stopped, and let go on when
the world has moved on. Every request ends in an answer or a typed error, no answer is wrong, no effect happens twice and none is hidden:
counted at the effect itself. ``GNUS_KILL_ALL=1`` runs every role at every point.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from gnus_node.cli.client import Node
from gnus_node.evidence.bundle import import_charter, verify_bundle
from gnus_node.flow.table import COORDINATOR
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.identity import public_key
from gnus_node.net.peer_text import peer_text
from gnus_node.records.errors import GnusError
from gnus_node.swarm.found import ensure_members
from gnus_node.swarm.keeper import choose_places
from gnus_node.swarm.settings import load_swarm
from gnus_node.swarm.state import write_places
from tests.counter_adapter import runs
from tests.nodes import counter_file
from tests.p2p.swarm_launcher import ARM, FIRED
from tests.swarms import write_swarm

ROOT = Path(__file__).resolve().parents[2]
NODES = {
    "front": ("ingress",),
    "router": ("router",),
    "router2": ("router",),
    "worker": ("elm_worker", "semantic_core"),
    "worker2": ("elm_worker", "semantic_core"),
    "verifier": ("verifier",),
    "verifier2": ("verifier",),
    "library": ("memory_index", "grounding"),
    "library2": ("memory_index", "grounding"),
    "tools": ("tool_intermediary",),
    "books": ("settlement",),
}
KINDS = ("router", "worker", "verifier", "library", "tools", "books")
POINTS = (
    "ingress.own_run",
    *(f"router.{state}" for state, row in COORDINATOR.items() if not row.terminal),
    "effect.start",
    "effect.executing",
    "effect.executed",
    "effect.recorded",
    "ingress.own_verify",
)
READY_S, BACK_S = 60.0, 30.0
ASK_S = 60.0
ALL = os.environ.get("GNUS_KILL_ALL") == "1"


def flight(number: int) -> dict[str, str]:
    """One question of each kind, by the answer that is right."""
    return {
        "84": "What is seven times twelve?",
        "The release codename is Blue Heron.": "What is the release codename in notes.md?",
        f"tag-{number}": f"Append the tag tag-{number} to counter.txt",
        "": "What is the airspeed of a swallow?",
    }


@dataclass
class Cluster:
    """The processes of one swarm."""

    folder: Path
    file: Path
    launcher: trio.Process
    pids: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    found: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)

    def door(self, name: str) -> Node:
        return Node(self.folder / "s" / name / "node.sock")

    async def start(self, name: str) -> None:
        assert self.launcher.stdin is not None
        assert self.launcher.stdout is not None
        await self.launcher.stdin.send_all(json.dumps({"file": str(self.file), "name": name}).encode() + b"\n")
        said = b""
        while not said.endswith(b"\n"):
            more = await self.launcher.stdout.receive_some(4096)
            assert more, (self.folder / "launcher.log").read_text()
            said += more
        self.pids[name] = json.loads(said)["pid"]

    def running(self, name: str) -> bool:
        try:
            os.kill(self.pids[name], 0)
        except ProcessLookupError:
            return False
        return True

    async def status(self, name: str) -> dict[str, Any]:
        """A node's status, empty while it gives none."""
        try:
            found = await trio.to_thread.run_sync(lambda: self.door(name).get("/admin/status", timeout_s=5))
        except GnusError:
            failed = self.folder / f"{name}.failed"
            assert not failed.exists(), failed.read_text()
            return {}
        return dict(found)

    async def whole(self) -> None:
        """Start what was killed; wait until every node hears every other, and says that it answers."""
        for name in NODES:
            if not self.running(name):
                await self.start(name)
        for name in NODES:
            failed = self.folder / f"{name}.failed"
            assert not failed.exists(), failed.read_text()
            with trio.fail_after(READY_S):
                while True:
                    peers = (await self.status(name)).get("peers", ())
                    if sum(1 for p in peers if p["alive"] and p["answers"] and p["roles"]) == len(NODES):
                        break
                    await trio.sleep(0.05)

    def arm(self, points: tuple[str, ...], victims: tuple[str, ...], number: str = "SIGKILL") -> None:
        (self.folder / FIRED).unlink(missing_ok=True)
        job = {"points": points, "pids": [self.pids[v] for v in victims], "signal": number}
        (self.folder / "arm.new").write_text(json.dumps(job))
        (self.folder / "arm.new").rename(self.folder / ARM)

    @property
    def fired(self) -> bool:
        return (self.folder / FIRED).exists()

    async def ask(self) -> dict[str, dict[str, Any]]:
        """The flight, all at the same time: what each came to."""
        self.asked += 1
        results: dict[str, dict[str, Any]] = {}

        async def one(right: str, question: str) -> None:
            try:
                results[right] = await trio.to_thread.run_sync(
                    lambda: self.door("front").post("/admin/ask", {"question": question}, timeout_s=ASK_S)
                )
            except GnusError as error:
                results[right] = {"error": error.code}

        with trio.fail_after(ASK_S + 10):
            async with trio.open_nursery() as nursery:
                for right, question in flight(self.asked).items():
                    nursery.start_soon(one, right, question)
        return results

    def check(self, results: dict[str, dict[str, Any]], where: object) -> None:
        """What must hold of every end."""
        lines = [line.split()[0] for line in runs(str(counter_file(self.folder)))]
        for right, result in results.items():
            outcome, code = result.get("outcome", "failed"), result.get("error") or result.get("reason_code")
            self.ended += [result["audit_id"]] if result.get("audit_id") else []
            if right.startswith("tag-"):
                effects = {e["state"] for e in result.get("effects", ())}
                assert lines.count(right) <= 1, (where, lines)
                hidden = right in lines and not effects & {"done", "indeterminate", "executing"}
                assert not hidden or code == "EFFECT_INDETERMINATE", (where, "an effect happened, and its terminal hides it", result)
                well = outcome in ("abstained", "partial_effects")
            elif outcome == "answered":
                assert result["answer"] == right, (where, result)
                well = True
            else:
                well = outcome == "abstained" and not right
                assert outcome != "failed" or code not in ("INTERNAL", "CHAIN_BROKEN", "OK"), (where, result)
            self.found["answers" if well else f"error {outcome} {code}"] += 1

    async def audits(self) -> None:
        """Every request that ended has an audit that holds."""
        charter = import_charter((self.folder / "s" / "front" / "charter.json").read_bytes())
        for request in self.ended:
            bundle = await trio.to_thread.run_sync(lambda r=request: self.door("front").call("GET", f"/admin/audit/{r}", timeout_s=30))
            verdict = verify_bundle(bundle, charter, SystemClock().wall_ms())
            assert verdict.ok, (request, verdict.error)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    """All nodes up and acquainted."""
    file = write_swarm(folder, NODES, acting=True)
    settings = load_swarm(file)
    identities, _ = ensure_members(settings, SystemEntropy(), SystemClock())
    places = choose_places(settings, identities)
    write_places(settings.swarm.data_dir, places)
    assert places["front"].peer == peer_text(public_key(identities["front"].transport))
    with (folder / "launcher.log").open("wb") as errors:
        launcher = await trio.lowlevel.open_process(
            [sys.executable, "-m", "tests.p2p.swarm_launcher"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
        )
    found = Cluster(folder, file, launcher)
    try:
        for name in NODES:
            await found.start(name)
        await found.whole()
        yield found
    finally:
        for name, pid in found.pids.items():
            if found.running(name):
                os.kill(pid, signal.SIGKILL)
        launcher.kill()
        with trio.CancelScope(shield=True):
            await launcher.wait()


def cases() -> list[tuple[str, tuple[str, ...]]]:
    """(point, victims): every role at some of the points, others for each, and seeded pairs."""
    chance = random.Random(7)
    single = [(p, (kind,)) for k, kind in enumerate(KINDS) for i, p in enumerate(POINTS) if ALL or (i + k) % 8 == 0]
    pairs = [(chance.choice(POINTS), tuple(chance.sample(KINDS, 2))) for _ in range(24 if ALL else 4)]
    return [*single, *pairs]


@pytest.mark.slow
@pytest.mark.timeout(0 if ALL else 300)
async def test_any_role_is_killed_or_stopped_anywhere_in_the_flow(tmp_path: Path) -> None:
    async with cluster(tmp_path / "c") as swarm:
        for point, kinds in cases():
            victims = tuple(in_use(swarm, kind) for kind in kinds)
            swarm.arm((point,), victims)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(restart_when_killed, swarm, victims)
                results = await swarm.ask()
                nursery.cancel_scope.cancel()
            assert swarm.fired, f"nothing passed {point}"
            swarm.check(results, (point, victims))
            await swarm.whole()
        await stopped_and_going_on(swarm)
        await swarm.audits()
        lines = [line.split()[0] for line in runs(str(counter_file(swarm.folder)))]
        assert len(lines) == len(set(lines))
    total = swarm.found.total()
    assert swarm.found["answers"] >= 0.95 * total, swarm.found


async def stopped_and_going_on(swarm: Cluster) -> None:
    """A router is stopped in the middle, another one carries its requests to their end, then it goes on: it is fenced."""
    victim = in_use(swarm, "router")
    for point in ("router.tool", "router.draft"):
        swarm.arm((point,), (victim,), "SIGSTOP")
        results = await swarm.ask()
        assert swarm.fired
        os.kill(swarm.pids[victim], signal.SIGCONT)
        swarm.check(results, (point, "SIGSTOP"))
        await swarm.whole()
        swarm.check({}, point)


async def restart_when_killed(swarm: Cluster, victims: tuple[str, ...]) -> None:
    """What a keeper does: start again what died, a moment later."""
    with trio.move_on_after(BACK_S):
        while any(swarm.running(v) for v in victims):  # noqa: ASYNC110  another process's child has no event
            await trio.sleep(0.02)
        with trio.CancelScope(shield=True):  # a start that is half told would be told again
            for victim in victims:
                await swarm.start(victim)


def in_use(swarm: Cluster, kind: str) -> str:
    """The node of a kind that is called first, with equal health: the one with the smaller node id."""
    names = [n for n in NODES if n.rstrip("2") == kind]
    ids = {n: (swarm.folder / "s" / n / "identity" / "node_id").read_text() for n in names}
    return min(names, key=lambda n: ids[n])
