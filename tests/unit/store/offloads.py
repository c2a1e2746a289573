"""An offload whose commits a test can hold back, on real threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

from gnus_node.host import ThreadOffload

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class GatedOffload:
    """Lets work through while ``gate`` is set; counts what has reached the gate."""

    def __init__(self) -> None:
        self.inner = ThreadOffload({})
        self.gate = trio.Event()
        self.gate.set()
        self.arrived = 0

    def hold(self) -> None:
        """From now on work waits."""
        self.gate = trio.Event()

    async def run(self, work: Callable[[*Ts], T], *args: *Ts, lane: str = "default") -> T:
        """Pass the gate, then run in a thread."""
        self.arrived += 1
        await self.gate.wait()
        return await self.inner.run(work, *args, lane=lane)


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until the condition holds, letting other tasks run."""
    with trio.fail_after(seconds):
        while not condition():
            await trio.lowlevel.checkpoint()
