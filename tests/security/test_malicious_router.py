"""A router that holds its own keys and signs properly, but wants more than it was given: refused by everybody who acts on its word.

A real node hosts the roles; *mallory* is a second, granted node whose router the mandates name. Each row widens one thing. It is put to the
running services over the in-memory transport, to settlement, and to the ingress as the answer to a real question: the same code each time.
The mandates here are signed with the node's own ingress key, as if that ingress had chosen mallory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import nacl.bindings
import pytest
import trio

from gnus_node import __version__
from gnus_node.config import load_config
from gnus_node.evidence.bundle import export_trust, import_charter, import_trust, trust_of, verify_bundle
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SeededEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.identity import load_identity
from gnus_node.init import GRANT_MS, TENANT, issue_head, make_data_dir
from gnus_node.net import rpc
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.net.signing import KeySigner
from gnus_node.node import Node, Ports, open_node
from gnus_node.ports.submit import Answered, Ask
from gnus_node.ports.transport import Transport
from gnus_node.privacy.parcels import Vault, open_key
from gnus_node.records.authority import RequestMandate, RoleGrant, RoleKey, TenantGrant
from gnus_node.records.enums import (
    ApprovalMode,
    MemoryMode,
    Outcome,
    PrivacyMode,
    ProcessingPass,
    RoleName,
    SignerRole,
    Stage,
    Tier,
)
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.flow import NodeAnnouncement
from gnus_node.records.settlement import TaskRecord, TaskStatus
from gnus_node.wire.digests import sha256
from gnus_node.wire.message import Message
from gnus_node.wire.signed import open_record
from tests.security.chain_kit import CEILINGS, Cast, Chain, Key, sign, with_parts

MALLORY, STRANGER, OTHER_TENANT = "mallory", "stranger", "other"
OTHER = "22222222-2222-4333-8444-555555555555"
WRITE = "tool.files.write.execute"
_SETTINGS = """
[node]
data_dir = "data"
[api]
listen = "off"
[experts.core]
kind = "extractive"
role = "semantic_core"
[experts.helper]
kind = "file_lookup"
role = "tool_support"
domains = ["operations"]
[experts.spare]
kind = "symbolic"
role = "domain_expert"
domains = ["math"]
[tools]
allow = ["files.read"]
roots = ["files"]
"""


@dataclass(frozen=True, slots=True)
class World:
    """The node, the cast with everybody's keys, and mallory's own line."""

    node: Node
    cast: Cast
    line: Transport
    stranger: Transport
    sealing: bytes
    entropy: SeededEntropy
    given: dict[str, Signed[Any]] = field(default_factory=dict)

    def chain(self, **how: Any) -> Chain:
        """A fresh request's chain, now."""
        request = how.pop("request", None) or self.entropy.uuid()
        cast = replace(self.cast, now_ms=self.node.context.clock.wall_ms())
        given = self.given | how.pop("given", {})
        return Chain(cast, request=request, given=given, question="What is two plus three?", **how)


