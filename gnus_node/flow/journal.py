"""The ingress's journal: one row for each accepted request, until it is settled (DESIGN.md section 3). Pure coding, and the rows to write.

A row holds ids, states and numbers; the texts lie beside it as parcels under the request's key, the records as signed bytes. Acceptance is
one batch, so one durable commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gnus_node.ports.store import Write
from gnus_node.records.enums import KeyMode, Outcome, WireEnum
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.wire import cbor

JOURNAL, ANSWER, RECORD, IDEMPOTENCY = "journal", "answer", "record", "idempotency"
TASK_SUFFIX = b"/task"
"""Beside a request's answer: the ids of what settlement made of it."""


class Phase(WireEnum):
    """Where a request stands in the journal."""

    ACCEPTED = "accepted"
    ENDED = "ended"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One accepted request."""

    request_id: str
    phase: Phase
    generation: int
    tenant: str
    project: str
    principal: str
    key_mode: KeyMode
    created_at_ms: int
    wall_ms: int
    mandate: bytes
    """Record id of the newest mandate."""

    def encode(self) -> bytes:
        """Stored form."""
        return cbor.encode({name: _plain(getattr(self, name)) for name in self.__slots__})

    def at(self, phase: Phase, generation: int | None = None, mandate: bytes | None = None) -> JournalRow:
        """The row moved on."""
        return replace(self, phase=phase, generation=generation or self.generation, mandate=mandate or self.mandate)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, WireEnum) else value


_ROW_TYPES: Mapping[str, type] = {
    "request_id": str,
    "phase": str,
    "generation": int,
    "tenant": str,
    "project": str,
    "principal": str,
    "key_mode": str,
    "created_at_ms": int,
    "wall_ms": int,
    "mandate": bytes,
}
_ANSWER_TYPES: Mapping[str, type] = {"outcome": str, "response": bytes, "records": tuple, "latency": dict}


def _stored(data: bytes, types: Mapping[str, type], what: str) -> dict[str, Any]:
    """A stored map with exactly these keys and types. Raises ``STORE_CORRUPT``: what this node wrote itself, it reads or says so."""
    try:
        plain = cbor.decode(data)
    except GnusError:
        plain = None
    if type(plain) is not dict or {k: type(v) for k, v in plain.items()} != dict(types):
        raise GnusError("STORE_CORRUPT", f"{what} that does not read")
    return plain


def decode_row(data: bytes) -> JournalRow:
    """Read a stored row. Raises ``STORE_CORRUPT``."""
    plain = _stored(data, _ROW_TYPES, "a journal row")
    try:
        row = JournalRow(**{**plain, "phase": Phase(plain["phase"]), "key_mode": KeyMode(plain["key_mode"])})
    except ValueError:
        raise GnusError("STORE_CORRUPT", "a journal row that does not read") from None
    if len(row.mandate) != 32 or row.generation < 1 or row.wall_ms < 0:
        raise GnusError("STORE_CORRUPT", "a journal row that cannot be")
    return row


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """The stored terminal of a request: the first one stored wins (DECISIONS, Flow)."""

    outcome: Outcome
    response: bytes
    """Record id of the signed AgentResponse."""
    records: tuple[bytes, ...]
    """Ids of every record of the chain, in order."""
    latency_us: Mapping[str, int]
    """Microseconds by stage."""

    def encode(self) -> bytes:
        """Stored form."""
        return cbor.encode(
            {"outcome": str(self.outcome), "response": self.response, "records": self.records, "latency": dict(self.latency_us)}
        )


def decode_answer(data: bytes) -> AnswerRow:
    """Read a stored answer. Raises ``STORE_CORRUPT``."""
    plain = _stored(data, _ANSWER_TYPES, "an answer row")
    ids, latency = (plain["response"], *plain["records"]), plain["latency"]
    whole = all(type(i) is bytes and len(i) == 32 for i in ids) and all(type(k) is str and type(v) is int for k, v in latency.items())
    if not whole or plain["response"] not in plain["records"]:
        raise GnusError("STORE_CORRUPT", "an answer row that does not read")
    try:
        return AnswerRow(Outcome(plain["outcome"]), plain["response"], plain["records"], latency)
    except ValueError:
        raise GnusError("STORE_CORRUPT", "an answer row that does not read") from None


def request_key(request_id: str) -> bytes:
    """A request's key in the tables."""
    return request_id.encode("ascii")


def record_rows(records: Iterable[Signed[Any]]) -> list[Write]:
    """Rows that store records by id."""
    return [Write(RECORD, record.id, record.raw) for record in records]
