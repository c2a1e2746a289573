"""Where a request's time went: spans by stage, with inference and commit wait kept out of overhead. Pure.

Times are seconds on the caller's monotonic clock, passed in. Spans of one stage overlap when experts run in parallel, so durations are the
length of the *union* of spans; the overhead is what is left of the whole when inference and commit wait are cut out of it. It is therefore
never negative, and never contains inference.
"""

# house: pure

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gnus_node.ports.host import Metrics
from gnus_node.records.enums import WireEnum
from gnus_node.records.errors import GnusError

MAX_SPANS = 4096
"""Most spans of one request; beyond, ``Durations.complete`` is False and says so."""


class Span(WireEnum):
    """The stages time is attributed to. ``compute`` is inference."""

    ROUTING = "routing"
    DISPATCH = "dispatch"
    COMPUTE = "compute"
    VERIFICATION = "verification"
    SYNTHESIS = "synthesis"
    DRY_RUN = "dry_run"
    SANITISE = "sanitise"
    ATTEST = "attest"
    MEMORY = "memory"
    GROUNDING = "grounding"
    COMMIT_WAIT = "commit_wait"


@dataclass(frozen=True, slots=True)
class Durations:
    """The account of one request, in milliseconds. ``total = overhead + inference + commit_wait`` (wait within inference counts there)."""

    total_ms: float
    overhead_ms: float
    inference_ms: float
    commit_wait_ms: float
    stages: Mapping[Span, float] = field(default_factory=dict)
    complete: bool = True


Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points in time as sorted intervals that do not touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _length_ms(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in union(intervals)) * 1000.0


class StageTimer:
    """Collects the spans of one request that began at ``started`` (seconds)."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._spans: dict[Span, list[Interval]] = {}
        self._open: dict[int, tuple[Span, float]] = {}
        self._count = 0
        self._complete = True

    def begin(self, span: Span, now: float) -> int:
        """Open a span; hand the returned token to ``end``. Spans may overlap, also those of one stage."""
        self._count += 1
        if self._count > MAX_SPANS:
            self._complete = False
        else:
            self._open[self._count] = (span, now)
        return self._count

    def end(self, token: int, now: float) -> None:
        """Close a span. Closing twice, or one that was never kept, changes nothing."""
        found = self._open.pop(token, None)
        if found:
            self._keep(found[0], found[1], now)

    def add(self, span: Span, start: float, end: float) -> None:
        """Add a closed span."""
        self.end(self.begin(span, start), end)

    def add_remote(self, start: float, end: float, inference_ms: float) -> None:
        """Add a call to another node: its last ``inference_ms`` (as that node reports) count as compute, the rest as dispatch.

        The report is the peer's word: it is clipped to the call, so a peer cannot claim more time than it was given.
        """
        end = max(start, end)
        inside = min(max(0.0, inference_ms / 1000.0), end - start)
        self.add(Span.DISPATCH, start, end - inside)
        self.add(Span.COMPUTE, end - inside, end)

    def durations(self, now: float) -> Durations:
        """The account at ``now``; spans still open end there. May be asked again later."""
        finish = max(self._started, now)
        spans = {span: list(kept) for span, kept in self._spans.items()}
        for span, start in self._open.values():
            spans.setdefault(span, []).append((start, max(start, now)))
        clipped = {span: self._clip(kept, finish) for span, kept in spans.items()}
        inference = clipped.get(Span.COMPUTE, [])
        outside = inference + clipped.get(Span.COMMIT_WAIT, [])
        total_ms, inference_ms, outside_ms = (finish - self._started) * 1000.0, _length_ms(inference), _length_ms(outside)
        return Durations(
            total_ms,
            max(0.0, total_ms - outside_ms),
            inference_ms,
            max(0.0, outside_ms - inference_ms),
            {span: _length_ms(clipped[span]) for span in Span if span in clipped},
            self._complete,
        )

    def _keep(self, span: Span, start: float, end: float) -> None:
        if end < start:
            raise GnusError("INTERNAL", f"a {span} span that ends before it begins")
        self._spans.setdefault(span, []).append((start, end))

    def _clip(self, intervals: Iterable[Interval], finish: float) -> list[Interval]:
        """What of the spans lies within the request."""
        inside = [(max(start, self._started), min(end, finish)) for start, end in intervals]
        return [(start, end) for start, end in inside if end >= start]


def observe_request(metrics: Metrics, durations: Durations, outcome: str) -> None:
    """Count one ended request and its whole-request times. Stage histograms are fed per span by who does the work."""
    metrics.count("requests", outcome=outcome)
    metrics.observe("total_ms", durations.total_ms)
    if durations.complete:
        metrics.observe("overhead_ms", durations.overhead_ms)
