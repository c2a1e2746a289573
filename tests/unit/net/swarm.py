"""A small real swarm for the directory's tests: fixed keys, a signed charter, grants, announcements, entries, manifests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from nacl.signing import SigningKey

from gnus_node.records.authority import Revocation, RoleGrant, RoleKey, SwarmCharter
from gnus_node.records.base import Body
from gnus_node.records.enums import (
    BackendKind,
    ColocationProfile,
    Domain,
    ExpertRole,
    IndependenceUnit,
    RoleName,
    SignerRole,
    Tier,
)
from gnus_node.records.envelope import Header, Signed
from gnus_node.records.expert import Availability, CapabilityManifest, ExpertEntry, SandboxRequirements
from gnus_node.records.flow import NodeAnnouncement
from gnus_node.trust.state import TrustState, fold
from gnus_node.wire.digests import swarm_id
from gnus_node.wire.signed import encode_part, open_record, seal

NOW_MS = 1_796_040_000_000
DAY_MS = 86_400_000


def key(name: str) -> SigningKey:
    return SigningKey(hashlib.sha256(name.encode()).digest())


def public(name: str) -> bytes:
    return bytes(key(name).verify_key)


def sign(
    swarm: bytes,
    signer: str,
    role: SignerRole,
    body: Body,
    *,
    seq: int = 1,
    at_ms: int = NOW_MS,
    epoch: int = 1,
    expires_at_ms: int | None = None,
) -> Signed[Any]:
    """Seal and open again: what the directory gets is what came through the wire's own checks."""
    version = type(body).VERSION
    header = Header(
        kind=type(body).KIND,
        version=version,
        swarm=swarm,
        epoch=epoch,
        signer=public(signer),
        role=role,
        seq=seq,
        issued_at_ms=at_ms,
        expires_at_ms=expires_at_ms,
        refs=(),
    )
    return open_record(seal(header, body, lambda message: key(signer).sign(message).signature).raw)


@dataclass
class FakeClock:
    """A clock the test moves."""

    wall: int = NOW_MS
    mono: float = 100.0

    def wall_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.mono


@dataclass
class Swarm:
    """Charter, trust records, and helpers that sign as a node."""

    records: list[Signed[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        body = SwarmCharter(
            name="test",
            authority_keys=(public("authority"),),
            threshold=1,
            head_keys=(),
            profile=ColocationProfile.DEV,
            independence_unit=IndependenceUnit.NODE,
            created_at_ms=NOW_MS - 10 * DAY_MS,
            head_max_age_ms=600_000,
        )
        self.swarm = swarm_id(encode_part(body))
        self.charter = sign(self.swarm, "authority", SignerRole.AUTHORITY, body)

    def grant(
        self,
        node_id: str,
        *roles: RoleName,
        tenants: tuple[str, ...] = ("acme",),
        tier: Tier = Tier.A,
        epoch: int = 1,
        key_name: str = "",
        days: int = 5,
    ) -> None:
        name = key_name or node_id
        body = RoleGrant(
            node_id=node_id,
            operator="operator",
            transport_key=public(f"{name}/transport"),
            sealing_key=hashlib.sha256(node_id.encode()).digest(),
            roles=tuple(RoleKey(role=r, key=public(f"{name}/{r}")) for r in roles),
            tier=tier,
            tenants=tenants,
            not_before_ms=NOW_MS - DAY_MS,
            not_after_ms=NOW_MS + days * DAY_MS,
            grant_epoch=epoch,
        )
        self.records.append(sign(self.swarm, "authority", SignerRole.AUTHORITY, body, epoch=epoch))

    def revoke(self, key_name: str) -> None:
        body = Revocation(key=public(key_name), cut_epoch=2, reason="stolen", revoked_at_ms=NOW_MS)
        self.records.append(sign(self.swarm, "authority", SignerRole.AUTHORITY, body, epoch=2))

    def trust(self) -> TrustState:
        return fold(self.charter, self.records)

    def announce(
        self,
        node_id: str,
        *roles: RoleName,
        experts: tuple[bytes, ...] = (),
        key_name: str = "",
        claims: str = "",
        transport: str = "",
        software: str = "test",
        **header: Any,
    ) -> Signed[NodeAnnouncement]:
        name = f"{key_name or node_id}/transport"
        body = NodeAnnouncement(
            node_id=claims or node_id,
            roles=tuple(sorted(roles)),
            experts=experts,
            reads=(),
            addresses=("memory",),
            transport_key=public(transport or name),
            software=software,
            announced_at_ms=NOW_MS,
        )
        return sign(self.swarm, name, SignerRole.TRANSPORT, body, **header)

    def manifest(
        self, node_id: str, role: RoleName = RoleName.ELM_WORKER, *, module: str = "calc", **header: Any
    ) -> Signed[CapabilityManifest]:
        body = CapabilityManifest(
            module_name=module,
            module_version="1.0",
            artifact_hash=hashlib.sha256(module.encode()).digest(),
            required_capabilities=(),
            sandbox_requirements=SandboxRequirements(
                network=Availability.DISABLED,
                filesystem=Availability.DISABLED,
                clock=Availability.DISABLED,
                randomness=Availability.DISABLED,
            ),
        )
        return sign(self.swarm, f"{node_id}/{role}", SignerRole(role.value), body, **header)

    def entry(
        self,
        node_id: str,
        manifest: bytes,
        *,
        expert_id: str = "calc",
        role: RoleName = RoleName.ELM_WORKER,
        claims: str = "",
        slots: int = 1,
        **header: Any,
    ) -> Signed[ExpertEntry]:
        name = f"{node_id}/{role}"
        body = ExpertEntry(
            expert_id=expert_id,
            expert_version="1.0",
            expert_role=ExpertRole.DOMAIN_EXPERT,
            domains=(Domain.MATH,),
            backend_kind=BackendKind.SYMBOLIC,
            model_id="rules",
            model_license="MIT",
            manifest=manifest,
            node_id=claims or node_id,
            key=public(name),
            slots=slots,
            max_context_tokens=0,
        )
        return sign(self.swarm, name, SignerRole(role.value), body, **header)
