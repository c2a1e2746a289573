"""A node's network in a process of its own, for attackers: serves an echo and a held call, listens to gossip with a check that fails on
``boom``, has one raw handler that raises. Prints its address; runs until its standard input ends."""

from __future__ import annotations

import json
import sys
from typing import Any

import trio

from gnus_node.ports.transport import IncomingCall
from tests.p2p.world import opened


async def main(psk: str) -> None:
    async with opened(psk=psk) as net:

        async def echo(call: IncomingCall) -> None:
            await call.send(call.frame)

        async def held(call: IncomingCall) -> None:
            await trio.sleep_forever()

        async def running(call: IncomingCall) -> None:
            await call.send(str(net.transport.running).encode())

        async def broken(_stream: Any) -> None:
            raise RuntimeError("a handler that fails")

        heard = 0

        def check(_author: bytes, data: bytes) -> bool:
            if data == b"boom":
                raise RuntimeError("a check that fails")
            return True

        async def handler(author: bytes, data: bytes) -> None:
            nonlocal heard
            heard += 1
            await net.gossip.publish("gnus/heard/1", data + b" heard")

        net.transport.serve("/gnus/echo/1", echo, limit=64)
        net.transport.serve("/gnus/held/1", held, limit=64)
        net.transport.serve("/gnus/running/1", running, limit=64)
        net.transport._host.set_stream_handler("/raw/broken/1", broken)
        await net.gossip.subscribe("gnus/test/1", check, handler)
        print(json.dumps(net.addresses), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "")
