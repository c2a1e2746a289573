"""The composition root: a node from its settings, its ports and its roles (DESIGN.md section 1).

``open_node`` builds everything and tears it down again; it neither chooses the clock nor opens a socket, so a whole node runs in virtual
time over the in-memory transport. ``run_node`` is the program: real ports, HTTP doors, signals.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from gnus_node import __version__
from gnus_node.admin import NodeAdmin, NodeSubmit
from gnus_node.authority import Heads, TrustFile, ensure_policy
from gnus_node.config.model import NodeConfig
from gnus_node.config.policies import load_colocation
from gnus_node.flow.accept import FlowLimits
from gnus_node.host.servers import NoServers
from gnus_node.identity import Identity, load_identity, next_incarnation
from gnus_node.init import PRINCIPAL, PROJECT, TENANT, trust_path
from gnus_node.loader import installed_adapters, load_class, load_roles
from gnus_node.net import rpc
from gnus_node.net.attach import Attached, attach
from gnus_node.net.context import Fence, NodeContext, RoleContext, TrustBox, Vaults
from gnus_node.net.directory import Directory
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.net.presence import Presence
from gnus_node.net.serving import RoleGate
from gnus_node.net.signing import KeySigner
from gnus_node.net.trust_sync import TrustSync
from gnus_node.ports.host import Clock, Entropy, Log, Offload, Probe
from gnus_node.ports.servers import Servers
from gnus_node.ports.submit import Caller
from gnus_node.preflight import KEYS, STORE, key_faults, load_swarm, private_data_dir
from gnus_node.records.authority import Policy
from gnus_node.records.enums import KeyMode, RoleName, SignerRole
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError, refuse
from gnus_node.records.flow import KindVersions, NodeAnnouncement
from gnus_node.role import Front, Handler, RoleHost
from gnus_node.specs import adapter_specs, corpus_spec, expert_specs, net_options
from gnus_node.store.aside import set_aside
from gnus_node.store.batch import StoreLimits
from gnus_node.store.engine import LmdbStore, open_store
from gnus_node.store.keys import KeyStore, open_keys
from gnus_node.store.payloads import PayloadStore
from gnus_node.store.textindex import Fts5Index
from gnus_node.telemetry.log import NullLog
from gnus_node.telemetry.metrics import PrometheusMetrics
from gnus_node.telemetry.probe import NullProbe
from gnus_node.wire.kinds import KINDS
from gnus_node.wire.message import Message
from gnus_node.wire.signed import Opener

ANNOUNCE_S = 300.0
"""Full announcements: on change, and this often (DESIGN.md section 5)."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside of a node. The defaults are a real machine's; a virtual run brings its own."""

    clock: Clock
    entropy: Entropy
    offload: Offload
    bus: MemoryBus
    probe: Probe = field(default_factory=NullProbe)
    log: Log = field(default_factory=NullLog)
    load_class: Callable[[str], type[Any]] = load_class
    servers: Servers = field(default_factory=NoServers)


@dataclass(frozen=True, slots=True)
class Node:
    """A running node, as the doors and tests use it."""

    config: NodeConfig
    context: NodeContext
    front: Front
    submit: NodeSubmit
    admin: NodeAdmin
    store: LmdbStore
    metrics: PrometheusMetrics
    charter: bytes
    operator: Caller
    problems: Callable[[], list[str]]
    heads: Heads
    presence: Presence
    gate: RoleGate
    addresses: tuple[str, ...]
    """Where others reach this node, as they put it into ``net.bootstrap``."""


