"""Consuming a generation safely: slots, deadline, output bounds, and the stream contract of ``experts.backend``.

Every backend, the network's included, is untrusted here: a generation that breaks the contract, overruns a bound or never ends becomes a
failure with a code, and its usage is still accounted. Only what the caller itself cancels propagates as a cancellation; then ``on_usage``
has been called.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from gnus_node.experts.backend import (
    BackendInfo,
    Draft,
    ExpertBackend,
    FinishReason,
    Generation,
    GenEvent,
    GenRequest,
    Token,
    ToolCall,
    Usage,
    abstain,
    with_queue,
)
from gnus_node.records.base import MAX_INT
from gnus_node.records.enums import UsageSource
from gnus_node.records.errors import GnusError
from gnus_node.wire.jsontext import canonical

_FAILED = "BACKEND_FAILED"


@dataclass(frozen=True, slots=True)
class OutputBounds:
    """The most one generation may emit."""

    text_bytes: int = 256 * 1024
    """Answer and tokens, each."""
    events: int = 100_000
    tool_calls: int = 16
    argument_bytes: int = 64 * 1024
    references: int = 64
    """Evidence ids, spans, rivals, claims, each."""


DEFAULT_BOUNDS = OutputBounds()


class Limiter:
    """The slots of one backend, first come first served, with a bounded queue."""

    def __init__(self, slots: int, max_waiting: int = 64) -> None:
        if slots < 1 or max_waiting < 0:
            raise ValueError("a limiter needs a slot")
        self._slots = trio.Semaphore(slots, max_value=slots)
        self._max_waiting = max_waiting
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Generations waiting for a slot."""
        return self._waiting

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Hold a slot; yields the milliseconds waited. Raises ``BUSY`` when the queue is full."""
        started = trio.current_time()
        if self._slots.value == 0 or self._waiting:
            if self._waiting >= self._max_waiting:
                raise GnusError("BUSY", "every slot of the backend is taken and its queue is full")
            self._waiting += 1
            try:
                await self._slots.acquire()
            finally:
                self._waiting -= 1
        else:
            self._slots.acquire_nowait()
        try:
            yield round((trio.current_time() - started) * 1000)
        finally:
            self._slots.release()


@dataclass(frozen=True, slots=True)
class Collected:
    """What came of one generation. With a ``failure`` the draft is an abstention with its code; the usage stands all the same."""

    draft: Draft
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    finish_reason: FinishReason
    failure: GnusError | None = None


@dataclass(slots=True)
class _Sink:
    """Folds events, refusing what the contract or the bounds do not allow."""

    bounds: OutputBounds
    sources: frozenset[str]
    tools: frozenset[str]
    text_lengths: Mapping[str, int]
    text_bytes: int = 0
    events: int = 0
    calls: list[ToolCall] = field(default_factory=list)
    draft: Draft | None = None
    usage: Usage | None = None
    done: FinishReason | None = None

    def take(self, event: GenEvent) -> None:
        """Fold one event. Raises ``BACKEND_FAILED`` on a breach."""
        self.events += 1
        if self.events > self.bounds.events or self.done is not None:
            raise GnusError(_FAILED, "the backend emits without end")
        if isinstance(event, Token):
            self.text_bytes += len(event.text.encode("utf-8", "replace"))
            if self.text_bytes > self.bounds.text_bytes:
                raise GnusError(_FAILED, "the backend's text is over its bound")
        elif isinstance(event, ToolCall):
            self._take_call(event)
        elif isinstance(event, Draft):
            if self.draft is not None:
                raise GnusError(_FAILED, "the backend emitted two drafts")
            self._check(event)
            self.draft = event
        elif isinstance(event, Usage):
            if self.usage is not None:
                raise GnusError(_FAILED, "the backend reported its usage twice")
            if any(not 0 <= n <= MAX_INT for n in (event.prompt, event.completion, event.cached, event.wall_ms, event.queue_ms)):
                raise GnusError(_FAILED, "the backend's usage is out of range")
            self.usage = event
        else:
            if self.draft is None or self.usage is None:
                raise GnusError(_FAILED, "the backend ended without a draft or without its usage")
            self.done = event.finish_reason

    def _take_call(self, call: ToolCall) -> None:
        if call.name not in self.tools:
            raise GnusError(_FAILED, "the backend proposed a tool that was not offered")
        if len(self.calls) >= self.bounds.tool_calls or len(canonical(dict(call.arguments)).encode()) > self.bounds.argument_bytes:
            raise GnusError(_FAILED, "the backend's tool proposals are over their bound")
        self.calls.append(call)

    def _check(self, draft: Draft) -> None:
        if len(draft.answer.encode("utf-8", "replace")) > self.bounds.text_bytes:
            raise GnusError(_FAILED, "the backend's answer is over its bound")
        if any(len(x) > self.bounds.references for x in (draft.evidence_ids, draft.spans, draft.rivals, draft.claims)):
            raise GnusError(_FAILED, "the backend's references are over their bound")
        spans = draft.spans + draft.rivals
        if not self.sources.issuperset(draft.evidence_ids) or not self.sources.issuperset(s.evidence_id for s in spans):
            raise GnusError(_FAILED, "the backend cites a passage that it was not given")
        if any(not 0 <= s.start <= s.end <= self.text_lengths[s.evidence_id] for s in spans):
            raise GnusError(_FAILED, "the backend cites a span outside its passage")


def _sink(req: GenRequest, bounds: OutputBounds) -> _Sink:
    lengths = {p.evidence_id: len(p.text) for p in req.sources}
    return _Sink(bounds, frozenset(lengths), frozenset(t.name for t in req.tools), lengths)


_NOTHING = Usage(0, 0, 0, 0, 0, UsageSource.NONE)


async def collect(
    backend: ExpertBackend,
    req: GenRequest,
    *,
    limiter: Limiter | None = None,
    bounds: OutputBounds = DEFAULT_BOUNDS,
    on_token: Callable[[str], None] | None = None,
    on_usage: Callable[[BackendInfo, Usage], None] | None = None,
) -> Collected:
    """Run one generation to its end within ``req.deadline`` (waiting for a slot included) and the bounds.

    Never raises ``GnusError``: a failure is in the result, with the usage up to it. ``on_usage`` is called exactly once on every way
    out on which the backend had begun, the caller's own cancellation included. ``on_token`` must not wait.
    """
    sink = _sink(req, bounds)
    usage = _NOTHING
    failure: GnusError | None = None
    generation: Generation | None = None
    scope = trio.CancelScope(deadline=req.deadline)
    try:
        with scope:
            async with (limiter or Limiter(1)).slot() as queue_ms:
                try:
                    async with backend.generate(req) as generation:
                        async for event in generation:
                            sink.take(event)
                            if on_token is not None and isinstance(event, Token):
                                on_token(event.text)
                finally:
                    measured = generation.usage if generation is not None else None
                    usage = with_queue(measured or _NOTHING, queue_ms)
                    if on_usage is not None:
                        on_usage(backend.info, usage)
    except GnusError as error:
        failure = error
    return _result(sink, usage, failure, timed_out=scope.cancelled_caught)


def _result(sink: _Sink, usage: Usage, failure: GnusError | None, *, timed_out: bool) -> Collected:
    if timed_out:
        failure = GnusError("DEADLINE", "the generation did not end in its time")
    if failure is None:
        if sink.draft is not None and sink.done in (FinishReason.STOP, FinishReason.LENGTH):
            return Collected(sink.draft, tuple(sink.calls), usage, sink.done)
        failure = GnusError(_FAILED, "the backend ended without an outcome")
    reason = FinishReason.DEADLINE if failure.code == "DEADLINE" else FinishReason.ERROR
    return Collected(abstain(failure.code), (), usage, reason, failure)
