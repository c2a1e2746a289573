"""The minimum events of a task (18.1.8.1): one table of names and the fields each must carry, and the one way to write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnus_node.ports.host import Log
from gnus_node.records.errors import GnusError


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event: the seed's words for it, and its required fields. Further fields are welcome; ids and codes only."""

    seed: str
    required: tuple[str, ...]


_TASK = ("request_id", "generation")

EVENTS: dict[str, EventRow] = {
    "routing.decided": EventRow(
        "routing decision + experts chosen + confidence", (*_TASK, "intent", "risk", "execution_mode", "experts", "confidence")
    ),
    "expert.finished": EventRow(
        "per-expert latency, tokens, errors",
        (*_TASK, "expert_id", "backend_kind", "latency_ms", "prompt_tokens", "completion_tokens", "code"),
    ),
    "synthesis.finished": EventRow("synthesis latency + agreement score", (*_TASK, "latency_ms", "agreement", "outcome")),
    "memory.scored": EventRow("memory: write score + write / skip + trust class", (*_TASK, "score", "decision", "trust_class")),
    "settlement.closed": EventRow(
        "settlement: attestation status + accounting outcome", (*_TASK, "attestation_status", "accounting", "reason_code")
    ),
    "tool.mediated": EventRow(
        "tool intermediary: dry-run status + sanitizer findings + approval state",
        (*_TASK, "tool_name", "dry_run_status", "findings", "approval_state", "reason_code"),
    ),
}
"""Scores are integers 0..10000; ``code`` is ``OK`` or an error code; ``experts`` and ``findings`` are lists, empty where there are none."""


def emit(log: Log, name: str, **fields: Any) -> None:
    """Write one event of ``EVENTS``. Raises ``INTERNAL`` for an unknown name and for a field that is missing or None."""
    row = EVENTS.get(name)
    if row is None:
        raise GnusError("INTERNAL", "no event of this name is declared in telemetry.events")
    missing = [field for field in row.required if fields.get(field) is None]
    if missing:
        raise GnusError("INTERNAL", f"event {name} lacks {', '.join(missing)}")
    log.info(name, **fields)


def events_table() -> str:
    """The Markdown table for the documentation, generated from ``EVENTS``."""
    lines = ["| event | seed 18.1.8.1 | fields |", "|---|---|---|"]
    lines += [f"| `{name}` | {row.seed} | {', '.join(f'`{f}`' for f in row.required)} |" for name, row in EVENTS.items()]
    return "\n".join(lines) + "\n"
