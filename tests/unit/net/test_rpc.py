"""Typed calls: progress at once, one result, junk from either side typed, budgets within the service's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.net import services
from gnus_node.net.memory_transport import MemoryBus, MemoryTransport
from gnus_node.net.rpc import PROGRESS, Request, request, serve
from gnus_node.net.services import SERVICES, services_table
from gnus_node.ports.transport import IncomingCall
from gnus_node.records.enums import RoleName, Whose
from gnus_node.records.errors import GnusError
from gnus_node.wire.limits import MAX_FRAME_BYTES
from gnus_node.wire.message import Message
from tests.unit.net.virtual import passes

A, B = b"a" * 32, b"b" * 32
RUN = "expert.run"
HELLO = Message(records=(b"\x80",), parcels={b"c" * 32: b"sealed"}, key_box=b"box", args={"n": 1})


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[MemoryTransport, MemoryTransport]]:
    bus = MemoryBus()
    async with bus.attach(A) as a, bus.attach(B) as b:
        yield a, b


async def refused(a: MemoryTransport, message: Message = HELLO, service: str = RUN, budget_ms: int = 1000) -> GnusError:
    with pytest.raises(GnusError) as caught:
        await request(a, B, service, message, budget_ms=budget_ms)
    return caught.value


async def test_progress_arrives_at_once_and_the_result_last(autojump_clock: trio.testing.MockClock) -> None:
    async def handler(asked: Request) -> Message:
        assert asked.peer == A
        assert asked.message == HELLO
        for word in ("one", "two"):
            await asked.progress(Message(args={"word": word}))
            await passes(0.1)
        return Message(args={"word": "end"})

    seen: list[tuple[float, str, int]] = []

    async def on_item(item: Message) -> None:
        seen.append((trio.current_time(), item.args["word"], item.args[PROGRESS]))

    async with pair() as (a, b):
        serve(b, RUN, handler)
        start = trio.current_time()
        result = await request(a, B, RUN, HELLO, budget_ms=1000, on_item=on_item)
        assert result.args == {"word": "end"}
        assert seen == [(pytest.approx(start), "one", 1), (pytest.approx(start + 0.1), "two", 2)]
        assert (await request(a, B, RUN, HELLO, budget_ms=1000)).args == {"word": "end"}, "progress may be ignored"


async def test_a_handler_s_error_and_a_foreign_one() -> None:
    async def handler(asked: Request) -> Message:
        if asked.message.args:
            raise GnusError("NO_EVIDENCE", "nothing found", link="ground")
        raise KeyError("a user's words")

    async with pair() as (a, b):
        serve(b, RUN, handler)
        error = await refused(a)
        assert (error.code, error.what, error.link) == ("NO_EVIDENCE", "nothing found", "ground")
        error = await refused(a, Message())
        assert error.code == "INTERNAL"
        assert "words" not in error.what


PROGRESS_1 = Message(args={PROGRESS: 1}).encode()
PROGRESS_2 = Message(args={PROGRESS: 2}).encode()
RESULT = Message().encode()


@pytest.mark.parametrize(
    "items",
    [
        [],
        [b""],
        [b"junk"],
        [RESULT + b"\x00"],
        [PROGRESS_1],
        [PROGRESS_2, RESULT],
        [PROGRESS_1, PROGRESS_1, RESULT],
        [Message(args={PROGRESS: True}).encode(), RESULT],
        [Message(args={PROGRESS: "1"}).encode(), RESULT],
        [RESULT, RESULT],
        [RESULT, PROGRESS_1],
        [PROGRESS_1, b"\xa0", RESULT],
    ],
)
async def test_a_peer_that_breaks_the_protocol_is_named(items: list[bytes]) -> None:
    async def handler(call: IncomingCall) -> None:
        for item in items:
            await call.send(item)

    async with pair() as (a, b):
        b.serve(SERVICES[RUN].protocol, handler, limit=1)
        error = await refused(a)
        assert (error.code, error.whose, error.link) == ("PROTOCOL", Whose.REMOTE, RUN)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.binary(max_size=40) | st.sampled_from([PROGRESS_1, PROGRESS_2, RESULT]), max_size=6))
def test_whatever_a_peer_sends_ends_in_a_result_or_a_typed_error(items: list[bytes]) -> None:
    async def main() -> None:
        async def handler(call: IncomingCall) -> None:
            for item in items:
                await call.send(item)

        async with pair() as (a, b):
            b.serve(SERVICES[RUN].protocol, handler, limit=1)
            if items in ([RESULT], [PROGRESS_1, RESULT], [PROGRESS_1, PROGRESS_2, RESULT]):
                assert await request(a, B, RUN, HELLO, budget_ms=1000) == Message()
            else:
                assert (await refused(a)).code == "PROTOCOL"

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_caller_s_junk_never_reaches_the_handler() -> None:
    reached = False

    async def handler(asked: Request) -> Message:
        nonlocal reached
        reached = True
        return Message()

    async with pair() as (a, b):
        serve(b, RUN, handler)
        for frame in (b"", b"junk", RESULT + b"\x00", b"\xff" * 100):
            with pytest.raises(GnusError) as caught:
                async with a.call(B, SERVICES[RUN].protocol, frame, budget_ms=1000) as answer:
                    await answer.receive()
            assert caught.value.code in ("MALFORMED", "NON_CANONICAL")
        assert not reached


async def test_the_progress_argument_is_kept_for_progress() -> None:
    async def as_result(asked: Request) -> Message:
        return Message(args={PROGRESS: 1})

    async def as_progress(asked: Request) -> Message:
        await asked.progress(Message(args={PROGRESS: 7}))
        return Message()

    async with pair() as (a, b):
        serve(b, RUN, as_result)
        serve(b, "router.route", as_progress)
        assert (await refused(a)).code == "INTERNAL"
        assert (await refused(a, service="router.route")).code == "INTERNAL"


async def test_sizes_services_and_budgets(autojump_clock: trio.testing.MockClock) -> None:
    budgets: list[int] = []

    async def handler(asked: Request) -> Message:
        budgets.append(asked.budget_ms)
        if asked.message.args.get("big"):
            return Message(records=(b"r" * 60_000,) * 20)
        return Message()

    async with pair() as (a, b):
        serve(b, "memory.get", handler)
        await request(a, B, "memory.get", HELLO, budget_ms=10**9)
        await request(a, B, "memory.get", HELLO, budget_ms=50)
        longest = SERVICES["memory.get"].max_budget_ms
        assert budgets == [longest - 1, 49]
        too_big = Message(records=(b"r" * 60_000,) * (MAX_FRAME_BYTES // 60_000 + 1))
        assert (await refused(a, too_big, "memory.get")).code == "TOO_LARGE"
        assert (await refused(a, Message(args={"big": True}), "memory.get")).code == "TOO_LARGE"
        assert (await refused(a, service="settlement.get")).code == "UNKNOWN_SERVICE"
        assert (await refused(a, service="no.such")).code == "UNKNOWN_SERVICE"
        assert (await refused(a, service="memory.get", budget_ms=0)).code == "DEADLINE"


async def test_a_slow_reader_s_time_counts(autojump_clock: trio.testing.MockClock) -> None:
    async def handler(asked: Request) -> Message:
        await asked.progress(Message())
        return Message()

    async def dawdle(_item: Message) -> None:
        await passes(2)

    async with pair() as (a, b):
        serve(b, RUN, handler)
        with pytest.raises(GnusError) as caught:
            await request(a, B, RUN, HELLO, budget_ms=1000, on_item=dawdle)
        assert caught.value.code == "DEADLINE"


def test_the_table_of_services() -> None:
    protocols = {row.protocol for row in SERVICES.values()}
    assert len(protocols) == len(SERVICES)
    assert SERVICES[RUN].protocol == "/gnus/expert.run/1"
    assert SERVICES["records.get"].protocol == "/gnus/records/1", "as DECISIONS fixes it"
    assert all(row.limit > 0 and row.max_budget_ms > 0 and row.version > 0 for row in SERVICES.values())
    assert {role for row in SERVICES.values() for role in row.roles} == set(RoleName) - {RoleName.INGRESS}
    assert services.service("trust.sync").roles == ()
    assert services_table().count("\n") == len(SERVICES) + 2
