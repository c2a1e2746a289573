"""The in-memory transport keeps what a network would: limits, budgets, order, cancellation, and one call's failure to itself."""

from __future__ import annotations

import contextvars
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from gnus_node.net.boundary import typed
from gnus_node.net.memory_transport import HOP_MS, ITEM_BUFFER, MAX_INCOMING, Faults, MemoryBus, MemoryTransport
from gnus_node.ports.transport import Answer, IncomingCall, Transport
from gnus_node.records.enums import Whose
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.log import StreamSink, make_log
from gnus_node.wire.limits import MAX_FRAME_BYTES
from tests.unit.net.virtual import passes

A, B, C = b"a" * 32, b"b" * 32, b"c" * 32
ECHO = "/gnus/echo/1"


async def echo(call: IncomingCall) -> None:
    await call.send(call.frame)


async def collect(answer: Answer) -> list[bytes]:
    items = []
    while (item := await answer.receive()) is not None:
        items.append(item)
    return items


async def ask(transport: Transport, peer: bytes, service: str = ECHO, frame: bytes = b"x", *, budget_ms: int = 1000) -> list[bytes]:
    async with transport.call(peer, service, frame, budget_ms=budget_ms) as answer:
        return await collect(answer)


async def code_of(work: Callable[[], Awaitable[object]]) -> str:
    """The code of the error the work ends in."""
    try:
        await work()
    except GnusError as error:
        return error.code
    return "OK"


@asynccontextmanager
async def pair(bus: MemoryBus | None = None) -> AsyncIterator[tuple[MemoryTransport, MemoryTransport]]:
    """Two nodes on a bus."""
    bus = bus or MemoryBus()
    async with bus.attach(A) as a, bus.attach(B) as b:
        yield a, b


async def test_items_come_in_order_and_then_the_end() -> None:
    async def count(call: IncomingCall) -> None:
        assert call.peer == A
        for number in range(20):
            await call.send(call.frame + bytes([number]))

    async with pair() as (a, b):
        b.serve("/gnus/count/1", count, limit=1)
        async with a.call(B, "/gnus/count/1", b"n", budget_ms=1000) as answer:
            assert await collect(answer) == [b"n" + bytes([n]) for n in range(20)]
            assert await answer.receive() is None


async def test_a_node_calls_itself_by_the_same_path() -> None:
    async with pair() as (a, _b):
        a.serve(ECHO, echo, limit=1)
        assert await ask(a, A, frame=b"self") == [b"self"]
        assert await code_of(lambda: ask(a, A, frame=b"x" * (MAX_FRAME_BYTES + 1))) == "TOO_LARGE"


async def test_frames_are_bounded_bytes_both_ways() -> None:
    async def big(call: IncomingCall) -> None:
        await call.send(b"x" * (MAX_FRAME_BYTES + len(call.frame)))

    async with pair() as (a, b):
        b.serve(ECHO, echo, limit=1)
        b.serve("/gnus/big/1", big, limit=1)
        assert await ask(a, B, frame=b"y" * MAX_FRAME_BYTES) == [b"y" * MAX_FRAME_BYTES]
        assert await code_of(lambda: ask(a, B, frame=b"y" * (MAX_FRAME_BYTES + 1))) == "TOO_LARGE"
        assert await code_of(lambda: ask(a, B, frame=bytearray(b"y"))) == "INTERNAL"  # type: ignore[arg-type]
        assert await ask(a, B, "/gnus/big/1", b"") == [b"x" * MAX_FRAME_BYTES]
        assert await code_of(lambda: ask(a, B, "/gnus/big/1", b"1")) == "TOO_LARGE"


async def test_unknown_peers_and_services() -> None:
    async with pair() as (a, b):
        assert await code_of(lambda: ask(a, C)) == "UNREACHABLE"
        assert await code_of(lambda: ask(a, B)) == "UNKNOWN_SERVICE"
        assert a.peers() == (A, B)
        assert b.local_key == B


async def test_a_service_is_served_once_with_a_limit() -> None:
    async with pair() as (a, _b):
        a.serve(ECHO, echo, limit=1)
        for limit, service in ((1, ECHO), (0, "/gnus/other/1")):
            with pytest.raises(GnusError, match="INTERNAL"):
                a.serve(service, echo, limit=limit)