def grown_log(data_dir: Path, clock: SystemClock, entropy: SeededEntropy) -> tuple[Cast, bytes]:
    """Add mallory (all roles, this tenant) and a stranger (all roles, another tenant) to the node's trust log; everybody's keys."""
    identity, now = load_identity(data_dir), clock.wall_ms()
    charter = import_charter((data_dir / "charter.json").read_bytes())
    swarm = open_record(charter).header.swarm
    signer = KeySigner(identity.authority, SignerRole.AUTHORITY, swarm, lambda: 1, clock, 7)
    keys = {(identity.node_id, SignerRole(str(r))): Key(SignerRole(str(r)), seed) for r, seed in identity.roles.items()}
    keys[identity.node_id, SignerRole.TRANSPORT] = Key(SignerRole.TRANSPORT, identity.transport)
    keys[TENANT, SignerRole.POLICY] = Key(SignerRole.POLICY, identity.policy)
    keys[OTHER_TENANT, SignerRole.POLICY] = Key(SignerRole.POLICY, entropy.token(32))
    sealing = entropy.token(32)
    span = {"not_before_ms": now - 600_000, "not_after_ms": now + GRANT_MS, "grant_epoch": 1}
    bodies: list[Any] = []
    for node_id, tenant in ((MALLORY, TENANT), (STRANGER, OTHER_TENANT)):
        for role in (SignerRole.TRANSPORT, *(SignerRole(str(r)) for r in RoleName)):
            keys[node_id, role] = Key(role, entropy.token(32))
        grant = {
            "node_id": node_id,
            "operator": node_id,
            "transport_key": keys[node_id, SignerRole.TRANSPORT].public,
            "sealing_key": nacl.bindings.crypto_scalarmult_base(sealing),
            "roles": tuple(RoleKey(role=r, key=keys[node_id, SignerRole(str(r))].public) for r in RoleName),
            "tier": Tier.A,
            "tenants": (tenant,),
        }
        bodies.append(RoleGrant.model_validate(grant | span))
    other = {"tenant": OTHER_TENANT, "policy_keys": (keys[OTHER_TENANT, SignerRole.POLICY].public,), "approver_keys": (), "client_keys": ()}
    bodies.append(TenantGrant.model_validate(other | span))
    old = [open_record(raw) for raw in import_trust((data_dir / "trust.json").read_bytes())]
    log = [r for r in old if r.header.kind != "trust_head"] + [signer.sign(body) for body in bodies]
    head = issue_head(signer, [open_record(charter).id, *(r.id for r in log)], 1)
    (data_dir / "trust.json").write_text(export_trust([*(r.raw for r in log), head.raw]))
    raws = tuple(r.raw for r in (*log, head))
    cast = Cast(swarm, trust_of(charter, raws), keys, charter, raws, tenant=TENANT, home=identity.node_id, router=MALLORY)
    return cast, sealing


@asynccontextmanager
async def open_world(folder: Path) -> AsyncIterator[World]:
    """The node with mallory announced to it, for the length of the block."""
    clock, entropy, bus = SystemClock(), SeededEntropy(11), MemoryBus()
    (folder / "files").mkdir()
    (folder / "node.toml").write_text(_SETTINGS)
    config = load_config(folder / "node.toml")
    make_data_dir(config.node.data_dir, entropy, clock)
    cast, sealing = grown_log(config.node.data_dir, clock, entropy)
    transport = cast.key(MALLORY, SignerRole.TRANSPORT)
    async with (
        open_node(config, Ports(clock, entropy.fork("node"), ThreadOffload(), bus)) as node,
        bus.attach(transport.public) as line,
        bus.attach(cast.key(STRANGER, SignerRole.TRANSPORT).public) as stranger,
    ):
        hello = NodeAnnouncement(
            node_id=MALLORY,
            roles=(RoleName.ROUTER,),
            experts=(),
            reads=(),
            addresses=(),
            transport_key=transport.public,
            software=f"gnus-node {__version__}",
            announced_at_ms=clock.wall_ms(),
        )
        assert node.context.directory.add(sign(hello, transport, cast.swarm, seq=1, at_ms=clock.wall_ms())) is None
        given = {}
        for offer in node.context.directory.experts(TENANT):
            given[f"entry.{offer.entry.body.expert_id}"] = offer.entry
            given[f"manifest.{offer.entry.body.expert_id}"] = offer.manifest
        assert len(given) == 6
        yield World(node, cast, line, stranger, sealing, entropy, given)


# -- the lies -----------------------------------------------------------------------------------------------------------------

ORDER = "dispatch.order"
How = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lie:
    """One thing widened: how, the code, and whether it can be told to those who do not act now, and to an ingress about its own mandate."""

    name: str
    how: Callable[[Cast], How]
    code: str
    live_only: bool = False
    to_ingress: bool = True


def body(name: str, **changes: Any) -> Callable[[Cast], How]:
    return lambda _cast: {"change": {name: changes}}


