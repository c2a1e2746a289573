"""Who is there: meeting peers, announcements, heartbeats (DESIGN.md section 5). Works over any transport.

When two nodes connect they compare trust logs and exchange announcements with the registry records those rest on. Afterwards small
heartbeats on direct streams keep them alive in each other's directory, for liveness is the monotonic time since something was *received*;
a full announcement goes out by gossip whenever it changes, and every five minutes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import trio

from gnus_node.net import rpc
from gnus_node.net.directory import Directory
from gnus_node.net.directory_rules import judge_announcement
from gnus_node.net.trust_sync import TrustSync
from gnus_node.ports.host import Clock, Log
from gnus_node.ports.transport import Gossip, Transport
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.flow import NodeAnnouncement
from gnus_node.wire.limits import MAX_MESSAGE_RECORDS
from gnus_node.wire.message import Message
from gnus_node.wire.signed import Opener

TOPIC = "gnus/announce/1"
HEARTBEAT_S = 10.0
BEAT_BUDGET_MS = 4_000
PROBE_S = 1.0
"""How often it is looked whether a peer owes an answer for long; then it is asked for a sign of life."""
PROBE_BUDGET_MS = 1_500
LEAVE_S = 1.0
"""Longest that telling everybody of leaving may take."""
MEET_BUDGET_MS = 8_000
MAX_MEETING = 32
"""Peers met or beaten at a time."""
MAX_LOAD = 2**31

Learn = Callable[[bytes, tuple[str, ...]], None]


class Presence:
    """This node among its peers. ``offers`` gives the announcement first, then the records it rests on; ``load`` the calls under way."""

    def __init__(
        self,
        transport: Transport,
        gossip: Gossip,
        directory: Directory,
        sync: TrustSync,
        opener: Opener,
        clock: Clock,
        log: Log,
        *,
        offers: Callable[[], tuple[Signed[Any], ...]],
        load: Callable[[], int],
        learn: Learn,
    ) -> None:
        self._transport = transport
        self._gossip = gossip
        self._directory = directory
        self._sync = sync
        self._opener = opener
        self._clock = clock
        self._log = log
        self._offers = offers
        self._load = load
        self._learn = learn
        self._met: set[bytes] = set()
        self._wake = trio.Event()
        self._slots = trio.Semaphore(MAX_MEETING)
        self._leaving = False
        self.loads: dict[str, int] = {}
        """Last load each live node reported."""

    @property
    def load(self) -> int:
        """Calls that this node is answering."""
        return self._load()

    async def leave(self) -> None:
        """Tell everybody that this node is going, so that they call others."""
        self._leaving = True
        with trio.move_on_after(LEAVE_S):
            async with trio.open_nursery() as nursery:
                for peer in self._transport.peers():
                    if peer != self._transport.local_key:
                        nursery.start_soon(self._safely, self._beat, peer)

    async def open(self) -> None:
        """Serve and listen; ``run`` does the rest."""
        rpc.serve(self._transport, "net.announce", self._on_announce)
        rpc.serve(self._transport, "net.heartbeat", self._on_beat)
        self._sync.serve()
        await self._sync.listen(self._gossip)
        await self._gossip.subscribe(TOPIC, self._worth_hearing, self._heard)
        self._transport.watch(self._rouse)

    async def announce(self) -> None:
        """Tell everybody what this node offers now."""
        mine = self._offers()
        if mine:
            await self._gossip.publish(TOPIC, mine[0].raw)

    def trust_changed(self) -> None:
        """What was refused before may count now: meet everybody again."""
        self._met.clear()
        self._rouse()

    async def run(self) -> None:
        """Until cancelled: meet whoever is new, and give everybody else a sign of life every ten seconds."""
        beat_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._probe)
            while True:
                now = trio.current_time()
                peers = set(self._transport.peers()) - {self._transport.local_key}
                self._note_connected(peers)
                self._met &= peers
                for peer in sorted(peers - self._met):
                    self._met.add(peer)
                    nursery.start_soon(self._safely, self._meet, peer)
                if now >= beat_at:
                    beat_at = now + HEARTBEAT_S
                    for peer in sorted(peers):
                        nursery.start_soon(self._safely, self._beat, peer)
                    self._expire()
                self._wake = trio.Event()
                with trio.move_on_at(beat_at):
                    await self._wake.wait()

    def _rouse(self) -> None:
        self._wake.set()

    def _note_connected(self, peers: set[bytes]) -> None:
        trust = self._directory.trust
        names = (trust.by_transport(peer) for peer in (*peers, self._transport.local_key))
        self._directory.health.connected(name for name in names if name)

    async def _probe(self) -> None:
        """Until cancelled: a peer that owes an answer for long is asked for a sign of life; its calls are given up where none comes."""
        health = self._directory.health
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(PROBE_S)
                trust = self._directory.trust
                for node_id in health.waiting(self._clock.monotonic()):
                    grant = trust.grants.get(node_id)
                    if grant is not None and grant.body.transport_key != self._transport.local_key:
                        nursery.start_soon(self._look_after, node_id, grant.body.transport_key)

    async def _look_after(self, node_id: str, peer: bytes) -> None:
        try:
            reply = await rpc.request(self._transport, peer, "net.heartbeat", self._sign_of_life(), budget_ms=PROBE_BUDGET_MS)
            self._alive(peer, reply)
        except GnusError as error:
            self._log.info("net.no_sign_of_life", node_id=node_id, code=error.code)
            self._directory.health.no_sign(node_id, self._clock.monotonic())

    def _expire(self) -> None:
        for node_id in self._directory.expire(self._clock.monotonic()):
            self.loads.pop(node_id, None)
            self._log.info("net.node_silent", node_id=node_id)

    async def _safely(self, work: Callable[[bytes], Awaitable[None]], peer: bytes) -> None:
        """What a peer does wrong costs this one exchange with it."""
        try:
            async with self._slots:
                await work(peer)
        except GnusError as error:
            self._log.info("net.peer_failed", peer=peer.hex(), code=error.code, link=error.link)
            if work == self._meet:
                # Met again with the next heartbeat's round.
                self._met.discard(peer)

    async def _meet(self, peer: bytes) -> None:
        await self._sync.pull(peer)
        mine = Message(tuple(r.raw for r in self._offers()[:MAX_MESSAGE_RECORDS]))
        reply = await rpc.request(self._transport, peer, "net.announce", mine, budget_ms=MEET_BUDGET_MS)
        self._take(reply.records)
        await self._beat(peer)

    async def _beat(self, peer: bytes) -> None:
        reply = await rpc.request(self._transport, peer, "net.heartbeat", self._sign_of_life(), budget_ms=BEAT_BUDGET_MS)
        self._alive(peer, reply)

    def _sign_of_life(self) -> Message:
        return Message(args={"load": min(self._load(), MAX_LOAD), "leaving": self._leaving})

    async def _on_announce(self, request: rpc.Request) -> Message:
        await trio.lowlevel.checkpoint()
        self._take(request.message.records)
        self._alive(request.peer)
        return Message(tuple(r.raw for r in self._offers()[:MAX_MESSAGE_RECORDS]))

    async def _on_beat(self, request: rpc.Request) -> Message:
        await trio.lowlevel.checkpoint()
        self._alive(request.peer, request.message)
        return self._sign_of_life()

    def _alive(self, peer: bytes, message: Message | None = None) -> None:
        """Something was received from a peer itself."""
        node_id = self._directory.trust.by_transport(peer)
        if node_id is None or not self._directory.seen(node_id, self._clock.monotonic()):
            return
        if message is None:
            return
        self._directory.health.said(node_id, leaving=message.args.get("leaving") is True)
        load = message.args.get("load")
        if type(load) is int and 0 <= load <= MAX_LOAD:
            self.loads[node_id] = load

    def _take(self, raws: Iterable[bytes]) -> None:
        """Announcement first, for it says which entries are worth a place. The directory judges each and keeps its refusals."""
        opened: list[Signed[Any]] = []
        for raw in raws:
            try:
                opened.append(self._opener.open(raw))
            except GnusError as error:
                self._log.info("net.record_refused", code=error.code)
        for record in sorted(opened, key=lambda r: not isinstance(r.body, NodeAnnouncement)):
            if self._directory.add(record) is None and isinstance(record.body, NodeAnnouncement):
                self._learn(record.body.transport_key, record.body.addresses)

    def _worth_hearing(self, _author: bytes, data: bytes) -> bool:
        """Whether a gossiped announcement counts here and now. Who passed it on under which name does not matter: its own signature does."""
        try:
            record = self._opener.open(data)
            if not isinstance(record.body, NodeAnnouncement):
                return False
            judge_announcement(self._directory.trust, record, self._clock.wall_ms())
        except GnusError:
            return False
        return True

    async def _heard(self, _author: bytes, data: bytes) -> None:
        """A gossiped announcement: what it rests on and is not here is fetched from the node itself, manifests after the entries that name
        them."""
        self._take([data])
        body = self._opener.open(data).body
        for _ in range(2):
            missing = self._directory.missing(body.node_id)
            if not missing:
                return
            wanted = Message(args={"ids": list(missing[:MAX_MESSAGE_RECORDS])})
            reply = await rpc.request(self._transport, body.transport_key, "records.get", wanted, budget_ms=MEET_BUDGET_MS)
            self._take(reply.records)