async def test_beyond_its_limit_a_service_is_busy_and_its_neighbours_are_not(autojump_clock: trio.testing.MockClock) -> None:
    held, release = trio.Event(), trio.Event()

    async def hold(call: IncomingCall) -> None:
        held.set()
        await release.wait()

    async with pair() as (a, b), trio.open_nursery() as nursery:
        b.serve("/gnus/hold/1", hold, limit=1)
        b.serve(ECHO, echo, limit=1)
        nursery.start_soon(ask, a, B, "/gnus/hold/1")
        await held.wait()
        assert await code_of(lambda: ask(a, B, "/gnus/hold/1")) == "BUSY"
        assert await ask(a, B) == [b"x"]
        release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert await ask(a, B, "/gnus/hold/1") == [], "the slot is free again"


async def test_a_node_has_an_end_of_incoming_calls(autojump_clock: trio.testing.MockClock) -> None:
    bus = MemoryBus(latency_ms=lambda source, target, size: 50.0)
    codes: list[str] = []

    async def one() -> None:
        codes.append(await code_of(lambda: ask(a, B)))

    async with pair(bus) as (a, b):
        b.serve(ECHO, echo, limit=2 * MAX_INCOMING)
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_INCOMING + 3):
                nursery.start_soon(one)
    assert sorted(codes) == ["BUSY"] * 3 + ["OK"] * MAX_INCOMING


async def test_a_handler_is_cancelled_when_the_budget_is_over(autojump_clock: trio.testing.MockClock) -> None:
    ended: list[float] = []

    async def forever(call: IncomingCall) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async with pair() as (a, b):
        b.serve("/gnus/forever/1", forever, limit=1)
        start = trio.current_time()
        assert await code_of(lambda: ask(a, B, "/gnus/forever/1", budget_ms=250)) == "DEADLINE"
        assert ended == [pytest.approx(start + 0.249)]
        for budget in (0, -5):
            assert await code_of(lambda budget=budget: ask(a, B, "/gnus/forever/1", budget_ms=budget)) == "DEADLINE"
        assert await code_of(lambda: ask(a, B, "/gnus/forever/1", budget_ms=HOP_MS)) == "DEADLINE"


async def test_the_caller_gives_up_by_itself_where_the_handler_does_not(autojump_clock: trio.testing.MockClock) -> None:
    """An effect that is executing shields itself; the caller's deadline does not wait for it."""
    done: list[float] = []

    async def stubborn(call: IncomingCall) -> None:
        with trio.CancelScope(shield=True):
            await passes(5)
        done.append(trio.current_time())

    async with pair() as (a, b):
        b.serve("/gnus/stubborn/1", stubborn, limit=1)
        start = trio.current_time()
        async with a.call(B, "/gnus/stubborn/1", b"", budget_ms=100) as answer:
            assert await code_of(answer.receive) == "DEADLINE"
            assert trio.current_time() == pytest.approx(start + 0.1)
            assert await code_of(answer.receive) == "DEADLINE", "and stays so"
    assert done == [pytest.approx(start + 5)], "leaving the bus waited for what shields itself"


async def test_each_hop_gets_less_and_no_cycle_is_endless(autojump_clock: trio.testing.MockClock) -> None:
    budgets: list[int] = []

    async def again(call: IncomingCall) -> None:
        budgets.append(call.budget_ms)
        await ask(b if call.peer == A else a, call.peer, "/gnus/again/1", budget_ms=call.budget_ms)

    async with pair() as (a, b):
        for node in (a, b):
            node.serve("/gnus/again/1", again, limit=100)
        assert await code_of(lambda: ask(a, B, "/gnus/again/1", budget_ms=40)) == "DEADLINE"
    assert budgets == list(range(39, 0, -1))


async def test_the_budget_left_shrinks_with_time(autojump_clock: trio.testing.MockClock) -> None:
    budgets: list[int] = []

    async def slow(call: IncomingCall) -> None:
        budgets.append(call.budget_ms)
        await passes(0.1)
        budgets.append(call.budget_ms)

    async with pair(MemoryBus(latency_ms=lambda source, target, size: 20.0)) as (a, b):
        b.serve("/gnus/slow/1", slow, limit=1)
        assert await ask(a, B, "/gnus/slow/1", budget_ms=1000) == []
    assert budgets == [979, 879]


