"""Making a data directory: keys, a 1-of-1 charter, grants, a trust head, an API key (DESIGN.md sections 5 and 10)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio
from pydantic import TypeAdapter, ValidationError

from gnus_node.api.keys import KeyRing
from gnus_node.config.model import NodeConfig
from gnus_node.config.policies import load_template
from gnus_node.evidence.bundle import export_charter, export_trust
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.identity import FOLDER, Identity, has_identity, make_identity, public_key, save_identity
from gnus_node.net.signing import KeySigner
from gnus_node.ports.host import Clock, Entropy
from gnus_node.records.authority import RoleGrant, RoleKey, SwarmCharter, TenantGrant, TrustHead
from gnus_node.records.base import Name
from gnus_node.records.enums import ColocationProfile, IndependenceUnit, KeyMode, RoleName, SignerRole, Tier
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import DirectoryLock, private_directory, replace_file
from gnus_node.trust.state import log_digest
from gnus_node.wire.digests import swarm_id
from gnus_node.wire.signed import encode_part

TENANT, PROJECT, PRINCIPAL = "local", "default", "operator"
HEAD_MAX_AGE_MS = 10 * 60 * 1000
GRANT_MS = 10 * 365 * 24 * 3600 * 1000
CHARTER_FILE, TRUST_FILE, KEYS_FILE, SETTINGS_FILE = "charter.json", "trust.json", "api_keys.json", "node.toml"
_GROWS = ("store", "keys")
"""Folders of state that belong to the identity before; replaced together with it."""


def found_swarm(identity: Identity, clock: Clock, *, name: str, operator: str, profile: ColocationProfile) -> tuple[bytes, list[bytes]]:
    """A 1-of-1 swarm of one node: the charter's raw record, and the trust log's (grants, tenant, head)."""
    now = clock.wall_ms()
    charter = SwarmCharter(
        name=name,
        authority_keys=(public_key(identity.authority),),
        threshold=1,
        head_keys=(),
        profile=profile,
        independence_unit=IndependenceUnit.NODE,
        created_at_ms=now,
        head_max_age_ms=HEAD_MAX_AGE_MS,
    )
    swarm = swarm_id(encode_part(charter))
    signer = KeySigner(identity.authority, SignerRole.AUTHORITY, swarm, lambda: 1, clock, 0)
    signed = signer.sign(charter)
    grant = RoleGrant(
        node_id=identity.node_id,
        operator=operator,
        transport_key=public_key(identity.transport),
        sealing_key=identity.sealing_public(),
        roles=tuple(RoleKey(role=role, key=public_key(seed)) for role, seed in sorted(identity.roles.items())),
        tier=Tier.A,
        tenants=(TENANT,),
        not_before_ms=now,
        not_after_ms=now + GRANT_MS,
        grant_epoch=1,
    )
    tenant = TenantGrant(
        tenant=TENANT,
        policy_keys=(public_key(identity.policy),),
        approver_keys=(public_key(identity.approver),),
        client_keys=(),
        not_before_ms=now,
        not_after_ms=now + GRANT_MS,
        grant_epoch=1,
    )
    records: list[Signed[Any]] = [signer.sign(grant), signer.sign(tenant)]
    head = issue_head(signer, [signed.id, *(r.id for r in records)], 1)
    return signed.raw, [*(r.raw for r in records), head.raw]


def issue_head(signer: KeySigner, log_ids: Sequence[bytes], epoch: int) -> Signed[TrustHead]:
    """A fresh head over a trust log."""
    return signer.sign(TrustHead(head_epoch=epoch, log_digest=log_digest(log_ids), log_size=len(set(log_ids))))


def make_data_dir(
    data_dir: Path,
    entropy: Entropy,
    clock: Clock,
    *,
    name: str = "local",
    operator: str = "local",
    profile: ColocationProfile = ColocationProfile.DEV,
    roles: Sequence[RoleName] = tuple(RoleName),
    force: bool = False,
    with_key: bool = True,
) -> dict[str, Any]:
    """Make keys, charter, grants, head and, ``with_key``, an API key in ``data_dir``; what was made. Raises ``ALREADY_RUNNING``, ``CONFIG``."""
    prepare_data_dir(data_dir)
    if force:
        _clear(data_dir)
    identity = make_identity(entropy, roles=tuple(roles), authority=True)
    charter, trust = found_swarm(identity, clock, name=name, operator=operator, profile=profile)
    save_identity(data_dir, identity)
    replace_file(data_dir / CHARTER_FILE, export_charter(charter))
    replace_file(data_dir / TRUST_FILE, export_trust(trust))
    api_key: dict[str, str] = {}
    if with_key:
        ring = KeyRing.load(data_dir / KEYS_FILE, clock)
        key, row = ring.create(entropy, tenant=TENANT, project=PROJECT, principal=PRINCIPAL, mode=KeyMode.LIVE)
        api_key = {"api_key": key, "api_key_id": row.key_id}
    return {
        "data_dir": str(data_dir),
        "node_id": identity.node_id,
        "charter": str(data_dir / CHARTER_FILE),
        "tenant": TENANT,
        **api_key,
        "note": "the authority's key lies on this node; keep a copy of the charter, and of the identity folder offline",
    }


def prepare_data_dir(data_dir: Path) -> None:
    """Make the data directory, mode 0700. One that is there and empty is closed to others; one with files that others can enter is refused
    ``CONFIG``, for who may have read them is not known here."""
    if os.path.lexists(data_dir) and not data_dir.is_dir():
        raise GnusError("CONFIG", f"{data_dir} is not a directory", fix="name a directory")
    try:
        if data_dir.is_dir() and not any(data_dir.iterdir()):
            data_dir.chmod(0o700)
    except OSError as error:
        raise GnusError("CONFIG", f"cannot use {data_dir}: {error.strerror}", fix="choose a directory of your own") from None
    private_directory(data_dir)


def _clear(data_dir: Path) -> None:
    """Remove what belongs to the identity before. Raises ``ALREADY_RUNNING`` where a node uses it."""
    store = data_dir / _GROWS[0]
    if store.is_dir():
        DirectoryLock(store).release()
    for folder in (FOLDER, *_GROWS):
        shutil.rmtree(data_dir / folder, ignore_errors=True)
    for file in (CHARTER_FILE, TRUST_FILE, KEYS_FILE):
        (data_dir / file).unlink(missing_ok=True)


def initialise(
    data_dir: Path,
    *,
    name: str,
    template: str,
    force: bool,
    with_key: bool = True,
    with_settings: bool = True,
    operator: str = "local",
    profile: ColocationProfile = ColocationProfile.DEV,
) -> Mapping[str, Any]:
    """``gnus-node init``: as ``make_data_dir``, ``with_settings`` a settings file in it where there is none.

    Raises ``ALREADY_RUNNING``, ``CONFIG``, ``USAGE``.
    """
    load_template(template)
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise GnusError("USAGE", "not a name for a swarm", fix="letters, digits and . _ : / @ + - only, at most 128") from None

    async def make() -> dict[str, Any]:
        return make_data_dir(
            data_dir, SystemEntropy(), SystemClock(), name=name, operator=operator, profile=profile, force=force, with_key=with_key
        )

    made = trio.run(make)
    settings = data_dir / SETTINGS_FILE
    if with_settings and not settings.exists():
        settings.write_text(_settings_text(template), encoding="utf-8")
    if settings.exists():
        made["settings"] = str(settings)
    return made


def _settings_text(template: str) -> str:
    """A settings file that answers calculations at once, and shows where documents and models go."""
    return f"""# Settings of this node; every key is in docs/configuration.md. Relative paths start at this file's folder.
