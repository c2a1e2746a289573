"""What every adapter of ``ports.Transport`` and ``ports.Gossip`` does alike: a node runs over any of them unchanged.

A test module that imports * from here gives a fixture ``two`` (a ``Two``): two nodes that reach each other. Nothing here measures time; what
must happen is waited for under a deadline.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
import trio

from gnus_node.net.inbox import MAX_GOSSIP_BYTES
from gnus_node.ports.transport import Answer, Gossip, IncomingCall, Transport
from gnus_node.records.enums import Whose
from gnus_node.records.errors import GnusError
from gnus_node.wire.limits import MAX_FRAME_BYTES

ECHO = "/gnus/echo/1"
PATIENCE_S = 30
MINUTE_MS = 60_000


@dataclass
class Two:
    """Two nodes, ``a`` and ``b``; ``drop_b`` takes the second off the network as a crash would."""

    a: Transport
    b: Transport
    gossip_a: Gossip
    gossip_b: Gossip
    drop_b: Callable[[], Awaitable[None]]


async def echo(call: IncomingCall) -> None:
    await call.send(call.frame)


async def collect(answer: Answer) -> list[bytes]:
    items = []
    while (item := await answer.receive()) is not None:
        items.append(item)
    return items


async def ask(node: Transport, peer: Transport, service: str = ECHO, frame: bytes = b"x", *, budget_ms: int = MINUTE_MS) -> list[bytes]:
    async with node.call(peer.local_key, service, frame, budget_ms=budget_ms) as answer:
        return await collect(answer)


async def code_of(work: Awaitable[object]) -> str:
    try:
        await work
    except GnusError as error:
        return error.code
    return "OK"


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  what it polls has no event
            await trio.sleep(0.005)


class Held:
    """A handler that waits, and tells when it began and how it ended."""

    def __init__(self) -> None:
        self.started, self.release, self.cancelled = trio.Event(), trio.Event(), trio.Event()

    async def __call__(self, call: IncomingCall) -> None:
        self.started.set()
        try:
            await self.release.wait()
        except trio.Cancelled:
            self.cancelled.set()
            raise
        await call.send(b"done")


async def test_items_come_in_order_and_then_the_end(two: Two) -> None:
    async def count(call: IncomingCall) -> None:
        assert call.peer == two.a.local_key, "as the transport proved it"
        for number in range(50):
            await call.send(call.frame + bytes([number]))

    two.b.serve("/gnus/count/1", count, limit=1)
    async with two.a.call(two.b.local_key, "/gnus/count/1", b"n", budget_ms=MINUTE_MS) as answer:
        assert await collect(answer) == [b"n" + bytes([n]) for n in range(50)]
        assert await answer.receive() is None


async def test_both_nodes_see_each_other_and_call_both_ways(two: Two) -> None:
    for node in (two.a, two.b):
        node.serve(ECHO, echo, limit=4)
        assert set(node.peers()) == {two.a.local_key, two.b.local_key}
    assert await ask(two.a, two.b, frame=b"there") == [b"there"]
    assert await ask(two.b, two.a, frame=b"back") == [b"back"]


async def test_a_node_calls_itself_by_the_same_rules(two: Two) -> None:
    held = Held()
    two.a.serve(ECHO, echo, limit=1)
    two.a.serve("/gnus/held/1", held, limit=1)
    assert await ask(two.a, two.a, frame=b"self") == [b"self"]
    assert await code_of(ask(two.a, two.a, frame=b"x" * (MAX_FRAME_BYTES + 1))) == "TOO_LARGE"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, two.a, two.a, "/gnus/held/1")
        await held.started.wait()
        assert await code_of(ask(two.b, two.a, "/gnus/held/1")) == "BUSY", "one limit, whoever calls"
        held.release.set()


async def test_frames_are_bounded_bytes_both_ways(two: Two) -> None:
    async def big(call: IncomingCall) -> None:
        await call.send(b"x" * (MAX_FRAME_BYTES + len(call.frame)))

    two.b.serve(ECHO, echo, limit=1)
    two.b.serve("/gnus/big/1", big, limit=1)
    assert await ask(two.a, two.b, frame=b"y" * MAX_FRAME_BYTES) == [b"y" * MAX_FRAME_BYTES]
    assert await ask(two.a, two.b, frame=b"") == [b""]
    assert await code_of(ask(two.a, two.b, frame=b"y" * (MAX_FRAME_BYTES + 1))) == "TOO_LARGE"
    assert await code_of(ask(two.a, two.b, frame=bytearray(b"y"))) == "INTERNAL"  # type: ignore[arg-type]
    assert await code_of(ask(two.a, two.b, "/gnus/big/1", b"1")) == "TOO_LARGE"
    assert await ask(two.a, two.b, "/gnus/big/1", b"") == [b"x" * MAX_FRAME_BYTES]


async def test_unknown_peers_and_services(two: Two) -> None:
    async def stranger() -> None:
        async with two.a.call(b"\x07" * 32, ECHO, b"", budget_ms=MINUTE_MS) as answer:
            await collect(answer)

    assert await code_of(stranger()) == "UNREACHABLE"
    assert await code_of(ask(two.a, two.b)) == "UNKNOWN_SERVICE"
    two.b.serve(ECHO, echo, limit=1)
    assert await ask(two.a, two.b) == [b"x"], "served from now on"


async def test_a_service_is_served_once_with_a_limit(two: Two) -> None:
    two.a.serve(ECHO, echo, limit=1)
    for limit, service in ((1, ECHO), (0, "/gnus/other/1")):
        with pytest.raises(GnusError, match="INTERNAL"):
            two.a.serve(service, echo, limit=limit)


async def test_beyond_its_limit_a_service_is_busy_and_its_neighbours_are_not(two: Two) -> None:
    held = Held()
    two.b.serve("/gnus/held/1", held, limit=1)
    two.b.serve(ECHO, echo, limit=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, two.a, two.b, "/gnus/held/1")
        await held.started.wait()
        for _ in range(3):
            assert await code_of(ask(two.a, two.b, "/gnus/held/1")) == "BUSY"
        assert await ask(two.a, two.b) == [b"x"]
        held.release.set()
    assert await ask(two.a, two.b, "/gnus/held/1") == [b"done"], "the slot is free again"


async def test_the_budget_ends_the_call_on_both_sides(two: Two) -> None:
    held = Held()
    two.b.serve("/gnus/held/1", held, limit=1)
    async with two.a.call(two.b.local_key, "/gnus/held/1", b"", budget_ms=200) as answer:
        for _ in range(2):
            with pytest.raises(GnusError, match="DEADLINE"):
                await answer.receive()
    with trio.fail_after(PATIENCE_S):
        await held.cancelled.wait()
    for budget in (0, -5):
        assert await code_of(ask(two.a, two.b, "/gnus/held/1", budget_ms=budget)) == "DEADLINE"


async def test_what_shields_itself_does_not_hold_the_caller(two: Two) -> None:
    release, ended = trio.Event(), trio.Event()

    async def stubborn(call: IncomingCall) -> None:
        with trio.CancelScope(shield=True):
            await release.wait()
        ended.set()

    two.b.serve("/gnus/stubborn/1", stubborn, limit=1)
    assert await code_of(ask(two.a, two.b, "/gnus/stubborn/1", budget_ms=150)) == "DEADLINE"
    assert not ended.is_set(), "an effect that is executing goes on"
    release.set()
    with trio.fail_after(PATIENCE_S):
        await ended.wait()


async def test_each_hop_gets_less(two: Two) -> None:
    budgets: list[int] = []

    async def again(call: IncomingCall) -> None:
        budgets.append(call.budget_ms)
        here, there = (two.b, two.a) if call.peer == two.a.local_key else (two.a, two.b)
        if len(budgets) < 12:
            await ask(here, there, "/gnus/again/1", budget_ms=call.budget_ms)

    for node in (two.a, two.b):
        node.serve("/gnus/again/1", again, limit=100)
    assert await ask(two.a, two.b, "/gnus/again/1", budget_ms=30_000) == []
    assert len(budgets) == 12
    assert budgets[0] < 30_000
    assert all(later < earlier for earlier, later in itertools.pairwise(budgets))


async def test_leaving_the_block_cancels_the_handler(two: Two) -> None:
    held = Held()
    two.b.serve("/gnus/held/1", held, limit=1)
    async with two.a.call(two.b.local_key, "/gnus/held/1", b"", budget_ms=MINUTE_MS):
        await held.started.wait()
    with trio.fail_after(PATIENCE_S):
        await held.cancelled.wait()
    await until_free(two, "/gnus/held/1", held)


async def test_cancelling_the_caller_cancels_the_handler(two: Two) -> None:
    held = Held()
    two.b.serve("/gnus/held/1", held, limit=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, two.a, two.b, "/gnus/held/1")
        await held.started.wait()
        nursery.cancel_scope.cancel()
    with trio.fail_after(PATIENCE_S):
        await held.cancelled.wait()
    await until_free(two, "/gnus/held/1", held)


async def until_free(two: Two, service: str, held: Held) -> None:
    """The cancelled call's slot is given back, and the next call is served."""
    held.release.set()
    codes: list[str] = []
    with trio.fail_after(PATIENCE_S):
        while "OK" not in codes:
            codes.append(await code_of(ask(two.a, two.b, service)))
    assert set(codes) <= {"OK", "BUSY"}