@asynccontextmanager
async def open_node(config: NodeConfig, ports: Ports, *, start_over: bool = False) -> AsyncIterator[Node]:
    """Build a node and run it for the length of the block. Raises ``CONFIG``, ``COLOCATION``, ``ALREADY_RUNNING``, ``STORE_CORRUPT`` and
    what roles raise when they open; what fails later inside comes out in an exception group, as from any nursery.

    With ``start_over`` a store that is lost or damaged is moved aside and a new one made; without it that is refused."""
    rules = load_colocation(config.node.profile, directory=config.policy.directory)
    rules.check(config.node.roles)
    private_data_dir(config.node.data_dir)
    identity = load_identity(config.node.data_dir)
    opener = Opener()
    swarm = load_swarm(config, opener.open)
    refuse(key_faults(config, identity, swarm.state))
    trust = TrustBox(swarm.state, map(opener.open, swarm.log))
    metrics = PrometheusMetrics()
    ran_before = identity.incarnation > 0 and not (start_over and await _set_aside(config, ports))
    async with AsyncExitStack() as stack:
        limits = StoreLimits(map_size_bytes=config.store.map_size_bytes, behind_s=config.store.flush_ms / 1000)
        folder, keys_folder = config.node.data_dir / STORE, config.node.data_dir / KEYS
        store = await stack.enter_async_context(open_store(folder, ports.offload, limits=limits, expected=ran_before))
        keys = await stack.enter_async_context(open_keys(keys_folder, ports.entropy, ports.offload, expected=ran_before))
        incarnation = await next_incarnation(config.node.data_dir, identity, store, ports.offload, ran_before=ran_before)
        maker = partial(_signer, swarm=trust.state.swarm, epoch=trust.epoch, clock=ports.clock, incarnation=incarnation, made=opener.keep)
        transport_signer = maker(identity.transport, SignerRole.TRANSPORT)
        place = await stack.enter_async_context(
            attach(ports.bus, net_options(config), identity.transport, transport_signer.key, ports.entropy, ports.log)
        )
        directory = Directory(trust.state, ports.clock, local_node=identity.node_id, caps=rules.tier_caps(config.node.roles))
        context = NodeContext(
            node_id=identity.node_id,
            clock=ports.clock,
            entropy=ports.entropy,
            offload=ports.offload,
            store=store,
            keys=keys,
            transport=place.transport,
            trust=trust,
            directory=directory,
            opener=opener,
            vaults=Vaults(ports.entropy, identity.sealing),
            metrics=metrics,
            probe=ports.probe,
            log=ports.log,
            servers=ports.servers,
        )
        policies = await ensure_policy(config, identity, trust, maker, store, opener)
        house = _House(config, ports, identity, context, policies, store, keys, maker, place)
        heads, presence = house.swarm(TrustFile(trust_path(config), trust, ports.offload))
        await heads.refresh()
        roles = load_roles(config.node.roles)
        for role in roles:
            stack.push_async_callback(role.aclose)
            await role.open(house.host(role.name))
        rpc.serve(place.transport, "records.get", house.records)
        await presence.open()
        await house.announce(transport_signer, presence)
        nursery = await stack.enter_async_context(trio.open_nursery())
        for role in roles:
            nursery.start_soon(role.work)
        nursery.start_soon(heads.run)
        nursery.start_soon(house.announce_often, transport_signer, presence)
        nursery.start_soon(presence.run)
        nursery.start_soon(store.scrub)
        yield _node(config, context, house, store, metrics, swarm.charter, heads, presence)
        nursery.cancel_scope.cancel()


def _signer(
    seed: bytes,
    role: SignerRole,
    *,
    swarm: bytes,
    epoch: Callable[[], int],
    clock: Clock,
    incarnation: int,
    made: Callable[[Signed[Any]], None],
) -> KeySigner:
    return KeySigner(seed, role, swarm, epoch, clock, incarnation, made=made)


async def _set_aside(config: NodeConfig, ports: Ports) -> bool:
    """Start over where store or key store do not open; whether anything was lost."""
    folders = (config.node.data_dir / STORE, config.node.data_dir / KEYS)
    try:
        moved = await ports.offload.run(set_aside, *folders, config.store.map_size_bytes, lane="store")
    except OSError as error:
        raise GnusError("CONFIG", f"the damaged store cannot be moved aside: {error.strerror}", fix="check the disk") from None
    for place in moved:
        ports.log.warning("store.started_over", aside=place.name)
    return not all(folder.is_dir() for folder in folders)


def _node(
    config: NodeConfig,
    context: NodeContext,
    house: _House,
    store: LmdbStore,
    metrics: PrometheusMetrics,
    charter: bytes,
    heads: Heads,
    presence: Presence,
) -> Node:
    operator = Caller(TENANT, PROJECT, PRINCIPAL, KeyMode.LIVE, "local-socket", frozenset({"ask", "admin"}))
    submit = NodeSubmit(house.front, context, operator)
    addresses = house.place.addresses
    trust = trust_path(config)
    admin = NodeAdmin(config, context, house.front, submit, operator, store, charter, trust, house.faults, presence, addresses, heads)
    return Node(
        config=config,
        context=context,
        front=house.front,
        submit=submit,
        admin=admin,
        store=store,
        metrics=metrics,
        charter=charter,
        operator=operator,
        problems=house.problems,
        heads=heads,
        presence=presence,
        gate=house.gate,
        addresses=addresses,
    )


