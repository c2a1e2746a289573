"""The table of every metric this node exposes; a name that is not here cannot be counted (18.1.8.2).

Names carry their unit (``_ms``); the exposition adds the namespace ``gnus_`` and, on counters, ``_total``. Labels are ids and codes with a
bounded number of values, never user text. Inference is ``compute_ms`` and never inside ``overhead_ms``; the wait for a durable commit is
``commit_wait_ms`` and neither.
"""

# house: pure

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gnus_node.records.enums import AttestationPhase, BackendKind, Outcome, TrustClass, WireEnum
from gnus_node.records.errors import CODES

MAX_SERIES = 256
"""Most label combinations of one metric; later ones count under ``OTHER`` in every open label (closed sets keep their bound)."""
MAX_LABEL_CHARS = 64
OTHER = "other"
"""Stands for a label value outside its declared set, out of form, or beyond ``MAX_SERIES``."""

MS_BUCKETS = (
    *(0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 20.0, 35.0, 60.0, 100.0, 200.0, 400.0, 800.0),
    *(1_600.0, 3_000.0, 6_000.0, 12_000.0, 30_000.0, 60_000.0, 120_000.0),
)
"""Upper bounds in milliseconds; 8 and 20 are the goals for one request's overhead."""
COMMIT_BUCKETS = (0.0, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0)


class MetricKind(WireEnum):
    """What a metric is."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Label:
    """One label. ``values`` closes its set; empty means any short identifier, up to ``MAX_SERIES`` of them."""

    name: str
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table."""

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[Label, ...]
    help: str
    buckets: tuple[float, ...] = ()


def _one_of(name: str, values: Iterable[str]) -> Label:
    return Label(name, frozenset(str(v) for v in values))


def _counter(name: str, unit: str, text: str, *labels: Label) -> Metric:
    return Metric(name, MetricKind.COUNTER, unit, labels, text)


def _timing(name: str, text: str, *labels: Label) -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, "ms", labels, text, MS_BUCKETS)


def _gauge(name: str, unit: str, text: str, *labels: Label) -> Metric:
    return Metric(name, MetricKind.GAUGE, unit, labels, text)


_BACKEND = _one_of("backend_kind", BackendKind)
_CODE = _one_of("code", CODES)
_TRUST = _one_of("trust_class", TrustClass)

_ROWS: tuple[Metric, ...] = (
    _timing("routing_ms", "classifying, planning and signing the plan"),
    _timing("dispatch_ms", "a stage's order and answer on their way, without the work itself"),
    _timing("compute_ms", "inference: an expert's backend at work", _BACKEND),
    _timing("verification_ms", "checking records, claims and chains"),
    _timing("synthesis_ms", "composing and signing the answer"),
    _timing("dry_run_ms", "dry run of one tool proposal"),
    _timing("sanitise_ms", "sanitising one tool output"),
    _timing("attest_ms", "making and signing one tool attestation"),
    _timing("memory_ms", "retrieving governed memory"),
    _timing("grounding_ms", "retrieving grounding evidence"),
    _timing("commit_wait_ms", "waiting for a durable commit"),
    _timing("overhead_ms", "one request without inference and commit wait"),
    _timing("total_ms", "one request from acceptance to its terminal state"),
    _timing("approval_wait_ms", "from a pending approval to its decision"),
    Metric("request_commits", MetricKind.HISTOGRAM, "commits", (), "durable commits of one request before its answer", COMMIT_BUCKETS),
    _counter("requests", "requests", "requests ended, by outcome", _one_of("outcome", Outcome)),
    _counter(
        "expert_outputs", "outputs", "expert calls ended, by result code", Label("expert"), _BACKEND, _one_of("result", ("OK", *CODES))
    ),
    _counter("expert_selected", "outputs", "outputs an answer was composed from (win rate)", Label("expert")),
    _counter("tokens", "tokens", "tokens used", Label("expert"), _one_of("direction", ("prompt", "completion", "cached"))),
    _counter(
        "tool_attestations",
        "attestations",
        "tool attestations made, by reason code",
        Label("tool"),
        _one_of("reason_code", ("OK", *CODES)),
        _one_of("phase", AttestationPhase),
    ),
    _counter("sanitizer_findings", "findings", "risk flags the sanitiser raised", Label("flag")),
    _counter("approvals", "approvals", "approvals, by decision", _one_of("decision", ("pending", "approved", "denied", "expired"))),
    _counter("memory_writes", "events", "memory candidates scored", _one_of("decision", ("write", "skip")), _TRUST),
    _counter(
        "settlements",
        "tasks",
        "tasks settled or refused",
        _one_of("status", ("settled", "rejected")),
        _one_of("reason_code", ("OK", *CODES)),
    ),
    _counter(
        "durable_commits", "commits", "durable commits at the flow's named points", _one_of("point", ("acceptance", "executing", "outcome"))
    ),
    _counter("errors", "errors", "typed errors, by code", _CODE),
    _counter("handler_faults", "faults", "handlers that failed with a fault of this program", Label("service")),
    _gauge("requests_in_flight", "requests", "requests accepted and not ended"),
    _gauge("queue_depth", "requests", "requests waiting at the ingress"),
    _gauge("approvals_waiting", "approvals", "approvals a person has not decided yet"),
    _gauge("memory_events", "events", "memory events admitted", _TRUST),
)

METRICS: dict[str, Metric] = {row.name: row for row in _ROWS}
"""Every metric by name."""


def metrics_table() -> str:
    """The Markdown table for the documentation, generated from ``METRICS``."""
    lines = ["| metric | kind | unit | labels | meaning |", "|---|---|---|---|---|"]
    for row in METRICS.values():
        exposed = f"gnus_{row.name}" + ("_total" if row.kind is MetricKind.COUNTER else "")
        labels = ", ".join(f"`{label.name}`" for label in row.labels) or "-"
        lines.append(f"| `{exposed}` | {row.kind} | {row.unit} | {labels} | {row.help} |")
    return "\n".join(lines) + "\n"