def part(**changes: Any) -> Callable[[Any], Any]:
    return lambda old: with_parts(old, **changes)


def more(*fields: str) -> Callable[[Any], Any]:
    """These numbers of a part, one above what they are."""
    return lambda old: with_parts(old, **{name: getattr(old, name) + 1 for name in fields})


def place(stage: Stage, **changes: Any) -> Callable[[Any], Any]:
    return lambda old: tuple(with_parts(a, **changes) if a.stage is stage else a for a in old)


def capped(ceilings: dict[str, Any], **plan: Any) -> Callable[[Cast], How]:
    return lambda _cast: {"ceilings": with_parts(CEILINGS, **ceilings), "change": {"plan": plan}}


def at(name: str, **header: Any) -> Callable[[Cast], How]:
    return lambda cast: {"header": {name: {key: value(cast) for key, value in header.items()}}}


def by(name: str, owner: str | None, role: RoleName) -> Callable[[Cast], How]:
    return lambda cast: {"keys": {name: cast.key(owner or cast.home, role)}}


PLAN_LIES = (
    Lie("request_id", body("plan", request_id=OTHER), "PLAN_EXCEEDS_MANDATE"),
    Lie("generation", body("plan", generation=9), "PLAN_EXCEEDS_MANDATE"),
    Lie("query_hash", body("plan", query_hash=sha256(b"x")), "PLAN_EXCEEDS_MANDATE"),
    Lie("max_tokens", body("plan", constraints=more("max_tokens")), "PLAN_EXCEEDS_MANDATE"),
    Lie("max_wall_ms", body("plan", constraints=more("max_wall_ms")), "PLAN_EXCEEDS_MANDATE"),
    Lie("max_spend", body("plan", constraints=more("max_spend")), "PLAN_EXCEEDS_MANDATE"),
    Lie("max_turns", body("plan", max_turns=16), "PLAN_EXCEEDS_MANDATE"),
    Lie("privacy_mode", body("plan", privacy_mode=PrivacyMode.PLAINTEXT), "PLAN_EXCEEDS_MANDATE"),
    Lie("memory_mode", capped({"memory_floor": MemoryMode.NONE}), "PLAN_EXCEEDS_MANDATE", to_ingress=False),
    Lie("capabilities", body("plan", tool_policy=part(capability_whitelist=(WRITE,))), "PLAN_EXCEEDS_MANDATE"),
    Lie("domains", body("plan", tool_policy=part(allowlisted_domains=("evil.example",))), "PLAN_EXCEEDS_MANDATE"),
    Lie("paths", body("plan", tool_policy=part(allowlisted_paths=("/",))), "PLAN_EXCEEDS_MANDATE"),
    Lie("no dry run", body("plan", tool_policy=part(require_dry_run=False)), "PLAN_EXCEEDS_MANDATE"),
    Lie("no person", capped({"approval_floor": ApprovalMode.STEP_BY_STEP}), "PLAN_EXCEEDS_MANDATE", to_ingress=False),
    Lie("no sandbox", body("plan", sandbox_profile=part(default_deny=False)), "PLAN_EXCEEDS_MANDATE"),
    Lie("no task attestation", body("plan", attestation_requirements=part(require_task_attestation=False)), "PLAN_EXCEEDS_MANDATE"),
    Lie("no tool attestation", body("plan", attestation_requirements=part(require_tool_attestation=False)), "PLAN_EXCEEDS_MANDATE"),
    Lie(
        "an expert's capabilities",
        body("plan", selected_elms=lambda old: (with_parts(old[0], capabilities=(WRITE,)), *old[1:])),
        "PLAN_EXCEEDS_MANDATE",
    ),
    Lie("an expert twice", body("plan", selected_elms=lambda old: (old[0], *old)), "PLAN_EXCEEDS_MANDATE"),
    Lie(
        "an expert that nobody executes",
        body("plan", selected_elms=lambda old: (*old, with_parts(old[0], elm_id="ghost"))),
        "PLAN_EXCEEDS_MANDATE",
    ),
    Lie(
        "a foreign intermediary",
        lambda cast: {
            "change": {
                "plan": {
                    "intermediary_id": MALLORY,
                    "assignments": place(Stage.TOOL, node_id=MALLORY, key=cast.key(MALLORY, RoleName.TOOL_INTERMEDIARY).public),
                }
            }
        },
        "PLAN_EXCEEDS_MANDATE",
    ),
    Lie(
        "tools at another node than the pinned one",
        lambda cast: {
            "change": {
                "plan": {
                    "assignments": lambda old: (
                        *old,
                        *(
                            with_parts(a, node_id=MALLORY, key=cast.key(MALLORY, RoleName.TOOL_INTERMEDIARY).public)
                            for a in old
                            if a.stage is Stage.TOOL
                        ),
                    )
                }
            }
        },
        "PLAN_EXCEEDS_MANDATE",
    ),
    Lie("a stage that is not planned", body("plan", execution_graph=part(stages=(Stage.DRAFT,))), "PLAN_EXCEEDS_MANDATE"),
    Lie("an ungranted worker", lambda _: {"change": {"plan": {"assignments": extra_place(key=bytes(32))}}}, "CHAIN_BROKEN"),
    Lie("a role that may not", lambda _: {"change": {"plan": {"assignments": extra_place(role=RoleName.ROUTER)}}}, "CHAIN_BROKEN"),
    Lie(
        "another tenant's node",
        lambda cast: {"change": {"plan": {"assignments": extra_place(node_id=STRANGER, key=cast.key(STRANGER, RoleName.VERIFIER).public)}}},
        "FORBIDDEN",
    ),
    Lie("another mandate", body("plan", mandate=sha256(b"x")), "CHAIN_BROKEN"),
    Lie("another router's signature", by("plan", None, RoleName.ROUTER), "FENCED"),
    Lie("a worker's signature", by("plan", MALLORY, RoleName.ELM_WORKER), "WRONG_ROLE"),
    Lie("a plan after the lease", at("plan", issued_at_ms=lambda cast: cast.now_ms + 61_000), "LEASE_EXPIRED"),
    Lie("a plan before its mandate", at("plan", issued_at_ms=lambda cast: cast.now_ms - 121_000), "CHAIN_BROKEN"),
)