[node]
data_dir = "."

[policy]
template = "{template}"

[experts.core]
kind = "extractive"
role = "semantic_core"

[experts.calc]
kind = "symbolic"
role = "domain_expert"
domains = ["math"]

# Documents that answers may rest on:
# [[corpora]]
# name = "notes"
# kind = "folder"
# path = "/srv/notes"
# uri_prefix = "doc://notes/"
"""


def make_api_key(data_dir: Path, *, tenant: str, project: str, principal: str, mode: str, scopes: Sequence[str]) -> Mapping[str, Any]:
    """``gnus-node config key``: one API key, shown once, stored hashed. Raises ``CONFIG``."""
    if not has_identity(data_dir):
        raise GnusError("CONFIG", f"{data_dir} is no data directory of a node", fix="gnus-node init makes one")

    async def make() -> dict[str, Any]:
        ring = KeyRing.load(data_dir / KEYS_FILE, SystemClock())
        key, row = ring.create(
            SystemEntropy(), tenant=tenant, project=project, principal=principal, mode=KeyMode(mode), scopes=tuple(scopes)
        )
        return {"api_key": key, "api_key_id": row.key_id, "tenant": tenant, "project": project, "principal": principal, "mode": mode}

    return trio.run(make)


def trust_path(config: NodeConfig) -> Path:
    """Where a node keeps its trust log."""
    return config.swarm.trust_head or config.node.data_dir / TRUST_FILE
