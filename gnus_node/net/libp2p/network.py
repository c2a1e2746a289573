"""A node's place on a real network: host, calls, gossip and redial, opened together and closed without a trace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio
from libp2p.tools.anyio_service import background_trio_service

from gnus_node.net.libp2p import hardening
from gnus_node.net.libp2p.gossip import Libp2pGossip, make_pubsub, make_router
from gnus_node.net.libp2p.host import HostOptions, Watch, addresses, make_host
from gnus_node.net.libp2p.redial import Redialer, split_address
from gnus_node.net.libp2p.transport import Libp2pTransport
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.ports.host import Entropy, Log
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.log import NullLog

CLOSE_S = 10.0
"""Longest that closing all connections may take."""
NOISE_SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class Network:
    """What a node gets of a network. ``addresses`` are its own, each with its peer id, as others put them into ``bootstrap``."""

    transport: Libp2pTransport
    gossip: Libp2pGossip
    redialer: Redialer
    addresses: tuple[str, ...]


@asynccontextmanager
async def open_network(
    seed: bytes, options: HostOptions, entropy: Entropy, *, bootstrap: tuple[str, ...] = (), log: Log | None = None
) -> AsyncIterator[Network]:
    """Join a network for the length of the block, as the node whose transport seed is given. Raises ``CONFIG``, ``MISSING_DEPENDENCY``.

    What the block raises comes out in an exception group, as from any nursery.
    """
    hardening.install()
    log = log or NullLog()
    known = [split_address(text) for text in bootstrap]
    host = make_host(seed, entropy.token(NOISE_SEED_BYTES), options)
    key: bytes = host.get_public_key().to_bytes()
    async with MemoryBus().attach(key, log=log) as local, trio.open_nursery() as outer:
        # No ``outer.start``: cancelled meanwhile, it waits for a shielded task that waits for ``stop``.
        stop, ready = trio.Event(), trio.Event()
        made: list[Any] = []
        try:
            outer.start_soon(_stack, host, options, stop, ready, made)
            await ready.wait()
            (pubsub,) = made
            async with trio.open_nursery() as nursery:
                redialer = Redialer(host, key, nursery, log, lambda: entropy.token(1)[0] / 255)
                transport = Libp2pTransport(host, local, nursery, log, redialer.reach)

                def changed() -> None:
                    redialer.changed()
                    transport.notice()

                watch = Watch(changed)
                host.get_network().register_notifee(watch)
                for peer, where in known:
                    redialer.learn(peer, (where,), lasting=True)
                gossip = Libp2pGossip(pubsub, key, nursery, log)
                try:
                    yield Network(transport, gossip, redialer, tuple(str(address) for address in host.get_addrs()))
                finally:
                    watch.mute()
                    transport.close()
                    nursery.cancel_scope.cancel()
        finally:
            stop.set()


async def _stack(host: Any, options: HostOptions, stop: trio.Event, ready: trio.Event, made: list[Any]) -> None:
    """Host and gossip service, until ``stop``; ``ready`` once the latter is ``made``.

    Shielded: cancelled from outside, libp2p would drop its tasks and leave the sockets open, and the peers would wait for a node that has
    left. So it is always closed in order, and within ``CLOSE_S``.
    """
    with trio.CancelScope(shield=True) as scope:
        async with host.run(addresses(options.listen)):
            router = make_router()
            pubsub = make_pubsub(host, router)
            async with background_trio_service(router), background_trio_service(pubsub):
                await pubsub.wait_until_ready()
                if len(host.get_transport_addrs()) < len(options.listen):
                    # Upstream reports a port it did not get in its log and goes on without.
                    await host.close()
                    raise GnusError("CONFIG", "an address of net.listen cannot be listened on", fix="choose a free port")
                made.append(pubsub)
                ready.set()
                await stop.wait()
                scope.deadline = trio.current_time() + CLOSE_S
                await host.close()
