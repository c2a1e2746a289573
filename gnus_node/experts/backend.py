"""The expert trait: what an expert is given, what it emits, and who it is (18.1.3.2; DESIGN.md section 9).

A backend is one model, or one rule, behind one interface. It gets text and passages, never a handle to a tool, a socket or a file.

The stream contract, the same for every backend:
- ``(Token | ToolCall)*``, then exactly one ``Draft`` and one ``Usage``, then ``Done`` as the last event. A failure is a ``GnusError``.
- Leaving the ``generate`` block cancels what still runs. ``Generation.usage`` is set on every way out, also after a failure or a
  cancellation, because settlement accounts for every generation; numbers the server did not give are marked ``counted``.
- Proposed tool calls are data (18.1.3.2.6). Confidence without a calibration is 0 and carries no vote.

``experts.collect`` is the consumer that enforces bounds, deadline and contract on all of them.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import trio

from gnus_node.records.base import SCORE_ONE
from gnus_node.records.enums import AnswerType, BackendKind, Domain, ExpertRole, UsageSource
from gnus_node.records.errors import CODES

BYTES_PER_TOKEN = 4
"""The estimate behind ``counted`` usage: UTF-8 bytes to a token, rounded up."""


class Health(StrEnum):
    """Whether a backend would take a request now."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    FAILING = "failing"
    CLOSED = "closed"


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """Who answers; copied into the registry entry and every attestation, so that a rule never poses as a model."""

    backend_id: str
    kind: BackendKind
    model_id: str
    engine: str
    engine_version: str
    model_license: str
    artifact_sha256: bytes | None = None
    prompt_style: str = "none"
    """``chat``, ``completion``, or ``none`` for backends without a prompt."""
    ctx: int = 0
    """Context window in tokens; 0 means not token-bound."""
    slots: int = 1
    """Generations at a time."""
    domains: tuple[Domain, ...] = (Domain.GENERAL,)
    roles: tuple[ExpertRole, ...] = (ExpertRole.PRIMARY_DRAFT,)
    capabilities: tuple[str, ...] = ()
    """Canonical capabilities it may propose, for its manifest."""
    calibration_id: str | None = None
    supports: frozenset[str] = frozenset()
    """Probed or inherent features, e.g. ``usage``, ``seed``, ``json_schema``, ``tools``, ``cancel``."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of evidence. ``text`` is data from outside, whatever it says; ``trusted`` is the caller's own judgement of its source."""

    evidence_id: str
    title: str
    """A heading, or a path of headings joined by `` > ``."""
    text: str
    uri: str = ""
    source_class: str = ""
    fresh_at_ms: int = 0
    corpus: str = ""
    trusted: bool = False
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that may be proposed: its name, what it does, the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GenRequest:
    """One generation. Times are on trio's clock; ``deadline`` is absolute."""

    request_id: str
    question: str
    context: str = ""
    """Earlier turns and permitted memory, oldest first."""
    passages: tuple[Passage, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    tool_outputs: tuple[Passage, ...] = ()
    """Sanitised, attested outputs of this request's earlier turns."""
    max_tokens: int = 256
    temperature_milli: int = 0
    """Sampling temperature in thousandths."""
    seed: int | None = None
    stop: tuple[str, ...] = ()
    json_schema: Mapping[str, Any] | None = None
    answer_type: AnswerType = AnswerType.TEXT
    deadline: float = math.inf
    turn: int = 0

    @property
    def sources(self) -> tuple[Passage, ...]:
        """All that may be cited: tool outputs first, since the question asked for them."""
        return self.tool_outputs + self.passages


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of provisional text, in order."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A proposal; nothing here executes it."""

    name: str
    arguments: Mapping[str, Any]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the generation used. ``wall_ms`` is inference alone; ``queue_ms`` the wait for a slot, added by the limiter."""

    prompt: int
    completion: int
    cached: int
    wall_ms: int
    queue_ms: int
    source: UsageSource


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start:end`` of the text of passage ``evidence_id``."""

    evidence_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Draft:
    """The answer, or an abstention (``abstained`` set, ``answer`` empty)."""

    answer: str
    answer_type: AnswerType = AnswerType.TEXT
    confidence: int = 0
    """Score 0..10000: calibrated probability of being right. 0 without ``calibration_id`` means uncalibrated."""
    calibration_id: str | None = None
    evidence_ids: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    claims: tuple[str, ...] = ()
    """Statements of the answer that can be checked one by one."""
    rivals: tuple[Span, ...] = ()
    """Spans that fit the question as well and say otherwise; with an abstention ``AMBIGUOUS`` the things it may mean."""
    abstained: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.confidence <= SCORE_ONE or (self.confidence and self.calibration_id is None):
            raise ValueError("confidence is 0..10000, and 0 without a calibration")
        if self.abstained is not None and (self.answer or self.confidence or self.abstained not in CODES):
            raise ValueError("an abstention has a known reason code, no answer and no confidence")


@dataclass(frozen=True, slots=True)
class Done:
    """The last event."""

    finish_reason: FinishReason


GenEvent = Token | ToolCall | Usage | Draft | Done


def abstain(reason_code: str = "ABSTAINED") -> Draft:
    """A Draft that declines to answer, with a code of the error table."""
    return Draft("", abstained=reason_code)


def estimate_tokens(text: str) -> int:
    """Tokens of a text where nobody counted them."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


class Generation:
    """One running generation: an iterator of events, and the usage that stands when the block is left."""

    __slots__ = ("_events", "usage")

    def __init__(self, events: AsyncGenerator[GenEvent, None]) -> None:
        self._events = events
        self.usage: Usage | None = None
        """The first usage seen; set at the latest when the block ends."""

    def __aiter__(self) -> AsyncIterator[GenEvent]:
        return self

    async def __anext__(self) -> GenEvent:
        event = await self._events.__anext__()
        if isinstance(event, Usage) and self.usage is None:
            self.usage = event
        return event


class ExpertBackend(Protocol):
    """One expert. ``open`` before the first ``generate``; ``info`` is final once opened."""

    @property
    def info(self) -> BackendInfo:
        """Who this is."""

    async def open(self) -> None:
        """Make ready: load, probe. Raises ``CONFIG``, ``UNREACHABLE``, ``BACKEND_FAILED``, ``MALFORMED``."""

    async def aclose(self) -> None:
        """Let go of everything; safe to call twice."""

    async def health(self) -> Health:
        """Whether it would take a request now; never raises for a sick backend."""

    def generate(self, req: GenRequest) -> AbstractAsyncContextManager[Generation]:
        """Start one generation; leaving the block cancels it. Raises ``GnusError`` from the block or from the iterator."""


@dataclass(slots=True)
class Meter:
    """Counts a generation while it runs, for the usage of one that never gets to report its own."""

    prompt: int = 0
    text_bytes: int = 0
    source: UsageSource = UsageSource.COUNTED
    started: float = field(default_factory=trio.current_time)

    def usage(self) -> Usage:
        """Usage as of now."""
        completion = -(-self.text_bytes // BYTES_PER_TOKEN)
        return Usage(self.prompt, completion, 0, self.wall_ms(), 0, self.source)

    def wall_ms(self) -> int:
        """Milliseconds since the generation began."""
        return max(0, round((trio.current_time() - self.started) * 1000))


@asynccontextmanager
async def running(events: AsyncGenerator[GenEvent, None], meter: Meter) -> AsyncIterator[Generation]:
    """The block around an event generator: closes it on the way out and settles the usage.

    The generator must clean up without waiting on the network (its own cleanup is shielded where it must).
    """
    generation = Generation(events)
    try:
        yield generation
    finally:
        if generation.usage is None:
            generation.usage = meter.usage()
        await events.aclose()


class RuleBackend:
    """Base of the deterministic backends: one pure function from request to proposals and draft."""

    def __init__(self, info: BackendInfo) -> None:
        self._info = info

    @property
    def info(self) -> BackendInfo:
        """Who this is."""
        return self._info

    async def open(self) -> None:
        """Nothing to make ready."""

    async def aclose(self) -> None:
        """Nothing to let go of."""

    async def health(self) -> Health:
        """Always ready."""
        return Health.OK

    def decide(self, req: GenRequest) -> tuple[tuple[ToolCall, ...], Draft]:
        """The rule itself: pure, bounded, total."""
        raise NotImplementedError

    def generate(self, req: GenRequest) -> AbstractAsyncContextManager[Generation]:
        """One generation: the rule's outcome as events."""
        meter = Meter(source=UsageSource.NONE)
        return running(self._events(req, meter), meter)

    async def _events(self, req: GenRequest, meter: Meter) -> AsyncGenerator[GenEvent, None]:
        await trio.lowlevel.checkpoint()
        calls, draft = self.decide(req)
        for call in calls:
            yield call
        yield draft
        yield meter.usage()
        yield Done(FinishReason.STOP)


def with_queue(usage: Usage, queue_ms: int) -> Usage:
    """The usage with the wait for a slot beside it; a wait the backend saw itself adds to ours."""
    return replace(usage, queue_ms=usage.queue_ms + queue_ms)
