"""The one queue: its bounds, its fairness, and that no place is ever lost, whoever leaves when."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.flow.queue import FairQueue
from gnus_node.records.errors import GnusError


async def test_a_full_line_is_busy_and_a_request_that_was_accepted_before_is_not() -> None:
    queue = FairQueue(1, 1)
    entered: list[str] = []
    go = trio.Event()

    async def one(name: str, **options: bool) -> None:
        async with queue.turn("t", **options):
            entered.append(name)
            await go.wait()

    async with trio.open_nursery() as nursery:
        for name in ("first", "waits"):
            nursery.start_soon(one, name)
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(GnusError) as error:
            await one("refused")
        assert error.value.code == "BUSY"
        nursery.start_soon(lambda: one("recovered", bounded=False))
        await trio.testing.wait_all_tasks_blocked()
        assert (entered, queue.waiting) == (["first"], 2)
        go.set()
    assert entered == ["first", "waits", "recovered"]
    assert queue.waiting == 0


async def test_tenants_take_turns_and_each_keeps_its_own_order() -> None:
    queue = FairQueue(1, 100)
    order: list[str] = []

    async def one(tenant: str, number: int) -> None:
        async with queue.turn(tenant):
            order.append(f"{tenant}{number}")
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery, queue.turn("held"):
        for tenant, count in (("a", 5), ("b", 2), ("c", 1)):
            for number in range(count):
                nursery.start_soon(one, tenant, number)
                await trio.testing.wait_all_tasks_blocked()
    assert order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4"]


async def test_time_in_line_is_bounded(autojump_clock: trio.testing.MockClock) -> None:
    queue = FairQueue(1, 10)
    async with queue.turn("a"):
        with pytest.raises(GnusError) as error:
            async with queue.turn("b", wait_s=5):
                pytest.fail("no place was free")
        assert error.value.code == "DEADLINE"
        assert trio.current_time() == 5
        assert queue.waiting == 0
    async with queue.turn("b", wait_s=0):
        pass


Step = st.tuples(st.sampled_from(["come", "leave", "end"]), st.sampled_from("abc"), st.integers(0, 9))


@settings(deadline=None, max_examples=60)
@given(places=st.integers(1, 3), room=st.integers(0, 4), steps=st.lists(Step, max_size=40))
def test_whoever_leaves_when_no_place_is_lost_or_given_twice(places: int, room: int, steps: list[tuple[str, str, int]]) -> None:
    async def world() -> None:
        queue = FairQueue(places, room)
        scopes: list[trio.CancelScope] = []
        ends: list[trio.Event] = []
        inside: Counter[str] = Counter()

        async def visit(tenant: str, scope: trio.CancelScope, end: trio.Event) -> None:
            try:
                with scope:
                    async with queue.turn(tenant):
                        inside[tenant] += 1
                        assert inside.total() <= places, "a place was given twice"
                        try:
                            await end.wait()
                        finally:
                            inside[tenant] -= 1
            except GnusError as error:
                assert error.code == "BUSY"  # noqa: PT017 - one of two outcomes

        async with trio.open_nursery() as nursery:
            for what, tenant, number in steps:
                if what == "come":
                    scopes.append(trio.CancelScope())
                    ends.append(trio.Event())
                    nursery.start_soon(visit, tenant, scopes[-1], ends[-1])
                elif scopes:
                    chosen = number % len(scopes)
                    (scopes[chosen].cancel if what == "leave" else ends[chosen].set)()
                if number % 2:
                    await trio.testing.wait_all_tasks_blocked()
                    assert queue.waiting == 0 or inside.total() == places, "somebody waits beside a free place"
                assert queue.waiting <= room
            for end in ends:
                end.set()
        assert inside.total() == 0
        assert queue.waiting == 0
        with trio.fail_after(1):  # every place is free again: all can be held at the same time
            async with trio.open_nursery() as nursery:
                for _ in range(places):
                    await nursery.start(_hold, queue)
                nursery.cancel_scope.cancel()

    trio.run(world, clock=trio.testing.MockClock(autojump_threshold=0))


async def _hold(queue: FairQueue, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    async with queue.turn("x"):
        task_status.started()
        await trio.sleep_forever()
