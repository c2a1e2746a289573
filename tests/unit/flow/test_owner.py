"""The owner of a request, on a whole node: whatever is cut, late, full, fenced or faulty, there is one stored terminal, and it hides nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import gnus_node.flow.coordinator as coordinator
import gnus_node.flow.owner as owning
from gnus_node.evidence.bag import Bag
from gnus_node.flow.accept import FlowLimits, subject_of
from gnus_node.flow.coordinator import Ended
from gnus_node.flow.journal import Phase
from gnus_node.flow.run import Run
from gnus_node.flow.table import Event, State
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import InlineOffload
from gnus_node.net.rpc import Request
from gnus_node.ports.store import Write
from gnus_node.ports.submit import Answered
from gnus_node.records.authority import Absence, Dispatch
from gnus_node.records.base import Body
from gnus_node.records.enums import Outcome
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import SynthesisResult
from gnus_node.records.expert import ExpertOutput
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.settlement import TaskAttestation
from gnus_node.records.tools import EffectReport, ToolAttestation
from gnus_node.store.keys import open_keys
from gnus_node.tools.log import EffectLog
from tests.unit.flow.house import CUT, READ, SUM, WHOLE, WRITE, Gate, House, once, open_house


@pytest.fixture
async def house(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> AsyncIterator[House]:
    async with open_house(tmp_path / "node") as opened:
        yield opened


async def refused(work: Callable[[], Any]) -> GnusError:
    with pytest.raises(GnusError) as error:
        await work()
    return error.value


def plain(answered: Answered | None) -> Answered:
    """A terminal without its times: what is stored of them is rounded."""
    assert answered is not None
    return replace(answered, latency_ms={})


async def leave_at(house: House, point: str, question: str, **options: Any) -> Any:
    """Ask, and leave as soon as the flow passes a point; the request's journal row."""
    with trio.CancelScope() as scope:
        house.at[point] = once(scope.cancel)
        await house.ask(question, **options)
    assert scope.cancelled_caught
    (row,) = await house.rows()
    return row


# -- callers that leave ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["ingress.own_run", "router.remember", "router.draft", "router.synthesize"])
async def test_a_caller_that_leaves_has_its_request_closed(house: House, point: str, autojump_clock: trio.testing.MockClock) -> None:
    row = await leave_at(house, point, SUM)
    found = await house.stored(row.request_id)
    assert found is not None
    assert (found.outcome, found.reason_code, found.answer) == (Outcome.CANCELLED, "CANCELLED", "")
    await trio.testing.wait_all_tasks_blocked()
    await house.settled()
    assert house.quiet(), "drafts and reads have stopped"
    (row,) = await house.rows()
    assert row.phase is Phase.SETTLED


async def test_a_caller_that_leaves_while_its_acceptance_is_written_leaves_no_orphan(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    gate = Gate()
    async with open_house(tmp_path / "node", offload=gate) as house:
        await house.node.store.flush()
        gate.open = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.ask, SUM)
            await trio.testing.wait_all_tasks_blocked()
            assert gate.waiting == 1
            nursery.cancel_scope.cancel()
            await_open = trio.lowlevel.current_trio_token()
            await_open.run_sync_soon(gate.open.set)
        (row,) = await house.rows()
        found = await house.stored(row.request_id)
        assert found is not None
        assert found.outcome is Outcome.CANCELLED


async def test_a_caller_that_leaves_after_an_effect_is_not_told_that_nothing_happened(
    house: House, autojump_clock: trio.testing.MockClock
) -> None:
    row = await leave_at(house, "effect.recorded", WRITE)
    found = await house.stored(row.request_id)
    assert found is not None
    assert (found.outcome, found.reason_code) == (Outcome.PARTIAL_EFFECTS, "PARTIAL_EFFECTS")
    assert [(e["tool"], e["state"]) for e in found.effects] == [("counter.append", "done")]
    assert house.effects() == ["alpha-1"]


