"""The composition root: a node from its settings, its ports and its roles (DESIGN.md section 1).

``open_node`` builds everything and tears it down again; it neither chooses the clock nor opens a socket, so a whole node runs in virtual
time over the in-memory transport. ``run_node`` is the program: real ports, HTTP doors, signals.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import trio

from gnus_node import __version__
from gnus_node.admin import NodeAdmin, NodeSubmit
from gnus_node.api.app import ApiDeps
from gnus_node.api.keys import KeyRing
from gnus_node.api.server import Bound, serve
from gnus_node.api.settings import ApiSettings
from gnus_node.authority import Heads, TrustFile, ensure_policy
from gnus_node.config.model import CorpusSettings, ExpertSettings, NodeConfig
from gnus_node.config.policies import load_colocation
from gnus_node.evidence.bundle import import_charter, import_trust, trust_of
from gnus_node.flow.accept import FlowLimits
from gnus_node.host import SystemClock, SystemEntropy, ThreadOffload
from gnus_node.host.heap import settle_heap
from gnus_node.host.servers import NoServers, open_servers
from gnus_node.identity import Identity, load_identity
from gnus_node.init import KEYS_FILE, PRINCIPAL, PROJECT, TENANT, trust_path
from gnus_node.loader import installed_adapters, load_class, load_roles
from gnus_node.net import rpc
from gnus_node.net.attach import Attached, NetOptions, attach
from gnus_node.net.context import Fence, NodeContext, RoleContext, TrustBox, Vaults
from gnus_node.net.directory import Directory
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.net.presence import Presence
from gnus_node.net.signing import KeySigner
from gnus_node.net.trust_sync import TrustSync
from gnus_node.ports.host import Clock, Entropy, Log, Offload, Probe
from gnus_node.ports.servers import Servers
from gnus_node.ports.store import Write
from gnus_node.ports.submit import Caller
from gnus_node.records.authority import Policy
from gnus_node.records.enums import KeyMode, RoleName, SignerRole, SourceClass
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.flow import KindVersions, NodeAnnouncement
from gnus_node.role import CorpusSpec, ExpertSpec, Front, RoleHost
from gnus_node.store.batch import StoreLimits
from gnus_node.store.engine import LmdbStore, open_store
from gnus_node.store.keys import open_keys
from gnus_node.store.payloads import PayloadStore
from gnus_node.store.textindex import Fts5Index
from gnus_node.telemetry.log import FileSink, LogForm, NullLog, StreamSink, make_log
from gnus_node.telemetry.metrics import PrometheusMetrics
from gnus_node.telemetry.probe import NullProbe
from gnus_node.wire.kinds import KINDS
from gnus_node.wire.message import Message
from gnus_node.wire.signed import Opener

ANNOUNCE_S = 300.0
"""Full announcements: on change, and this often (DESIGN.md section 5)."""
_INCARNATION = b"incarnation"


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside of a node. The defaults are a real machine's; a virtual run brings its own."""

    clock: Clock
    entropy: Entropy
    offload: Offload
    bus: MemoryBus
    probe: Probe = field(default_factory=NullProbe)
    log: Log = field(default_factory=NullLog)
    servers: Servers = field(default_factory=NoServers)
    load_class: Callable[[str], type[Any]] = load_class


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
    addresses: tuple[str, ...]
    """Where others reach this node, as they put it into ``net.bootstrap``."""


@asynccontextmanager
async def open_node(config: NodeConfig, ports: Ports) -> AsyncIterator[Node]:
    """Build a node and run it for the length of the block. Raises ``CONFIG``, ``COLOCATION``, ``ALREADY_RUNNING``, ``CHAIN_BROKEN`` and
    what roles raise when they open; what fails later inside comes out in an exception group, as from any nursery."""
    rules = load_colocation(config.node.profile, directory=config.policy.directory)
    rules.check(config.node.roles)
    identity = load_identity(config.node.data_dir)
    charter = import_charter(config.charter_path.read_bytes())
    opener = Opener()
    raws = import_trust(trust_path(config).read_bytes())
    trust = TrustBox(trust_of(charter, raws, opener.open), map(opener.open, raws))
    metrics = PrometheusMetrics()
    async with AsyncExitStack() as stack:
        limits = StoreLimits(map_size_bytes=config.store.map_size_bytes, behind_s=config.store.flush_ms / 1000)
        store = await stack.enter_async_context(open_store(config.node.data_dir / "store", ports.offload, limits=limits))
        keys = await stack.enter_async_context(open_keys(config.node.data_dir / "keys", ports.entropy, ports.offload))
        incarnation = await _next_incarnation(store)
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
        house = _House(config, ports, identity, context, policies, PayloadStore(store, keys, ports.entropy), maker, place)
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
        yield _node(config, context, house, store, metrics, charter, heads, presence)
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


async def _next_incarnation(store: LmdbStore) -> int:
    """The number of this start, durable before anything is signed (DECISIONS, Bytes)."""
    stored = await store.get("meta", _INCARNATION)
    number = (int.from_bytes(stored, "big") if stored else 0) + 1
    await store.commit([Write("meta", _INCARNATION, number.to_bytes(8, "big"))])
    return number


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
    admin = NodeAdmin(config, context, house.front, submit, operator, store, charter, trust_path(config), house.problems)
    addresses = house.place.addresses
    return Node(config, context, house.front, submit, admin, store, metrics, charter, operator, house.problems, heads, presence, addresses)