async def test_a_fault_of_a_handler_costs_its_own_call(two: Two) -> None:
    held = Held()

    async def faulty(call: IncomingCall) -> None:
        raise RuntimeError("the user's secret words")

    two.b.serve("/gnus/faulty/1", faulty, limit=1)
    two.b.serve("/gnus/held/1", held, limit=1)
    got: list[list[bytes]] = []

    async def neighbour() -> None:
        got.append(await ask(two.a, two.b, "/gnus/held/1"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        await held.started.wait()
        for _ in range(3):
            with pytest.raises(GnusError) as caught:
                await ask(two.a, two.b, "/gnus/faulty/1")
            assert caught.value.code == "INTERNAL"
            assert "secret" not in str(caught.value)
        held.release.set()
    assert got == [[b"done"]]


async def test_typed_errors_travel(two: Two) -> None:
    async def refuse(call: IncomingCall) -> None:
        await call.send(b"first")
        raise GnusError("FENCED", "a newer router goes on", fix="stop", link="mandate", whose=Whose.LOCAL)

    two.b.serve("/gnus/refuse/1", refuse, limit=1)
    for _ in range(3):
        async with two.a.call(two.b.local_key, "/gnus/refuse/1", b"", budget_ms=MINUTE_MS) as answer:
            assert await answer.receive() == b"first"
            for _ in range(2):
                with pytest.raises(GnusError) as caught:
                    await answer.receive()
                error = caught.value
                assert (error.code, error.what, error.fix, error.link) == ("FENCED", "a newer router goes on", "stop", "mandate")
                assert error.whose is Whose.REMOTE


async def test_a_receive_given_up_loses_nothing(two: Two) -> None:
    go = trio.Event()

    async def slow(call: IncomingCall) -> None:
        await call.send(b"1")
        await go.wait()
        await call.send(b"2")

    two.b.serve("/gnus/slow/1", slow, limit=1)
    async with two.a.call(two.b.local_key, "/gnus/slow/1", b"", budget_ms=MINUTE_MS) as answer:
        assert await answer.receive() == b"1"
        with trio.move_on_after(0.05) as scope:
            await answer.receive()
        assert scope.cancelled_caught
        go.set()
        assert await collect(answer) == [b"2"]


async def test_a_handler_that_is_far_ahead_waits(two: Two) -> None:
    sent = 0
    ended = trio.Event()

    async def flood(call: IncomingCall) -> None:
        nonlocal sent
        try:
            for _ in range(200):
                await call.send(b"x" * 500_000)
                sent += 1
        finally:
            ended.set()

    two.b.serve("/gnus/flood/1", flood, limit=1)
    async with two.a.call(two.b.local_key, "/gnus/flood/1", b"", budget_ms=MINUTE_MS) as answer:
        assert await answer.receive() == b"x" * 500_000
    with trio.fail_after(PATIENCE_S):
        await ended.wait()
    assert sent < 100


async def test_many_calls_at_once_keep_apart(two: Two) -> None:
    async def work(call: IncomingCall) -> None:
        for number in range(3):
            await call.send(call.frame + bytes([number]))
            await trio.lowlevel.checkpoint()

    two.b.serve("/gnus/work/1", work, limit=64)
    codes: list[str] = []

    async def one(number: int) -> None:
        frame = number.to_bytes(2, "big") * 200

        async def check() -> None:
            assert await ask(two.a, two.b, "/gnus/work/1", frame) == [frame + bytes([n]) for n in range(3)]

        codes.append(await code_of(check()))

    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(one, number)
    assert codes == ["OK"] * 120


async def test_a_peer_that_goes_away_is_unreachable_and_its_handlers_end(two: Two) -> None:
    held = Held()
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    two.a.watch(changed)
    two.b.serve("/gnus/held/1", held, limit=1)
    codes: list[str] = []

    async def calling() -> None:
        codes.append(await code_of(ask(two.a, two.b, "/gnus/held/1")))

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(calling)
            await held.started.wait()
            await two.drop_b()
    assert codes == ["UNREACHABLE"]
    with trio.fail_after(PATIENCE_S):
        await held.cancelled.wait()
    await until(lambda: two.a.peers() == (two.a.local_key,))
    assert changes
    assert await code_of(ask(two.a, two.b, "/gnus/held/1", budget_ms=5_000)) == "UNREACHABLE"
    two.a.serve(ECHO, echo, limit=1)
    assert await ask(two.a, two.a) == [b"x"], "the node itself goes on"


async def test_gossip_reaches_the_other_once_and_not_oneself(two: Two) -> None:
    got: list[tuple[str, bytes, bytes]] = []

    async def subscribe(name: str, gossip: Gossip) -> None:
        async def handler(author: bytes, data: bytes) -> None:
            got.append((name, author, data))

        await gossip.subscribe("gnus/test/1", lambda author, data: data != b"bad", handler)

    await subscribe("a", two.gossip_a)
    await subscribe("b", two.gossip_b)
    with pytest.raises(GnusError, match="INTERNAL"):
        await subscribe("a", two.gossip_a)
    number = 0
    with trio.fail_after(PATIENCE_S):
        while not any(name == "b" and data.startswith(b"hello") for name, _, data in got):
            # A subscription takes a moment to be known.
            number += 1
            await two.gossip_a.publish("gnus/test/1", b"hello %d" % number)
            await trio.sleep(0.05)
    for _ in range(3):
        await two.gossip_a.publish("gnus/test/1", b"bad")
        await two.gossip_a.publish("gnus/test/1", b"once")
    await two.gossip_a.publish("gnus/test/1", b"z" * MAX_GOSSIP_BYTES)
    await two.gossip_b.publish("gnus/test/1", b"from b")
    await until(lambda: any(len(data) == MAX_GOSSIP_BYTES for _, _, data in got) and any(data == b"from b" for _, _, data in got))
    assert [row for row in got if row[2] == b"once"] == [("b", two.a.local_key, b"once")]
    assert not [row for row in got if row[2] == b"bad"]
    assert [row for row in got if row[2] == b"from b"] == [("a", two.b.local_key, b"from b")]
    with pytest.raises(GnusError, match="TOO_LARGE"):
        await two.gossip_a.publish("gnus/test/1", b"z" * (MAX_GOSSIP_BYTES + 1))


async def test_a_check_or_handler_that_fails_costs_its_own_message(two: Two) -> None:
    got: list[bytes] = []

    def check(author: bytes, data: bytes) -> bool:
        if data == b"bad check":
            raise RuntimeError("no")
        return True

    async def handler(author: bytes, data: bytes) -> None:
        if data == b"bad handler":
            raise RuntimeError("no")
        got.append(data)

    await two.gossip_b.subscribe("gnus/test/1", check, handler)
    number = 0
    with trio.fail_after(PATIENCE_S):
        while len(got) < 5:
            number += 1
            for data in (b"bad check", b"bad handler", b"good %d" % number):
                await two.gossip_a.publish("gnus/test/1", data)
            await trio.sleep(0.05)
    assert all(data.startswith(b"good") for data in got)
    two.b.serve(ECHO, echo, limit=1)
    assert await ask(two.a, two.b) == [b"x"]
