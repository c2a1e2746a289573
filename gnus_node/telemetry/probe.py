"""Probes: the flow's named points as a bounded trace and a running hash, so that two virtual runs can be compared (DESIGN.md rule 4).

The hash covers every point ever passed, in order, also those a full trace no longer holds. Facts are ids, codes and counts.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gnus_node.ports.host import Metrics
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.redact import MAX_FIELD_CHARS, is_text_field
from gnus_node.wire import cbor

MAX_REQUESTS = 256
"""Requests whose points are kept; the one longest untouched goes first."""
MAX_POINTS = 512
"""Points kept of one request, the earliest."""
MAX_FACTS = 16
_MAX_INT = 2**63 - 1

Fact = str | int
Callback = Callable[[str, Mapping[str, Fact]], None]


@dataclass(frozen=True, slots=True)
class Point:
    """One point passed."""

    name: str
    facts: Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Feed:
    """Points of one name count one on a counter, with fixed labels."""

    counter: str
    labels: Mapping[str, str]


FEEDS: Mapping[str, Feed] = MappingProxyType(
    {
        "acceptance.committed": Feed("durable_commits", {"point": "acceptance"}),
        "effect.executing.committed": Feed("durable_commits", {"point": "executing"}),
        "effect.outcome.committed": Feed("durable_commits", {"point": "outcome"}),
    }
)
"""The durable points of DESIGN.md section 3 and no others: counted where they are passed."""


class NullProbe:
    """Passes every point."""

    def point(self, name: str, **facts: Fact) -> None:
        """Nothing."""


class RecordingProbe:
    """Implements ``ports.host.Probe``: trace by request, running hash, metrics, callbacks.

    Callbacks run last, in order, on the caller's stack; what one raises reaches the flow: that is how a test cuts the power.
    Raises ``INTERNAL`` for facts that are no ids, codes or counts.
    """

    def __init__(self, *, metrics: Metrics | None = None, callbacks: Sequence[Callback] = (), feeds: Mapping[str, Feed] = FEEDS) -> None:
        self._metrics = metrics
        self._callbacks = tuple(callbacks)
        self._feeds = feeds
        self._hash = hashlib.sha256(b"gnus/trace/1\x00")
        self._traces: OrderedDict[str, list[Point]] = OrderedDict()
        self.passed = 0
        self.dropped = 0

    def point(self, name: str, **facts: Fact) -> None:
        """Record one point; the fact ``request_id`` says to whose trace it belongs (none: the node's own, ``""``)."""
        plain = _checked(facts)
        self._hash.update(cbor.encode([name, plain]))
        self.passed += 1
        kept = MappingProxyType(plain)
        self._keep(str(plain.get("request_id", "")), Point(name, kept))
        feed = self._feeds.get(name)
        if feed and self._metrics:
            self._metrics.count(feed.counter, 1, **feed.labels)
        for callback in self._callbacks:
            callback(name, kept)

    def trace(self, request_id: str = "") -> tuple[Point, ...]:
        """The kept points of a request, in order."""
        return tuple(self._traces.get(request_id, ()))

    def trace_hash(self) -> str:
        """SHA-256 over all points so far, as hex."""
        return self._hash.hexdigest()

    def _keep(self, request_id: str, point: Point) -> None:
        points = self._traces.setdefault(request_id, [])
        self._traces.move_to_end(request_id)
        if len(points) < MAX_POINTS:
            points.append(point)
        else:
            self.dropped += 1
        if len(self._traces) > MAX_REQUESTS:
            self.dropped += len(self._traces.popitem(last=False)[1])


def _checked(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """The facts as plain text and integers. Raises ``INTERNAL`` for anything else."""
    if len(facts) > MAX_FACTS:
        raise GnusError("INTERNAL", f"a point with more than {MAX_FACTS} facts")
    plain: dict[str, Fact] = {}
    for name, value in facts.items():
        if isinstance(value, int) and abs(value) <= _MAX_INT:
            plain[name] = int(value)
        elif isinstance(value, str) and len(value) <= MAX_FIELD_CHARS and value.isprintable():
            plain[name] = str(value)
        if name not in plain or is_text_field(name):
            raise GnusError("INTERNAL", f"the fact {name[:40]} is no id, code or count")
    return plain
