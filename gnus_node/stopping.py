"""How a node stops: told once it finishes what is under way, told twice it goes at once (DESIGN.md section 5).

Told by SIGINT, SIGTERM, or the end of standard input where it was asked to watch that. A node that is leaving takes no new question, says so to
its peers, who then call others, and still answers those who have nobody else; in the last half of its time it refuses them, so that
requests end in time rather than in the middle.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import trio

from gnus_node.records.errors import GnusError

if TYPE_CHECKING:
    from gnus_node.node import Node

CHUNK_BYTES = 4096
POLL_S = 0.02


class Stop:
    """Set once by the first word; ``now`` is cancelled by the second, or by the first before ``gently`` was said."""

    def __init__(self, now: trio.CancelScope) -> None:
        self._now = now
        self._told = trio.Event()
        self._gently = False

    def gently(self) -> None:
        """From here on the first word is a request, not an order."""
        self._gently = True

    def tell(self) -> None:
        """A word to stop."""
        if self._told.is_set() or not self._gently:
            self._now.cancel()
        self._told.set()

    async def wait(self) -> None:
        """Wait for the first word."""
        await self._told.wait()

    async def stdin(self) -> None:
        """Hear the end of standard input. Raises ``USAGE`` where that is no pipe."""
        mode = os.fstat(0).st_mode
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
            raise GnusError("USAGE", "--while-stdin needs a pipe as standard input")
        async with trio.lowlevel.FdStream(os.dup(0)) as stream:
            while await stream.receive_some(CHUNK_BYTES):
                pass
        self.tell()


async def drain(node: Node, seconds: float) -> None:
    """Take nothing new, and wait until nothing is under way any more, ``seconds`` at most."""
    owner, idle = node.front.owner, node.front.idle
    node.context.log.info("node.leaving", load=node.presence.load)
    if owner is not None:
        owner.close()
    end = trio.current_time() + seconds
    await node.presence.leave()
    with trio.move_on_at(end):
        if owner is not None:
            await owner.wait_idle()
        if idle is not None:
            await idle()
        while node.presence.load:
            if trio.current_time() > end - seconds / 2:
                node.gate.refusing = True
            await trio.sleep(POLL_S)
