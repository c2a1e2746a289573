"""A network that is closed leaves nothing: no file, no task, no stream, however often and in whatever state it is closed."""

from __future__ import annotations

import gc
import os
from functools import partial

import pytest
import trio

from gnus_node.net.libp2p.pool import MAX_IDLE
from gnus_node.ports.transport import IncomingCall
from gnus_node.records.errors import GnusError
from tests.p2p.world import connected, enter, opened, until


def files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def echo(call: IncomingCall) -> None:
    await call.send(call.frame)


async def held(call: IncomingCall) -> None:
    await trio.sleep_forever()


async def cycle(*, abrupt: bool) -> None:
    """Two nodes connect, call, and close; abruptly: with a call under way, cancelled from outside."""
    async with trio.open_nursery() as nursery:
        a = await enter(nursery, opened)
        a.net.transport.serve("/gnus/echo/1", echo, limit=8)
        a.net.transport.serve("/gnus/held/1", held, limit=8)
        b = await enter(nursery, partial(opened, bootstrap=a.net.addresses))
        await connected(a.net, b.net)
        key = a.net.transport.local_key
        async with b.net.transport.call(key, "/gnus/echo/1", b"x", budget_ms=10_000) as answer:
            assert await answer.receive() == b"x"
        if abrupt:

            async def wait() -> None:
                async with b.net.transport.call(key, "/gnus/held/1", b"x", budget_ms=60_000) as answer:
                    await answer.receive()

            nursery.start_soon(wait)
            await until(lambda: a.net.transport.running == 1)
        nursery.cancel_scope.cancel()


async def grown_by(cycles: int) -> tuple[int, int]:
    for abrupt in (False, True):
        await cycle(abrupt=abrupt)
    before = files(), tasks()
    for number in range(cycles):
        await cycle(abrupt=number % 2 == 1)
    return files() - before[0], tasks() - before[1]


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_hundred_cycles_leave_nothing() -> None:
    assert await grown_by(50) == (0, 0), "a hundred hosts"


@pytest.mark.bench
@pytest.mark.timeout(1800)
async def test_a_thousand_cycles_leave_nothing() -> None:
    assert await grown_by(1_000) == (0, 0)


@pytest.mark.slow
async def test_calls_leave_nothing() -> None:
    """Good, refused, late, cancelled ones: no stream, task or entry of the muxer stays behind."""
    async with trio.open_nursery() as nursery:
        a = await enter(nursery, opened)
        b = await enter(nursery, partial(opened, bootstrap=a.net.addresses))
        a.net.transport.serve("/gnus/echo/1", echo, limit=64)
        a.net.transport.serve("/gnus/held/1", held, limit=64)
        await connected(a.net, b.net)
        key = a.net.transport.local_key

        async def call(service: str, budget_ms: int, cancel: bool) -> None:
            try:
                async with b.net.transport.call(key, service, b"x", budget_ms=budget_ms) as answer:
                    if cancel:
                        return
                    while await answer.receive() is not None:
                        pass
            except GnusError:
                return

        async def round_of_calls() -> None:
            async with trio.open_nursery() as inner:
                for number in range(40):
                    inner.start_soon(call, "/gnus/echo/1", 10_000, number % 4 == 0)
                    inner.start_soon(call, "/gnus/held/1", 300, number % 2 == 0)
                inner.start_soon(call, "/gnus/none/1", 10_000, False)
            await until(lambda: a.net.transport.running == 0)

        def muxer(place: object) -> int:
            host = place.net.transport._host  # type: ignore[attr-defined]
            conns = [c for many in host.get_network().connections.values() for c in many]
            return sum(len(c.muxed_conn.streams) + len(c.muxed_conn.stream_events) + len(c.streams) for c in conns)

        async def settled() -> tuple[int, int, int]:
            await b.net.transport._pool.close_idle(trio.current_time())
            with trio.fail_after(20):
                while True:
                    seen = muxer(a), muxer(b), tasks()
                    await trio.sleep(0.2)
                    if seen == (muxer(a), muxer(b), tasks()):
                        return seen

        await round_of_calls()
        before = await settled()
        for _ in range(5):
            await round_of_calls()
            assert b.net.transport._pool.idle <= 2 * MAX_IDLE
        assert await settled() == before
        nursery.cancel_scope.cancel()
