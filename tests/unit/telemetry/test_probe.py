"""Probes: the same run gives the same hash, a different one does not, and the trace stays bounded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.enums import Outcome
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.metrics import PrometheusMetrics
from gnus_node.telemetry.probe import FEEDS, MAX_POINTS, MAX_REQUESTS, Feed, NullProbe, RecordingProbe

facts = st.dictionaries(
    st.sampled_from(["request_id", "code", "count", "stage"]), st.integers(0, 99) | st.sampled_from(["a", "b", "ab"]), max_size=4
)
runs = st.lists(st.tuples(st.sampled_from(["one", "two", "onet"]), facts), max_size=12)


def replay(run: list[tuple[str, dict[str, str | int]]]) -> str:
    probe = RecordingProbe()
    for name, given_facts in run:
        probe.point(name, **given_facts)
    return probe.trace_hash()


@settings(deadline=None, max_examples=50)
@given(runs, runs)
def test_the_hash_is_the_run(one: list[tuple[str, dict[str, str | int]]], two: list[tuple[str, dict[str, str | int]]]) -> None:
    assert (replay(one) == replay(two)) == (one == two)
    assert replay([(n, dict(reversed(f.items()))) for n, f in one]) == replay(one), "the order of facts means nothing"


def test_points_are_kept_by_request_in_order() -> None:
    probe = RecordingProbe()
    probe.point("accepted", request_id="r1")
    probe.point("ticked")
    probe.point("ended", request_id="r1", outcome=Outcome.ANSWERED, commits=2)
    assert [p.name for p in probe.trace("r1")] == ["accepted", "ended"]
    assert dict(probe.trace("r1")[1].facts) == {"request_id": "r1", "outcome": "answered", "commits": 2}
    with pytest.raises(TypeError):
        probe.trace("r1")[0].facts["request_id"] = "r9"  # type: ignore[index]
    assert [p.name for p in probe.trace()] == ["ticked"]
    assert probe.trace("r2") == ()


def test_the_trace_is_bounded_and_the_hash_is_not() -> None:
    probe = RecordingProbe()
    hashes = set()
    for number in range(MAX_POINTS + 3):
        probe.point("step", request_id="r0", number=number)
        hashes.add(probe.trace_hash())
    assert len(probe.trace("r0")) == MAX_POINTS
    assert probe.dropped == 3
    assert len(hashes) == MAX_POINTS + 3
    for number in range(1, MAX_REQUESTS + 1):
        probe.point("accepted", request_id=f"r{number}")
    assert probe.trace("r0") == ()
    assert len(probe.trace("r1")) == 1


@pytest.mark.parametrize(
    "fact", [{"x": 1.5}, {"x": b"raw"}, {"x": "y" * 300}, {"x": "a\nb"}, {"question": "why"}, {"x": 2**70}, {"x": None}]
)
def test_facts_are_ids_codes_and_counts(fact: dict[str, object]) -> None:
    probe = RecordingProbe()
    empty = probe.trace_hash()
    with pytest.raises(GnusError, match="INTERNAL"):
        probe.point("step", **fact)  # type: ignore[arg-type]
    assert probe.trace_hash() == empty
    assert probe.passed == 0


def test_durable_points_are_counted_and_callbacks_may_cut_the_power() -> None:
    class PowerCut(Exception):
        pass

    seen: list[str] = []

    def cut(name: str, _facts: object) -> None:
        seen.append(name)
        if name == "effect.executing.committed":
            raise PowerCut

    metrics = PrometheusMetrics()
    probe = RecordingProbe(metrics=metrics, callbacks=[cut])
    probe.point("acceptance.committed", request_id="r")
    with pytest.raises(PowerCut):
        probe.point("effect.executing.committed", request_id="r")
    assert seen == ["acceptance.committed", "effect.executing.committed"]
    text = metrics.render().decode()
    assert 'gnus_durable_commits_total{point="acceptance"} 1.0' in text
    assert 'gnus_durable_commits_total{point="executing"} 1.0' in text
    for name, feed in FEEDS.items():
        RecordingProbe(metrics=metrics, feeds={name: feed}).point(name)
    assert 'point="other"' not in metrics.render().decode(), "every feed is declared"
    with pytest.raises(GnusError):
        RecordingProbe(metrics=metrics, feeds={"x": Feed("undeclared", {})}).point("x")


def test_a_null_probe_passes_everything() -> None:
    NullProbe().point("anything", request_id="r", count=1)
