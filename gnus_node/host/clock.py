"""Wall time as a fixed base plus trio's clock.

Why not ask the system every time: a node whose wall time is tied to trio's clock runs in virtual time under ``MockClock``, and its
wall time never steps backwards, whatever NTP does to the machine. The price is drift: trio's clock stands still while a machine sleeps,
so ``drift_ms`` says how far the system's own wall clock has moved away (``doctor`` shows it).

Invariants: ``wall_ms`` never decreases; two clocks with the same fixed base in one trio run agree at every moment, whenever they were
made (DECISIONS, Store and time).
"""

from __future__ import annotations

import time

import trio


def _system_wall_ms() -> int:
    return time.time_ns() // 1_000_000


class SystemClock:
    """The Clock port. Make it inside ``trio.run``: the base is measured once, at construction.

    ``base_ms`` fixes the base instead: the wall time, in milliseconds since the Unix epoch, at which trio's clock stood at zero, which
    is where a ``MockClock`` starts.
    """

    __slots__ = ("_base_ms", "_fixed")

    def __init__(self, base_ms: int | None = None) -> None:
        self._fixed = base_ms is not None
        self._base_ms = base_ms if base_ms is not None else _system_wall_ms() - self._trio_ms()

    @staticmethod
    def _trio_ms() -> int:
        return int(trio.current_time() * 1000)

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._base_ms + self._trio_ms()

    def monotonic(self) -> float:
        """Seconds on trio's clock."""
        return trio.current_time()

    def drift_ms(self) -> int:
        """How far the system's wall clock is ahead of this one, in milliseconds; 0 where the base was fixed by the caller."""
        return 0 if self._fixed else _system_wall_ms() - self.wall_ms()
