"""The directory: which nodes host which role for which tenant, and which experts are on offer (DESIGN.md section 5).

A thin shell over ``directory_rules``: it holds the newest announcement of each node, the expert entries and manifests, and when each node
was last heard of. It grants nothing and repeats no judgement of trust: every question is answered from the grants in force at that moment.
Liveness is monotonic time since receipt, so neither a peer's clock nor a replayed announcement keeps a dead node alive.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnus_node.net.directory_rules import (
    Offer,
    Peer,
    counts,
    find_peer,
    is_news,
    judge_announcement,
    judge_entry,
    judge_manifest,
    make_offer,
)
from gnus_node.net.health import Health
from gnus_node.ports.host import Clock
from gnus_node.records.enums import RoleName, Tier
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.expert import CapabilityManifest, ExpertEntry
from gnus_node.records.flow import NodeAnnouncement
from gnus_node.trust.state import TrustState

__all__ = ["Directory", "Offer", "Peer", "PeerRow", "Refusal"]

ALIVE_S = 30.0
"""A node not heard of for longer is not called."""
FORGET_S = 3600.0
"""A node not heard of for longer is forgotten; its next announcement is needed."""
MAX_ENTRIES_PER_KEY = 64
MAX_MANIFESTS_PER_KEY = 64
MAX_REFUSALS = 192
MAX_REFUSALS_UNKNOWN = 64
"""Refusals of keys without a grant are kept apart: strangers cannot push out what is known of members."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a record was not taken: kind, signer, its node if granted, code, how often, and when last (wall time)."""

    kind: str
    signer: bytes
    node_id: str
    code: str
    what: str
    times: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class PeerRow:
    """One granted node for ``peers``: what it announces, whether it was heard of lately, and the last reason for a refusal."""

    node_id: str
    operator: str
    tier: Tier
    roles: tuple[RoleName, ...]
    experts: tuple[str, ...]
    alive: bool
    silent_s: float | None
    software: str
    refused: str


