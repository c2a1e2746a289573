"""Where blocking work goes: threads, a bounded number for each lane; or inline, for runs that must repeat.

Lanes keep one kind of work from starving another: the store's commits (lane ``store``, one at a time) never wait behind document
parsing. Invariant: work that has begun is finished before the caller goes on, also when the caller is cancelled, so no thread ever
touches what its owner has closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, TypeVarTuple, Unpack

import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DEFAULT_LANE = "default"
DEFAULT_LANES: Mapping[str, int] = {DEFAULT_LANE: 4, "store": 1, "keys": 1}
"""Threads for each lane of an ordinary node. ``store`` and ``keys`` each have one writer by design."""


class ThreadOffload:
    """The Offload port on trio's worker threads. ``lanes`` names each lane's threads; a lane it does not name shares ``default``."""

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Mapping[str, int] = DEFAULT_LANES) -> None:
        sizes = {DEFAULT_LANE: DEFAULT_LANES[DEFAULT_LANE], **lanes}
        if min(sizes.values()) < 1:
            raise ValueError("every lane needs at least one thread")
        self._lanes = {name: trio.CapacityLimiter(size) for name, size in sizes.items()}

    async def run(self, work: Callable[[Unpack[Ts]], T], *args: *Ts, lane: str = DEFAULT_LANE) -> T:
        """Run ``work(*args)`` in a thread of the lane and return its result or raise its exception."""
        limiter = self._lanes.get(lane) or self._lanes[DEFAULT_LANE]
        return await trio.to_thread.run_sync(work, *args, limiter=limiter, abandon_on_cancel=False)


class InlineOffload:
    """The Offload port without threads: one checkpoint, then the work, on the loop. The order of works is the order of the tasks."""

    __slots__ = ()

    async def run(self, work: Callable[[Unpack[Ts]], T], *args: *Ts, lane: str = DEFAULT_LANE) -> T:
        """Run ``work(*args)`` at once and return its result or raise its exception. All lanes are one."""
        await trio.lowlevel.checkpoint()
        return work(*args)
