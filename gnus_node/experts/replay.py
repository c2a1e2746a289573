"""Recorded generations, replayed: the honest deterministic stand-in for a model in tests, demos and virtual runs.

A cassette is a JSON Lines file: a header naming the recorded backend, then one line for each generation: its key and its events. The key is
the SHA-256 of the request's RFC 8785 text without what differs between runs (ids, deadlines, freshness); passages are numbered, so that
evidence ids of another run fit. A request that was not recorded fails ``CASSETTE_MISS``: nothing is ever made up.

The cassette holds answers, so it is as confidential as they are; it holds no questions. ``RecordingBackend`` makes one from any backend.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import trio

from gnus_node.experts.backend import (
    BackendInfo,
    Done,
    Draft,
    ExpertBackend,
    FinishReason,
    Generation,
    GenEvent,
    GenRequest,
    Health,
    Meter,
    Passage,
    Span,
    Token,
    ToolCall,
    Usage,
    running,
)
from gnus_node.ports.host import Offload
from gnus_node.records.enums import AnswerType, BackendKind, UsageSource
from gnus_node.records.errors import GnusError
from gnus_node.wire.digests import sha256
from gnus_node.wire.jsontext import canonical, read_free

VERSION = 1
MAX_CASSETTE_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
MAX_GENERATIONS = 10_000


def request_key(req: GenRequest) -> str:
    """The key of a request, in hex: everything that may change what a backend says, nothing that differs between equal runs."""
    plain = {
        "question": req.question,
        "context": req.context,
        "passages": [_passage(p) for p in req.passages],
        "tool_outputs": [_passage(p) for p in req.tool_outputs],
        "tools": [{"name": t.name, "description": t.description, "schema": dict(t.schema)} for t in req.tools],
        "max_tokens": req.max_tokens,
        "temperature_milli": req.temperature_milli,
        "seed": req.seed,
        "stop": list(req.stop),
        "json_schema": dict(req.json_schema) if req.json_schema is not None else None,
        "answer_type": str(req.answer_type),
        "turn": req.turn,
    }
    return sha256(canonical(plain).encode()).hex()


def _passage(passage: Passage) -> list[str | bool]:
    return [passage.title, passage.text, passage.corpus, passage.source_class, passage.trusted]


# --- events as JSON, evidence ids as numbers


def _numbered(spans: Sequence[Span], ids: Sequence[str]) -> list[list[int]]:
    return [[ids.index(s.evidence_id), s.start, s.end] for s in spans]


def event_to_plain(event: GenEvent, ids: Sequence[str]) -> list[Any]:
    """One event as JSON; ``ids`` are the evidence ids of the request in order. Raises ``MALFORMED`` for an id that is not among them."""
    try:
        if isinstance(event, Token):
            return ["token", event.text]
        if isinstance(event, ToolCall):
            return ["tool_call", event.name, dict(event.arguments), event.reason]
        if isinstance(event, Usage):
            return ["usage", event.prompt, event.completion, event.cached, event.wall_ms, str(event.source)]
        if isinstance(event, Draft):
            fields: dict[str, Any] = {
                "answer": event.answer,
                "answer_type": str(event.answer_type),
                "confidence": event.confidence,
                "calibration_id": event.calibration_id,
                "evidence": [ids.index(e) for e in event.evidence_ids],
                "spans": _numbered(event.spans, ids),
                "claims": list(event.claims),
                "rivals": _numbered(event.rivals, ids),
                "abstained": event.abstained,
            }
            return ["draft", fields]
        return ["done", str(event.finish_reason)]
    except ValueError:
        raise GnusError("MALFORMED", "an event refers to a passage that the request does not hold") from None


def event_from_plain(value: Any, ids: Sequence[str]) -> GenEvent:
    """Read an event. Raises ``MALFORMED``."""
    try:
        match value:
            case ["token", str(text)]:
                return Token(text)
            case ["tool_call", str(name), dict(arguments), str(reason)]:
                return ToolCall(name, arguments, reason)
            case ["usage", int(prompt), int(completion), int(cached), int(wall_ms), str(source)]:
                return Usage(prompt, completion, cached, wall_ms, 0, UsageSource(source))
            case ["draft", dict(fields)]:
                return _draft(fields, ids)
            case ["done", str(reason)]:
                return Done(FinishReason(reason))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        pass  # falls through to the one refusal below
    raise GnusError("MALFORMED", "a cassette holds an event of another form")


def _spans(value: Any, ids: Sequence[str]) -> tuple[Span, ...]:
    return tuple(Span(_at(ids, n), int(start), int(end)) for n, start, end in value)


def _at(ids: Sequence[str], number: int) -> str:
    if number < 0:
        raise IndexError
    return ids[number]


def _draft(fields: Mapping[str, Any], ids: Sequence[str]) -> Draft:
    return Draft(
        answer=str(fields["answer"]),
        answer_type=AnswerType(fields["answer_type"]),
        confidence=int(fields["confidence"]),
        calibration_id=fields["calibration_id"],
        evidence_ids=tuple(_at(ids, n) for n in fields["evidence"]),
        spans=_spans(fields["spans"], ids),
        claims=tuple(str(c) for c in fields["claims"]),
        rivals=_spans(fields["rivals"], ids),
        abstained=fields["abstained"],
    )


# --- cassettes

Recorded = dict[str, list[Any]]


def parse_cassette(data: bytes) -> tuple[str, Recorded]:
    """Backend id of the header, and events by key. Raises ``MALFORMED``, ``TOO_LARGE``."""
    lines = data.split(b"\n")
    header = read_free(lines[0], limit=MAX_LINE_BYTES)
    if not isinstance(header, dict) or header.get("cassette") != VERSION or not isinstance(header.get("recorded"), str):
        raise GnusError("MALFORMED", "not a cassette of a version this node reads")
    found: Recorded = {}
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        value = read_free(line, limit=MAX_LINE_BYTES)
        if not isinstance(value, dict) or not isinstance(value.get("key"), str) or not isinstance(value.get("events"), list):
            raise GnusError("MALFORMED", f"line {number} of the cassette is of another form")
        if found.setdefault(value["key"], value["events"]) != value["events"]:
            raise GnusError("MALFORMED", f"line {number} of the cassette contradicts an earlier line")
        if len(found) > MAX_GENERATIONS:
            raise GnusError("TOO_LARGE", "the cassette holds too many generations")
    return header["recorded"], found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CASSETTE_BYTES + 1)
    except OSError as error:
        raise GnusError("CONFIG", f"the cassette cannot be read: {type(error).__name__}") from None
    if len(data) > MAX_CASSETTE_BYTES:
        raise GnusError("TOO_LARGE", "the cassette is over its bound")
    return data


class ReplayBackend:
    """Plays a cassette. Its ``artifact_sha256`` is the cassette's digest, its ``model_id`` says what was recorded."""

    def __init__(self, info: BackendInfo, path: str, offload: Offload) -> None:
        self._info = replace(info, kind=BackendKind.REPLAY)
        self._path = path
        self._offload = offload
        self._recorded: Recorded | None = None

    @property
    def info(self) -> BackendInfo:
        """Who this is."""
        return self._info

    async def open(self) -> None:
        """Load the cassette. Raises ``CONFIG``, ``MALFORMED``, ``TOO_LARGE``."""
        data = await self._offload.run(_read, self._path)
        recorded, self._recorded = parse_cassette(data)
        self._info = replace(
            self._info,
            model_id=f"replay-of-{recorded}"[:128],
            artifact_sha256=sha256(data),
            supports=frozenset({"cancel", "deterministic"}),
        )

    async def aclose(self) -> None:
        """Forget the cassette."""
        self._recorded = None

    async def health(self) -> Health:
        """Ready once loaded."""
        return Health.CLOSED if self._recorded is None else Health.OK

    def generate(self, req: GenRequest) -> AbstractAsyncContextManager[Generation]:
        """Replay the recorded events. Raises ``CASSETTE_MISS``."""
        meter = Meter(source=UsageSource.NONE)
        return running(self._events(req), meter)

    async def _events(self, req: GenRequest) -> AsyncGenerator[GenEvent, None]:
        await trio.lowlevel.checkpoint()
        if self._recorded is None:
            raise GnusError("BACKEND_FAILED", "the backend is not open")
        key = request_key(req)
        if key not in self._recorded:
            raise GnusError("CASSETTE_MISS", f"no recording under key {key[:16]}")
        ids = [p.evidence_id for p in req.sources]
        for event in [event_from_plain(e, ids) for e in self._recorded[key]]:
            yield event


