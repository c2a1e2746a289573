"""What the directory may believe: pure judgements on announcements, expert entries and manifests (DESIGN.md section 5).

An announcement grants nothing. A node hosts what it announces *and* its grant allows, now, under the present trust state; every judgement
is made again when the directory is read, so a revocation works at once, without anything to clean up.
"""

# house: pure

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gnus_node.records.base import Body
from gnus_node.records.enums import RoleName, SignerRole, Tier
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.expert import CapabilityManifest, ExpertEntry
from gnus_node.records.flow import NodeAnnouncement
from gnus_node.trust.check import MAX_SKEW_MS, check_role_record, check_signer
from gnus_node.trust.state import KeyHolder, TrustState
from gnus_node.trust.tiers import effective_tier

MAX_ANNOUNCEMENT_AGE_MS = 15 * 60 * 1000
"""An older announcement is refused: nodes announce in full every 5 minutes."""

B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True)
class Peer:
    """One role of one node: where to call it, which key signs for it, where payload keys are sealed to, how far it is trusted."""

    node_id: str
    role: RoleName
    transport_key: bytes
    role_key: bytes
    sealing_key: bytes
    tier: Tier


@dataclass(frozen=True, slots=True)
class Offer:
    """One expert on offer: its registry entry, the manifest the entry names, and the worker that runs it."""

    entry: Signed[ExpertEntry]
    manifest: Signed[CapabilityManifest]
    peer: Peer


def judge_announcement(trust: TrustState, record: Signed[NodeAnnouncement], now_ms: int) -> KeyHolder:
    """Whether an announcement counts. Raises what ``check_signer`` raises, ``WRONG_PEER`` (another node's name or key), ``WRONG_ROLE``
    (a role the grant does not list), ``EXPIRED`` (too old)."""
    holder = check_role_record(trust, record, now_ms, SignerRole.TRANSPORT, live=True)
    body = record.body
    if body.node_id != holder.node_id or body.transport_key != record.header.signer:
        raise GnusError("WRONG_PEER", "an announcement for another node or key than its signer's", link="node_announcement")
    granted = {r.role for r in trust.node(holder.node_id).roles}
    if not set(body.roles) <= granted:
        raise GnusError("WRONG_ROLE", "an announcement of a role that the grant does not list", link="node_announcement")
    if now_ms - record.header.issued_at_ms > MAX_ANNOUNCEMENT_AGE_MS:
        raise GnusError("EXPIRED", "an announcement too old to tell where the node is now", link="node_announcement")
    _in_force(holder, now_ms, "node_announcement")
    return holder


def judge_entry(trust: TrustState, record: Signed[ExpertEntry], now_ms: int) -> KeyHolder:
    """Whether an expert entry counts. Raises what ``check_signer`` raises, and ``WRONG_PEER`` for another worker's key or node."""
    holder = check_signer(trust, record, now_ms, live=True)
    if record.body.key != record.header.signer or record.body.node_id != holder.node_id:
        raise GnusError("WRONG_PEER", "an expert entry for another worker than its signer", link="expert_entry")
    _in_force(holder, now_ms, "expert_entry")
    return holder


def judge_manifest(trust: TrustState, record: Signed[CapabilityManifest], now_ms: int) -> KeyHolder:
    """Whether a manifest counts; any granted worker may publish one. Raises what ``check_signer`` raises."""
    holder = check_signer(trust, record, now_ms, live=True)
    _in_force(holder, now_ms, "capability_manifest")
    return holder


def is_news(held: Signed[B] | None, record: Signed[B]) -> bool:
    """Whether a record replaces the one held; the same again is no news. Sequence numbers are compared within one key.

    Raises ``REPLAYED`` for an older one, ``EQUIVOCATED`` for another with the same number by the same key.
    """
    if held is None:
        return True
    if held.id == record.id:
        return False
    if held.header.signer != record.header.signer:
        # A rotated key starts its numbers anew; the later grant's key is the one the trust state still knows.
        return True
    if record.header.seq == held.header.seq:
        raise GnusError("EQUIVOCATED", f"two different records of kind {record.header.kind} under one number", link=record.header.kind)
    if record.header.seq < held.header.seq:
        raise GnusError("REPLAYED", f"an older {record.header.kind} than the one held", link=record.header.kind)
    return True


def counts(trust: TrustState, record: Signed[Any], now_ms: int) -> bool:
    """Whether a held record still counts under the present trust state."""
    try:
        holder = check_signer(trust, record, now_ms, live=True)
        _in_force(holder, now_ms, record.header.kind)
    except GnusError:
        return False
    return True


def find_peer(
    trust: TrustState, node_id: str, role: RoleName, tenant: str, now_ms: int, caps: Mapping[RoleName, Tier] | None = None
) -> Peer | None:
    """A role of a node for a tenant's text, or None: granted, in force, unrevoked, unique keys, and the tenant in its grant."""
    found = trust.grants.get(node_id)
    if found is None or tenant not in found.body.tenants:
        return None
    key = trust.role_key(node_id, role)
    holder = trust.keys.get(key) if key else None
    line = trust.keys.get(found.body.transport_key)
    if holder is None or line is None or holder.role.value != role.value or line.role is not SignerRole.TRANSPORT:
        return None
    for one in (holder, line):
        if one.node_id != node_id or one.key in trust.revoked or not _now(one, now_ms):
            return None
    return Peer(node_id, role, line.key, holder.key, found.body.sealing_key, effective_tier(holder, caps))


def make_offer(
    trust: TrustState,
    entry: Signed[ExpertEntry],
    manifest: Signed[CapabilityManifest] | None,
    announcement: Signed[NodeAnnouncement],
    tenant: str,
    now_ms: int,
    caps: Mapping[RoleName, Tier] | None = None,
) -> Offer | None:
    """An expert for a tenant, or None: the entry and its manifest count, the node's present announcement names entry and role."""
    holder = trust.keys.get(entry.header.signer)
    if holder is None or manifest is None or entry.body.manifest != manifest.id or entry.id not in announcement.body.experts:
        return None
    role = next((r for r in announcement.body.roles if r.value == holder.role.value), None)
    if (
        role is None
        or holder.node_id != announcement.body.node_id
        or not counts(trust, entry, now_ms)
        or not counts(trust, manifest, now_ms)
    ):
        return None
    peer = find_peer(trust, holder.node_id, role, tenant, now_ms, caps)
    return Offer(entry, manifest, peer) if peer and peer.role_key == entry.body.key else None


def _now(holder: KeyHolder, now_ms: int) -> bool:
    """Whether a grant is in force at ``now_ms``; clocks may differ at its beginning."""
    return holder.not_before_ms <= now_ms + MAX_SKEW_MS and now_ms <= holder.not_after_ms


def _in_force(holder: KeyHolder, now_ms: int, link: str) -> None:
    if not _now(holder, now_ms):
        raise GnusError("EXPIRED", "the signer's grant is not in force now", link=link)
