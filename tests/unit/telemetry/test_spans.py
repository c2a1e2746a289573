"""Time accounts: overhead never holds inference or commit wait, also where spans overlap."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.errors import GnusError
from gnus_node.telemetry.metrics import PrometheusMetrics
from gnus_node.telemetry.spans import MAX_SPANS, Span, StageTimer, observe_request, union

ticks = st.integers(0, 60)
spans = st.lists(st.tuples(st.sampled_from(list(Span)), ticks, ticks).map(lambda t: (t[0], min(t[1:]), max(t[1:]))), max_size=20)


@settings(deadline=None)
@given(spans, ticks)
def test_the_account_matches_counting_ticks_one_by_one(given_spans: list[tuple[Span, int, int]], end: int) -> None:
    """The oracle walks unit ticks instead of intervals."""
    start = 10
    end = max(start, end)
    timer = StageTimer(float(start))
    for span, a, b in given_spans:
        timer.add(span, float(a), float(b))
    found = timer.durations(float(end))

    def covered(kinds: set[Span]) -> set[int]:
        return {t for span, a, b in given_spans if span in kinds for t in range(a, b) if start <= t < end}

    inference, outside = covered({Span.COMPUTE}), covered({Span.COMPUTE, Span.COMMIT_WAIT})
    assert found.total_ms == pytest.approx((end - start) * 1000)
    assert found.inference_ms == pytest.approx(len(inference) * 1000)
    assert found.commit_wait_ms == pytest.approx(len(outside - inference) * 1000)
    assert found.overhead_ms == pytest.approx((end - start - len(outside)) * 1000)
    assert found.overhead_ms + found.inference_ms + found.commit_wait_ms == pytest.approx(found.total_ms)
    for span in Span:
        assert found.stages.get(span, 0.0) == pytest.approx(len(covered({span})) * 1000)


@settings(deadline=None)
@given(st.lists(st.tuples(ticks, ticks).map(lambda t: (float(min(t)), float(max(t)))), max_size=12))
def test_union_is_sorted_and_apart(intervals: list[tuple[float, float]]) -> None:
    merged = union(intervals)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(merged))
    assert all(any(m[0] <= a and b <= m[1] for m in merged) for a, b in intervals)


def test_parallel_experts_count_once() -> None:
    timer = StageTimer(0.0)
    first = timer.begin(Span.COMPUTE, 1.0)
    second = timer.begin(Span.COMPUTE, 2.0)
    timer.end(first, 4.0)
    timer.end(second, 5.0)
    timer.end(second, 9.0)
    found = timer.durations(6.0)
    assert (found.inference_ms, found.overhead_ms) == (4000.0, 2000.0)


def test_an_open_span_ends_with_the_account() -> None:
    timer = StageTimer(0.0)
    timer.begin(Span.COMPUTE, 2.0)
    assert timer.durations(3.0).inference_ms == 1000.0
    assert timer.durations(5.0).inference_ms == 3000.0


def test_a_peer_cannot_claim_more_inference_than_the_call_took() -> None:
    for claimed, inference in ((1500.0, 1500.0), (99_000.0, 2000.0), (-5.0, 0.0), (float("nan"), 0.0)):
        timer = StageTimer(0.0)
        timer.add_remote(1.0, 3.0, claimed)
        found = timer.durations(4.0)
        assert found.inference_ms == inference
        assert found.stages[Span.DISPATCH] == 2000.0 - inference


def test_a_span_that_ends_before_it_begins_is_a_fault() -> None:
    with pytest.raises(GnusError, match="INTERNAL"):
        StageTimer(0.0).add(Span.ROUTING, 2.0, 1.0)


def test_too_many_spans_are_said_and_not_counted_as_overhead() -> None:
    timer = StageTimer(0.0)
    for _ in range(MAX_SPANS):
        timer.add(Span.ROUTING, 0.0, 0.5)
    assert timer.durations(1.0).complete
    timer.add(Span.COMPUTE, 0.5, 1.0)
    found = timer.durations(1.0)
    assert not found.complete
    metrics = PrometheusMetrics()
    observe_request(metrics, found, "answered")
    text = metrics.render().decode()
    assert "gnus_overhead_ms_count 0.0" in text
    assert "gnus_total_ms_count 1.0" in text