DISPATCH_LIES = (
    Lie("request_id", body(ORDER, request_id=OTHER), "DISPATCH_EXCEEDS_PLAN"),
    Lie("generation", body(ORDER, generation=9), "DISPATCH_EXCEEDS_PLAN"),
    Lie("mandate", body(ORDER, mandate=sha256(b"x")), "CHAIN_BROKEN"),
    Lie("pass", body(ORDER, processing_pass=ProcessingPass.RETRAIN), "DISPATCH_EXCEEDS_PLAN"),
    Lie("turn", body(ORDER, turn=16), "DISPATCH_EXCEEDS_PLAN"),
    Lie("expert_id", body(ORDER, expert_id="ghost"), "DISPATCH_EXCEEDS_PLAN"),
    Lie("node_id", body(ORDER, node_id=MALLORY), "DISPATCH_EXCEEDS_PLAN"),
    Lie("peer", lambda cast: {"change": {ORDER: {"peer": cast.key(MALLORY, RoleName.VERIFIER).public}}}, "DISPATCH_EXCEEDS_PLAN"),
    Lie("tokens", body(ORDER, remaining=part(tokens=10**9)), "DISPATCH_EXCEEDS_PLAN"),
    Lie("wall_ms", body(ORDER, remaining=part(wall_ms=10**9)), "DISPATCH_EXCEEDS_PLAN"),
    Lie("spend", body(ORDER, remaining=part(spend=10**12)), "DISPATCH_EXCEEDS_PLAN"),
    Lie("input_digest", body(ORDER, input_digest=sha256(b"x")), "CHAIN_BROKEN"),
    Lie("a missing input", lambda _: {"header": {ORDER: {"refs": lambda refs: (*refs, sha256(b"x"))}}}, "CHAIN_BROKEN"),
    Lie("another router's signature", by(ORDER, None, RoleName.ROUTER), "FENCED"),
    Lie("a worker's signature", by(ORDER, MALLORY, RoleName.ELM_WORKER), "WRONG_ROLE"),
    Lie("after the lease", at(ORDER, issued_at_ms=lambda cast: cast.now_ms + 61_000), "LEASE_EXPIRED"),
)


