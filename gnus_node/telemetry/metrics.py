"""Metrics over prometheus-client, with a registry of their own: several nodes live in one process (18.1.8.2).

What may be counted stands in ``declared``; an undeclared name or label is a fault of the caller and raises. A label *value* is data: one
outside its declared set, out of form, or beyond ``MAX_SERIES`` counts as ``other``, so no peer can grow the process or write text here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from gnus_node.records.errors import GnusError
from gnus_node.telemetry.declared import MAX_LABEL_CHARS, MAX_SERIES, METRICS, OTHER, Label, Metric, MetricKind, metrics_table

__all__ = ["CONTENT_TYPE", "METRICS", "NullMetrics", "PrometheusMetrics", "metrics_table"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Content type of ``render()``."""
_VALUE = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:/@+-]{{0,{MAX_LABEL_CHARS - 1}}}")


class _Without(Collector):
    """A registry without prometheus-client's ``_created`` samples: they carry the machine's clock and nobody reads them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Family]:
        for family in self._registry.collect():
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family


class PrometheusMetrics:
    """Implements ``ports.host.Metrics``. Raises ``INTERNAL`` for what is not declared and for values that are no measurement."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._gauges: dict[str, Gauge] = {}
        self._series: dict[str, set[tuple[str, ...]]] = {name: set() for name in METRICS}
        for row in METRICS.values():
            labels = [label.name for label in row.labels]
            if row.kind is MetricKind.COUNTER:
                self._counters[row.name] = Counter(row.name, row.help, labels, namespace="gnus", registry=self._registry)
            elif row.kind is MetricKind.HISTOGRAM:
                self._histograms[row.name] = Histogram(
                    row.name, row.help, labels, namespace="gnus", registry=self._registry, buckets=row.buckets
                )
            else:
                self._gauges[row.name] = Gauge(row.name, row.help, labels, namespace="gnus", registry=self._registry)

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add ``amount`` (not negative) to a counter."""
        row = _declared(name, MetricKind.COUNTER)
        if amount < 0:
            raise GnusError("INTERNAL", f"counter {name} counted down")
        values = self._values(row, labels)
        found = self._counters[name]
        (found.labels(*values) if values else found).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add one observation (finite, not negative), in the metric's unit."""
        row = _declared(name, MetricKind.HISTOGRAM)
        if not math.isfinite(value) or value < 0:
            raise GnusError("INTERNAL", f"histogram {name} got a value that is no measurement")
        values = self._values(row, labels)
        found = self._histograms[name]
        (found.labels(*values) if values else found).observe(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge to a finite value."""
        row = _declared(name, MetricKind.GAUGE)
        if not math.isfinite(value):
            raise GnusError("INTERNAL", f"gauge {name} got a value that is no measurement")
        values = self._values(row, labels)
        found = self._gauges[name]
        (found.labels(*values) if values else found).set(value)

    def render(self) -> bytes:
        """The Prometheus text exposition of this node (content type ``CONTENT_TYPE``)."""
        return generate_latest(_Without(self._registry))

    def _values(self, row: Metric, given: dict[str, str]) -> tuple[str, ...]:
        """Label values in declared order, bounded. Raises ``INTERNAL`` unless exactly the declared labels are given."""
        if len(given) != len(row.labels) or any(label.name not in given for label in row.labels):
            raise GnusError("INTERNAL", f"metric {row.name} takes the labels {', '.join(label.name for label in row.labels) or 'none'}")
        values = tuple([_bounded(label, given[label.name]) for label in row.labels])
        seen = self._series[row.name]
        if values in seen:
            return values
        if len(seen) >= MAX_SERIES:
            # Closed labels keep their value: only what made the set grow is folded together.
            return tuple([v if label.values else OTHER for label, v in zip(row.labels, values, strict=True)])
        seen.add(values)
        return values


class NullMetrics:
    """Counts nothing, and refuses nothing: for tests and tools outside a node."""

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Nothing."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Nothing."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Nothing."""


def _declared(name: str, kind: MetricKind) -> Metric:
    row = METRICS.get(name)
    if row is None or row.kind is not kind:
        raise GnusError("INTERNAL", f"no {kind} of this name is declared in telemetry.declared")
    return row


def _bounded(label: Label, value: str) -> str:
    text = str(value)
    if label.values:
        return text if text in label.values else OTHER
    return text if _VALUE.fullmatch(text) else OTHER
