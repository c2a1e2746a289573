"""Time, chance and work: the ports through which the machine reaches the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Clock(Protocol):
    """Wall time and monotonic time. Sleeping and deadlines stay trio's own; ``monotonic`` is trio's clock."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds on trio's clock."""


class Entropy(Protocol):
    """The only source of chance; seeded in virtual runs."""

    def token(self, size: int) -> bytes:
        """``size`` random bytes."""

    def uuid(self) -> str:
        """A random version-4 UUID, lower case."""


class Offload(Protocol):
    """Where blocking work goes: threads in a real node, inline in a virtual run."""

    async def run(self, work: Callable[[Unpack[Ts]], T], *args: *Ts, lane: str = "default") -> T:
        """Run ``work(*args)`` off the loop and return its result. One lane runs at most its own number of works at a time.

        Not abandoned on cancellation: the work ends before the caller goes on, so it must be bounded.
        """


class Probe(Protocol):
    """Named points of the flow, e.g. ``acceptance.committed``: traces, metrics, and where tests cut the power.

    Production adapters record and return; a test's adapter may end the process there.
    """

    def point(self, name: str, **facts: str | int) -> None:
        """The flow is at ``name``. ``facts`` are ids, codes and counts, never user text."""


class Metrics(Protocol):
    """Counters and histograms, by names declared in ``telemetry.metrics``."""

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to a counter."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add one observation, in the unit the name ends with."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""


class Log(Protocol):
    """The structured log. Fields are ids, codes, counts and durations; user text never."""

    def info(self, event: str, **fields: Any) -> Any: ...

    def warning(self, event: str, **fields: Any) -> Any: ...

    def error(self, event: str, **fields: Any) -> Any: ...