class _House:
    """What ``open_node`` hands to each role, and what the roles hand back."""

    def __init__(
        self,
        config: NodeConfig,
        ports: Ports,
        identity: Identity,
        context: NodeContext,
        policies: tuple[Signed[Policy], ...],
        payloads: PayloadStore,
        maker: Callable[[bytes, SignerRole], KeySigner],
        place: Attached,
    ) -> None:
        self._config = config
        self._ports = ports
        self._identity = identity
        self._context = context
        self._policies = policies
        self._payloads = payloads
        self._maker = maker
        self._offered: list[Signed[Any]] = []
        self._announced: tuple[Signed[Any], ...] = ()
        self.place = place
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
            serve=partial(rpc.serve, self._context.transport),
            offer=self._offer,
            sign_bytes=signer.sign_bytes,
            load_class=self._ports.load_class,
            data_dir=config.node.data_dir,
            front=self.front,
            payloads=self._payloads,
            policies=self._policies,
            limits=limits,
            make_index=Fts5Index,
            experts=tuple(_expert_spec(name, settings) for name, settings in sorted(config.experts.items()) if settings.enabled),
            corpora=tuple(_corpus_spec(c) for c in config.corpora),
            adapters=_adapters(config),
            installed_adapters=installed_adapters(),
            roots=tuple(str(root) for root in config.tools.roots),
        )

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

    def problems(self) -> list[str]:
        """Why this node is not ready, in words; empty when all its roles are up."""
        trust = self._context.trust.state
        missing = [str(r) for r in self._config.node.roles if not self._context.directory.hosts(r, TENANT)]
        found = [f"role {name} is not announced" for name in missing]
        if trust.head is None:
            found.append("no trust head")
        return found


def net_options(config: NodeConfig) -> NetOptions:
    """The network of the settings. Raises ``CONFIG`` where the private network's key cannot be read, or others could read it."""
    net = config.net
    psk = ""
    if net.psk_file is not None:
        try:
            if net.psk_file.stat().st_mode & 0o077:
                raise GnusError("CONFIG", "the private network's key is readable by others", fix=f"chmod 600 {net.psk_file.name}")
            psk = net.psk_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise GnusError("CONFIG", "net.psk_file cannot be read", fix="64 hexadecimal digits, mode 0600") from None
    return NetOptions(net.listen, net.announce, net.bootstrap, psk, net.mdns)


def _expert_spec(name: str, settings: ExpertSettings) -> ExpertSpec:
    return ExpertSpec(name, settings.version, settings.role, settings.domains, settings.model_license, settings.backend)


def _corpus_spec(settings: CorpusSettings) -> CorpusSpec:
    tenant = TENANT if settings.source_class is SourceClass.PRIVATE_TENANT else None
    prefix = str(settings.uri_prefix)
    return CorpusSpec(settings.name, settings.kind, settings.path, settings.source_class, settings.trusted, prefix, tenant)


def _adapters(config: NodeConfig) -> tuple[tuple[str, str, Mapping[str, Any]], ...]:
    """The allow-list with its targets: ``adapter_paths`` are ``module:Class`` for the names that are no built-in ones, in order."""
    targets = list(config.tools.adapter_paths)
    rows: list[tuple[str, str, Mapping[str, Any]]] = []
    for name in config.tools.allow:
        if name == "files.read":
            rows.append((name, "", {"max_bytes": config.tools.max_read_bytes}))
        else:
            rows.append((name, targets.pop(0) if targets else "", {}))
    return tuple(rows)


async def serve_doors(node: Node, log: Log, *, task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED) -> None:
    """The unix socket and the loopback API of a node, until cancelled."""
    config = node.config
    settings = replace(
        ApiSettings(),
        max_body_bytes=min(config.api.max_body_bytes, ApiSettings().max_body_bytes),
        rate_per_minute=config.api.rate_per_minute,
        rate_burst=config.api.rate_burst,
        max_streams=config.api.max_streams,
    )
    deps = ApiDeps(
        submit=node.submit,
        admin=node.admin,
        keys=KeyRing.load(config.node.data_dir / KEYS_FILE, node.context.clock),
        operator=node.operator,
        clock=node.context.clock,
        entropy=node.context.entropy,
        log=log,
        problems=node.problems,
        metrics=node.metrics.render,
        settings=settings,
    )
    tcp = None
    if config.api.listen != "off":
        host, _, port = config.api.listen.rpartition(":")
        tcp = (host.strip("[]"), int(port))
    await serve(deps, unix_path=config.socket_path, tcp=tcp, task_status=task_status)


def run_node(config: NodeConfig, *, probe: Probe | None = None) -> int:
    """``gnus-node run``: until SIGINT or SIGTERM; the exit code."""
    trio.run(partial(_main, config, probe))
    return 0


async def _main(config: NodeConfig, probe: Probe | None) -> None:
    clock = SystemClock()
    config.node.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    sink = FileSink(config.telemetry.log_file) if config.telemetry.log_file else StreamSink(_stderr())
    form = LogForm.JSON
    log = make_log(sink, clock=clock, level=config.telemetry.log_level, form=form)
    entropy, offload = SystemEntropy(), ThreadOffload()
    folder, memory = config.node.runtime_dir, config.weights_path
    async with (
        trio.open_nursery() as nursery,
        open_servers(entropy=entropy, offload=offload, log=log, folder=folder, memory=memory) as servers,
    ):
        nursery.start_soon(_until_signal, nursery.cancel_scope)
        ports = Ports(clock, entropy, offload, MemoryBus(), probe or NullProbe(), log, servers)
        async with open_node(config, ports) as node, trio.open_nursery() as doors:
            bound = await doors.start(partial(serve_doors, node, log))
            settle_heap()
            log.info("node.ready", node_id=node.context.node_id, roles=len(config.node.roles), tcp=str(bound.tcp))
            await trio.sleep_forever()


def _stderr() -> Any:
    import sys

    return sys.stderr


async def _until_signal(scope: trio.CancelScope) -> None:
    """Stop the node at the first SIGINT or SIGTERM."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
