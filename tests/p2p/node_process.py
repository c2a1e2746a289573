"""A node in a process of its own: ``python -m tests.p2p.node_process SETTINGS``. Says its addresses in one JSON line when it is ready, runs until
its standard input ends."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import trio

from gnus_node.config import load_config
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Ports, open_node
from gnus_node.telemetry.log import StreamSink, make_log


async def main(path: Path) -> None:
    clock = SystemClock()
    log = make_log(StreamSink(sys.stderr), clock=clock)
    ports = Ports(clock, SystemEntropy(), ThreadOffload(), MemoryBus(), log=log)
    async with open_node(load_config(path), ports) as node:
        print(json.dumps({"node_id": node.context.node_id, "addresses": node.addresses}), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(partial(main, Path(sys.argv[1])))