def wider(**changes: Any) -> Callable[[Cast], How]:
    return lambda _cast: {"change": {"mandate": {"ceilings": with_parts(CEILINGS, **changes)}}}


MANDATE_LIES = (
    Lie("capabilities", wider(capabilities=(*CEILINGS.capabilities, WRITE)), "MANDATE_EXCEEDS_POLICY"),
    Lie("domains", wider(domains=(*CEILINGS.domains, "evil.example")), "MANDATE_EXCEEDS_POLICY"),
    Lie("paths", wider(paths=("/",)), "MANDATE_EXCEEDS_POLICY"),
    Lie("pre_granted", wider(pre_granted=(WRITE,)), "MANDATE_EXCEEDS_POLICY"),
    Lie("tokens", wider(max_tokens=CEILINGS.max_tokens + 1), "MANDATE_EXCEEDS_POLICY"),
    Lie("wall", wider(max_wall_ms=CEILINGS.max_wall_ms + 1), "MANDATE_EXCEEDS_POLICY"),
    Lie("spend", wider(max_spend=CEILINGS.max_spend + 1), "MANDATE_EXCEEDS_POLICY"),
    Lie("turns", wider(max_turns=CEILINGS.max_turns + 1), "MANDATE_EXCEEDS_POLICY"),
    Lie("privacy", wider(privacy_floor=PrivacyMode.PLAINTEXT), "MANDATE_EXCEEDS_POLICY"),
    Lie("approval", wider(approval_floor=next(iter(ApprovalMode))), "MANDATE_EXCEEDS_POLICY"),
    Lie("lease", lambda cast: {"change": {"mandate": {"not_after_ms": cast.now_ms + 100_000}}}, "MANDATE_EXCEEDS_POLICY"),
    Lie("a lease that is over", lambda cast: {"change": {"mandate": {"not_after_ms": cast.now_ms - 1}}}, "LEASE_EXPIRED", live_only=True),
    Lie("no policy", body("mandate", policies=()), "POLICY_MISSING"),
    Lie("a missing policy", lambda _: {"drop": frozenset({"policy"})}, "POLICY_MISSING"),
    Lie(
        "another tenant's policy",
        lambda cast: {"keys": {"policy": cast.key(OTHER_TENANT, SignerRole.POLICY)}, "change": {"policy": {"tenant": OTHER_TENANT}}},
        "POLICY_MISSING",
    ),
    Lie("a policy by another tenant's key", lambda cast: {"keys": {"policy": cast.key(OTHER_TENANT, SignerRole.POLICY)}}, "POLICY_MISSING"),
    Lie("a policy by a router", by("policy", MALLORY, RoleName.ROUTER), "WRONG_ROLE"),
    Lie("a policy by nobody", lambda _: {"keys": {"policy": Key(SignerRole.POLICY, b"n" * 32)}}, "UNKNOWN_KEY"),
    Lie("a mandate by the router itself", by("mandate", MALLORY, RoleName.ROUTER), "WRONG_ROLE"),
    Lie("another ingress", by("mandate", MALLORY, RoleName.INGRESS), "CHAIN_BROKEN"),
    Lie(
        "another tenant's router",
        lambda cast: {"change": {"mandate": {"router": cast.key(STRANGER, RoleName.ROUTER).public, "router_node": STRANGER}}},
        "FORBIDDEN",
    ),
)


