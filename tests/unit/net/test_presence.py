"""Nodes find each other: meeting, announcements, heartbeats, and what a trust log that grows changes. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
import trio.testing

from gnus_node.net import rpc
from gnus_node.net.context import TrustBox
from gnus_node.net.directory import ALIVE_S, Directory
from gnus_node.net.memory_transport import Faults, MemoryBus, MemoryTransport
from gnus_node.net.presence import HEARTBEAT_S, TOPIC, Presence
from gnus_node.net.trust_sync import TrustSync
from gnus_node.records.authority import TrustHead
from gnus_node.records.enums import RoleName, SignerRole
from gnus_node.records.envelope import Signed
from gnus_node.telemetry.log import NullLog
from gnus_node.trust.state import fold, log_digest
from gnus_node.wire.message import Message
from gnus_node.wire.signed import Opener
from tests.unit.net.swarm import NOW_MS, Swarm, public, sign
from tests.unit.net.virtual import passes

ROUTER, WORKER = RoleName.ROUTER, RoleName.ELM_WORKER


class TrioClock:
    """Wall time and monotonic time of the virtual run."""

    def wall_ms(self) -> int:
        return NOW_MS + round(trio.current_time() * 1000)

    def monotonic(self) -> float:
        return trio.current_time()


@dataclass
class World:
    """A swarm, its log and a bus."""

    swarm: Swarm = field(default_factory=Swarm)
    bus: MemoryBus = field(default_factory=MemoryBus)
    heads: int = 0

    def log(self, count: int | None = None) -> list[Signed[Any]]:
        """The first ``count`` records with a head over them."""
        self.heads += 1
        records = self.swarm.records[:count]
        ids = [self.swarm.charter.id, *(r.id for r in records)]
        body = TrustHead(head_epoch=len(ids), log_digest=log_digest(ids), log_size=len(ids))
        at_ms = NOW_MS + round(trio.current_time() * 1000)
        return [*records, sign(self.swarm.swarm, "authority", SignerRole.AUTHORITY, body, seq=1000 + self.heads, at_ms=at_ms)]

    def trust(self, count: int | None = None) -> TrustBox:
        log = self.log(count)
        return TrustBox(fold(self.swarm.charter, log), log)


@dataclass
class Node:
    transport: MemoryTransport
    directory: Directory
    presence: Presence
    sync: TrustSync
    box: TrustBox
    learned: dict[bytes, tuple[str, ...]]
    mine: list[Signed[Any]]


@asynccontextmanager
async def node(world: World, name: str, box: TrustBox, *mine: Signed[Any], load: int = 0) -> AsyncIterator[Node]:
    learned: dict[bytes, tuple[str, ...]] = {}
    offered = list(mine)
    async with world.bus.attach(public(f"{name}/transport")) as transport, trio.open_nursery() as nursery:
        clock, opener = TrioClock(), Opener()
        directory = Directory(box.state, clock, local_node=name)

        async def changed() -> None:
            await trio.lowlevel.checkpoint()
            directory.set_trust(box.state)
            presence.trust_changed()

        sync = TrustSync(box, transport, opener, NullLog(), changed)
        presence = Presence(
            transport,
            transport.gossip,
            directory,
            sync,
            opener,
            clock,
            NullLog(),
            offers=lambda: tuple(offered),
            load=lambda: load,
            learn=lambda key, where: learned.update({key: where}),
        )
        await presence.open()
        for record in offered:
            directory.add(record)
        nursery.start_soon(presence.run)
        yield Node(transport, directory, presence, sync, box, learned, offered)
        nursery.cancel_scope.cancel()


def alive(one: Node) -> set[str]:
    return {row.node_id for row in one.directory.rows() if row.alive}


async def test_two_nodes_meet_and_know_what_the_other_offers(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    world.swarm.grant("n1", ROUTER)
    world.swarm.grant("n2", WORKER)
    manifest = world.swarm.manifest("n2")
    entry = world.swarm.entry("n2", manifest.id)
    offers = (world.swarm.announce("n2", WORKER, experts=(entry.id,)), entry, manifest)
    async with (
        node(world, "n1", world.trust(), world.swarm.announce("n1", ROUTER)) as one,
        node(world, "n2", world.trust(), *offers, load=3) as two,
    ):
        await passes(0.1)
        assert [peer.node_id for peer in one.directory.hosts(WORKER, "acme")] == ["n2"]
        assert [offer.entry.body.expert_id for offer in one.directory.experts("acme")] == ["calc"]
        assert [peer.node_id for peer in two.directory.hosts(ROUTER, "acme")] == ["n1"]
        assert one.presence.loads == {"n2": 3}
        assert one.learned == {public("n2/transport"): ("memory",)}


async def test_heartbeats_keep_alive_and_silence_is_noticed(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    world.swarm.grant("n1", ROUTER)
    world.swarm.grant("n2", WORKER)
    async with (
        node(world, "n1", world.trust(), world.swarm.announce("n1", ROUTER)) as one,
        node(world, "n2", world.trust(), world.swarm.announce("n2", WORKER)) as two,
    ):
        await passes(20 * HEARTBEAT_S)
        assert alive(one) == alive(two) == {"n1", "n2"}
        n1, n2 = one.transport.local_key, two.transport.local_key
        world.bus.faults = Faults(cut=lambda source, target: {source, target} == {n1, n2})
        await passes(ALIVE_S + 2 * HEARTBEAT_S)
        assert (alive(one), alive(two)) == ({"n1"}, {"n2"})
        assert one.presence.loads == {}
        world.bus.faults = Faults()
        await passes(2 * HEARTBEAT_S)
        assert alive(one) == alive(two) == {"n1", "n2"}


async def test_a_node_that_comes_back_is_met_at_once(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    world.swarm.grant("n1", ROUTER)
    world.swarm.grant("n2", WORKER)
    async with node(world, "n1", world.trust(), world.swarm.announce("n1", ROUTER)) as one:
        for seq in range(2, 5):
            async with node(world, "n2", world.trust(), world.swarm.announce("n2", WORKER, seq=seq)):
                await passes(0.1)
                assert [peer.node_id for peer in one.directory.hosts(WORKER, "acme")] == ["n2"]
            await passes(ALIVE_S + 2 * HEARTBEAT_S)
            assert alive(one) == {"n1"}


async def test_a_node_that_was_granted_lately_brings_its_own_grant(autojump_clock: trio.testing.MockClock) -> None:
    """The first knows an older log: meeting the newcomer it fetches the new one, and takes the announcement it would have refused."""
    world = World()
    world.swarm.grant("n1", ROUTER)
    world.swarm.grant("n2", WORKER)
    async with (
        node(world, "n1", world.trust(1), world.swarm.announce("n1", ROUTER)) as one,
        node(world, "n2", world.trust(2), world.swarm.announce("n2", WORKER)) as two,
    ):
        await passes(0.5)
        assert one.box.state.log_ids == two.box.state.log_ids
        assert alive(one) == alive(two) == {"n1", "n2"}


async def test_a_gossiped_announcement_brings_what_it_rests_on(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    world.swarm.grant("n1", ROUTER)
    world.swarm.grant("n2", WORKER)
    async with (
        node(world, "n1", world.trust(), world.swarm.announce("n1", ROUTER)) as one,
        node(world, "n2", world.trust(), world.swarm.announce("n2", WORKER)) as two,
    ):
        await passes(0.1)
        assert one.directory.experts("acme") == ()
        manifest = world.swarm.manifest("n2")
        entry = world.swarm.entry("n2", manifest.id)
        records = {r.id: r.raw for r in (manifest, entry)}

        async def get(request: rpc.Request) -> Message:
            await trio.lowlevel.checkpoint()
            return Message(tuple(records[i] for i in request.message.args["ids"] if i in records))

        rpc.serve(two.transport, "records.get", get)
        two.mine[:] = [world.swarm.announce("n2", WORKER, experts=(entry.id,), seq=2)]
        await two.presence.announce()
        await passes(0.1)
        assert [offer.entry.body.expert_id for offer in one.directory.experts("acme")] == ["calc"]
        assert one.directory.missing("n2") == ()


async def test_strangers_junk_and_others_announcements_change_nothing(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    world.swarm.grant("n1", ROUTER)
    world.swarm.grant("n2", WORKER)
    stranger = world.swarm.announce("stranger", WORKER)
    async with node(world, "n1", world.trust(), world.swarm.announce("n1", ROUTER)) as one, world.bus.attach(b"s" * 32) as other:
        await passes(0.1)
        for data in (b"", b"junk", stranger.raw, world.swarm.charter.raw):
            await other.gossip.publish(TOPIC, data)
        reply = await rpc.request(other, one.transport.local_key, "net.announce", Message((b"junk", stranger.raw)), budget_ms=1000)
        assert len(reply.records) == 1, "an announcement is no secret"
        for args in ({}, {"load": -1}, {"load": "x"}, {"load": 2**40}):
            await rpc.request(other, one.transport.local_key, "net.heartbeat", Message(args=args), budget_ms=1000)
        await passes(3 * HEARTBEAT_S)
        assert alive(one) == {"n1"}
        assert one.presence.loads == {}
        assert one.learned == {}
        # A granted node's announcement, passed on by a stranger, says where the node is; that it lives, only the node itself can say.
        await other.gossip.publish(TOPIC, world.swarm.announce("n2", WORKER).raw)
        await passes(0.1)
        assert one.learned == {public("n2/transport"): ("memory",)}