class _House:
    """What ``open_node`` hands to each role, and what the roles hand back."""

    def __init__(
        self,
        config: NodeConfig,
        ports: Ports,
        identity: Identity,
        context: NodeContext,
        policies: tuple[Signed[Policy], ...],
        store: LmdbStore,
        keys: KeyStore,
        maker: Callable[[bytes, SignerRole], KeySigner],
        place: Attached,
    ) -> None:
        self._config = config
        self._ports = ports
        self._identity = identity
        self._context = context
        self._policies = policies
        self._store = store
        self._keys = keys
        self._payloads = PayloadStore(store, keys, ports.entropy)
        self._maker = maker
        self._offered: list[Signed[Any]] = []
        self._announced: tuple[Signed[Any], ...] = ()
        self.place = place
        self.gate = RoleGate(place.transport.local_key)
        self.front = Front()

    def swarm(self, trust_file: TrustFile) -> tuple[Heads, Presence]:
        """What keeps this node's view of the swarm: the authority's part, if its key is here, and the presence among peers."""
        node, place = self._context, self.place
        seed = self._identity.authority
        signer = self._maker(seed, SignerRole.AUTHORITY) if seed else None
        known = node.trust.state.log_ids

        async def changed() -> None:
            nonlocal known
            node.directory.set_trust(node.trust.state)
            await trust_file.save()
            if node.trust.state.log_ids != known:
                known = node.trust.state.log_ids
                presence.trust_changed()

        async def issued() -> None:
            await changed()
            await sync.tell(place.gossip)

        sync = TrustSync(node.trust, place.transport, node.opener, node.log, changed)
        presence = Presence(
            place.transport,
            place.gossip,
            node.directory,
            sync,
            node.opener,
            node.clock,
            node.log,
            offers=lambda: (*self._announced, *self._offered),
            load=place.load,
            learn=place.learn,
        )
        return Heads(node.trust, signer, node.clock, issued), presence

    def host(self, role: RoleName) -> RoleHost:
        """The host of one role: its own signer, its own settings."""
        seed = self._identity.roles.get(role)
        if seed is None:
            raise GnusError("CONFIG", f"this node has no key for the role {role}", fix="grant the role to the node")
        signer = self._maker(seed, SignerRole(role.value))
        config = self._config
        limits = FlowLimits(
            max_question_bytes=config.limits.max_question_bytes,
            running=config.limits.max_running,
            waiting=config.api.queue_max,
            payload_ms=config.store.payload_days * 24 * 3600 * 1000,
        )
        return RoleHost(
            context=RoleContext(self._context, role, signer, Fence()),
            serve=self._serve,
            offer=self._offer,
            sign_bytes=signer.sign_bytes,
            load_class=self._ports.load_class,
            data_dir=config.node.data_dir,
            front=self.front,
            payloads=self._payloads,
            policies=self._policies,
            limits=limits,
            make_index=Fts5Index,
            experts=expert_specs(config),
            corpora=tuple(map(corpus_spec, config.corpora)),
            adapters=tuple((a.name, a.target, a.settings) for a in adapter_specs(config)),
            installed_adapters=installed_adapters(),
            roots=tuple(str(root) for root in config.tools.roots),
        )

    def _serve(self, service: str, handler: Handler) -> None:
        """Serve a role's service, through the gate."""

        async def answer(request: rpc.Request) -> Message:
            self.gate.check(request.peer)
            return await handler(request)

        rpc.serve(self._context.transport, service, answer)

    def _offer(self, record: Signed[Any]) -> None:
        refusal = self._context.directory.add(record)
        if refusal is not None:
            raise GnusError(refusal.code, f"this node's own registry record is refused: {refusal.what}")
        self._offered.append(record)

    async def announce(self, signer: KeySigner, presence: Presence) -> None:
        """Sign what this node offers, put it into the directory, tell the others. Raises where its own grant does not allow it."""
        entries = tuple(r.id for r in self._offered if r.header.kind == "expert_entry")
        kinds: dict[str, set[int]] = {}
        for name, version in KINDS:
            kinds.setdefault(name, set()).add(version)
        body = NodeAnnouncement(
            node_id=self._identity.node_id,
            roles=tuple(sorted(self._config.node.roles)),
            experts=entries,
            reads=tuple(KindVersions(name=name, versions=tuple(sorted(versions))) for name, versions in sorted(kinds.items()))[:64],
            addresses=self.place.addresses,
            transport_key=signer.key,
            software=f"gnus-node {__version__}",
            announced_at_ms=self._context.clock.wall_ms(),
        )
        announcement = signer.sign(body)
        refusal = self._context.directory.add(announcement)
        if refusal is not None:
            raise GnusError(refusal.code, f"this node's own announcement is refused: {refusal.what}", fix="check its grant")
        self._announced = (announcement,)
        await presence.announce()

    async def announce_often(self, signer: KeySigner, presence: Presence) -> None:
        """Announce again before the announcement ages out."""
        while True:
            await trio.sleep(ANNOUNCE_S)
            await self.announce(signer, presence)

    async def records(self, request: rpc.Request) -> Message:
        """Registry records of this node by id; nothing of any request is given out here."""
        wanted = request.message.args.get("ids", ())
        ids = set(wanted) if type(wanted) is tuple else set()
        return Message(tuple(r.raw for r in (*self._announced, *self._offered) if r.id in ids))

    def faults(self) -> list[GnusError]:
        """Why this node is not ready: what was found damaged, and roles that are not up."""
        node = self._context
        found = [fault for fault in (self._store.damage, self._keys.damage) if fault is not None]
        for name in self._config.node.roles:
            if not node.directory.hosts(name, TENANT):
                found.append(GnusError("NO_EXPERT", f"role {name} is not announced", fix="see the log"))
        if node.trust.state.head is None:
            found.append(GnusError("TRUST_STALE", "no trust head"))
        return found

    def problems(self) -> list[str]:
        """``faults`` in words; empty when all is well."""
        return [f"{fault.code}: {fault.what}" if fault.code == "STORE_CORRUPT" else fault.what for fault in self.faults()]
