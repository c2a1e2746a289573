"""How a node gets onto a network: the in-memory bus of its process, or libp2p, imported only here and only then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gnus_node.net.memory_transport import MemoryBus
from gnus_node.ports.host import Entropy, Log
from gnus_node.ports.transport import Gossip, Transport
from gnus_node.records.errors import GnusError


@dataclass(frozen=True, slots=True)
class NetOptions:
    """Settings of the real network, as in ``[net]``; without ``listen`` there is none. ``psk`` is 64 hexadecimal digits or empty."""

    listen: tuple[str, ...] = ()
    announce: tuple[str, ...] = ()
    bootstrap: tuple[str, ...] = ()
    psk: str = ""
    mdns: bool = False


@dataclass(frozen=True, slots=True)
class Attached:
    """A node's place. ``learn`` hears where peers are; ``load`` tells the calls under way; ``addresses`` are announced."""

    transport: Transport
    gossip: Gossip
    learn: Callable[[bytes, tuple[str, ...]], None]
    load: Callable[[], int]
    addresses: tuple[str, ...] = ()


def _nobody(_key: bytes, _addresses: tuple[str, ...]) -> None:
    return None


@asynccontextmanager
async def attach(bus: MemoryBus, options: NetOptions, seed: bytes, key: bytes, entropy: Entropy, log: Log) -> AsyncIterator[Attached]:
    """Join the network that the options ask for, else the bus. Raises ``CONFIG``, ``MISSING_DEPENDENCY``, ``ALREADY_RUNNING``."""
    if not options.listen:
        async with bus.attach(key, log=log) as transport:
            yield Attached(transport, transport.gossip, _nobody, lambda: transport.services.running)
        return
    try:
        from gnus_node.net.libp2p.host import HostOptions
        from gnus_node.net.libp2p.network import open_network
    except ModuleNotFoundError:
        raise GnusError("MISSING_DEPENDENCY", "[net] is set and libp2p is not installed", fix="pip install 'gnus-node[p2p]'") from None
    host = HostOptions(options.listen, options.announce, options.psk, options.mdns)
    async with open_network(seed, host, entropy, bootstrap=options.bootstrap, log=log) as net:
        yield Attached(net.transport, net.gossip, net.redialer.learn, lambda: net.transport.running, net.addresses)
