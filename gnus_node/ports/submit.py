"""What the API and the command line ask of the ingress: submit a question, follow it, look it up.

These are values inside one process, not records: the ingress turns an ``Ask`` into a signed mandate, and hands back what the verified
chain supports.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gnus_node.records.enums import AnswerType, KeyMode, Outcome, PrivacyMode, Proof


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the API key (or the node's own socket) established it."""

    tenant: str
    project: str
    principal: str
    key_mode: KeyMode
    key_id: str
    scopes: frozenset[str] = frozenset({"ask"})


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. ``context`` holds earlier turns as plain text, oldest first. None means the policy's own value."""

    question: str
    context: str = ""
    answer_type: AnswerType = AnswerType.TEXT
    max_tokens: int | None = None
    max_wall_ms: int | None = None
    max_spend: int | None = None
    privacy_mode: PrivacyMode | None = None
    idempotency_key: str | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """One source the answer rests on: its URI, title, class, the passage's span, and when it was last known fresh."""

    uri: str
    title: str
    source_class: str
    span: tuple[int, int]
    fresh_at_ms: int
    quote: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The terminal state of a request: an answer, an abstention with its reason, or a typed error."""

    request_id: str
    audit_id: str
    outcome: Outcome
    answer: str
    answer_type: AnswerType
    sources: tuple[Source, ...]
    route: Mapping[str, Any]
    backends: tuple[Mapping[str, str], ...]
    agreement: float | None
    latency_ms: Mapping[str, float]
    usage: Mapping[str, int]
    verdict: Proof | None
    reason_code: str = "OK"
    reason: str = ""
    pending_approvals: tuple[Mapping[str, Any], ...] = ()
    effects: tuple[Mapping[str, Any], ...] = ()
    created_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """A step of a request under way, for status comments: stage, state, and ids or counts only."""

    request_id: str
    number: int
    stage: str
    state: str
    at_ms: int
    facts: Mapping[str, str | int] = field(default_factory=dict)


StatusSink = Callable[[Status], Awaitable[None]]


class Submit(Protocol):
    """The ingress as the API sees it."""

    async def ask(self, caller: Caller, ask: Ask, *, on_status: StatusSink | None = None) -> Answered:
        """Accept durably, run to a terminal state and return it. Raises ``GnusError`` where nothing was accepted:
        ``BUSY``, ``RATE_LIMITED``, ``TOO_LARGE``, ``IDEMPOTENCY_MISMATCH``, ``FORBIDDEN``. Cancelling cancels drafts and reads,
        never an effect that is executing."""

    async def lookup(self, caller: Caller, request_id: str) -> Answered | None:
        """The terminal state of a request of the caller's tenant, or None while it runs. Raises ``NOT_FOUND``."""

    async def models(self) -> list[Mapping[str, Any]]:
        """What ``/v1/models`` lists: the swarm's own model name ``gnus`` and each expert reachable now."""
