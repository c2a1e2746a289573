"""The one queue, at the ingress: bounded, fair per tenant (DESIGN.md section 5)."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from gnus_node.records.errors import GnusError


class FairQueue:
    """At most ``running`` requests at a time and ``waiting`` in line; tenants take turns, each tenant's own in order."""

    def __init__(self, running: int, waiting: int) -> None:
        self._free = running
        self._room = waiting
        self._lines: OrderedDict[str, deque[trio.Event]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(len(line) for line in self._lines.values())

    @asynccontextmanager
    async def turn(self, tenant: str, *, wait_s: float = math.inf, bounded: bool = True) -> AsyncIterator[None]:
        """Hold a place while the block runs. Raises ``BUSY`` where the line is full, ``DEADLINE`` after ``wait_s`` in line.

        ``bounded`` False is for requests that were accepted before: they wait in line without counting as too many.
        """
        if self._free > 0 and not self._lines:
            self._free -= 1
        else:
            if bounded and self.waiting >= self._room:
                raise GnusError("BUSY", f"{self._room} requests are waiting")
            with trio.move_on_after(wait_s) as scope:
                await self._wait(tenant)
            if scope.cancelled_caught:
                raise GnusError("DEADLINE", "the request's time ran out in the queue")
        try:
            yield
        finally:
            self._release()

    async def _wait(self, tenant: str) -> None:
        mine = trio.Event()
        line = self._lines.setdefault(tenant, deque())
        line.append(mine)
        try:
            await mine.wait()
        except trio.Cancelled:
            if mine.is_set():
                self._release()
            else:
                line.remove(mine)
                if not line:
                    del self._lines[tenant]
            raise

    def _release(self) -> None:
        """Give the place to the next tenant in turn, or back."""
        if not self._lines:
            self._free += 1
            return
        tenant, line = next(iter(self._lines.items()))
        line.popleft().set()
        if line:
            self._lines.move_to_end(tenant)
        else:
            del self._lines[tenant]
