"""A small signed swarm for the trust tests: a charter of three keys, of which two must sign, and the records of its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnus_node.records.authority import Revocation, RoleGrant, RoleKey, SwarmCharter, TenantGrant, TrustHead
from gnus_node.records.base import Body
from gnus_node.records.enums import ColocationProfile, IndependenceUnit, RoleName, SignerRole, Tier
from gnus_node.records.envelope import Header, Signed
from gnus_node.wire.digests import swarm_id
from gnus_node.wire.signed import encode_part, open_record, seal, signing_bytes
from tests.vectors.support import Key

A1, A2, A3, STRANGER, HEAD = Key(1), Key(2), Key(3), Key(4), Key(5)
NOW = 1_000_000_000
END = NOW + 10_000_000


def charter_body(threshold: int = 2, keys: Sequence[Key] = (A1, A2, A3)) -> SwarmCharter:
    return SwarmCharter(
        name="test",
        authority_keys=tuple(sorted(k.public for k in keys)),
        threshold=threshold,
        head_keys=(HEAD.public,),
        profile=ColocationProfile.DEV,
        independence_unit=IndependenceUnit.NODE,
        created_at_ms=NOW - 1000,
        head_max_age_ms=600_000,
    )


SWARM = swarm_id(encode_part(charter_body()))


def signed(
    body: Body,
    by: Key = A1,
    *cosigners: Key,
    role: SignerRole = SignerRole.AUTHORITY,
    swarm: bytes = SWARM,
    **change: Any,
) -> Signed[Any]:
    """Seal and open, so that every record here is one that came off the wire."""
    values = {"kind": body.KIND, "version": 1, "swarm": swarm, "epoch": 1, "signer": by.public, "role": role, "seq": 1}
    head = Header.model_validate({**values, "issued_at_ms": NOW, "refs": (), **change})
    cosign = [(k.public, k.sign(signing_bytes(head, body))) for k in cosigners]
    return open_record(seal(head, body, by.sign, cosign=cosign).raw)


CHARTER = signed(charter_body(), A1, A2)


def role_key(role: RoleName, node: int) -> Key:
    return Key(20 + 20 * node + list(RoleName).index(role))


def grant_body(node: int, **change: Any) -> RoleGrant:
    values: dict[str, Any] = {
        "node_id": f"node-{node}",
        "operator": f"operator-{node}",
        "transport_key": Key(100 + node).public,
        "sealing_key": Key(110 + node).public,
        "roles": tuple(RoleKey(role=r, key=role_key(r, node).public) for r in (RoleName.ROUTER, RoleName.VERIFIER)),
        "tier": Tier.A,
        "tenants": ("acme",),
        "not_before_ms": NOW - 1000,
        "not_after_ms": END,
        "grant_epoch": 1,
    }
    return RoleGrant.model_validate(values | change)


def tenant_body(tenant: str = "acme", base: int = 120, **change: Any) -> TenantGrant:
    values: dict[str, Any] = {
        "tenant": tenant,
        "policy_keys": (Key(base).public,),
        "approver_keys": (Key(base + 1).public,),
        "client_keys": (Key(base + 2).public,),
        "not_before_ms": NOW - 1000,
        "not_after_ms": END,
        "grant_epoch": 1,
    }
    return TenantGrant.model_validate(values | change)


def revocation_body(key: Key, cut: int) -> Revocation:
    return Revocation(key=key.public, cut_epoch=cut, revoked_at_ms=NOW, reason="lost")


def head_body(epoch: int) -> TrustHead:
    return TrustHead(head_epoch=epoch, log_digest=bytes(32), log_size=1)


def log() -> list[Signed[Any]]:
    """A log that uses every kind, with a grant replaced and a key revoked twice."""
    both = (A1, A2)
    return [
        signed(grant_body(0), *both),
        signed(grant_body(1), *both),
        signed(grant_body(1, tier=Tier.C, grant_epoch=2), A2, A3),
        signed(tenant_body(), A1, A3),
        signed(revocation_body(role_key(RoleName.VERIFIER, 0), 7), *both),
        signed(revocation_body(role_key(RoleName.VERIFIER, 0), 4), *both),
        signed(head_body(3), HEAD, role=SignerRole.HEAD),
        signed(head_body(2), *both),
    ]