class RecordingBackend:
    """Wraps any backend and appends each generation that ends to a cassette; a failed or cancelled one is not recorded."""

    def __init__(self, inner: ExpertBackend, path: str, offload: Offload) -> None:
        self._inner = inner
        self._path = path
        self._offload = offload
        self._known: Recorded = {}
        self._writing = trio.Lock()

    @property
    def info(self) -> BackendInfo:
        """Who the inner backend is."""
        return self._inner.info

    async def open(self) -> None:
        """Open the inner backend and the cassette, which continues where it exists. Raises what either raises."""
        await self._inner.open()
        self._known = await self._offload.run(_start, self._path, self._inner.info.backend_id)

    async def aclose(self) -> None:
        """Close the inner backend."""
        await self._inner.aclose()

    async def health(self) -> Health:
        """The inner backend's."""
        return await self._inner.health()

    def generate(self, req: GenRequest) -> AbstractAsyncContextManager[Generation]:
        """The inner backend's generation, recorded."""
        meter = Meter()
        return running(self._events(req, meter), meter)

    async def _events(self, req: GenRequest, meter: Meter) -> AsyncGenerator[GenEvent, None]:
        ids = [p.evidence_id for p in req.sources]
        plain: list[Any] = []
        async with self._inner.generate(req) as generation:
            async for event in generation:
                plain.append(event_to_plain(event, ids))
                if isinstance(event, Token):
                    meter.text_bytes += len(event.text.encode("utf-8", "replace"))
                if isinstance(event, Done):
                    await self._append(request_key(req), plain)
                yield event

    async def _append(self, key: str, events: list[Any]) -> None:
        async with self._writing:
            if key in self._known:
                return  # the first recording stands
            line = canonical({"key": key, "events": events}).encode() + b"\n"
            if len(line) > MAX_LINE_BYTES or len(self._known) >= MAX_GENERATIONS:
                raise GnusError("TOO_LARGE", "the generation does not fit into the cassette")
            await self._offload.run(_add, self._path, line)
            self._known[key] = events


def _start(path: str, backend_id: str) -> Recorded:
    if os.path.exists(path) and os.path.getsize(path):
        recorded, known = parse_cassette(_read(path))
        if recorded != backend_id:
            raise GnusError("CONFIG", "the cassette was recorded from another backend")
        return known
    _add(path, canonical({"cassette": VERSION, "recorded": backend_id}).encode() + b"\n")
    return {}


def _add(path: str, line: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(descriptor, "ab") as file:
            file.write(line)
    except OSError as error:
        raise GnusError("CONFIG", f"the cassette cannot be written: {type(error).__name__}") from None
