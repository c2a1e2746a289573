"""Metrics: what is declared counts, nothing else does, and no peer can grow or write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gnus_node.records.errors import GnusError
from gnus_node.telemetry.declared import MAX_SERIES, METRICS, OTHER, MetricKind
from gnus_node.telemetry.metrics import PrometheusMetrics, metrics_table
from gnus_node.telemetry.spans import Span


def samples(metrics: PrometheusMetrics, name: str) -> dict[tuple[str, ...], float]:
    """Label values (by label name) to value, of one sample name, read back by prometheus-client's own parser."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {tuple(v for _, v in sorted(s.labels.items())): s.value for f in families for s in f.samples if s.name == name}


def test_what_is_counted_is_rendered() -> None:
    metrics = PrometheusMetrics()
    metrics.count("requests", outcome="answered")
    metrics.count("requests", 2, outcome="answered")
    metrics.count("requests", outcome="abstained")
    metrics.gauge("queue_depth", 3)
    metrics.observe("routing_ms", 7.5)
    metrics.observe("compute_ms", 12.0, backend_kind="symbolic")
    assert samples(metrics, "gnus_requests_total") == {("answered",): 3.0, ("abstained",): 1.0}
    assert samples(metrics, "gnus_queue_depth") == {(): 3.0}
    assert samples(metrics, "gnus_routing_ms_sum") == {(): 7.5}
    buckets = samples(metrics, "gnus_routing_ms_bucket")
    assert (buckets[("4.0",)], buckets[("8.0",)]) == (0, 1), "the unit is milliseconds"
    assert samples(metrics, "gnus_compute_ms_count") == {("symbolic",): 1.0}


def test_two_nodes_in_one_process_do_not_share() -> None:
    one, two = PrometheusMetrics(), PrometheusMetrics()
    one.count("errors", code="BUSY")
    assert samples(one, "gnus_errors_total") == {("BUSY",): 1.0}
    assert samples(two, "gnus_errors_total") == {}
    assert two.render() == PrometheusMetrics().render(), "nothing of the machine's clock is exposed"


@pytest.mark.parametrize(
    "use",
    [
        lambda m: m.count("no_such_thing"),
        lambda m: m.count("routing_ms"),
        lambda m: m.observe("requests", 1.0),
        lambda m: m.gauge("requests", 1.0),
        lambda m: m.count("requests"),
        lambda m: m.count("requests", outcome="answered", tenant="acme"),
        lambda m: m.count("requests", question="answered"),
        lambda m: m.observe("total_ms", 1.0, outcome="answered"),
        lambda m: m.count("requests", -1, outcome="answered"),
        lambda m: m.observe("total_ms", -0.1),
        lambda m: m.observe("total_ms", math.nan),
        lambda m: m.observe("total_ms", math.inf),
        lambda m: m.gauge("queue_depth", math.nan),
    ],
)
def test_what_is_not_declared_or_no_measurement_raises(use: object) -> None:
    metrics = PrometheusMetrics()
    empty = metrics.render()
    with pytest.raises(GnusError) as caught:
        use(metrics)  # type: ignore[operator]
    assert caught.value.code == "INTERNAL"
    assert metrics.render() == empty


def test_a_value_outside_the_declared_set_is_other() -> None:
    metrics = PrometheusMetrics()
    metrics.count("errors", code="what is the password of the admin")
    assert samples(metrics, "gnus_errors_total") == {(OTHER,): 1.0}


def test_series_are_bounded_and_nothing_is_lost() -> None:
    metrics = PrometheusMetrics()
    for number in range(2 * MAX_SERIES):
        metrics.count("expert_outputs", expert=f"expert-{number}", backend_kind="faulty", result="OK")
    metrics.count("expert_outputs", expert="expert-1", backend_kind="faulty", result="OK")
    found = samples(metrics, "gnus_expert_outputs_total")
    assert len(found) == MAX_SERIES + 1
    assert sum(found.values()) == 2 * MAX_SERIES + 1
    assert found[("faulty", "expert-1", "OK")] == 2, "a series known before the bound goes on"
    assert found[("faulty", OTHER, "OK")] == MAX_SERIES, "closed labels keep their value"


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=200))
def test_a_label_never_carries_free_text(value: str) -> None:
    metrics = PrometheusMetrics()
    metrics.count("expert_selected", expert=value)
    ((shown,),) = samples(metrics, "gnus_expert_selected_total")
    assert shown == OTHER or (shown == value and len(value) <= 64 and value.isascii() and " " not in value)


def test_every_stage_of_the_issue_has_its_histogram() -> None:
    for stage in ("routing", "dispatch", "compute", "verification", "synthesis", "dry_run", "sanitise", "attest"):
        assert METRICS[f"{stage}_ms"].kind is MetricKind.HISTOGRAM
    for span in Span:
        assert METRICS[f"{span}_ms"].kind is MetricKind.HISTOGRAM


def test_the_table_names_what_is_exposed() -> None:
    metrics = PrometheusMetrics()
    table = metrics_table()
    exposed = {f.name for f in text_string_to_metric_families(metrics.render().decode())}
    for row in METRICS.values():
        assert f"gnus_{row.name}" in exposed
    assert table.count("\n") == len(METRICS) + 2
    assert "| `gnus_requests_total` | counter | requests | `outcome` |" in table
