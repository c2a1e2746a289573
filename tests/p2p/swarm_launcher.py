"""Runs the nodes of one swarm, each in a process of its own over libp2p: one JSON job a line on stdin, one JSON answer a line on stdout.

The launcher imports everything once and forks a child for each start, so that a killed node is back in a moment. Where a node passes the point
that ``arm.json`` in the swarm's folder names, it sends the signal there to the process ids there, itself among them perhaps: so any role can be
killed at any point of the flow. The children end when the launcher does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import trio

from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.net.libp2p import network as _imported_before_the_fork
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Ports, open_node
from gnus_node.process import serve_doors
from gnus_node.swarm.commands import node_settings
from gnus_node.telemetry.log import FileSink, make_log
from tests.nodes import install_hands, loading

ARM = "arm.json"
FIRED = "fired.json"
assert _imported_before_the_fork


class Trigger:
    """A probe that fires once, for the whole swarm, at the armed point."""

    def __init__(self, folder: Path) -> None:
        self._arm, self._fired = folder / ARM, folder / FIRED

    def point(self, name: str, **_facts: str | int) -> None:
        try:
            armed = json.loads(self._arm.read_text())
        except (FileNotFoundError, ValueError):
            return
        if name not in armed["points"]:
            return
        try:
            # Whoever moves the file fires.
            self._arm.rename(self._fired)
        except FileNotFoundError:
            return
        me = os.getpid()
        for pid in sorted(armed["pids"], key=lambda pid: pid == me):
            os.kill(pid, getattr(signal, armed["signal"]))


async def run(file: Path, name: str, lifeline: int) -> None:
    """One node until the lifeline ends."""
    clock, folder = SystemClock(), file.parent
    log = make_log(FileSink(folder / f"{name}.log"), clock=clock, level="info")
    ports = Ports(clock, SystemEntropy(), ThreadOffload(), MemoryBus(), Trigger(folder), log, loading(folder))

    async def watch(scope: trio.CancelScope) -> None:
        async with trio.lowlevel.FdStream(lifeline) as stream:
            await stream.receive_some(1)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        async with open_node(node_settings(file, name), ports) as node, trio.open_nursery() as doors:
            await doors.start(serve_doors, node, log)
            await trio.sleep_forever()


def child(file: Path, name: str, lifeline: int) -> int:
    """The forked process: its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        trio.run(run, file, name, lifeline)
    except BaseException:
        (file.parent / f"{name}.failed").write_text(traceback.format_exc())
        return 1
    return 0


def main() -> None:
    """Jobs until stdin ends."""
    install_hands()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    reading, writing = os.pipe()
    for line in sys.stdin:
        job: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            os._exit(child(Path(job["file"]), job["name"], reading))
        print(json.dumps({"pid": pid}), flush=True)


if __name__ == "__main__":
    main()
