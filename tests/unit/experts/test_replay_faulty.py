"""Cassettes: recorded and replayed, hostile files refused. Faults: repeatable, and contained by the collector."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from gnus_node.experts.backend import (
    Done,
    Draft,
    FinishReason,
    GenEvent,
    GenRequest,
    Health,
    Span,
    Token,
    ToolCall,
    ToolSpec,
    Usage,
    abstain,
)
from gnus_node.experts.collect import collect
from gnus_node.experts.faulty import Fault, Faults, FaultyBackend, draw
from gnus_node.experts.replay import RecordingBackend, ReplayBackend, event_from_plain, event_to_plain, parse_cassette, request_key
from gnus_node.records.enums import AnswerType, BackendKind, UsageSource
from gnus_node.records.errors import GnusError

from .helpers import Inline, Scripted, info, passage

USED = Usage(10, 5, 2, 7, 0, UsageSource.REPORTED)
STOP = Done(FinishReason.STOP)
REQUEST = GenRequest(
    "r1",
    "Which port?",
    passages=(passage(1, "Ports", "It is 8080."), passage(2, "Ports", "It is 9090.")),
    tools=(ToolSpec("files.read", "reads", {"type": "object"}),),
)
DRAFT = Draft("8080", evidence_ids=("e1",), spans=(Span("e1", 6, 10),), claims=("8080",), rivals=(Span("e2", 6, 10),))
EVENTS: list[GenEvent] = [Token("80"), Token("80"), ToolCall("files.read", {"path": "x", "n": [1, None]}, "why"), DRAFT, USED, STOP]


async def recorded(path: Path, events: list[GenEvent] | None = None, req: GenRequest = REQUEST) -> None:
    recorder = RecordingBackend(Scripted(events or EVENTS), str(path), Inline())
    await recorder.open()
    await collect(recorder, req)
    await recorder.aclose()


def replaying(path: Path) -> ReplayBackend:
    return ReplayBackend(info("tape"), str(path), Inline())


async def test_what_was_recorded_is_replayed_event_for_event(tmp_path: Path) -> None:
    tape = tmp_path / "a.jsonl"
    await recorded(tape)
    backend = replaying(tape)
    assert await backend.health() is Health.CLOSED
    await backend.open()
    async with backend.generate(REQUEST) as generation:
        assert [e async for e in generation] == EVENTS
    assert generation.usage == USED
    assert (backend.info.kind, backend.info.model_id) == (BackendKind.REPLAY, "replay-of-scripted")
    assert backend.info.artifact_sha256 is not None
    assert await backend.health() is Health.OK
    assert b"Which port" not in tape.read_bytes()
    assert os.stat(tape).st_mode & 0o077 == 0


async def test_ids_and_deadlines_of_another_run_fit(tmp_path: Path) -> None:
    tape = tmp_path / "a.jsonl"
    await recorded(tape)
    backend = replaying(tape)
    await backend.open()
    passages = tuple(replace(p, evidence_id=f"other-{p.evidence_id}", fresh_at_ms=9, score=3.0) for p in REQUEST.passages)
    got = await collect(backend, replace(REQUEST, request_id="r2", deadline=trio.current_time() + 100, passages=passages))
    assert got.draft.evidence_ids == ("other-e1",)
    assert got.draft.rivals == (Span("other-e2", 6, 10),)


@pytest.mark.parametrize(
    "change",
    [
        {"question": "Which port"},
        {"context": "x"},
        {"passages": REQUEST.passages[:1]},
        {"passages": REQUEST.passages[::-1]},
        {"tools": ()},
        {"max_tokens": 1},
        {"temperature_milli": 1},
        {"seed": 0},
        {"stop": ("x",)},
        {"json_schema": {}},
        {"answer_type": AnswerType.JSON},
        {"turn": 1},
        {"passages": (), "tool_outputs": REQUEST.passages},
        {"passages": (replace(REQUEST.passages[0], trusted=True), REQUEST.passages[1])},
    ],
)
async def test_any_other_request_misses_loudly(tmp_path: Path, change: dict[str, Any]) -> None:
    tape = tmp_path / "a.jsonl"
    await recorded(tape)
    backend = replaying(tape)
    await backend.open()
    got = await collect(backend, replace(REQUEST, **change))
    assert got.failure is not None
    assert got.failure.code == "CASSETTE_MISS"


async def test_recording_goes_on_and_the_first_recording_stands(tmp_path: Path) -> None:
    tape = tmp_path / "a.jsonl"
    await recorded(tape)
    await recorded(tape, [Draft("other"), USED, STOP])
    await recorded(tape, [Draft("second"), USED, STOP], replace(REQUEST, question="Another?"))
    _, found = parse_cassette(tape.read_bytes())
    assert len(found) == 2
    assert found[request_key(REQUEST)][3][1]["answer"] == "8080"


async def test_a_cancelled_generation_is_not_recorded(tmp_path: Path) -> None:
    tape = tmp_path / "a.jsonl"
    recorder = RecordingBackend(Scripted(EVENTS), str(tape), Inline())
    await recorder.open()
    async with recorder.generate(REQUEST) as generation:
        async for _ in generation:
            break
    assert parse_cassette(tape.read_bytes())[1] == {}


async def test_a_cassette_of_another_backend_is_not_continued(tmp_path: Path) -> None:
    tape = tmp_path / "a.jsonl"
    await recorded(tape)
    other = RecordingBackend(Scripted(EVENTS, info("other")), str(tape), Inline())
    with pytest.raises(GnusError, match="CONFIG"):
        await other.open()


HEADER = b'{"cassette":1,"recorded":"x"}\n'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"junk",
        b"[]",
        b'{"cassette":2,"recorded":"x"}',
        b'{"cassette":1}',
        HEADER + b"{",
        HEADER + b'{"key":"a"}',
        HEADER + b'{"key":"a","events":[]}\n{"key":"a","events":[1]}\n',
        HEADER + b'{"key":"a","key":"b","events":[]}',
    ],
)
async def test_a_bad_cassette_is_refused_at_open(tmp_path: Path, data: bytes) -> None:
    tape = tmp_path / "bad.jsonl"
    tape.write_bytes(data)
    with pytest.raises(GnusError, match="MALFORMED"):
        await replaying(tape).open()


async def test_a_missing_cassette_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GnusError, match="CONFIG"):
        await replaying(tmp_path / "none").open()


@pytest.mark.parametrize(
    "plain",
    [
        [],
        "x",
        ["draft", {}],
        ["draft", {"answer": "a"}],
        ["usage", 1],
        ["usage", 1, 2, 3, 4, "guessed"],
        ["done", "maybe"],
        ["token", 5],
        ["tool_call", "x", [], ""],
        ["draft", {**event_to_plain(DRAFT, ["e1", "e2"])[1], "evidence": [7]}],
        ["draft", {**event_to_plain(DRAFT, ["e1", "e2"])[1], "evidence": [-1]}],
        ["draft", {**event_to_plain(DRAFT, ["e1", "e2"])[1], "spans": [[0, 1]]}],
        ["draft", {**event_to_plain(DRAFT, ["e1", "e2"])[1], "confidence": 5}],
    ],
)
def test_events_of_another_form_are_refused(plain: Any) -> None:
    with pytest.raises(GnusError, match="MALFORMED"):
        event_from_plain(plain, ["e1", "e2"])


_SPANS = st.builds(Span, st.sampled_from(["e1", "e2"]), st.integers(0, 9), st.integers(0, 9))
_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_DRAFTS = st.one_of(
    st.builds(
        Draft,
        _TEXT,
        st.sampled_from(AnswerType),
        st.just(0),
        st.none(),
        st.lists(st.sampled_from(["e1", "e2"]), max_size=2).map(tuple),
        st.lists(_SPANS, max_size=3).map(tuple),
        st.lists(_TEXT, max_size=2).map(tuple),
        st.lists(_SPANS, max_size=3).map(tuple),
    ),
    st.builds(Draft, _TEXT, confidence=st.integers(0, 10_000), calibration_id=st.just("c/1")),
    st.sampled_from(["ABSTAINED", "NO_EVIDENCE"]).map(abstain),
)
_COUNTS = st.integers(0, 2**53 - 1)
_EVENTS = st.one_of(
    _DRAFTS,
    st.builds(Token, _TEXT),
    st.builds(ToolCall, _TEXT, st.dictionaries(_TEXT, st.integers(-100, 100) | _TEXT | st.none(), max_size=3), _TEXT),
    st.builds(Usage, _COUNTS, _COUNTS, _COUNTS, _COUNTS, st.just(0), st.sampled_from(UsageSource)),
    st.builds(Done, st.sampled_from(FinishReason)),
)


@given(_EVENTS)
def test_every_event_survives_the_cassette(event: GenEvent) -> None:
    ids = ["e1", "e2"]
    assert event_from_plain(json.loads(json.dumps(event_to_plain(event, ids))), ids) == event


# --- faults

GOOD: list[GenEvent] = [Token("the answer"), Draft("the answer"), USED, STOP]


def certain(fault: Fault, **more: Any) -> Faults:
    return Faults(**{"raise_" if fault == "raise" else fault: 10_000}, **more)


OUTCOMES: dict[Fault, str | None] = {
    "truncate": None,
    "wrong": None,
    "raise": "BACKEND_FAILED",
    "hang": "DEADLINE",
    "duplicate_usage": "BACKEND_FAILED",
    "no_usage": "BACKEND_FAILED",
    "two_drafts": "BACKEND_FAILED",
    "no_done": "BACKEND_FAILED",
    "flood": "BACKEND_FAILED",
}


@pytest.mark.parametrize("fault", get_args(Fault))
async def test_each_fault_shows_and_is_contained(fault: Fault, autojump_clock: MockClock) -> None:
    backend = FaultyBackend(Scripted(GOOD), certain(fault))
    got = await collect(backend, GenRequest("r", "q", deadline=trio.current_time() + 60))
    assert got.draft.abstained == OUTCOMES[fault]
    assert backend.info.kind is BackendKind.FAULTY
    if fault == "truncate":
        assert got.draft.answer == "the a"
    if fault == "wrong":
        assert got.draft.answer == "42"
    if fault == "duplicate_usage":
        assert got.usage == USED


async def test_latency_is_slept_on_trios_clock(autojump_clock: MockClock) -> None:
    backend = FaultyBackend(Scripted(GOOD), Faults(min_latency_ms=5000, max_latency_ms=5000))
    started = trio.current_time()
    got = await collect(backend, GenRequest("r", "q"))
    assert trio.current_time() - started == pytest.approx(5)
    assert got.draft.answer == "the answer"


@given(st.integers(0, 2**32), st.text(max_size=8), st.integers(0, 16))
def test_draws_repeat_and_depend_on_the_seed(seed: int, key: str, turn: int) -> None:
    faults = Faults(seed=seed, min_latency_ms=1, max_latency_ms=9, hang=5000, wrong=5000)
    latency, fault = draw(faults, key, turn)
    assert (latency, fault) == draw(faults, key, turn)
    assert 1 <= latency <= 9
    assert fault in ("hang", "wrong")


def test_rates_are_met() -> None:
    faults = Faults(wrong=2500, raise_=2500)
    drawn = [draw(faults, str(n), 0)[1] for n in range(4000)]
    assert 800 < drawn.count("wrong") < 1200
    assert 800 < drawn.count("raise") < 1200
    assert drawn.count(None) > 1800


@pytest.mark.parametrize("bad", [{"wrong": -1}, {"wrong": 6000, "hang": 6000}, {"min_latency_ms": 5}, {"min_latency_ms": -1}])
def test_impossible_faults_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(GnusError, match="CONFIG"):
        Faults(**bad)
