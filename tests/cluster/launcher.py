"""Runs real nodes in processes of their own and lets them be killed: one JSON job a line on stdin, one JSON result a line on stdout.

The launcher imports everything once and forks a child for each job, so a killed node costs no start of Python. A child runs the node on the
real clock with threads and LMDB; a job may name a probe point, and at its n-th hit the child ends itself by SIGKILL, as a power cut would.
The launcher itself never runs an event loop.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import trio

from gnus_node.config import load_config
from gnus_node.evidence.bundle import verify_bundle
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Node, Ports, open_node
from gnus_node.ports.submit import Ask
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.log import FileSink, make_log
from tests.counter_adapter import runs
from tests.nodes import NOTES, counter_file, install_hands, loading, make_node

HEAL_S = 60.0


class Killer:
    """A probe that counts points, tells of acceptances, and once armed pulls the plug at the n-th hit of one."""

    def __init__(self, out: int, point: str, hit: int) -> None:
        self._out, self._point, self._hit = out, point, hit
        self.seen: Counter[str] = Counter()
        self.armed = False

    def arm(self) -> None:
        """Count from here."""
        self.seen.clear()
        self.armed = True

    def point(self, name: str, **facts: str | int) -> None:
        self.seen[name] += 1
        if name == "acceptance.committed":
            say(self._out, {"accepted": facts["request_id"]})
        if self.armed and name == self._point and self.seen[name] == self._hit:
            os.kill(os.getpid(), signal.SIGKILL)


def say(out: int, row: dict[str, Any]) -> None:
    """One whole line, at once: what was said before a kill has been said."""
    os.write(out, json.dumps(row).encode() + b"\n")


async def ask_all(node: Node, questions: list[dict[str, Any]], out: int) -> None:
    """All questions at the same time."""

    async def one(number: int, question: dict[str, Any]) -> None:
        wall_ms, key = question.get("wall_ms"), question.get("key")
        ask = Ask(question["text"], question.get("context", ""), max_wall_ms=wall_ms, idempotency_key=key)
        with trio.CancelScope() as scope:

            async def leave(status: object) -> None:
                if question.get("leave"):
                    scope.cancel()
                    await trio.lowlevel.checkpoint()

            try:
                answered = await node.submit.ask(node.operator, ask, on_status=leave)
            except GnusError as error:
                say(out, {"question": number, "refused": error.code})
            else:
                say(out, {"question": number, "answered": answered.request_id, "outcome": str(answered.outcome)})

    async with trio.open_nursery() as nursery:
        for number, question in enumerate(questions):
            nursery.start_soon(one, number, question)


async def terminals(node: Node, known: set[str]) -> list[dict[str, Any]]:
    """Every accepted request as it stands: its text, its terminal, whether its audit holds; of those ``known`` from before only that they
    stand."""
    archive = node.front.archive
    assert archive is not None
    found = []
    for stored in await node.store.scan("journal", limit=10_000):
        request_id = stored.key.decode()
        row = await archive.row(request_id)
        assert row is not None
        if request_id in known:
            found.append({"request": request_id, "phase": str(row.phase)})
            continue
        known.add(request_id)
        mandate, _ = await archive.mandate(row)
        text = (await archive.vault(request_id, [mandate])).text(mandate.body.query)
        answered = await archive.lookup(row.tenant, request_id)
        entry: dict[str, Any] = {"request": request_id, "text": text, "phase": str(row.phase), "generation": row.generation}
        if answered is not None:
            verdict = verify_bundle(await node.admin.audit(request_id, True), node.charter, node.context.clock.wall_ms())
            entry |= {"outcome": str(answered.outcome), "reason": answered.reason_code, "answer": answered.answer}
            entry |= {"effects": [[e["tool"], e["state"]] for e in answered.effects], "audit": verdict.ok}
        found.append(entry)
    return found


async def run(job: dict[str, Any], out: int) -> None:
    """Come to rest after whatever happened before and say how each request stands; then ask, with the plug in reach, and come to rest again.

    With ``early`` the plug is in reach from the start, so that it can be pulled while the node recovers.
    """
    folder = Path(job["folder"])
    clock, entropy = SystemClock(), SystemEntropy()
    fresh = not (folder / "node.toml").exists()
    config = make_node(folder, entropy, clock, notes=job.get("notes", NOTES)) if fresh else load_config(folder / "node.toml")
    killer = Killer(out, job.get("point", ""), job.get("hit", 1))
    log = make_log(FileSink(folder / "node.log"), clock=clock, level=job.get("log_level", "warning"))
    ports = Ports(clock, entropy, ThreadOffload(), MemoryBus(), killer, log, loading(folder))
    if job.get("early"):
        killer.arm()
    known = set(job.get("known", []))
    async with open_node(config, ports) as node:
        if not fresh:
            await rest(node)
            say(out, {"terminals": await terminals(node, known), "lines": runs(str(counter_file(folder)))})
        if not job.get("early"):
            killer.arm()
        for note in job.get("remember", []):
            await node.admin.memory_put(note, "fact")
        say(out, {"asking": True})
        await ask_all(node, job.get("questions", []), out)
        while "after_ms" in job:  # a fast machine is asked on until the plug is pulled
            await ask_all(node, [{"text": "What is one plus one?"}], out)
        await rest(node)
        say(out, {"terminals": await terminals(node, known), "lines": runs(str(counter_file(folder))), "seen": killer.seen})


async def rest(node: Node) -> None:
    """Wait until no request is open any more."""
    assert node.front.archive is not None
    assert node.front.idle is not None
    with trio.fail_after(HEAL_S):
        while [row async for row, _ended in node.front.archive.open_requests()]:  # noqa: ASYNC110 - a state on disk, not an event
            await trio.sleep(0.05)
        await node.front.idle()


def child(job: dict[str, Any], out: int) -> int:
    """The forked process: its exit code."""
    try:
        trio.run(run, job, out)
    except BaseException:
        say(out, {"failed": traceback.format_exc()[-4000:]})
        return 1
    return 0


def serve(job: dict[str, Any]) -> dict[str, Any]:
    """Fork, read what the child says until it is gone, and say how it went."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os._exit(child(job, writing))
    os.close(writing)
    said, deadline = b"", None
    while True:
        if deadline is None and "after_ms" in job and b"asking" in said:
            deadline = time.monotonic() + job["after_ms"] / 1000
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL)
            deadline = math.inf
        left = None if deadline in (None, math.inf) else max(0.0, deadline - time.monotonic())
        if not select.select([reading], [], [], left)[0]:
            continue
        data = os.read(reading, 65536)
        if not data:
            break
        said += data
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    rows = [json.loads(line) for line in said.split(b"\n") if line]
    return {"status": status, "said": rows}


def main() -> None:
    """Jobs until stdin ends."""
    install_hands()
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
