"""Collecting a generation: the stream contract, bounds, deadlines, slots, and usage on every way out."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gnus_node.experts.backend import (
    BackendInfo,
    Done,
    Draft,
    FinishReason,
    GenEvent,
    GenRequest,
    Meter,
    Span,
    Token,
    ToolCall,
    ToolSpec,
    Usage,
    abstain,
)
from gnus_node.experts.collect import Limiter, OutputBounds, collect
from gnus_node.records.enums import UsageSource
from gnus_node.records.errors import GnusError

from .helpers import Scripted, passage

USED = Usage(10, 5, 0, 7, 0, UsageSource.REPORTED)
STOP = Done(FinishReason.STOP)
REQUEST = GenRequest("r", "question", passages=(passage(1, "t", "some text"),), tools=(ToolSpec("files.read", "reads", {}),))


async def test_a_generation_is_folded() -> None:
    seen: list[str] = []
    call = ToolCall("files.read", {"path": "a.txt"})
    draft = Draft("ab", evidence_ids=("e1",), spans=(Span("e1", 0, 4),))
    got = await collect(Scripted([Token("a"), Token("b"), call, draft, USED, STOP]), REQUEST, on_token=seen.append)
    assert (got.draft, got.tool_calls, got.usage, got.finish_reason, got.failure) == (draft, (call,), USED, FinishReason.STOP, None)
    assert seen == ["a", "b"]


BREACHES: dict[str, list[GenEvent]] = {
    "two drafts": [Draft("a"), Draft("b"), USED, STOP],
    "two usages": [Draft("a"), USED, Usage(100, 50, 0, 7, 0, UsageSource.REPORTED), STOP],
    "no usage": [Draft("a"), STOP],
    "no draft": [Token("a"), USED, STOP],
    "no end": [Draft("a"), USED],
    "nothing": [],
    "after the end": [Draft("a"), USED, STOP, Token("b")],
    "error as end": [Draft("a"), USED, Done(FinishReason.ERROR)],
    "negative usage": [Draft("a"), Usage(-1, 0, 0, 0, 0, UsageSource.REPORTED), STOP],
    "a tool not offered": [ToolCall("shell.run", {}), abstain(), USED, STOP],
    "a passage not given": [Draft("a", evidence_ids=("e9",)), USED, STOP],
    "a span of a passage not given": [Draft("a", spans=(Span("e9", 0, 1),)), USED, STOP],
    "a span outside its passage": [Draft("a", spans=(Span("e1", 0, 999),)), USED, STOP],
    "a rival outside its passage": [Draft("a", rivals=(Span("e1", 5, 2),)), USED, STOP],
    "an answer too long": [Draft("a" * 101), USED, STOP],
    "tokens too long": [Token("é" * 51), Draft("a"), USED, STOP],
    "too many events": [*[Token("")] * 20, Draft("a"), USED, STOP],
    "too many calls": [*[ToolCall("files.read", {})] * 3, abstain(), USED, STOP],
    "arguments too long": [ToolCall("files.read", {"path": "a" * 60}), abstain(), USED, STOP],
    "too many claims": [Draft("a", claims=("x",) * 5), USED, STOP],
}
SMALL = OutputBounds(text_bytes=100, events=20, tool_calls=2, argument_bytes=50, references=4)


@pytest.mark.parametrize("name", BREACHES)
async def test_a_breach_of_the_contract_is_a_failure_without_an_answer(name: str) -> None:
    meters: list[Usage] = []
    got = await collect(Scripted(BREACHES[name]), REQUEST, bounds=SMALL, on_usage=lambda _i, u: meters.append(u))
    assert got.failure is not None
    assert got.failure.code == "BACKEND_FAILED"
    assert got.draft == abstain("BACKEND_FAILED")
    assert got.tool_calls == ()
    assert got.finish_reason is FinishReason.ERROR
    assert meters == [got.usage]


async def test_a_duplicate_usage_is_never_counted_twice() -> None:
    got = await collect(Scripted(BREACHES["two usages"]), REQUEST)
    assert got.usage == USED


async def test_a_typed_failure_keeps_its_code_and_the_usage_so_far() -> None:
    async def script(req: GenRequest, meter: Meter) -> AsyncGenerator[GenEvent, None]:
        meter.prompt = 12
        meter.text_bytes = 9
        yield Token("123456789")
        raise GnusError("CASSETTE_MISS")

    got = await collect(Scripted(script), REQUEST)
    assert got.failure is not None
    assert got.failure.code == got.draft.abstained == "CASSETTE_MISS"
    assert (got.usage.prompt, got.usage.completion, got.usage.source) == (12, 3, UsageSource.COUNTED)


async def _forever(req: GenRequest, meter: Meter) -> AsyncGenerator[GenEvent, None]:
    meter.prompt, meter.text_bytes = 4, 8
    yield Token("eight by")
    await trio.sleep_forever()


async def test_the_deadline_is_kept_here_whatever_the_backend_does(autojump_clock: MockClock) -> None:
    backend = Scripted(_forever)
    got = await collect(backend, GenRequest("r", "q", deadline=trio.current_time() + 3))
    assert got.failure is not None
    assert got.failure.code == got.draft.abstained == "DEADLINE"
    assert got.finish_reason is FinishReason.DEADLINE
    assert got.usage == Usage(4, 2, 0, 3000, 0, UsageSource.COUNTED)
    assert backend.closed.is_set()


async def test_a_deadline_in_the_past_starts_nothing(autojump_clock: MockClock) -> None:
    got = await collect(Scripted([Draft("a"), USED, STOP]), GenRequest("r", "q", deadline=trio.current_time() - 1))
    assert got.draft.abstained == "DEADLINE"


async def test_the_callers_cancellation_goes_through_and_the_usage_is_accounted(autojump_clock: MockClock) -> None:
    backend = Scripted(_forever)
    meters: list[tuple[BackendInfo, Usage]] = []
    with trio.move_on_after(2) as scope:
        await collect(backend, GenRequest("r", "q"), on_usage=lambda i, u: meters.append((i, u)))
    assert scope.cancelled_caught
    assert backend.closed.is_set()
    assert meters == [(backend.info, Usage(4, 2, 0, 2000, 0, UsageSource.COUNTED))]


async def test_waiting_for_a_slot_is_measured_apart_from_inference(autojump_clock: MockClock) -> None:
    async def slow(req: GenRequest, meter: Meter) -> AsyncGenerator[GenEvent, None]:
        await trio.sleep(2)
        yield Draft(req.request_id)
        yield meter.usage()
        yield STOP

    backend, limiter = Scripted(slow), Limiter(1)
    queued: dict[str, tuple[int, int]] = {}

    async def run(name: str) -> None:
        got = await collect(backend, GenRequest(name, "q"), limiter=limiter)
        queued[name] = (got.usage.wall_ms, got.usage.queue_ms)

    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(run, name)
            await wait_all_tasks_blocked()
    assert queued == {"a": (2000, 0), "b": (2000, 2000), "c": (2000, 4000)}


async def test_a_full_queue_answers_busy_and_a_left_queue_is_free_again(autojump_clock: MockClock) -> None:
    limiter = Limiter(1, max_waiting=1)
    backend = Scripted(_forever)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: collect(backend, GenRequest("a", "q", deadline=trio.current_time() + 5), limiter=limiter))
        await wait_all_tasks_blocked()
        nursery.start_soon(lambda: collect(backend, GenRequest("b", "q", deadline=trio.current_time() + 1), limiter=limiter))
        await wait_all_tasks_blocked()
        assert limiter.waiting == 1
        got = await collect(backend, GenRequest("c", "q"), limiter=limiter)
        assert got.draft.abstained == "BUSY"
    assert limiter.waiting == 0
    assert (await collect(Scripted([Draft("a"), USED, STOP]), REQUEST, limiter=limiter)).draft.answer == "a"


def test_a_draft_cannot_claim_what_it_may_not() -> None:
    for bad in (
        lambda: Draft("a", confidence=1),
        lambda: Draft("a", confidence=10_001, calibration_id="c/1"),
        lambda: Draft("a", abstained="ABSTAINED"),
        lambda: Draft("", abstained="NO_SUCH_CODE"),
    ):
        with pytest.raises(ValueError, match=r"confidence|abstention"):
            bad()
