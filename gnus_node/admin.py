"""The front door's view of the node: ``Submit`` for the API, ``Admin`` for the operator's socket (ports.submit, ports.admin)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from gnus_node import __version__
from gnus_node.authority import Heads
from gnus_node.config.model import NodeConfig
from gnus_node.evidence.bundle import export_charter, import_trust
from gnus_node.identity import FOLDER
from gnus_node.membership import read_request
from gnus_node.net import rpc
from gnus_node.net.context import NodeContext
from gnus_node.net.presence import Presence
from gnus_node.ports.submit import Answered, Ask, Caller, StatusSink
from gnus_node.records.enums import AnswerType, ColocationProfile, PrivacyMode, RoleName, Tier
from gnus_node.records.errors import GnusError
from gnus_node.records.views import json_plain
from gnus_node.role import Front
from gnus_node.store.engine import LmdbStore
from gnus_node.trust.check import head_fresh
from gnus_node.wire.message import Message

MEMORY_BUDGET_MS = 5_000
SETTLED_WITHIN_S = 5.0
"""How long an export waits for settlement."""


class NodeSubmit:
    """``ports.Submit`` over the ingress of this node."""

    def __init__(self, front: Front, context: NodeContext, operator: Caller) -> None:
        self._front = front
        self._context = context
        self._operator = operator

    async def ask(self, caller: Caller, ask: Ask, *, on_status: StatusSink | None = None) -> Answered:
        """See ``ports.Submit.ask``."""
        if self._front.owner is None:
            raise GnusError("UNKNOWN_SERVICE", "this node hosts no ingress")
        return await self._front.owner.ask(caller, ask, on_status=on_status)

    async def lookup(self, caller: Caller, request_id: str) -> Answered | None:
        """See ``ports.Submit.lookup``."""
        if self._front.owner is None:
            raise GnusError("UNKNOWN_SERVICE", "this node hosts no ingress")
        return await self._front.owner.lookup(caller, request_id)

    async def models(self) -> list[Mapping[str, Any]]:
        """The swarm's own name, and each expert reachable now with its kind and licence."""
        offers = self._context.directory.experts(self._operator.tenant)
        rows: list[Mapping[str, Any]] = [{"id": "gnus", "owned_by": "gnus"}]
        for offer in offers:
            entry = offer.entry.body
            rows.append(
                {
                    "id": entry.expert_id,
                    "owned_by": entry.node_id,
                    "kind": str(entry.backend_kind),
                    "model": entry.model_id,
                    "license": entry.model_license,
                }
            )
        return rows