async def test_an_effect_that_was_said_not_to_have_happened_does_not_happen_later(
    house: House, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """The worst moment: the mediation is past its last checkpoint when the caller leaves, and goes on after the terminal is signed."""
    entered, released, claim = trio.Event(), trio.Event(), EffectLog.open_or_get

    @asynccontextmanager
    async def slow(self: EffectLog, key: bytes, facts: Any) -> AsyncIterator[Any]:
        async with claim(self, key, facts) as claimed:
            entered.set()
            with trio.CancelScope(shield=True):
                await released.wait()
            yield claimed

    monkeypatch.setattr(EffectLog, "open_or_get", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.ask, WRITE)
        await entered.wait()
        nursery.cancel_scope.cancel()
    (row,) = await house.rows()
    found = await house.stored(row.request_id)
    assert found is not None
    assert (found.outcome, found.effects) == (Outcome.CANCELLED, ())
    released.set()
    await trio.testing.wait_all_tasks_blocked()
    await house.settled()
    assert house.effects() == []


# -- routers that are lost, fenced or wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [SUM, READ, WRITE])
async def test_a_lost_router_costs_a_generation_and_no_answer(house: House, question: str, autojump_clock: trio.testing.MockClock) -> None:
    expected = await house.ask(question.replace("alpha-1", "alpha-0"))
    house.at["router.draft"] = once(lambda: setattr(house.bus, "faults", CUT))
    house.at["ingress.own_effects"] = lambda _facts: setattr(house.bus, "faults", WHOLE)
    found = await house.ask(question)
    assert (found.outcome, found.answer) == (expected.outcome, expected.answer)
    await house.settled()
    assert {row.generation for row in await house.rows()} == {1, 2}
    assert house.effects() == (["alpha-0", "alpha-1"] if question == WRITE else [])


async def test_a_router_that_is_lost_after_an_effect_ends_the_request_with_it(house: House, autojump_clock: trio.testing.MockClock) -> None:
    house.at["effect.recorded"] = once(lambda: setattr(house.bus, "faults", CUT))
    house.at["ingress.own_effects"] = lambda _facts: setattr(house.bus, "faults", WHOLE)
    found = await house.ask(WRITE)
    assert (found.outcome, house.effects()) == (Outcome.PARTIAL_EFFECTS, ["alpha-1"])
    assert [(e["tool"], e["state"]) for e in found.effects] == [("counter.append", "done")]


async def test_where_nobody_says_what_happened_the_terminal_says_so(house: House, autojump_clock: trio.testing.MockClock) -> None:
    house.at["effect.recorded"] = once(lambda: setattr(house.bus, "faults", CUT))
    found = await house.ask(WRITE)
    assert (found.outcome, found.reason_code) == (Outcome.FAILED, "EFFECT_INDETERMINATE")
    house.bus.faults = WHOLE
    await house.settled()


async def test_a_request_without_effects_survives_a_lost_router_only_so_often(house: House, autojump_clock: trio.testing.MockClock) -> None:
    house.at["router.remember"] = lambda _facts: setattr(house.bus, "faults", CUT)
    house.at["ingress.own_effects"] = lambda _facts: setattr(house.bus, "faults", WHOLE)
    house.at["ingress.own_close"] = lambda _facts: setattr(house.bus, "faults", WHOLE)
    found = await house.ask(SUM)
    assert (found.outcome, found.reason_code) == (Outcome.FAILED, "UNREACHABLE")
    (row,) = await house.rows()
    assert row.generation == FlowLimits().max_generations


@pytest.mark.parametrize("times", [1, 99])
async def test_a_fenced_generation_is_followed_by_another(
    house: House, monkeypatch: pytest.MonkeyPatch, times: int, autojump_clock: trio.testing.MockClock
) -> None:
    opened, opening = [0], coordinator.open_run

    def fenced(context: Any, request: Any) -> Run:
        opened[0] += 1
        if opened[0] <= times:
            raise GnusError("FENCED", "a newer generation was seen")
        return opening(context, request)

    monkeypatch.setattr(coordinator, "open_run", fenced)
    found = await house.ask(SUM)
    if times == 1:
        assert (found.outcome, found.answer, opened[0]) == (Outcome.ANSWERED, "84", 2)
    else:
        assert (found.outcome, found.reason_code, opened[0]) == (Outcome.FAILED, "FENCED", FlowLimits().max_generations)


def leave_out(run: Run, kind: type[Body]) -> None:
    run.bag = Bag(record for record in run.bag if not isinstance(record.body, kind))


@pytest.mark.parametrize("kind", [ExecutionPlan, Dispatch, ExpertOutput, TaskAttestation, Absence, SynthesisResult])
@pytest.mark.parametrize("question", [SUM, READ])
async def test_what_a_router_leaves_out_is_never_released(
    house: House, monkeypatch: pytest.MonkeyPatch, kind: type[Body], question: str, autojump_clock: trio.testing.MockClock
) -> None:
    await _tampered(house, monkeypatch, question, lambda run: leave_out(run, kind))


@pytest.mark.parametrize("kind", [ToolAttestation, EffectReport])
async def test_what_a_router_leaves_out_of_a_tools_work_is_never_released(
    house: House, monkeypatch: pytest.MonkeyPatch, kind: type[Body], autojump_clock: trio.testing.MockClock
) -> None:
    await _tampered(house, monkeypatch, READ, lambda run: leave_out(run, kind), may_hold=kind is EffectReport)


async def _tampered(
    house: House, monkeypatch: pytest.MonkeyPatch, question: str, change: Callable[[Run], None], *, may_hold: bool = False
) -> None:
    carry = coordinator.carry

    async def tampering(run: Run, request: Request | None) -> Ended:
        ended = await carry(run, request)
        before = len(run.bag)
        change(run)
        changed.append(before != len(run.bag))
        return ended

    changed: list[bool] = []
    monkeypatch.setattr(coordinator, "carry", tampering)
    found = await house.ask(question)
    if changed == [False] or (may_hold and found.outcome is Outcome.ANSWERED):
        return  # nothing of the kind to leave out, or nothing that the answer rests on
    assert (found.outcome, found.reason_code, found.answer, found.sources) == (Outcome.FAILED, "CHAIN_BROKEN", "", ())
    assert plain(await house.stored(found.request_id)) == plain(found)


async def test_a_router_that_hides_an_effect_does_not_hide_it_from_the_answer(
    house: House, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """It mediated, and sends back a chain as if nobody had proposed anything."""
    carry = coordinator.carry

    async def hiding(run: Run, request: Request | None) -> Ended:
        ended = await carry(run, request)
        run.bag.drop(EffectReport, lambda _record: False)
        return ended

    monkeypatch.setattr(coordinator, "carry", hiding)
    found = await house.ask(WRITE)
    assert house.effects() == ["alpha-1"]
    assert [(e["tool"], e["state"]) for e in found.effects] == [("counter.append", "done")]


async def test_a_router_that_fails_after_an_effect_ends_the_request_with_it(
    house: House, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async def fails(run: Run, budget_ms: int) -> Event:
        raise GnusError("BACKEND_FAILED", "the verifier is gone")

    monkeypatch.setitem(coordinator.STEPS, State.SYNTHESIZE, fails)
    found = await house.ask(WRITE)
    assert (found.outcome, house.effects()) == (Outcome.PARTIAL_EFFECTS, ["alpha-1"])
    assert [(e["tool"], e["state"]) for e in found.effects] == [("counter.append", "done")]
    other = await house.ask(SUM)
    assert (other.outcome, other.reason_code, other.effects) == (Outcome.FAILED, "BACKEND_FAILED", ())


# -- time and room ----------------------------------------------------------------------------------------------------------------


async def test_a_request_whose_time_runs_out_ends_in_a_typed_error(
    house: House, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async def sleeps(run: Run, budget_ms: int) -> Event:
        await trio.sleep(3600)
        return Event.OK

    for state in (State.DRAFT, State.ESCALATE, State.SYNTHESIZE):
        monkeypatch.setitem(coordinator.STEPS, state, sleeps)
    before = trio.current_time()
    found = await house.ask(SUM, max_wall_ms=1500)
    assert (found.outcome, found.reason_code) == (Outcome.FAILED, "DEADLINE")
    assert trio.current_time() - before <= 1.6
    assert plain(await house.stored(found.request_id)) == plain(found)
    assert house.quiet()


async def test_a_full_house_is_busy_and_time_in_line_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    stay = trio.Event()

    async def waits(run: Run, budget_ms: int) -> Event:
        await stay.wait()
        return Event.FAILED

    monkeypatch.setitem(coordinator.STEPS, State.PLAN, waits)
    async with open_house(tmp_path / "node", running=1, waiting=1) as house, trio.open_nursery() as nursery:
        nursery.start_soon(house.ask, SUM)
        await trio.testing.wait_all_tasks_blocked()
        late = await refused(lambda: house.ask(SUM, max_wall_ms=100))
        assert late.code == "DEADLINE"
        nursery.start_soon(house.ask, SUM)
        await trio.testing.wait_all_tasks_blocked()
        assert (await refused(lambda: house.ask(SUM))).code == "BUSY"
        assert len(await house.rows()) == 1, "what waits or was refused is not accepted"
        stay.set()


# -- repeats ----------------------------------------------------------------------------------------------------------------------


async def test_the_same_key_and_question_is_the_same_request(house: House, autojump_clock: trio.testing.MockClock) -> None:
    first = await house.ask(WRITE, idempotency_key="k")
    again = await house.ask(WRITE, idempotency_key="k")
    assert again == first
    assert house.effects() == ["alpha-1"]
    assert len(await house.rows()) == 1
    for changed in (
        lambda: house.ask(SUM, idempotency_key="k"),
        lambda: house.ask(WRITE, idempotency_key="k", context="user: more"),
        lambda: house.ask(WRITE, idempotency_key="k", max_tokens=7),
    ):
        error = await refused(changed)
        assert (error.code, error.row.http) == ("IDEMPOTENCY_MISMATCH", 409)


@pytest.mark.parametrize("running", [1, 2, 16])
async def test_repeats_at_the_same_time_run_once(tmp_path: Path, running: int, autojump_clock: trio.testing.MockClock) -> None:
    async with open_house(tmp_path / "node", running=running) as house:
        found: list[Any] = []

        async def one() -> None:
            found.append(await house.ask(WRITE, idempotency_key="k"))

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(one)
        assert len({(a.request_id, a.outcome, a.answer) for a in found}) == 1
        assert len(await house.rows()) == 1
        assert house.effects() == ["alpha-1"]
        assert await refused(lambda: house.ask(SUM, idempotency_key="k"))


# -- the store --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [SUM, READ])
async def test_at_most_two_commits_come_before_an_answer(house: House, question: str, autojump_clock: trio.testing.MockClock) -> None:
    await house.ask(question)
    await house.settled()
    await house.node.store.flush()
    before = house.node.store.commits
    found = await house.ask(question)
    assert found.outcome is Outcome.ANSWERED
    assert house.node.store.commits - before <= 2


async def test_a_terminal_that_the_store_refuses_is_not_answered_and_the_request_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_house(tmp_path / "node") as house:
        store: Any = house.node.store
        queue = store.write_behind

        def full(writes: list[Write]) -> None:
            if any(write.table == "answer" for write in writes):
                raise GnusError("BUSY", "the store's queue is full")
            queue(writes)

        monkeypatch.setattr(store, "write_behind", full)
        assert (await refused(lambda: house.ask(SUM))).code == "BUSY"
        (row,) = await house.rows()
        assert await house.stored(row.request_id) is None
        monkeypatch.setattr(store, "write_behind", queue)
    async with open_house(tmp_path / "node", again=True) as house:
        await _until(lambda: house.stored(row.request_id))
        found = await house.stored(row.request_id)
        assert found is not None
        assert found.answer == "84"
        await house.settled()
        (row,) = await house.rows()
        assert row.generation > 1
        assert row.phase is Phase.SETTLED


async def test_the_first_stored_terminal_wins(house: House, autojump_clock: trio.testing.MockClock) -> None:
    found = await house.ask(SUM)
    (row,) = await house.rows()
    house.node.store.write_behind([Write("answer", row.request_id.encode(), b"another", if_absent=True)])
    assert (await refused(house.node.store.flush)).code == "REPLAYED"
    assert plain(await house.stored(row.request_id)) == plain(found)


# -- after the answer, after a start ------------------------------------------------------------------------------------------------


async def test_what_cannot_be_settled_now_is_settled_later_and_holds_up_nobody(
    house: House, autojump_clock: trio.testing.MockClock
) -> None:
    stuck: set[str | int] = set()

    def cut(facts: Mapping[str, str | int]) -> None:
        """The first six requests do not get through to settlement for a minute."""
        if len(stuck) < 6:
            stuck.add(facts["request_id"])
        down = facts["request_id"] in stuck and trio.current_time() < start + 60
        house.bus.faults = CUT if down else WHOLE

    start = trio.current_time()
    house.at["settlement.send"] = cut
    house.at["ingress.own_run"] = lambda _facts: setattr(house.bus, "faults", WHOLE)
    for _ in range(7):
        assert (await house.ask(SUM)).outcome is Outcome.ANSWERED
        await trio.testing.wait_all_tasks_blocked()
        house.bus.faults = WHOLE
    await trio.testing.wait_all_tasks_blocked()
    assert len([row for row in await house.rows() if row.phase is Phase.SETTLED]) == 1, "the seventh passed the six that wait"
    await house.settled()
    assert {row.phase for row in await house.rows()} == {Phase.SETTLED}
    assert trio.current_time() - start < 120


async def test_recovery_leaves_alone_what_is_under_way(house: House, autojump_clock: trio.testing.MockClock) -> None:
    taken: list[int] = []

    async def recover() -> None:
        async with trio.open_nursery() as nursery:
            taken.append(await house.owner.recover(nursery))

    async with trio.open_nursery() as nursery:
        for point in ("acceptance.commit", "acceptance.committed", "router.draft", "answer.queued"):
            house.at[point] = once(lambda: nursery.start_soon(recover))
        found = await house.ask(WRITE)
    assert taken == [0, 0, 0, 0]
    await house.settled()
    (row,) = await house.rows()
    assert (row.generation, house.effects()) == (1, ["alpha-1"])
    assert plain(await house.stored(row.request_id)) == plain(found)


async def test_a_request_whose_texts_were_erased_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    row = await _open_request(tmp_path, monkeypatch)
    async with open_keys(tmp_path / "node" / "data" / "keys", SystemEntropy(), InlineOffload()) as keys:
        assert await keys.destroy(subject_of(row.tenant, row.principal), "payload")
    async with open_house(tmp_path / "node", again=True) as house:
        await _until(lambda: house.node.store.get("answer", row.request_id.encode()))
        assert (await refused(lambda: house.stored(row.request_id))).code == "ERASED"
        assert house.node.front.archive is not None
        answer = await house.node.front.archive.answer(row.request_id)
        assert answer is not None
        assert answer.outcome is Outcome.FAILED


async def _open_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A node that stopped with an accepted request in its journal; the row."""
    async with open_house(tmp_path / "node") as house:
        with monkeypatch.context() as patched:
            store: Any = house.node.store
            queue = store.write_behind
            patched.setattr(store, "write_behind", lambda writes: None if any(w.table == "answer" for w in writes) else queue(writes))
            await house.ask(SUM)
        (row,) = await house.rows()
    return row


async def test_a_damaged_row_keeps_no_other_request_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    row = await _open_request(tmp_path, monkeypatch)
    async with open_house(tmp_path / "node", again=True) as house:
        await house.node.store.commit([Write("journal", b"0-damaged", b"\xff"), Write("journal", row.request_id.encode(), row.encode())])
    async with open_house(tmp_path / "node", again=True) as house:
        await _until(lambda: house.stored(row.request_id))
        assert (await house.ask(SUM)).answer == "84"


async def test_a_stop_while_recovering_closes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    row = await _open_request(tmp_path, monkeypatch)

    async def sleeps(run: Run, budget_ms: int) -> Event:
        await trio.sleep_forever()
        return Event.OK

    with monkeypatch.context() as patched:
        patched.setitem(coordinator.STEPS, State.PLAN, sleeps)
        async with open_house(tmp_path / "node", again=True) as house:
            reached = trio.Event()
            house.at["router.plan"] = once(reached.set)
            await reached.wait()
    async with open_house(tmp_path / "node", again=True) as house:
        await _until(lambda: house.stored(row.request_id))
        found = await house.stored(row.request_id)
        assert found is not None
        assert (found.outcome, found.answer) == (Outcome.ANSWERED, "84")


# -- faults of this program -----------------------------------------------------------------------------------------------------------


async def test_a_fault_of_this_program_costs_its_own_request_only(
    house: House, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def broken(*_args: Any, **_options: Any) -> None:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(owning, "verify_chain", broken)
        error = await refused(lambda: house.ask(SUM))
    assert error.code == "INTERNAL"
    assert (await house.ask(SUM)).answer == "84"


async def test_a_fault_on_the_way_gives_the_request_its_terminal(
    house: House, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def broken(*_args: Any) -> Event:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(owning.Owner, "_take", broken)
        found = await house.ask(SUM)
    assert (found.outcome, found.reason_code) == (Outcome.FAILED, "INTERNAL")
    assert plain(await house.stored(found.request_id)) == plain(found)
    assert (await house.ask(SUM)).answer == "84"


async def _until(get: Callable[[], Any]) -> None:
    """Poll in virtual time."""
    with trio.fail_after(60):
        while await get() is None:  # noqa: ASYNC110 - a state on disk, not an event
            await trio.sleep(0.01)