async def test_leaving_the_block_cancels_the_handler(autojump_clock: trio.testing.MockClock) -> None:
    started, cancelled = trio.Event(), trio.Event()

    async def forever(call: IncomingCall) -> None:
        started.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.set()
            raise

    async with pair() as (a, b):
        b.serve("/gnus/forever/1", forever, limit=1)
        async with a.call(B, "/gnus/forever/1", b"", budget_ms=60_000):
            await started.wait()
        with trio.fail_after(0.001):
            await cancelled.wait()
        started, cancelled = trio.Event(), trio.Event()
        with trio.move_on_after(0.5):
            await ask(a, B, "/gnus/forever/1", budget_ms=60_000)
        with trio.fail_after(0.001):
            await cancelled.wait()


async def test_word_of_leaving_takes_the_latency(autojump_clock: trio.testing.MockClock) -> None:
    times: list[float] = []

    async def forever(call: IncomingCall) -> None:
        try:
            await trio.sleep_forever()
        finally:
            times.append(trio.current_time())

    async with pair(MemoryBus(latency_ms=lambda source, target, size: 30.0)) as (a, b):
        b.serve("/gnus/forever/1", forever, limit=1)
        start = trio.current_time()
        with trio.move_on_after(0.2):
            await ask(a, B, "/gnus/forever/1", budget_ms=60_000)
        await passes(1)
        assert times == [pytest.approx(start + 0.23)]


async def test_a_fault_of_a_handler_costs_its_own_call_and_is_logged_without_its_text() -> None:
    stream = io.StringIO()
    started, release = trio.Event(), trio.Event()

    class Clock:
        def wall_ms(self) -> int:
            return 0

        def monotonic(self) -> float:
            return 0.0

    async def faulty(call: IncomingCall) -> None:
        raise RuntimeError("the user's secret words")

    async def patient(call: IncomingCall) -> None:
        started.set()
        await release.wait()
        await call.send(b"fine")

    bus = MemoryBus()
    got: list[list[bytes]] = []
    async with bus.attach(A) as a, bus.attach(B, log=make_log(StreamSink(stream), clock=Clock())) as b:
        b.serve("/gnus/faulty/1", faulty, limit=1)
        b.serve("/gnus/patient/1", patient, limit=1)
        async with trio.open_nursery() as nursery:

            async def neighbour() -> None:
                got.append(await ask(a, B, "/gnus/patient/1", budget_ms=60_000))

            nursery.start_soon(neighbour)
            await started.wait()
            for _ in range(3):
                with pytest.raises(GnusError) as caught:
                    await ask(a, B, "/gnus/faulty/1")
                assert caught.value.code == "INTERNAL"
                assert "secret" not in str(caught.value)
            release.set()
    assert got == [[b"fine"]]
    logged = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in logged] == ["rpc.handler_fault"] * 3
    assert logged[0]["fault"] == "RuntimeError"
    assert "test_memory_transport.py" in logged[0]["where"]
    assert "secret" not in stream.getvalue()


async def test_typed_errors_travel_as_a_network_would_carry_them() -> None:
    async def refuse(call: IncomingCall) -> None:
        await call.send(b"first")
        raise GnusError("FENCED", "a newer router goes on", fix="stop", link="mandate", whose=Whose.LOCAL)

    async with pair() as (a, b):
        b.serve("/gnus/refuse/1", refuse, limit=1)
        async with a.call(B, "/gnus/refuse/1", b"", budget_ms=1000) as answer:
            assert await answer.receive() == b"first", "what was sent before the error arrives"
            for _ in range(2):
                with pytest.raises(GnusError) as caught:
                    await answer.receive()
                error = caught.value
                assert (error.code, error.what, error.fix, error.link) == ("FENCED", "a newer router goes on", "stop", "mandate")
                assert error.whose is Whose.REMOTE, "to the caller it is the other side's"


def test_a_nursery_s_group_of_typed_errors_becomes_the_least_definite_of_them() -> None:
    sure, unsure = GnusError("BUSY"), GnusError("UNREACHABLE")
    assert typed(ExceptionGroup("", [sure])) is sure
    assert typed(ExceptionGroup("", [sure, ExceptionGroup("", [unsure])])) is unsure
    assert typed(ExceptionGroup("", [sure, ValueError("text")])).code == "INTERNAL"
    assert typed(ValueError("text")).code == "INTERNAL"


async def test_a_handler_with_a_nursery_keeps_its_code() -> None:
    async def fail() -> None:
        raise GnusError("NO_EXPERT")

    async def grouped(call: IncomingCall) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(trio.sleep_forever)

    async with pair() as (a, b):
        b.serve("/gnus/grouped/1", grouped, limit=1)
        assert await code_of(lambda: ask(a, B, "/gnus/grouped/1")) == "NO_EXPERT"


