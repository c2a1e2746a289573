"""The trust state: a pure, order-free fold over the trust log's records (DESIGN.md section 5).

The log holds the charter, grants, revocations and heads. The fold takes opened records in any order, drops what the charter's authority did
not sign, and answers one question: for whom does this key speak, since when, until when. A key that stands in two places speaks for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gnus_node.records.authority import Revocation, RoleGrant, SwarmCharter, TenantGrant, TrustHead
from gnus_node.records.enums import RoleName, SignerRole, Tier
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.wire.digests import merkle_root, swarm_id
from gnus_node.wire.signed import encode_part


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """For whom a key speaks: a role of a node, a tenant's purpose, or the authority itself."""

    key: bytes
    role: SignerRole
    since_epoch: int
    not_before_ms: int
    not_after_ms: int
    node_id: str = ""
    operator: str = ""
    tier: Tier = Tier.D
    tenants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrustState:
    """What the trust log says. Immutable: a new record makes a new state."""

    charter: Signed[SwarmCharter]
    swarm: bytes
    keys: Mapping[bytes, KeyHolder]
    duplicates: frozenset[bytes]
    grants: Mapping[str, Signed[RoleGrant]]
    tenants: Mapping[str, Signed[TenantGrant]]
    revoked: Mapping[bytes, int]
    """Key to its cut epoch, the smallest if there are several."""
    head: Signed[TrustHead] | None
    log_ids: frozenset[bytes] = field(default_factory=frozenset)

    @property
    def epoch(self) -> int:
        """Epoch of the newest head, 0 without one."""
        return self.head.body.head_epoch if self.head else 0

    def node(self, node_id: str) -> RoleGrant:
        """The grant of a node. Raises ``UNKNOWN_KEY``."""
        found = self.grants.get(node_id)
        if found is None:
            raise GnusError("UNKNOWN_KEY", "a node without a grant in this swarm", link=node_id)
        return found.body

    def role_key(self, node_id: str, role: RoleName) -> bytes | None:
        """The purpose key of a role on a node, or None."""
        found = self.grants.get(node_id)
        return next((r.key for r in found.body.roles if r.role is role), None) if found else None

    def by_transport(self, key: bytes) -> str | None:
        """The node whose transport key this is, or None."""
        holder = self.keys.get(key)
        return holder.node_id if holder and holder.role is SignerRole.TRANSPORT else None


def log_digest(ids: Iterable[bytes]) -> bytes:
    """Digest of a trust log: Merkle root over the sorted record ids, heads left out."""
    return merkle_root(sorted(ids))


def authorised(charter: SwarmCharter, record: Signed[Any]) -> bool:
    """Whether k of the charter's n authority keys signed a record."""
    signers = {record.header.signer, *record.cosigners}
    return record.header.role is SignerRole.AUTHORITY and len(signers & set(charter.authority_keys)) >= charter.threshold


def open_charter(record: Signed[Any]) -> tuple[SwarmCharter, bytes]:
    """Check that a record is a charter signed by its own authority, and give its swarm id. Raises ``CHAIN_BROKEN``."""
    charter = record.body
    if not isinstance(charter, SwarmCharter) or charter.threshold > len(charter.authority_keys):
        raise GnusError("CHAIN_BROKEN", "not a swarm charter, or one whose threshold no one can reach", link="charter")
    swarm = swarm_id(encode_part(charter))
    if record.header.swarm != swarm or not authorised(charter, record):
        raise GnusError("CHAIN_BROKEN", "the charter is not signed by its own authority", link="charter")
    return charter, swarm


def _newer(a: Signed[Any], b: Signed[Any] | None) -> bool:
    return b is None or (a.body.grant_epoch, a.id) > (b.body.grant_epoch, b.id)