def extra_place(**changes: Any) -> Callable[[Any], Any]:
    """One more place in the synthesis, changed; the true ones stay."""
    return lambda old: (*old, *(with_parts(a, **changes) for a in old if a.stage is Stage.SYNTHESIZE))


# -- who acts on it -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Order:
    """One service and the dispatch it acts on; ``until`` is the last record that must be there before it."""

    service: str
    stage: Stage
    how: ProcessingPass
    role: RoleName
    until: str = "plan"
    inputs: tuple[str, ...] = ()
    expert: str | None = None
    turn: int = 0


GIVEN = ("retrieval", "evidence", "output.helper", "dry_run", "attestation.first", "sanitized", "attestation.second", "effects")
ORDERS = (
    Order("memory.retrieve", Stage.MEMORY, ProcessingPass.RETRIEVAL, RoleName.MEMORY_INDEX, turn=1),
    Order("core.run", Stage.DRAFT, ProcessingPass.INFERENCE, RoleName.SEMANTIC_CORE, expert="core"),
    Order("expert.run", Stage.DRAFT, ProcessingPass.INFERENCE, RoleName.ELM_WORKER, expert="spare"),
    Order("tools.mediate", Stage.TOOL, ProcessingPass.COMPUTE, RoleName.TOOL_INTERMEDIARY, "task_attestation.helper", ("output.helper",)),
    Order(
        "verifier.synthesize",
        Stage.SYNTHESIZE,
        ProcessingPass.VERIFICATION,
        RoleName.VERIFIER,
        "absence.spare",
        (*GIVEN, "output.core", "absence.spare"),
        turn=1,
    ),
    Order("grounding.retrieve", Stage.GROUND, ProcessingPass.RETRIEVAL, RoleName.GROUNDING, turn=1),
)


def message_of(world: World, chain: Chain, order: Order) -> Message:
    """The call mallory makes: the order's dispatch with everything that was made before it."""
    refs = [*chain.base(), *(chain[name] for name in order.inputs)]
    chain.dispatch("order", order.stage, order.how, order.role, refs, turn=order.turn, expert=order.expert)
    sealing = world.cast.trust.node(world.cast.home).sealing_key
    assert chain.vault is not None
    raws = [r.raw for name, r in chain.records.items() if name not in chain.drop]
    return Message(tuple(raws), chain.vault.all_parcels(), chain.vault.box_for(sealing), {"dispatch": chain[ORDER].id})


async def call(world: World, order: Order, message: Message, *, line: Transport | None = None) -> str:
    """The code a service answers with, empty where it acts."""
    home = world.cast.key(world.cast.home, SignerRole.TRANSPORT).public
    try:
        await rpc.request(line or world.line, home, order.service, message, budget_ms=10_000)
    except GnusError as error:
        return error.code
    return ""


async def told(world: World, lie: Lie, order: Order) -> str:
    how = lie.how(replace(world.cast, now_ms=world.node.context.clock.wall_ms()))
    return await call(world, order, message_of(world, world.chain(stop_after=order.until, **how), order))


async def mismatches(world: World, lies: Iterable[Lie], found: Callable[[Lie], Awaitable[str]]) -> list[tuple[str, str, str]]:
    """(lie, expected, found) of all that were not refused as they should be."""
    wrong = []
    for lie in lies:
        code = await found(lie)
        if code != lie.code:
            wrong.append((lie.name, lie.code, code))
    return wrong


TRUTH = Lie("the truth", lambda _: {}, "")


