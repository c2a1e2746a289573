"""Staying connected: who is known, where, and when to dial again. libp2p has no reconnect of its own, and refuses for a minute to dial a
peer that it failed to reach once; so this keeps its own schedule and clears that memory before each attempt.

Peers become known from the settings (``bootstrap``), from announcements, and from whatever discovers some later (mDNS, rendezvous): all of
them call ``learn``. A peer that comes back is reached within ``MAX_DELAY_S`` and one dial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio
from libp2p.peer.peerinfo import PeerInfo

from gnus_node.net.libp2p.host import addresses
from gnus_node.net.libp2p.peers import parse_peer, peer_id
from gnus_node.ports.host import Log
from gnus_node.records.errors import GnusError

MIN_DELAY_S = 0.25
MAX_DELAY_S = 4.0
GONE_DELAY_S = 30.0
"""Between attempts to reach a peer that nobody configured and that has been away for ``GONE_AFTER`` attempts."""
GONE_AFTER = 100
MAX_KNOWN = 1024
"""Peers kept; beyond, no further one is learned until one is forgotten."""
MAX_ADDRESSES = 16
MAX_DIALS = 8
"""Dials at a time."""
STEADY_S = 2.0
"""A connection that lasted longer starts the delays anew; one that is dropped at once (the peer is full) does not."""
GIVE_UP_S = 20.0
"""Longest a dial may take, whatever libp2p's own limits (``DIAL_S`` an attempt) come to; cut off, it may leave something behind."""
AGAIN_S = 0.5
"""A call does not dial a peer that failed to answer so lately."""


def delay_s(attempt: int, chance: float, *, lasting: bool) -> float:
    """Pause before an attempt (from 1); ``chance`` in 0..1 spreads nodes that lost the same peer at once."""
    most = MAX_DELAY_S if lasting or attempt < GONE_AFTER else GONE_DELAY_S
    base: float = min(most, MIN_DELAY_S * 2.0 ** min(attempt - 1, 16))
    return base * (0.75 + chance / 4)


def split_address(text: str) -> tuple[bytes, str]:
    """Key and address of ``/ip4/.../tcp/.../p2p/PEER``. Raises ``CONFIG``."""
    where, mark, peer = text.rpartition("/p2p/")
    if not mark or not where:
        raise GnusError("CONFIG", "an address without a peer id", fix="end it with /p2p/ and the peer id that the node's status shows")
    addresses([where])
    return parse_peer(peer), where


@dataclass(slots=True)
class _Known:
    key: bytes
    places: list[Any]
    lasting: bool
    wake: trio.Event = field(default_factory=trio.Event)
    tried: trio.Event = field(default_factory=trio.Event)
    attempts: int = 0
    failed_at: float = -1e9
    connected: bool = False


class Redialer:
    """Keeps this node connected to every peer it knows."""

    def __init__(self, host: Any, local_key: bytes, nursery: trio.Nursery, log: Log, chance: Callable[[], float]) -> None:
        self._host = host
        self._local = local_key
        self._nursery = nursery
        self._log = log
        self._chance = chance
        self._known: dict[bytes, _Known] = {}
        self._slots = trio.Semaphore(MAX_DIALS)

    def learn(self, key: bytes, texts: tuple[str, ...], *, lasting: bool = False) -> None:
        """Where a peer is, newest word; text that is no address is ignored. ``lasting`` peers are the operator's and stay."""
        places: list[Any] = []
        for text in texts[:MAX_ADDRESSES]:
            try:
                places += addresses([text])
            except GnusError:
                continue
        if key == self._local or not places:
            return
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                return
            known = self._known[key] = _Known(key, places, lasting)
            self._nursery.start_soon(self._keep, known)
        elif places != known.places and not (known.lasting and not lasting):
            known.places = places
            known.attempts = 0
        elif known.lasting:
            known.places += [place for place in places if place not in known.places][: MAX_ADDRESSES - len(known.places)]
        known.lasting = known.lasting or lasting
        known.wake.set()

    def forget(self, key: bytes) -> None:
        """Do not dial a peer any more, unless it is one of the settings."""
        known = self._known.get(key)
        if known is not None and not known.lasting:
            del self._known[key]
            known.wake.set()

    def changed(self) -> None:
        """A peer came or went."""
        for known in self._known.values():
            if known.connected and not self._connected(known.key):
                known.connected = False
                known.wake.set()

    async def reach(self, key: bytes) -> None:
        """Have a peer dialled now, for a call, and wait for it. Raises ``UNREACHABLE``.

        The dial itself is not the caller's to cancel: half a handshake would be left behind.
        """
        known = self._known.get(key)
        if known is not None and trio.current_time() - known.failed_at >= AGAIN_S:
            known.wake.set()
            await known.tried.wait()
        if not self._connected(key):
            raise GnusError("UNREACHABLE", "the peer cannot be reached")

    def _connected(self, key: bytes) -> bool:
        connected: bool = self._host.is_peer_connected(peer_id(key))
        return connected

    async def _keep(self, known: _Known) -> None:
        while self._known.get(known.key) is known:
            if self._connected(known.key):
                since = trio.current_time()
                known.connected = True
                known.wake = trio.Event()
                await known.wake.wait()
                if trio.current_time() - since > STEADY_S:
                    known.attempts = 0
                continue
            known.attempts += 1
            known.wake = trio.Event()
            with trio.move_on_after(delay_s(known.attempts, self._chance(), lasting=known.lasting)):
                # Somebody has a call to make, or knows a new address.
                await known.wake.wait()
            if self._known.get(known.key) is known and not self._connected(known.key):
                await self._dial(known)
            tried, known.tried = known.tried, trio.Event()
            tried.set()
        known.tried.set()

    async def _dial(self, known: _Known) -> None:
        """Try each address, one at a time: libp2p itself would pick one of several and leave the rest."""
        peer = peer_id(known.key)
        async with self._slots:
            for place in tuple(known.places):
                if self._connected(known.key):
                    return
                self._host.get_network()._negative_peer_cache.evict(str(peer))
                self._host.get_peerstore().clear_addrs(peer)
                with trio.move_on_after(GIVE_UP_S):
                    try:
                        await self._host.connect(PeerInfo(peer, [place]))
                        self._log.info("net.connected", peer=known.key.hex())
                        return
                    except Exception as error:  # noqa: BLE001  supervised boundary: the node, from whatever a dial raises
                        self._log.info("net.dial_failed", peer=known.key.hex(), attempts=known.attempts, fault=type(error).__name__)
        known.failed_at = trio.current_time()
