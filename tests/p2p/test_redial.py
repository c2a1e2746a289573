"""Staying connected: a peer that comes back is reached again, a new one is learned, one that is forgotten is left alone."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.net.libp2p.peers import peer_id, transport_key
from gnus_node.net.libp2p.redial import GONE_AFTER, GONE_DELAY_S, MAX_DELAY_S, delay_s, split_address
from gnus_node.ports.transport import IncomingCall
from gnus_node.records.errors import GnusError
from tests.p2p.world import ENTROPY, Place, connected, enter, opened, until


@given(st.integers(1, 10_000), st.floats(0, 1), st.booleans())
def test_delays_grow_and_are_bounded(attempt: int, chance: float, lasting: bool) -> None:
    delay = delay_s(attempt, chance, lasting=lasting)
    assert 0 < delay <= (GONE_DELAY_S if attempt >= GONE_AFTER and not lasting else MAX_DELAY_S)
    assert delay <= delay_s(attempt + 1, chance, lasting=lasting)


@given(st.binary(min_size=32, max_size=32))
def test_a_peer_id_is_its_key(key: bytes) -> None:
    peer = peer_id(key)
    assert transport_key(peer) == key
    assert split_address(f"/ip4/127.0.0.1/tcp/1/p2p/{peer}") == (key, "/ip4/127.0.0.1/tcp/1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/ip4/127.0.0.1/tcp/1",
        "/p2p/12D3KooWDNh9KMTnHKbTW9Dud7FrWi4Y7QB8kazRnWRneVjcc75A",
        "/ip4/127.0.0.1/udp/1/quic-v1/p2p/12D3KooWDNh9KMTnHKbTW9Dud7FrWi4Y7QB8kazRnWRneVjcc75A",
        "/ip4/127.0.0.1/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",
        "/ip4/127.0.0.1/tcp/1/p2p/0000",
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(GnusError, match="CONFIG"):
        split_address(text)


async def echo(call: IncomingCall) -> None:
    await call.send(call.frame)


async def asked(place: Place, peer: bytes) -> list[bytes | None]:
    async with place.net.transport.call(peer, "/gnus/echo/1", b"x", budget_ms=10_000) as answer:
        return [await answer.receive()]


async def test_a_peer_that_returns_is_reached_again() -> None:
    """At the same address with the same key, three times; calls in between fail at once, and work after."""
    seed = ENTROPY.token(32)
    async with trio.open_nursery() as nursery:
        server = await enter(nursery, partial(opened, seed))
        server.net.transport.serve("/gnus/echo/1", echo, limit=8)
        key, where = server.net.transport.local_key, server.net.addresses
        listen = where[0].rpartition("/p2p/")[0]
        client = await enter(nursery, partial(opened, bootstrap=where))
        await connected(client.net, server.net)
        for _ in range(3):
            assert await asked(client, key) == [b"x"]
            await server.leave()
            await until(lambda: key not in client.net.transport.peers())
            with pytest.raises(GnusError, match="UNREACHABLE"):
                await asked(client, key)
            server = await enter(nursery, partial(opened, seed, listen=listen))
            server.net.transport.serve("/gnus/echo/1", echo, limit=8)
            await until(lambda: key in client.net.transport.peers(), seconds=10)
        nursery.cancel_scope.cancel()


async def test_a_peer_is_learned_and_moves() -> None:
    seed = ENTROPY.token(32)
    async with trio.open_nursery() as nursery:
        client = await enter(nursery, opened)
        server = await enter(nursery, partial(opened, seed))
        key = server.net.transport.local_key

        def places(place: Place) -> tuple[str, ...]:
            return tuple(address.rpartition("/p2p/")[0] for address in place.net.addresses)

        redialer = client.net.redialer
        redialer.learn(key, ("/ip4/127.0.0.1/udp/1/quic-v1", "nonsense"))
        redialer.learn(client.net.transport.local_key, places(client))
        redialer.learn(key, ("/ip4/127.0.0.1/tcp/1", *places(server)))
        await connected(client.net, server.net)
        await server.leave()
        server = await enter(nursery, partial(opened, seed))
        redialer.learn(key, places(server))
        await until(lambda: key in client.net.transport.peers(), seconds=10)
        redialer.forget(key)
        await server.leave()
        await until(lambda: key not in client.net.transport.peers())
        nursery.cancel_scope.cancel()


async def test_a_port_that_is_taken_is_a_fault_of_the_settings() -> None:
    async with trio.open_nursery() as nursery:
        one = await enter(nursery, opened)
        listen = one.net.addresses[0].rpartition("/p2p/")[0]
        with pytest.raises(ExceptionGroup) as caught:
            async with opened(listen=listen):
                raise AssertionError("two hosts on one port")
        assert caught.group_contains(GnusError, match="CONFIG")
        nursery.cancel_scope.cancel()


def test_a_peer_id_is_written_as_libp2p_writes_it() -> None:
    from gnus_node.net.libp2p.peers import parse_peer, peer_id
    from gnus_node.net.peer_text import peer_text

    for number in range(64):
        key = bytes([number * 3 % 256, number]) * 16
        assert peer_text(key) == peer_id(key).to_base58()
        assert parse_peer(peer_text(key)) == key