async def test_every_service_refuses_every_ceiling_widened_in_turn(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        for order in ORDERS:
            lies = (TRUTH, *PLAN_LIES, *DISPATCH_LIES, *MANDATE_LIES, TRUTH)
            assert await mismatches(world, lies, partial(told, world, order=order)) == [], order.service


async def test_a_dispatch_counts_for_its_own_peer_caller_and_generation(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        by_service = {order.service: order for order in ORDERS}
        for order in ORDERS:
            message = message_of(world, world.chain(stop_after=order.until), order)
            # Carried to another role than it is for, or by another node than its router's.
            wrong = by_service["memory.retrieve" if order.service != "memory.retrieve" else "core.run"]
            assert await call(world, wrong, message) == "WRONG_PEER"
            assert await call(world, order, message, line=world.stranger) == "WRONG_PEER"
            assert await call(world, order, message, line=world.node.context.transport) == "WRONG_PEER"
            assert await call(world, order, message) == ""
            request = open_record(message.records[1]).body.request_id
            assert await call(world, order, message_of(world, world.chain(stop_after=order.until, request=request), order)) == "FENCED"
            newer = world.chain(stop_after=order.until, request=request, generation=2)
            assert await call(world, order, message_of(world, newer, order)) == ""
            assert await call(world, order, message) == "FENCED"


async def test_what_a_router_made_up_is_fed_to_nobody(tmp_path: Path) -> None:
    """Evidence and tool outputs reach an expert only from those who may sign them, for this very request."""
    async with open_world(tmp_path) as world:
        order = replace(ORDERS[1], until="task_attestation.tool", inputs=("evidence", "sanitized", "attestation.second"), turn=1)
        router = world.cast.key(MALLORY, RoleName.ROUTER)
        assert await call(world, order, message_of(world, world.chain(stop_after=order.until), order)) == ""
        for name in order.inputs:
            for key, code in (
                (router, "WRONG_ROLE"),
                (Key(SignerRole.GROUNDING if name == "evidence" else SignerRole.TOOL_INTERMEDIARY, b"n" * 32), "UNKNOWN_KEY"),
                (world.cast.key(STRANGER, RoleName.GROUNDING if name == "evidence" else RoleName.TOOL_INTERMEDIARY), "FORBIDDEN"),
            ):
                forged = world.chain(stop_after=order.until, keys={name: key})
                assert await call(world, order, message_of(world, forged, order)) == code, name
            foreign = world.chain(stop_after=order.until, change={name: {"request_id": OTHER}})
            assert await call(world, order, message_of(world, foreign, order)) == "CHAIN_BROKEN", name
        borrowed = world.chain(stop_after=order.until, keys={"attestation.second": world.cast.key(MALLORY, RoleName.TOOL_INTERMEDIARY)})
        assert await call(world, order, message_of(world, borrowed, order)) == "UNATTESTED"


# -- settlement ---------------------------------------------------------------------------------------------------------------


async def settled(world: World, how: How, *, line: Transport | None = None) -> TaskRecord:
    """What settlement records of a whole chain, asked by the ingress."""
    if ORDER in how.get("change", {}) or ORDER in how.get("header", {}) or ORDER in how.get("keys", {}):
        how = {lever: {("dispatch.core" if n == ORDER else n): v for n, v in rows.items()} for lever, rows in how.items()}
    chain = world.chain(**how)
    raws = [r.raw for name, r in chain.records.items() if name not in {*chain.drop, "task"}]
    home = world.cast.key(world.cast.home, SignerRole.TRANSPORT).public
    own = line or world.node.context.transport
    answer = await rpc.request(own, home, "settlement.settle", Message(tuple(raws)), budget_ms=10_000)
    (task,) = [open_record(raw).body for raw in answer.records]
    assert isinstance(task, TaskRecord)
    return task


async def test_settlement_records_every_lie_as_rejected(tmp_path: Path) -> None:
    async def found(lie: Lie) -> str:
        how = lie.how(replace(world.cast, now_ms=world.node.context.clock.wall_ms()))
        task = await settled(world, how)
        assert task.status is (TaskStatus.SETTLED if task.reason_code == "OK" else TaskStatus.REJECTED)
        assert task.price == 0
        return "" if task.reason_code == "OK" else task.reason_code

    async with open_world(tmp_path) as world:
        lies = [TRUTH, *PLAN_LIES, *DISPATCH_LIES, *(lie for lie in MANDATE_LIES if not lie.live_only)]
        # The ingress's own signature stands in the mandate: another ingress's chain is not settled by this one at all.
        assert await mismatches(world, lies, found) == []


async def test_a_forged_mandate_does_not_take_a_requests_place_at_settlement(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        request = world.entropy.uuid()
        forged: How = {"request": request, "change": {"mandate": {"ingress_node": MALLORY}}}
        first = await settled(world, forged, line=world.line)
        assert (first.status, first.reason_code) == (TaskStatus.REJECTED, "CHAIN_BROKEN")
        assert (await settled(world, {"request": request})).status is TaskStatus.SETTLED
        for line in (world.line, world.stranger):
            with pytest.raises(GnusError) as caught:
                await settled(world, {}, line=line)
            assert caught.value.code == "WRONG_PEER"


# -- ingress ------------------------------------------------------------------------------------------------------------------


async def ask_through(world: World, how: How, *, without: str = "") -> Answered:
    """A real question whose router is mallory, who answers with a whole chain of its own making, or all of it but one record."""

    async def route(request: rpc.Request) -> Message:
        records = [open_record(raw) for raw in request.message.records]
        mandate: Signed[RequestMandate] = next(r for r in records if r.header.kind == "request_mandate")
        policies = {r.id: r for r in records if r.header.kind == "policy"}
        key = open_key(request.message.key_box, world.sealing, mandate.body.request_id)
        vault = Vault(mandate.body.request_id, key, world.entropy.fork(mandate.body.request_id))
        chain = world.chain(
            request=mandate.body.request_id,
            generation=mandate.body.generation,
            given={"mandate": mandate, "policy": policies[mandate.body.policies[0]]},
            ceilings=mandate.body.ceilings,
            vault=vault,
            stop_after="task_attestation.synthesis",
            **how,
        )
        raws = tuple(r.raw for name, r in chain.records.items() if name != without)
        return Message(raws, vault.all_parcels(), b"", {"state": "done"})

    handler["route"] = route
    return await world.node.submit.ask(world.node.operator, Ask("What is two plus three?", privacy_mode=PrivacyMode.RESTRICTED))


handler: dict[str, Callable[[rpc.Request], Awaitable[Message]]] = {}


async def _handle(request: rpc.Request) -> Message:
    return await handler["route"](request)


async def test_the_ingress_releases_no_answer_of_a_widened_plan(tmp_path: Path) -> None:
    async def found(lie: Lie) -> str:
        how = lie.how(replace(world.cast, now_ms=world.node.context.clock.wall_ms()))
        how = {lever: {("dispatch.core" if n == ORDER else n): v for n, v in rows.items()} for lever, rows in how.items()}
        answer = await ask_through(world, how)
        assert answer.outcome is (Outcome.ANSWERED if answer.reason_code == "OK" else Outcome.FAILED)
        if answer.reason_code == "OK":
            return ""
        assert answer.answer == ""
        bundle = await world.node.admin.audit(answer.request_id, False)
        assert verify_bundle(bundle, world.node.charter, world.node.context.clock.wall_ms()).ok  # the refusal itself is on record
        return answer.reason_code

    async with open_world(tmp_path) as world:
        rpc.serve(world.line, "router.route", _handle)
        lies = [TRUTH, *(lie for lie in (*PLAN_LIES, *DISPATCH_LIES) if lie.to_ingress)]
        with trio.fail_after(60):
            assert await mismatches(world, lies, found) == []


async def test_the_ingress_releases_no_answer_that_leaves_something_out(tmp_path: Path) -> None:
    """Mallory keeps an output, an absence, an attestation or a result to itself; or adds a record of another request."""
    async with open_world(tmp_path) as world:
        rpc.serve(world.line, "router.route", _handle)
        assert (await ask_through(world, {})).outcome is Outcome.ANSWERED
        for name in ("output.core", "absence.spare", "task_attestation.core", "attestation.second", "dispatch.tool", "evidence"):
            lost = await ask_through(world, {}, without=name)
            assert (lost.outcome, lost.reason_code, lost.answer) == (Outcome.FAILED, "CHAIN_BROKEN", ""), name
