"""Faults on purpose: any backend wrapped so that it is slow, lies, breaks the stream contract, or never ends. For chaos runs and tests.

One frozen ``Faults`` record is the whole fault model. Every decision comes from the seed and the request's key, so a run repeats exactly,
whatever the order of requests. The kind is always ``faulty``: it can never pose as what it wraps.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Literal, get_args

import trio

from gnus_node.experts.backend import (
    BackendInfo,
    Done,
    Draft,
    ExpertBackend,
    Generation,
    GenEvent,
    GenRequest,
    Health,
    Meter,
    Token,
    Usage,
    running,
)
from gnus_node.experts.replay import request_key
from gnus_node.records.base import SCORE_ONE
from gnus_node.records.enums import BackendKind
from gnus_node.records.errors import GnusError
from gnus_node.wire.digests import sha256

Fault = Literal["truncate", "wrong", "raise", "hang", "duplicate_usage", "no_usage", "two_drafts", "no_done", "flood"]
FLOOD_TEXT = "x" * 65536


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates are in ten-thousandths of requests; at most one fault hits a request. Latency is drawn evenly from its bounds."""

    seed: int = 0
    min_latency_ms: int = 0
    max_latency_ms: int = 0
    truncate: int = 0
    """The answer is cut in half and the stream ends as if complete."""
    wrong: int = 0
    """Another answer, with full confidence under the inner calibration."""
    raise_: int = 0
    """``BACKEND_FAILED`` before the draft."""
    hang: int = 0
    """Never goes on, until cancelled."""
    duplicate_usage: int = 0
    """The usage a second time, tenfold."""
    no_usage: int = 0
    two_drafts: int = 0
    no_done: int = 0
    """The stream stops without ``Done``."""
    flood: int = 0
    """Tokens without end."""
    wrong_answer: str = "42"

    def __post_init__(self) -> None:
        rates = [self.rate(f) for f in get_args(Fault)]
        if min(rates) < 0 or sum(rates) > SCORE_ONE or not 0 <= self.min_latency_ms <= self.max_latency_ms:
            raise GnusError("CONFIG", "rates are 0..10000 with a sum of at most 10000, latencies ordered and not negative")

    def rate(self, fault: Fault) -> int:
        """The rate of one fault."""
        return int(getattr(self, "raise_" if fault == "raise" else fault))


def draw(faults: Faults, key: str, turn: int) -> tuple[int, Fault | None]:
    """Latency in milliseconds and the fault, if any, of one request: pure."""
    digest = sha256(f"{faults.seed}\0{key}\0{turn}".encode())
    latency = faults.min_latency_ms + int.from_bytes(digest[:8], "big") % (faults.max_latency_ms - faults.min_latency_ms + 1)
    point = int.from_bytes(digest[8:16], "big") % SCORE_ONE
    for fault in get_args(Fault):
        if point < faults.rate(fault):
            return latency, fault
        point -= faults.rate(fault)
    return latency, None


class FaultyBackend:
    """A backend with faults."""

    def __init__(self, inner: ExpertBackend, faults: Faults, *, backend_id: str = "") -> None:
        self._inner = inner
        self._faults = faults
        self._id = backend_id

    @property
    def info(self) -> BackendInfo:
        """The inner backend's, under the kind ``faulty``."""
        inner = self._inner.info
        return replace(inner, backend_id=self._id or f"faulty-{inner.backend_id}", kind=BackendKind.FAULTY)

    async def open(self) -> None:
        """Open the inner backend."""
        await self._inner.open()

    async def aclose(self) -> None:
        """Close the inner backend."""
        await self._inner.aclose()

    async def health(self) -> Health:
        """The inner backend's."""
        return await self._inner.health()

    def generate(self, req: GenRequest) -> AbstractAsyncContextManager[Generation]:
        """The inner generation with this request's fault."""
        meter = Meter()
        return running(self._events(req), meter)

    async def _events(self, req: GenRequest) -> AsyncGenerator[GenEvent, None]:
        latency, fault = draw(self._faults, request_key(req), req.turn)
        if latency:
            await trio.sleep(latency / 1000)
        if fault == "hang":
            await trio.sleep_forever()
        while fault == "flood":
            await trio.lowlevel.checkpoint()
            yield Token(FLOOD_TEXT)
        async with self._inner.generate(req) as generation:
            async for event in generation:
                for changed in self._changed(event, fault):
                    yield changed

    def _changed(self, event: GenEvent, fault: Fault | None) -> tuple[GenEvent, ...]:
        """What becomes of one event under the fault."""
        if isinstance(event, Draft):
            if fault == "raise":
                raise GnusError("BACKEND_FAILED", "a fault on purpose")
            if fault == "truncate":
                cut = event.answer[: len(event.answer) // 2]
                return (replace(event, answer=cut, spans=(), claims=()),) if event.abstained is None else (event,)
            if fault == "wrong":
                calibration = self._inner.info.calibration_id
                return (Draft(self._faults.wrong_answer, event.answer_type, SCORE_ONE if calibration else 0, calibration),)
            if fault == "two_drafts":
                return (event, event)
        if isinstance(event, Usage):
            if fault == "duplicate_usage":
                return (event, replace(event, prompt=event.prompt * 10, completion=event.completion * 10))
            if fault == "no_usage":
                return ()
        if isinstance(event, Done) and fault == "no_done":
            return ()
        return (event,)