class Directory:
    """What this node knows of the others. ``local_node`` is always alive; ``caps`` are the colocation profile's tier caps."""

    def __init__(
        self,
        trust: TrustState,
        clock: Clock,
        *,
        local_node: str = "",
        caps: Mapping[RoleName, Tier] | None = None,
        alive_s: float = ALIVE_S,
        forget_s: float = FORGET_S,
    ) -> None:
        self._trust = trust
        self._clock = clock
        self._local = local_node
        self._caps = caps
        self._alive_s = alive_s
        self._forget_s = forget_s
        self.health = Health()
        self._nodes: dict[str, Signed[NodeAnnouncement]] = {}
        self._entries: dict[tuple[bytes, str], Signed[ExpertEntry]] = {}
        self._manifests: dict[bytes, Signed[CapabilityManifest]] = {}
        self._seen: dict[str, float] = {}
        self._silent: dict[str, None] = {}
        self._banned: dict[str, bytes] = {}
        self._refusals: OrderedDict[tuple[str, bytes], Refusal] = OrderedDict()
        self._strangers: OrderedDict[tuple[str, bytes], Refusal] = OrderedDict()

    @property
    def trust(self) -> TrustState:
        """The trust state questions are answered under."""
        return self._trust

    def set_trust(self, trust: TrustState) -> None:
        """Go on under a newer trust state; what belongs to nodes without a grant is dropped, and a new grant ends a ban."""
        self._trust = trust
        granted = trust.grants
        self._nodes = {n: r for n, r in self._nodes.items() if n in granted}
        self._seen = {n: at for n, at in self._seen.items() if n in granted}
        self._silent = {n: None for n in self._silent if n in granted}
        self._entries = {k: r for k, r in self._entries.items() if k[0] in trust.keys}
        self._manifests = {i: r for i, r in self._manifests.items() if r.header.signer in trust.keys}
        self._banned = {n: g for n, g in self._banned.items() if n in granted and granted[n].id == g}
        self.health.keep(granted)

    def add(self, record: Signed[Any]) -> Refusal | None:
        """Take an opened announcement, expert entry or manifest; a ``Refusal``, also kept for ``peers``, where it does not count.

        Never raises for what a record says. A *newer* announcement counts as a sign of life, a repeated one does not.
        """
        now_ms = self._clock.wall_ms()
        try:
            if isinstance(record.body, NodeAnnouncement):
                self._add_announcement(record, now_ms)
            elif isinstance(record.body, ExpertEntry):
                self._add_entry(record, now_ms)
            elif isinstance(record.body, CapabilityManifest):
                self._add_manifest(record, now_ms)
            else:
                raise GnusError("UNKNOWN_KIND", "the directory takes announcements, expert entries and manifests")
        except GnusError as error:
            return self._refuse(record, error, now_ms)
        return None

    def seen(self, node_id: str, now: float) -> bool:
        """A granted node was heard of directly (proven by the transport) at monotonic ``now``; False for a node without a grant."""
        if node_id not in self._trust.grants:
            return False
        self._seen[node_id] = max(now, self._seen.get(node_id, now))
        self._silent.pop(node_id, None)
        return True

    def expire(self, now: float) -> tuple[str, ...]:
        """Forget what was silent for ``forget_s``; the nodes that fell silent since the last call, sorted."""
        fallen = [n for n in self._seen if n not in self._silent and not self.alive(n, now)]
        self._silent.update(dict.fromkeys(fallen))
        for node_id in [n for n, at in self._seen.items() if now - at > self._forget_s and n != self._local]:
            for kept in (self._seen, self._nodes, self._silent):
                kept.pop(node_id, None)
        return tuple(sorted(fallen))

    def alive(self, node_id: str, now: float) -> bool:
        """Whether a node was heard of within ``alive_s`` before monotonic ``now``; this node itself always."""
        at = self._seen.get(node_id)
        return node_id == self._local or (at is not None and now - at <= self._alive_s)

    def hosts(self, role: RoleName, tenant: str) -> tuple[Peer, ...]:
        """Live nodes that announce a role and may serve a tenant: those that answer well first, then by node id."""
        now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        found = (
            find_peer(self._trust, node_id, role, tenant, now_ms, self._caps)
            for node_id, record in self._current()
            if role in record.body.roles
        )
        return tuple(sorted((peer for peer in found if peer), key=lambda p: (self.health.rank(p.node_id, now), p.node_id)))

    def experts(self, tenant: str) -> tuple[Offer, ...]:
        """Experts on live nodes that may serve a tenant, by expert id, those of nodes that answer well first, then by node id. One without
        its manifest is not on offer."""
        now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        current = dict(self._current())
        offers: list[Offer] = []
        for entry in self._entries.values():
            announcement = current.get(entry.body.node_id)
            if announcement is None:
                continue
            manifest = self._manifests.get(entry.body.manifest)
            offer = make_offer(self._trust, entry, manifest, announcement, tenant, now_ms, self._caps)
            if offer:
                offers.append(offer)
        rank = self.health.rank
        return tuple(sorted(offers, key=lambda o: (o.entry.body.expert_id, rank(o.peer.node_id, now), o.peer.node_id, o.peer.role_key)))

    def manifest(self, record_id: bytes) -> Signed[CapabilityManifest] | None:
        """A manifest by id, or None."""
        return self._manifests.get(record_id)

    def missing(self, node_id: str) -> tuple[bytes, ...]:
        """Ids of the records a node's announcement rests on and that are not held: its entries, and their manifests."""
        announcement = self._nodes.get(node_id)
        if announcement is None:
            return ()
        held = {r.id: r for r in self._entries.values() if r.body.node_id == node_id}
        named = announcement.body.experts
        manifests = {held[e].body.manifest for e in named if e in held}
        return tuple(sorted({e for e in named if e not in held} | {m for m in manifests if m not in self._manifests}))

    def refusals(self) -> tuple[Refusal, ...]:
        """What was refused lately, latest last: of granted keys, then of strangers."""
        return (*self._refusals.values(), *self._strangers.values())

    def rows(self) -> tuple[PeerRow, ...]:
        """Every granted node, by node id, for ``peers``."""
        now = self._clock.monotonic()
        reasons = {r.node_id: f"{r.code}: {r.what}" for r in self._refusals.values()}
        rows: list[PeerRow] = []
        for node_id, grant in sorted(self._trust.grants.items()):
            record = self._nodes.get(node_id)
            body = record.body if record else None
            named = set(body.experts) if body else set()
            experts = tuple(sorted({e.body.expert_id for e in self._entries.values() if e.body.node_id == node_id and e.id in named}))
            at = self._seen.get(node_id)
            rows.append(
                PeerRow(
                    node_id,
                    grant.body.operator,
                    grant.body.tier,
                    body.roles if body else (),
                    experts,
                    self.alive(node_id, now),
                    None if at is None else max(0.0, now - at),
                    body.software if body else "",
                    reasons.get(node_id, ""),
                )
            )
        return tuple(rows)

    def _current(self) -> list[tuple[str, Signed[NodeAnnouncement]]]:
        """Announcements of live nodes that still count under the present trust state, by node id."""
        now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        return [(n, r) for n, r in sorted(self._nodes.items()) if self.alive(n, now) and counts(self._trust, r, now_ms)]

    def _add_announcement(self, record: Signed[NodeAnnouncement], now_ms: int) -> None:
        node_id = judge_announcement(self._trust, record, now_ms).node_id
        self._not_banned(node_id)
        if self._news(node_id, self._nodes.get(node_id), record):
            self._nodes[node_id] = record
            self.seen(node_id, self._clock.monotonic())

    def _add_entry(self, record: Signed[ExpertEntry], now_ms: int) -> None:
        holder = judge_entry(self._trust, record, now_ms)
        self._not_banned(holder.node_id)
        place = (holder.key, record.body.expert_id)
        held = self._entries.get(place)
        if not self._news(holder.node_id, held, record):
            return
        if held is None:
            announcement = self._nodes.get(holder.node_id)
            named = set(announcement.body.experts) if announcement else set()
            mine = [r for r in self._entries.values() if r.header.signer == holder.key]
            spare = _make_room(mine, {r.id for r in mine if r.id in named}, MAX_ENTRIES_PER_KEY)
            if spare:
                del self._entries[(holder.key, spare.body.expert_id)]
        self._entries[place] = record

    def _add_manifest(self, record: Signed[CapabilityManifest], now_ms: int) -> None:
        holder = judge_manifest(self._trust, record, now_ms)
        self._not_banned(holder.node_id)
        if record.id in self._manifests:
            return
        mine = [r for r in self._manifests.values() if r.header.signer == holder.key]
        spare = _make_room(mine, {e.body.manifest for e in self._entries.values()}, MAX_MANIFESTS_PER_KEY)
        if spare:
            del self._manifests[spare.id]
        self._manifests[record.id] = record

    def _news(self, node_id: str, held: Signed[Any] | None, record: Signed[Any]) -> bool:
        """As ``is_news``; a node caught signing two things at once is out until it has a new grant."""
        try:
            return is_news(held, record)
        except GnusError as error:
            if error.code == "EQUIVOCATED":
                self._banned[node_id] = self._trust.grants[node_id].id
                self._nodes.pop(node_id, None)
            raise

    def _not_banned(self, node_id: str) -> None:
        if node_id in self._banned:
            raise GnusError("EQUIVOCATED", "the node signed two different records under one number and needs a new grant")

    def _refuse(self, record: Signed[Any], error: GnusError, now_ms: int) -> Refusal:
        holder = self._trust.keys.get(record.header.signer)
        kept, bound = (self._refusals, MAX_REFUSALS) if holder else (self._strangers, MAX_REFUSALS_UNKNOWN)
        place = (record.header.kind, record.header.signer)
        before = kept.pop(place, None)
        times = before.times + 1 if before else 1
        refusal = Refusal(*place, holder.node_id if holder else "", error.code, error.what, times, now_ms)
        kept[place] = refusal
        if len(kept) > bound:
            kept.popitem(last=False)
        return refusal


def _make_room(mine: list[Signed[Any]], needed: set[bytes], bound: int) -> Signed[Any] | None:
    """One record of a signer to let go before another is kept, or None where there is room. Raises ``TOO_LARGE`` if all are needed."""
    if len(mine) < bound:
        return None
    spare = [r for r in mine if r.id not in needed]
    if not spare:
        raise GnusError("TOO_LARGE", f"a signer has {bound} records of this kind in use already")
    return min(spare, key=lambda r: (r.header.seq, r.id))