async def test_a_handler_that_is_ahead_waits(autojump_clock: trio.testing.MockClock) -> None:
    sent = 0

    async def flood(call: IncomingCall) -> None:
        nonlocal sent
        for _ in range(100):
            await call.send(b"x")
            sent += 1

    async with pair() as (a, b):
        b.serve("/gnus/flood/1", flood, limit=1)
        async with a.call(B, "/gnus/flood/1", b"", budget_ms=1000) as answer:
            await trio.testing.wait_all_tasks_blocked()
            assert sent == ITEM_BUFFER
            assert await answer.receive() == b"x"
            await trio.testing.wait_all_tasks_blocked()
            assert sent == ITEM_BUFFER + 1
            assert len(await collect(answer)) == 99


@pytest.mark.parametrize("who", ["peer", "caller"])
async def test_a_killed_node_s_calls_are_unreachable_at_once(who: str, autojump_clock: trio.testing.MockClock) -> None:
    started, cancelled = trio.Event(), trio.Event()

    async def forever(call: IncomingCall) -> None:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with pair() as (a, b):
        b.serve("/gnus/forever/1", forever, limit=1)
        codes: list[str] = []

        async def calling() -> None:
            codes.append(await code_of(lambda: ask(a, B, "/gnus/forever/1", budget_ms=60_000)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(calling)
            await started.wait()
            start = trio.current_time()
            (b if who == "peer" else a).kill()
        assert codes == ["UNREACHABLE"]
        await cancelled.wait()
        assert trio.current_time() == start
        assert await code_of(lambda: ask(a, B)) == "UNREACHABLE"
        assert await code_of(lambda: ask(b, A)) == "UNREACHABLE"
        assert (a.peers(), b.peers()) == (((A,), ()) if who == "peer" else ((), (B,)))


async def test_items_on_their_way_die_with_the_node(autojump_clock: trio.testing.MockClock) -> None:
    async def push(call: IncomingCall) -> None:
        await call.send(b"x")
        await trio.sleep_forever()

    async with pair(MemoryBus(latency_ms=lambda source, target, size: 100.0)) as (a, b):
        b.serve("/gnus/push/1", push, limit=1)
        async with a.call(B, "/gnus/push/1", b"", budget_ms=60_000) as answer:
            await passes(0.15)  # the item has been sent and has not arrived
            b.kill()
            assert await code_of(answer.receive) == "UNREACHABLE"


async def test_a_detached_node_ends_its_calls_and_takes_no_new_ones(autojump_clock: trio.testing.MockClock) -> None:
    started, release = trio.Event(), trio.Event()

    async def hold(call: IncomingCall) -> None:
        started.set()
        await release.wait()
        await call.send(b"done")

    async with pair() as (a, b):
        b.serve("/gnus/hold/1", hold, limit=5)
        async with a.call(B, "/gnus/hold/1", b"", budget_ms=60_000) as answer:
            await started.wait()
            b.detach()
            assert await code_of(lambda: ask(a, B, "/gnus/hold/1")) == "UNREACHABLE"
            assert await code_of(lambda: ask(b, A)) == "UNREACHABLE"
            release.set()
            assert await collect(answer) == [b"done"]


async def test_a_key_is_on_the_bus_once_and_may_come_back() -> None:
    bus = MemoryBus()
    async with bus.attach(A) as a, bus.attach(B) as b:
        with pytest.raises(GnusError, match="ALREADY_RUNNING"):
            async with bus.attach(B):
                pass
        b.kill()
        async with bus.attach(B) as again:
            again.serve(ECHO, echo, limit=1)
            assert await ask(a, B) == [b"x"]
            b.kill()
            assert await ask(a, B) == [b"x"], "the old node's end does not touch the new one"
            assert await code_of(lambda: ask(b, A)) == "UNREACHABLE", "and the old one does not speak for it"


async def test_a_cut_link(autojump_clock: trio.testing.MockClock) -> None:
    bus = MemoryBus()

    async def slow(call: IncomingCall) -> None:
        await call.send(b"1")
        await passes(1)
        await call.send(b"2")

    async with pair(bus) as (a, b):
        b.serve("/gnus/slow/1", slow, limit=5)
        a.serve(ECHO, echo, limit=5)
        async with a.call(B, "/gnus/slow/1", b"", budget_ms=60_000) as answer:
            assert await answer.receive() == b"1"
            bus.faults = Faults(cut=lambda source, target: (source, target) == (B, A))
            start = trio.current_time()
            assert await code_of(answer.receive) == "UNREACHABLE"
            assert trio.current_time() == start + 1, "when its next frame would cross"
        assert await code_of(lambda: ask(b, A)) == "UNREACHABLE"
        assert (a.peers(), b.peers()) == ((A, B), (B,))
        bus.faults = Faults()
        assert await ask(b, A) == [b"x"]


async def test_a_lost_frame_is_silence_until_the_deadline(autojump_clock: trio.testing.MockClock) -> None:
    ran: list[bytes] = []

    async def three(call: IncomingCall) -> None:
        ran.append(call.frame)
        for item in (b"1", b"2", b"3"):
            await call.send(item)

    cases = (((A, B, 1), []), ((B, A, 1), []), ((B, A, 2), [b"1"]), ((B, A, 4), [b"1", b"2", b"3"]))
    for lost, items in cases:
        bus = MemoryBus(faults=Faults(lose=lambda *frame, lost=lost: frame == lost))  # type: ignore[misc]
        async with pair(bus) as (a, b):
            b.serve("/gnus/three/1", three, limit=1)
            got: list[bytes] = []
            start = trio.current_time()

            async def drain() -> None:
                async with a.call(B, "/gnus/three/1", b"f", budget_ms=500) as answer:
                    while (item := await answer.receive()) is not None:
                        got.append(item)  # noqa: B023

            assert await code_of(drain) == "DEADLINE"
            assert got == items, "nothing after the lost frame arrives"
            assert trio.current_time() == pytest.approx(start + 0.5)
    assert len(ran) == 3, "a lost request never reaches the handler, a lost answer leaves its work done"


async def test_frames_keep_their_order_under_uneven_latency(autojump_clock: trio.testing.MockClock) -> None:
    async def shrinking(call: IncomingCall) -> None:
        for size in (5, 3, 1):
            await call.send(b"x" * size)

    async with pair(MemoryBus(latency_ms=lambda source, target, size: 100.0 * size)) as (a, b):
        b.serve("/gnus/shrinking/1", shrinking, limit=1)
        start = trio.current_time()
        assert [len(item) for item in await ask(a, B, "/gnus/shrinking/1", b"", budget_ms=60_000)] == [5, 3, 1]
        assert trio.current_time() == pytest.approx(start + 0.5), "frames travel together, not one after the other"


async def test_nothing_but_bytes_crosses() -> None:
    """A context variable of the caller would be a second channel that no network has."""
    secret: contextvars.ContextVar[str] = contextvars.ContextVar("secret", default="none")

    async def tell(call: IncomingCall) -> None:
        await call.send(secret.get().encode())

    async with pair() as (a, b):
        b.serve("/gnus/tell/1", tell, limit=1)
        secret.set("of the caller")
        assert await ask(a, B, "/gnus/tell/1") == [b"none"]


def test_the_same_script_gives_the_same_run() -> None:
    def run() -> list[tuple[float, str]]:
        trace: list[tuple[float, str]] = []

        async def work(call: IncomingCall) -> None:
            await passes(len(call.frame) / 10)
            await call.send(call.frame)

        async def main() -> None:
            bus = MemoryBus(
                latency_ms=lambda source, target, size: 1.0 + 7.0 * size + source[0] / 16,
                faults=Faults(lose=lambda source, target, number: number % 5 == 0),
            )
            async with bus.attach(A) as a, bus.attach(B) as b, bus.attach(C) as c:
                for node in (a, b, c):
                    node.serve(ECHO, work, limit=3)

                async def one(node: MemoryTransport, peer: bytes, size: int) -> None:
                    code = await code_of(lambda: ask(node, peer, frame=b"y" * size, budget_ms=900 + size))
                    trace.append((trio.current_time(), f"{node.local_key[:1]!r} {peer[:1]!r} {size} {code}"))

                for size in range(1, 9):
                    async with trio.open_nursery() as nursery:
                        for number, node in enumerate((a, b, c)):
                            with_latency = (A, B, C)[(number + 1) % 3]
                            nursery.start_soon(one, node, with_latency, size)
                        await passes(0.01 * size)

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        return sorted(trace)

    first = run()
    assert first == run()
    assert {line.rsplit(" ", 1)[1] for _, line in first} >= {"OK", "DEADLINE"}