class NodeAdmin:
    """``ports.Admin`` over this node."""

    def __init__(
        self,
        config: NodeConfig,
        context: NodeContext,
        front: Front,
        submit: NodeSubmit,
        operator: Caller,
        store: LmdbStore,
        charter: bytes,
        trust_file: Path,
        faults: Callable[[], list[GnusError]],
        presence: Presence,
        addresses: tuple[str, ...],
        heads: Heads,
    ) -> None:
        self._config = config
        self._context = context
        self._front = front
        self._submit = submit
        self._operator = operator
        self._store = store
        self._charter = charter
        self._trust_file = trust_file
        self._faults = faults
        self._presence = presence
        self._addresses = addresses
        self._heads = heads

    def _peers(self) -> list[dict[str, Any]]:
        """Every granted node, this one included, as this node sees it."""
        directory, now = self._context.directory, self._context.clock.monotonic()
        return [
            {
                "node_id": row.node_id,
                "alive": row.alive,
                "answers": directory.health.well(row.node_id, now),
                "roles": [str(role) for role in row.roles],
                "experts": list(row.experts),
                "tier": row.tier.name,
                "load": self._presence.loads.get(row.node_id, 0),
                "refused": row.refused,
            }
            for row in directory.rows()
        ]

    async def status(self) -> dict[str, Any]:
        """Problems first, then what runs."""
        trust = self._context.trust.state
        now = self._context.clock.wall_ms()
        problems = [f"{f.code}: {f.what}" if f.code == "STORE_CORRUPT" else f.what for f in self._faults()]
        sizes = self._store.table_bytes()
        if not head_fresh(trust, now):
            problems.append("the trust head is stale: writes are refused")
        return {
            "problems": problems,
            "node_id": self._context.node_id,
            "software": f"gnus-node {__version__}",
            "roles": [str(r) for r in self._config.node.roles],
            "profile": str(self._config.node.profile),
            "independent": False,
            "experts": [
                {"id": o.entry.body.expert_id, "kind": str(o.entry.body.backend_kind), "role": str(o.entry.body.expert_role)}
                for o in self._context.directory.experts(self._operator.tenant)
            ],
            "corpora": [dict(c) for c in self._front.corpora],
            "addresses": list(self._addresses),
            "peers": self._peers(),
            "trust": {
                "swarm": f"swarm:{trust.swarm.hex()}",
                "name": trust.charter.body.name,
                "head": trust.epoch,
                "head_fresh": head_fresh(trust, now),
                "nodes": sorted(trust.grants),
                "tenants": sorted(trust.tenants),
                "authority": f"{trust.charter.body.threshold} of {len(trust.charter.body.authority_keys)}",
            },
            "commits": self._store.commits,
            "bytes_per_table": {t.name: t.size_bytes for t in sizes},
            "rows_per_table": {t.name: t.rows for t in sizes if t.rows},
        }

    async def ask(self, question: str, **options: Any) -> Answered:
        """Ask as the operator."""
        known = {"context", "max_tokens", "max_wall_ms", "max_spend", "idempotency_key", "stop"}
        fields: dict[str, Any] = {name: value for name, value in options.items() if name in known and value is not None}
        if options.get("answer_type") is not None:
            fields["answer_type"] = AnswerType(options["answer_type"])
        if options.get("privacy_mode") is not None:
            fields["privacy_mode"] = PrivacyMode(options["privacy_mode"])
        return await self._submit.ask(self._operator, Ask(question, **fields))

    async def plan(self, question: str) -> dict[str, Any]:
        """The plan the question would get now; nothing is dispatched or stored."""
        if self._front.owner is None:
            raise GnusError("UNKNOWN_SERVICE", "this node hosts no ingress")
        plan = self._front.owner.preview(self._operator, Ask(question))
        return json_plain(plan)

    async def audit(self, request_id: str, payloads: bool) -> bytes:
        """The audit bundle of an ended request. Settlement is waited for a little, so that the bundle is whole; without it, it says so."""
        if self._front.archive is None or self._front.idle is None:
            raise GnusError("UNKNOWN_SERVICE", "this node hosts no ingress")
        with trio.move_on_after(SETTLED_WITHIN_S):
            await self._front.idle()
        trust = await self._context.offload.run(self._trust_file.read_bytes)
        return await self._front.archive.bundle(request_id, self._charter, import_trust(trust), payloads=payloads)

    async def memory_search(self, query: str, limit: int) -> list[dict[str, Any]]:
        """The operator's own memories."""
        args = {"tenant": self._operator.tenant, "principal": self._operator.principal, "query": query, "limit": limit}
        reply = await self._memory("memory.search", args)
        found = reply.args.get("found", ())
        return [{**row, "event": f"sha256:{row['event'].hex()}"} for row in found]

    async def memory_put(self, content: str, memory_class: str) -> dict[str, Any]:
        """A note of the operator."""
        args = {"tenant": self._operator.tenant, "principal": self._operator.principal, "text": content, "class": memory_class}
        reply = await self._memory("memory.remember", args)
        return {**reply.args, "event": f"sha256:{reply.args['event'].hex()}"}

    async def _memory(self, service: str, args: Mapping[str, Any]) -> Message:
        if RoleName.MEMORY_INDEX not in self._config.node.roles:
            raise GnusError("UNKNOWN_SERVICE", "this node hosts no memory")
        transport = self._context.transport
        return await rpc.request(transport, transport.local_key, service, Message(args=args), budget_ms=MEMORY_BUDGET_MS)

    async def tools(self) -> list[dict[str, Any]]:
        """The intermediary's adapters."""
        return [dict(tool) for tool in self._front.tools]

    async def grant(self, request: str, operator: str, tier: Tier) -> dict[str, Any]:
        """Grant a request; the swarm hears of it at once."""
        wanted = read_request(request)
        await self._heads.grant(wanted, operator=operator, tier=tier)
        trust = await self._context.offload.run(self._trust_file.read_text)
        return {"node_id": wanted.node_id, "charter": export_charter(self._charter), "trust": trust}

    async def doctor(self) -> list[dict[str, Any]]:
        """What a running node knows of its own weaknesses, worst first. ``state`` is doctor's: problem, warn, missing, note."""
        found = [{"state": "problem", "what": f.what, "why": f.row.meaning, "fix": f.fix, "code": f.code} for f in self._faults()]
        if (self._config.node.data_dir / FOLDER / "authority.seed").exists():
            found.append(authority_here(self._config.node.profile))
        if not self._config.corpora:
            found.append(
                {
                    "state": "warn",
                    "name": "documents",
                    "what": "no corpora: questions of fact will not be answered",
                    "why": "facts need documents",
                    "fix": "add [[corpora]]",
                    "code": "NO_EVIDENCE",
                }
            )
        return found


def authority_here(profile: ColocationProfile) -> dict[str, str]:
    """The finding that the swarm's own keys lie on this node: what ``dev`` is for, and elsewhere a fault."""
    dev = profile is ColocationProfile.DEV
    return {
        "state": "note" if dev else "problem",
        "name": "authority",
        "what": "the authority's, policy's and approver's keys lie on this node"
        + (", as the profile dev means it" if dev else f", which the profile {profile} is not for"),
        "why": "a 1-of-1 swarm: whoever takes this machine is the swarm's authority",
        "fix": "right for development; for more, found a swarm with several authorities",
        "code": "TIER_TOO_LOW",
    }
