"""A libp2p host as this program wants it: TCP, Noise and Yamux and nothing else, an ed25519 identity, bounds on everything.

Upstream's defaults would also offer plaintext, whose peer ids nobody proves. The resource manager's clever parts (circuit breaker,
degradation by load) are off: limits here mean what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.crypto.x25519 import X25519PrivateKey
from libp2p.custom_types import TProtocol
from libp2p.network.config import ConnectionConfig
from libp2p.rcmgr.connection_limits import ConnectionLimits
from libp2p.rcmgr.manager import ResourceLimits, ResourceManager
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as NoiseTransport
from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as YAMUX
from libp2p.stream_muxer.yamux.yamux import Yamux
from multiaddr import Multiaddr
from multiaddr.exceptions import Error as MultiaddrError

from gnus_node.net.libp2p.peers import transport_key
from gnus_node.records.errors import GnusError

MAX_CONNECTIONS = 512
MAX_PENDING = 64
"""Connections that have not finished their handshake."""
MAX_PER_PEER = 4
MAX_STREAMS = 8192
"""Streams of all peers together, gossip and negotiation included."""
UPGRADE_S = 3.0
"""Longest a handshake may take: what slow or half-open connections hold a slot for."""
NEGOTIATE_S = 5.0
DIAL_S = 3.0
NEVER_S = 1e9
PSK_HEX = 64


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Where to listen; what to announce instead, if anything; the private network's key (64 hex digits) or ""; whether to look for peers on
    the local network."""

    listen: tuple[str, ...]
    announce: tuple[str, ...] = ()
    psk: str = ""
    mdns: bool = False


def addresses(texts: Sequence[str]) -> list[Any]:
    """Parsed multiaddresses. Raises ``CONFIG``, also for transports other than TCP."""
    found: list[Any] = []
    for text in texts:
        try:
            address = Multiaddr(text)
            names = [protocol.name for protocol in address.protocols()]
        except (MultiaddrError, ValueError) as error:
            raise GnusError("CONFIG", f"not a multiaddress: {type(error).__name__}", fix="for example /ip4/0.0.0.0/tcp/4001") from None
        if "tcp" not in names or not {"ip4", "ip6", "dns4", "dns6", "tcp", "p2p"}.issuperset(names):
            raise GnusError("CONFIG", "an address of another transport than TCP", fix="for example /ip4/0.0.0.0/tcp/4001")
        found.append(address)
    return found


def make_host(seed: bytes, noise_seed: bytes, options: HostOptions) -> Any:
    """A host that is not running yet. ``seed`` is the node's transport key, so the PeerId is it; ``noise_seed`` is for this run only.

    Raises ``CONFIG``.
    """
    if options.psk and (len(options.psk) != PSK_HEX or not set(options.psk) <= set("0123456789abcdef")):
        raise GnusError("CONFIG", "the private network's key is not 64 lower-case hexadecimal digits", fix="openssl rand -hex 32")
    pair: KeyPair = create_new_key_pair(seed)
    limits = ConnectionLimits(
        max_pending_inbound=MAX_PENDING,
        max_pending_outbound=MAX_PENDING,
        max_established_inbound=MAX_CONNECTIONS // 2,
        max_established_outbound=MAX_CONNECTIONS // 2,
        max_established_per_peer=MAX_PER_PEER,
        max_established_total=MAX_CONNECTIONS,
    )
    manager = ResourceManager(
        limits=ResourceLimits(max_connections=MAX_CONNECTIONS, max_streams=MAX_STREAMS),
        connection_limits=limits,
        enable_metrics=False,
        enable_memory_limits=False,
        enable_circuit_breaker=False,
        enable_graceful_degradation=False,
    )
    config = ConnectionConfig(
        max_connections=MAX_CONNECTIONS,
        # Who is dialled, and when, is net.libp2p.redial's to say.
        min_connections=0,
        low_watermark=0,
        high_watermark=MAX_CONNECTIONS,
        # Upstream aims at half way between the watermarks whatever they are, and would dial anybody whose address a peer mentioned.
        auto_connect_interval=NEVER_S,
        max_connections_per_peer=MAX_PER_PEER,
        dial_timeout=DIAL_S,
        inbound_upgrade_timeout=UPGRADE_S,
        outbound_upgrade_timeout=UPGRADE_S,
        inbound_stream_protocol_negotiation_timeout=NEGOTIATE_S,
        outbound_stream_protocol_negotiation_timeout=NEGOTIATE_S,
    )
    return new_host(
        key_pair=pair,
        listen_addrs=addresses(options.listen),
        sec_opt={NOISE: NoiseTransport(pair, noise_privkey=X25519PrivateKey.from_bytes(noise_seed))},
        muxer_opt={TProtocol(YAMUX): Yamux},
        resource_manager=manager,
        connection_config=config,
        psk=options.psk or None,
        enable_mDNS=options.mdns,
        announce_addrs=addresses(options.announce) or None,
        disable_identify_address_discovery=True,
    )


class Watch:
    """Told by the host of connections: refuses peers whose key the PeerId does not hold, passes the rest on. Implements ``INotifee``."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed: Callable[[], None] | None = changed

    def mute(self) -> None:
        """Tell nobody any more: the node is leaving."""
        self._changed = None

    async def connected(self, _network: Any, conn: Any) -> None:
        """A connection has come up."""
        if transport_key(conn.muxed_conn.peer_id) is None:
            await conn.close()
            return
        if self._changed:
            self._changed()

    async def disconnected(self, _network: Any, _conn: Any) -> None:
        """A connection has gone."""
        if self._changed:
            self._changed()

    async def opened_stream(self, _network: Any, _stream: Any) -> None:
        """Nothing."""

    async def closed_stream(self, _network: Any, _stream: Any) -> None:
        """Nothing."""

    async def listen(self, _network: Any, _address: Any) -> None:
        """Nothing."""

    async def listen_close(self, _network: Any, _address: Any) -> None:
        """Nothing."""
