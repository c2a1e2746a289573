"""Rate of requests per API key: a token bucket in exact integers. Pure; the caller brings the time.

A bucket is counted in units of 1/60000 of a request: one millisecond at one request a minute. So a refill is exact, and splitting an
interval in two never gives more or less than the whole.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gnus_node.api.settings import MAX_KEYS

UNIT = 60_000
"""Units of one request."""


@dataclass(frozen=True, slots=True)
class Rate:
    """``per_minute`` requests over time, ``burst`` at once."""

    per_minute: int
    burst: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """``units`` left at ``at_ms`` (milliseconds of a monotonic clock)."""

    units: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The bucket after a try, whether it was allowed, and if not, milliseconds until one would be."""

    bucket: Bucket
    allowed: bool
    wait_ms: int


def full(rate: Rate, now_ms: int) -> Bucket:
    """A bucket nobody took from yet."""
    return Bucket(rate.burst * UNIT, now_ms)


def refill(bucket: Bucket, rate: Rate, now_ms: int) -> Bucket:
    """The bucket at ``now_ms``; a clock that goes back adds nothing."""
    elapsed = max(0, now_ms - bucket.at_ms)
    return Bucket(min(rate.burst * UNIT, bucket.units + elapsed * rate.per_minute), max(now_ms, bucket.at_ms))


def take(bucket: Bucket, rate: Rate, now_ms: int) -> Taken:
    """Take one request if there is one."""
    now = refill(bucket, rate, now_ms)
    if now.units >= UNIT:
        return Taken(Bucket(now.units - UNIT, now.at_ms), True, 0)
    return Taken(now, False, -(-(UNIT - now.units) // rate.per_minute))


class Limiter:
    """One bucket per key id, at most ``bound``. The bucket idle longest makes room: it is the one nearest to full."""

    def __init__(self, rate: Rate, bound: int = MAX_KEYS) -> None:
        self.rate = rate
        self._bound = bound
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key_id: str, now_ms: int) -> Taken:
        """Take one request of ``key_id``."""
        taken = take(self._buckets.get(key_id) or full(self.rate, now_ms), self.rate, now_ms)
        self._buckets[key_id] = taken.bucket
        self._buckets.move_to_end(key_id)
        if len(self._buckets) > self._bound:
            self._buckets.popitem(last=False)
        return taken