def head_authorised(charter: SwarmCharter, record: Signed[TrustHead]) -> bool:
    """Whether a head is by one of the charter's head keys, or by its authority."""
    if record.header.role is SignerRole.HEAD:
        return record.header.signer in charter.head_keys
    return authorised(charter, record)


def head_order(head: Signed[TrustHead]) -> tuple[int, int, bytes]:
    """Of two heads the greater one is the newer."""
    return (head.body.head_epoch, head.header.issued_at_ms, head.id)


def fold(charter_record: Signed[Any], records: Iterable[Signed[Any]]) -> TrustState:
    """Fold a trust log. Order and repeats do not matter; what the authority did not sign is ignored.

    Raises ``CHAIN_BROKEN`` where the charter does not hold.
    """
    charter, swarm = open_charter(charter_record)
    grants: dict[str, Signed[RoleGrant]] = {}
    tenants: dict[str, Signed[TenantGrant]] = {}
    revoked: dict[bytes, int] = {}
    heads: list[Signed[TrustHead]] = []
    ids: set[bytes] = {charter_record.id}
    for record in records:
        body = record.body
        if record.header.swarm != swarm:
            continue
        if isinstance(body, TrustHead):
            if head_authorised(charter, record):
                heads.append(record)
            continue
        if not authorised(charter, record):
            continue
        ids.add(record.id)
        if isinstance(body, RoleGrant):
            if _newer(record, grants.get(body.node_id)):
                grants[body.node_id] = record
        elif isinstance(body, TenantGrant):
            if _newer(record, tenants.get(body.tenant)):
                tenants[body.tenant] = record
        elif isinstance(body, Revocation):
            revoked[body.key] = min(body.cut_epoch, revoked.get(body.key, body.cut_epoch))
    keys, duplicates = _index(charter, charter_record, grants, tenants)
    head = max(heads, key=head_order, default=None)
    return TrustState(
        charter_record,
        swarm,
        MappingProxyType(keys),
        frozenset(duplicates),
        MappingProxyType(grants),
        MappingProxyType(tenants),
        MappingProxyType(revoked),
        head,
        frozenset(ids),
    )


def _index(
    charter: SwarmCharter,
    charter_record: Signed[Any],
    grants: Mapping[str, Signed[RoleGrant]],
    tenants: Mapping[str, Signed[TenantGrant]],
) -> tuple[dict[bytes, KeyHolder], set[bytes]]:
    """Key to holder, and the keys that stand in more than one place."""
    holders: list[KeyHolder] = []
    for key in charter.authority_keys:
        holders.append(KeyHolder(key, SignerRole.AUTHORITY, 0, charter.created_at_ms, 2**53, tier=Tier.A))
    for key in charter.head_keys:
        holders.append(KeyHolder(key, SignerRole.HEAD, 0, charter.created_at_ms, 2**53, tier=Tier.A))
    for grant in (g.body for g in grants.values()):
        common = (grant.grant_epoch, grant.not_before_ms, grant.not_after_ms, grant.node_id, grant.operator, grant.tier, grant.tenants)
        holders.append(KeyHolder(grant.transport_key, SignerRole.TRANSPORT, *common))
        holders.extend(KeyHolder(r.key, SignerRole(r.role.value), *common) for r in grant.roles)
    for tenant in (t.body for t in tenants.values()):
        for role, keys in (
            (SignerRole.POLICY, tenant.policy_keys),
            (SignerRole.APPROVER, tenant.approver_keys),
            (SignerRole.CLIENT, tenant.client_keys),
        ):
            span = (tenant.grant_epoch, tenant.not_before_ms, tenant.not_after_ms)
            holders.extend(KeyHolder(k, role, *span, tenants=(tenant.tenant,)) for k in keys)
    found: dict[bytes, KeyHolder] = {}
    duplicates: set[bytes] = set()
    for holder in holders:
        if holder.key in found:
            duplicates.add(holder.key)
        found[holder.key] = holder
    for key in duplicates:
        del found[key]
    return found, duplicates
