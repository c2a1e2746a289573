"""Streams kept open to peers, a list for each (peer, service): a call on one costs a fifth of a call on a new one.

Bounded both ways: at most ``MAX_LINES`` of a pair in use and ``MAX_IDLE`` waiting; one that idles is closed before the server would close it,
so a call never starts on a stream that is being closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import trio

from gnus_node.net.libp2p.line import Line
from gnus_node.records.errors import GnusError

MAX_LINES = 128
"""Calls of one node under way to one service of one peer."""
MAX_IDLE = 8
IDLE_S = 30.0
"""A line not used for longer is closed."""
SWEEP_S = 10.0

Place = tuple[bytes, str]
Open = Callable[[bytes, str], Awaitable[Line]]


class Pool:
    """Lines by (peer, service). ``open_line`` makes a new one."""

    def __init__(self, open_line: Open) -> None:
        self._open = open_line
        self._idle: dict[Place, list[Line]] = {}
        self._used: Counter[Place] = Counter()

    @property
    def idle(self) -> int:
        """Lines that wait, all together."""
        return sum(map(len, self._idle.values()))

    async def take(self, place: Place) -> Line:
        """A line for one call; ``give`` must follow. Raises ``BUSY``, and what opening raises."""
        if self._used[place] >= MAX_LINES:
            raise GnusError("BUSY", "too many calls to this service of the peer are under way here", link=place[1])
        waiting = self._idle.get(place, [])
        while waiting:
            line = waiting.pop()
            if not line.over:
                line.silent = False
                self._used[place] += 1
                return line
        opened = False
        self._used[place] += 1
        try:
            line = await self._open(*place)
            opened = True
        finally:
            if not opened:
                self._release(place)
        return line

    async def give(self, place: Place, line: Line, *, good: bool) -> None:
        """Take a line back: kept where its call ended in order, otherwise reset."""
        self._release(place)
        waiting = self._idle.setdefault(place, [])
        if good and not line.over and not line.waiting and len(waiting) < MAX_IDLE:
            line.silent = True
            line.idle_since = trio.current_time()
            waiting.append(line)
        else:
            await line.end()

    def _release(self, place: Place) -> None:
        self._used[place] -= 1
        if not self._used[place]:
            del self._used[place]

    async def sweep(self) -> None:
        """Close what idles, until cancelled."""
        while True:
            await trio.sleep(SWEEP_S)
            await self.close_idle(trio.current_time() - IDLE_S)

    async def close_idle(self, since: float) -> None:
        """Close the lines that idle since before ``since``, and forget those that are over."""
        for place, waiting in list(self._idle.items()):
            old = [line for line in waiting if line.over or line.idle_since <= since]
            kept = [line for line in waiting if line not in old]
            if kept:
                self._idle[place] = kept
            else:
                del self._idle[place]
            for line in old:
                await line.end()
