"""The effect log: one row, one run, through crashes, cancellation and crowds. Runs are counted at the counter adapter's file."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import cbor2
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.enums import EffectClass, EffectState
from gnus_node.records.errors import CODES, GnusError
from gnus_node.tools.adapter import AdapterContext, ToolScope
from gnus_node.tools.effects import EffectEvent, IllegalMove, may_replan
from gnus_node.tools.log import (
    INDEX,
    MAX_CLAIMS,
    MAX_PER_REQUEST,
    MAX_WAITERS,
    TABLE,
    Claim,
    EffectLog,
    LogSettings,
    highest_turn,
    replannable,
)
from gnus_node.tools.rows import EffectFacts, EffectRow, decode_row, encode_row
from tests.counter_adapter import CounterAdapter, runs
from tests.unit.tools.kit import MemoryStore, SeededEntropy, SetClock, ThreadOffload

KEY = sha256(b"one effect").digest()
REQUEST = str(uuid.UUID(int=1, version=4))
OTHER = str(uuid.UUID(int=9, version=4))
OUTCOME = sha256(b"outcome").digest()
E, S = EffectEvent, EffectState


def facts(**changes: Any) -> EffectFacts:
    base = EffectFacts(REQUEST, str(uuid.UUID(int=2, version=4)), 1, 1, "counter.append", EffectClass.WRITE, False, sha256(b"{}").digest())
    return replace(base, **changes)


READ = facts(effect=EffectClass.READ, tool="files.read", resumable=True)


async def opened(store: MemoryStore | None = None, clock: SetClock | None = None, **settings: int) -> EffectLog:
    log = EffectLog(store or MemoryStore(), clock or SetClock(), SeededEntropy(), LogSettings(**settings))
    await log.recover(lambda _tool: False)
    return log


async def up_to(claim: Claim, state: EffectState) -> None:
    """Walk a fresh claim to a state, as the mediator would."""
    path = {
        S.PROPOSED: [],
        S.DRY_RUN: [E.DRY_RUN],
        S.AWAITING_APPROVAL: [E.DRY_RUN, E.APPROVAL_DUE],
        S.AUTHORISED: [E.DRY_RUN, E.AUTHORISE],
        S.EXECUTING: [E.DRY_RUN, E.AUTHORISE, E.START],
        S.DONE: [E.DRY_RUN, E.AUTHORISE, E.START, E.SUCCEED],
        S.FAILED_DEFINITE: [E.DRY_RUN, E.AUTHORISE, E.START, E.FAIL],
        S.INDETERMINATE: [E.DRY_RUN, E.AUTHORISE, E.START, E.LOSE],
        S.REFUSED: [E.DRY_RUN, E.REFUSE],
    }[state]
    for event in path:
        await claim.move(event, outcome=OUTCOME if event is E.SUCCEED else b"")
    assert claim.row.state is state


async def mediate(log: EffectLog, tool: CounterAdapter, given: EffectFacts, key: bytes = KEY) -> EffectRow:
    """A mediator in small: the shape in which the real one uses the log."""
    call = tool.validate({"tag": "x"}, ToolScope())
    async with log.open_or_get(key, given) as claim:
        if claim.row.state in {S.PROPOSED, S.DRY_RUN, S.AUTHORISED}:
            await claim.move(E.DRY_RUN)
            await claim.move(E.AUTHORISE)
            await claim.move(E.START)
        elif not claim.resumes:
            return claim.row
        with trio.CancelScope(shield=given.effect is not EffectClass.READ):
            output = await tool.execute(call, ToolScope(), idempotency_key=claim.row.idempotency_key, deadline=trio.current_time() + 60)
        return await claim.move(E.SUCCEED, outcome=sha256(output.data).digest())


def counter(tmp_path: Path, **settings: Any) -> tuple[CounterAdapter, str]:
    file = str(tmp_path / "runs")
    return CounterAdapter.build(AdapterContext(ThreadOffload()), {"file": file, **settings}), file


# --- one run ---


async def test_many_proposals_of_one_effect_run_it_once_and_share_the_outcome(tmp_path: Path) -> None:
    log, (tool, file), rows = await opened(), counter(tmp_path), []

    async def propose(number: int) -> None:
        # parallel experts, a hedge and a retry: each with its own proposal id
        rows.append(await mediate(log, tool, facts(tool_call_id=str(uuid.UUID(int=100 + number, version=4)))))

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(propose, number)
    assert len(runs(file)) == 1
    assert len({row.outcome for row in rows}) == len({row.idempotency_key for row in rows}) == 1
    assert {row.state for row in rows} == {S.DONE}
    assert len(await log.for_request(REQUEST)) == 1


async def test_different_effects_do_not_wait_for_each_other(tmp_path: Path) -> None:
    log, other = await opened(), sha256(b"two").digest()
    async with log.open_or_get(KEY, facts()), log.open_or_get(other, facts(turn=2)) as second:
        assert second.fresh
        with pytest.raises(trio.TooSlowError), trio.fail_after(0):
            async with log.open_or_get(KEY, facts()):
                pass
    assert [row.turn for row in await log.for_request(REQUEST)] == [1, 2]


async def test_a_late_proposal_gets_what_was_recorded(tmp_path: Path) -> None:
    log, (tool, file) = await opened(), counter(tmp_path)
    first = await mediate(log, tool, facts())
    assert await mediate(log, tool, facts()) == first
    async with log.open_or_get(KEY, facts()) as claim:
        assert not claim.fresh
        with pytest.raises(IllegalMove):
            await claim.move(E.START)
    assert runs(file) == [f"x {first.idempotency_key}"]


@pytest.mark.parametrize("state", [S.DONE, S.FAILED_DEFINITE, S.INDETERMINATE, S.REFUSED])
async def test_a_settled_effect_never_runs(state: EffectState, tmp_path: Path) -> None:
    log, (tool, file) = await opened(), counter(tmp_path)
    async with log.open_or_get(KEY, facts()) as claim:
        await up_to(claim, state)
    assert (await mediate(log, tool, facts())).state is state
    assert (await mediate(log, tool, facts(generation=2))).state is state
    assert runs(file) == []


# --- what waits for the disk ---


async def test_only_executing_and_the_outcome_of_a_write_wait_for_the_disk(tmp_path: Path) -> None:
    store = MemoryStore()
    log = await opened(store)
    seen: list[tuple[str, int]] = []
    async with log.open_or_get(KEY, facts()) as claim:
        seen.append(("open", store.commits))
        for event in (E.DRY_RUN, E.APPROVAL_DUE, E.APPROVE, E.START, E.SUCCEED):
            await claim.move(event, outcome=OUTCOME if event is E.SUCCEED else b"")
            seen.append((str(event), store.commits))
    assert seen == [("open", 0), ("dry_run", 0), ("approval_due", 0), ("approve", 0), ("start", 1), ("succeed", 2)]


async def test_a_read_waits_for_no_disk() -> None:
    store = MemoryStore()
    log = await opened(store)
    async with log.open_or_get(KEY, READ) as claim:
        await up_to(claim, S.DONE)
    assert store.commits == 0
    assert (await log.for_request(REQUEST))[0].state is S.DONE


@pytest.mark.parametrize("effect", [EffectClass.WRITE, EffectClass.EGRESS])
async def test_executing_survives_a_power_cut_before_the_effect_can_happen(effect: EffectClass) -> None:
    store = MemoryStore()
    log = await opened(store)
    async with log.open_or_get(KEY, facts(effect=effect)) as claim:
        await up_to(claim, S.EXECUTING)
        found = await store.survivor().get(TABLE, KEY)
        assert found is not None
        assert decode_row(found, KEY).state is S.EXECUTING
        assert len(await store.survivor().scan(INDEX)) == 1
        await claim.move(E.SUCCEED, outcome=OUTCOME)


async def test_a_commit_that_fails_starts_nothing(tmp_path: Path) -> None:
    store, (tool, file) = MemoryStore(), counter(tmp_path)
    log = await opened(store)
    store.fail = GnusError("STORE_FULL")
    with pytest.raises(GnusError, match="STORE_FULL"):
        await mediate(log, tool, facts())
    assert runs(file) == []


# --- crashes ---


@pytest.mark.parametrize("state", list(EffectState))
@pytest.mark.parametrize("resumable", [False, True])
async def test_a_restart_in_every_state(state: EffectState, resumable: bool, tmp_path: Path) -> None:
    store, (tool, file) = MemoryStore(), counter(tmp_path, idempotent=resumable)
    log = await opened(store)
    key = ""
    async with log.open_or_get(KEY, facts(resumable=resumable)) as claim:
        await up_to(claim, state)
        key = claim.row.idempotency_key
        await store.flush()
        after_cut = store.survivor()
        if state is S.EXECUTING:
            await claim.move(E.FAIL)
    again = EffectLog(after_cut, SetClock(), SeededEntropy(9))
    changed = await again.recover(lambda name: resumable and name == "counter.append")
    lost = state is S.EXECUTING and not resumable
    assert [row.state for row in changed] == ([S.INDETERMINATE] if lost else [])
    assert await again.recover(lambda _: resumable) == []
    if lost:
        durable = await after_cut.survivor().get(TABLE, KEY)
        assert durable is not None
        assert decode_row(durable, KEY).state is S.INDETERMINATE
    row = await mediate(again, tool, facts(generation=2, resumable=resumable))
    may_run = state in {S.PROPOSED, S.DRY_RUN, S.AUTHORISED} or (state is S.EXECUTING and resumable)
    assert runs(file) == ([f"x {key}"] if may_run else []), "the same idempotency key, once"
    assert row.state is (S.DONE if may_run else S.INDETERMINATE if lost else state)


@pytest.mark.parametrize("then", [False, True])
async def test_a_run_is_resumed_only_if_the_adapter_promised_it_then_and_promises_it_now(then: bool) -> None:
    store = MemoryStore()
    log = await opened(store)
    async with log.open_or_get(KEY, facts(resumable=then)) as claim:
        await up_to(claim, S.EXECUTING)
        cut = store.survivor()
        await claim.move(E.FAIL)
    changed = await EffectLog(cut, SetClock(), SeededEntropy()).recover(lambda _: not then)
    assert [(row.state, row.reason_code) for row in changed] == [(S.INDETERMINATE, "EFFECT_INDETERMINATE")]


async def test_nothing_is_claimed_before_recovery() -> None:
    log = EffectLog(MemoryStore(), SetClock(), SeededEntropy())
    with pytest.raises(GnusError) as error:
        async with log.open_or_get(KEY, facts()):
            pass
    assert error.value.code == "INTERNAL"


# --- leaving while executing ---


@pytest.mark.parametrize("resumable", [False, True])
async def test_an_exception_while_executing_leaves_no_open_question(resumable: bool) -> None:
    store = MemoryStore()
    log = await opened(store)

    async def broken() -> None:
        async with log.open_or_get(KEY, facts(resumable=resumable)) as claim:
            await up_to(claim, S.EXECUTING)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broken()
    found = await store.survivor().get(TABLE, KEY)
    assert found is not None
    assert decode_row(found, KEY).state is (S.EXECUTING if resumable else S.INDETERMINATE)


async def test_cancellation_never_cuts_the_commit_of_executing(tmp_path: Path) -> None:
    store, (tool, file) = MemoryStore(), counter(tmp_path)
    log = await opened(store)
    store.pause = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mediate, log, tool, facts())
        await trio.testing.wait_all_tasks_blocked()  # inside the commit of ``executing``
        nursery.cancel_scope.cancel()
        store.pause.set()
    # The commit went through, so the shielded run did too, and its outcome is on disk.
    found = await store.survivor().get(TABLE, KEY)
    assert found is not None
    assert (decode_row(found, KEY).state, len(runs(file))) == (S.DONE, 1)


async def test_cancelling_a_waiter_leaves_the_worker_alone(tmp_path: Path) -> None:
    log = await opened()
    async with log.open_or_get(KEY, facts()) as claim:
        with trio.move_on_after(0) as waiting:
            async with log.open_or_get(KEY, facts()):
                raise AssertionError("two at once")
        assert waiting.cancelled_caught
        await up_to(claim, S.DONE)
    assert (await log.get(KEY)) == claim.row


async def test_a_claim_ends_with_its_block() -> None:
    log = await opened()
    async with log.open_or_get(KEY, facts()) as claim:
        pass
    with pytest.raises(GnusError) as error:
        await claim.move(E.DRY_RUN)
    assert error.value.code == "INTERNAL"


async def test_a_success_needs_an_outcome_and_a_start_needs_an_owner() -> None:
    log = await opened()
    async with log.open_or_get(KEY, facts()) as claim:
        await up_to(claim, S.EXECUTING)
        with pytest.raises(GnusError):
            await claim.move(E.SUCCEED)
        await claim.move(E.FAIL, reason_code="TOOL_FAILED")
    second = sha256(b"2").digest()
    async with log.open_or_get(second, facts(turn=2)) as claim:
        await up_to(claim, S.AWAITING_APPROVAL)
    approved = await log.move(second, E.APPROVE, attestation=OUTCOME)
    assert (approved.state, approved.attestation) == (S.AUTHORISED, OUTCOME)
    with pytest.raises(GnusError, match="INTERNAL"):
        await log.move(second, E.START)
    with pytest.raises(GnusError, match="NOT_FOUND"):
        await log.move(OUTCOME, E.APPROVE)
    assert [row.reason_code for row in await log.for_request(REQUEST)] == ["TOOL_FAILED", "OK"]


# --- who may ---


async def test_a_lower_generation_is_fenced() -> None:
    log = await opened()
    async with log.open_or_get(KEY, facts(generation=3)):
        pass
    with pytest.raises(GnusError, match="FENCED"):
        async with log.open_or_get(KEY, facts(generation=2)):
            pass
    async with log.open_or_get(KEY, facts(generation=5)) as claim:
        assert claim.row.generation == 5
    with pytest.raises(GnusError, match="FENCED"):
        async with log.open_or_get(KEY, facts(generation=4)):
            pass


@pytest.mark.parametrize(
    "change",
    [
        {"tool": "other.tool"},
        {"turn": 2},
        {"effect": EffectClass.READ},
        {"arguments": bytes(32)},
        {"request_id": str(uuid.UUID(int=9, version=4))},
    ],
)
async def test_one_key_stands_for_one_call(change: dict[str, Any]) -> None:
    log = await opened()
    async with log.open_or_get(KEY, facts()):
        pass
    with pytest.raises(GnusError, match="COMMITMENT_MISMATCH"):
        async with log.open_or_get(KEY, facts(**change)):
            pass


# --- bounds and ends ---


async def test_effects_of_one_request_are_bounded_even_when_opened_at_once() -> None:
    log, refused = await opened(), []

    async def propose(number: int) -> None:
        try:
            async with log.open_or_get(sha256(bytes([number])).digest(), facts()):
                pass
        except GnusError as error:
            refused.append(error.code)

    async with trio.open_nursery() as nursery:
        for number in range(MAX_PER_REQUEST + 6):
            nursery.start_soon(propose, number)
    assert refused == ["BUSY"] * 6
    assert len(await log.for_request(REQUEST)) == MAX_PER_REQUEST


async def test_waiters_for_one_effect_are_bounded() -> None:
    log, refused = await opened(), []
    release = trio.Event()

    async def propose() -> None:
        try:
            async with log.open_or_get(KEY, facts()):
                await release.wait()
        except GnusError as error:
            refused.append(error.code)
            release.set()

    async with trio.open_nursery() as nursery:
        for _ in range(MAX_WAITERS + 2):
            nursery.start_soon(propose)
    assert refused == ["BUSY"]


async def test_keys_worked_on_are_bounded_and_slots_are_given_back() -> None:
    log = await opened()
    release, busy = trio.Event(), []

    async def hold(number: int) -> None:
        request = str(uuid.UUID(int=1000 + number, version=4))
        try:
            async with log.open_or_get(sha256(number.to_bytes(4, "big")).digest(), facts(request_id=request)):
                await release.wait()
        except GnusError as error:
            busy.append(error.code)
            release.set()

    async with trio.open_nursery() as nursery:
        for number in range(MAX_CLAIMS + 1):
            nursery.start_soon(hold, number)
    assert busy == ["BUSY"]
    assert not log._slots


async def test_the_end_of_a_request_refuses_what_had_not_started() -> None:
    log = await opened()
    for turn, state in enumerate((S.PROPOSED, S.AWAITING_APPROVAL, S.AUTHORISED, S.DONE, S.INDETERMINATE)):
        async with log.open_or_get(sha256(bytes([turn])).digest(), facts(turn=turn)) as claim:
            await up_to(claim, state)
    async with log.open_or_get(KEY, facts(turn=9, resumable=True)) as claim:
        await up_to(claim, S.EXECUTING)
    rows = await log.close_request(REQUEST, "CANCELLED")
    assert [row.state for row in rows] == [S.REFUSED] * 3 + [S.DONE, S.INDETERMINATE, S.INDETERMINATE]
    assert rows[0].reason_code == "CANCELLED"
    assert highest_turn(rows) == 9
    assert not may_replan(replannable(rows))
    assert highest_turn([]) is None


async def test_rows_end_after_their_time_and_indeterminate_ones_later() -> None:
    store, clock = MemoryStore(), SetClock(0)
    log = await opened(store, clock, keep_ms=100, keep_indeterminate_ms=1000)
    for turn, state in enumerate((S.DONE, S.INDETERMINATE, S.PROPOSED, S.REFUSED)):
        async with log.open_or_get(sha256(bytes([turn])).digest(), facts(turn=turn)) as claim:
            await up_to(claim, state)
    async with log.open_or_get(KEY, facts(turn=5, resumable=True)) as claim:
        await up_to(claim, S.EXECUTING)
    clock.now_ms = 99
    assert await log.sweep() == 0
    clock.now_ms = 100
    assert await log.sweep() == 3
    assert [row.state for row in await log.for_request(REQUEST)] == [S.INDETERMINATE, S.INDETERMINATE]
    clock.now_ms = 1000
    async with log.open_or_get(KEY, facts(turn=5)):
        assert await log.sweep() == 1
    clock.now_ms = 1100
    assert await log.sweep() == 1
    assert await store.scan(TABLE) == await store.scan(INDEX) == []


async def test_a_person_may_forget_a_settled_row_only() -> None:
    log = await opened()
    async with log.open_or_get(KEY, facts()) as claim:
        await up_to(claim, S.AUTHORISED)
    assert not await log.forget(KEY)
    async with log.open_or_get(KEY, facts()) as claim:
        await claim.move(E.START)
        await claim.move(E.LOSE)
    assert await log.forget(KEY)
    assert not await log.forget(KEY)
    assert await log.for_request(REQUEST) == []


# --- bytes ---

digests = st.binary(min_size=32, max_size=32)
uuids = st.uuids(version=4).map(str)
rows = st.builds(
    EffectRow,
    effect_key=digests,
    request_id=uuids,
    tool_call_id=uuids,
    generation=st.integers(1, 2**31),
    turn=st.integers(0, 16),
    tool=st.from_regex(r"[a-z]{1,20}\.[a-z]{1,20}", fullmatch=True),
    effect=st.sampled_from(list(EffectClass)),
    resumable=st.booleans(),
    arguments=digests,
    state=st.sampled_from(list(EffectState)),
    idempotency_key=uuids,
    attestation=st.one_of(st.just(b""), digests),
    outcome=digests,
    reason_code=st.sampled_from(["OK", *CODES]),
    created_at_ms=st.integers(0, 2**53 - 1),
    updated_at_ms=st.integers(0, 2**53 - 1),
)


@settings(max_examples=100, deadline=None)
@given(rows)
def test_a_row_reads_back(row: EffectRow) -> None:
    raw = encode_row(row)
    assert decode_row(raw, row.effect_key) == row
    assert len(raw) < 1024


@settings(max_examples=150, deadline=None)
@given(rows, st.data())
def test_a_damaged_row_never_passes_for_the_one_that_was_written(row: EffectRow, data: st.DataObject) -> None:
    raw = bytearray(encode_row(row))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read = decode_row(bytes(raw), row.effect_key)
    except GnusError as error:
        assert error.code == "STORE_CORRUPT"  # noqa: PT017 - either outcome is right
        return
    assert read != row
    assert encode_row(read) == raw


def plain(row: EffectRow) -> dict[str, Any]:
    return cbor2.loads(encode_row(row))[1]  # type: ignore[no-any-return]


def as_bytes(change: Callable[[dict[str, Any]], object], version: object = 1, backwards: bool = False) -> bytes:
    body = plain(EffectRow(KEY, REQUEST, REQUEST, 1, 1, "a.b", EffectClass.READ, True, KEY, S.DONE, REQUEST, b"", OUTCOME, "OK", 1, 2))
    change(body)
    return cbor2.dumps([version, dict(reversed(body.items()))]) if backwards else cbor2.dumps([version, body], canonical=True)


def test_the_base_of_the_damaged_rows_reads() -> None:
    assert decode_row(as_bytes(lambda b: None), KEY).tool == "a.b"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"\x9f" * 500,
        b"x" * 5000,
        cbor2.dumps({}),
        cbor2.dumps(["x"]),
        as_bytes(lambda b: None, version=2),
        as_bytes(lambda b: None, version=True),
        as_bytes(lambda b: None, backwards=True),
        as_bytes(lambda b: None) + b"\0",
        as_bytes(lambda b: b.pop("turn")),
        as_bytes(lambda b: b.update(extra=1)),
        as_bytes(lambda b: b.update(turn=17)),
        as_bytes(lambda b: b.update(turn=True)),
        as_bytes(lambda b: b.update(turn=1.0)),
        as_bytes(lambda b: b.update(generation=0)),
        as_bytes(lambda b: b.update(updated_at_ms=-1)),
        as_bytes(lambda b: b.update(updated_at_ms=2**60)),
        as_bytes(lambda b: b.update(state="started")),
        as_bytes(lambda b: b.update(state=["done"])),
        as_bytes(lambda b: b.update(effect="Read")),
        as_bytes(lambda b: b.update(resumable=1)),
        as_bytes(lambda b: b.update(reason_code="WHATEVER")),
        as_bytes(lambda b: b.update(reason_code=[])),
        as_bytes(lambda b: b.update(outcome=b"")),
        as_bytes(lambda b: b.update(outcome=b"short")),
        as_bytes(lambda b: b.update(request_id="x")),
        as_bytes(lambda b: b.update(tool="two words")),
        as_bytes(lambda b: b.update(effect_key=OUTCOME)),
        as_bytes(lambda b: b.update(attestation=cbor2.CBORTag(4, [1, 2]))),
    ],
)
async def test_rows_that_are_not_rows_stop_everything(raw: bytes) -> None:
    with pytest.raises(GnusError) as error:
        decode_row(raw, KEY)
    assert error.value.code == "STORE_CORRUPT"
    store = MemoryStore()
    store.poke(TABLE, KEY, raw)
    with pytest.raises(GnusError, match="STORE_CORRUPT"):
        await EffectLog(store, SetClock(), SeededEntropy()).recover(lambda _: True)


async def test_an_index_that_points_nowhere_is_corrupt() -> None:
    store = MemoryStore()
    log = await opened(store)
    store.poke(INDEX, uuid.UUID(REQUEST).bytes + KEY, b"\x01")
    with pytest.raises(GnusError, match="STORE_CORRUPT"):
        await log.for_request(REQUEST)
