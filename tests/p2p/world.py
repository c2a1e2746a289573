"""Hosts for the tests: networks on loopback that can be dropped and come back, each held by a task of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

import trio

from gnus_node.host.entropy import SystemEntropy
from gnus_node.net.libp2p.host import HostOptions
from gnus_node.net.libp2p.network import Network, open_network

ANY = "/ip4/127.0.0.1/tcp/0"
ENTROPY = SystemEntropy()


@dataclass
class Place:
    """One node's network, open until ``leave``."""

    net: Network
    scope: trio.CancelScope
    gone: trio.Event = field(default_factory=trio.Event)

    async def leave(self) -> None:
        """Off the network; returns when nothing of it is left."""
        self.scope.cancel()
        await self.gone.wait()


def opened(seed: bytes = b"", *, listen: str = ANY, bootstrap: tuple[str, ...] = (), psk: str = "") -> AbstractAsyncContextManager[Network]:
    """A network that is not open yet."""
    return open_network(seed or ENTROPY.token(32), HostOptions((listen,), psk=psk), ENTROPY, bootstrap=bootstrap)


async def enter(nursery: trio.Nursery, make: Callable[[], AbstractAsyncContextManager[Network]]) -> Place:
    """Open a network in a task of ``nursery``."""
    place: Place = await nursery.start(partial(_hold, make))
    return place


async def _hold(
    make: Callable[[], AbstractAsyncContextManager[Network]], *, task_status: trio.TaskStatus[Place] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope() as scope:
        async with make() as net:
            place = Place(net, scope)
            task_status.started(place)
            await trio.sleep_forever()
    place.gone.set()


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for a condition under a deadline."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110  what it polls has no event
            await trio.sleep(0.005)


async def connected(*nets: Network) -> None:
    """Wait until every one of them sees all others."""
    keys = {net.transport.local_key for net in nets}
    await until(lambda: all(keys <= set(net.transport.peers()) for net in nets))
