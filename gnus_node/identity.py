"""A node's keys on its own disk: one file for each purpose, mode 0600, never in the store that is backed up (DESIGN.md section 5).

The authority's, policy's and approver's keys lie here only in a 1-of-1 swarm, where the operator is everybody; ``doctor`` says so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import nacl.bindings

from gnus_node.ports.host import Entropy
from gnus_node.records.enums import RoleName
from gnus_node.records.errors import GnusError

SEED_BYTES = 32
FOLDER = "identity"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node is, with the secrets that prove it. ``authority``, ``policy`` and ``approver`` are empty on other swarms' nodes."""

    node_id: str
    transport: bytes
    sealing: bytes
    roles: dict[RoleName, bytes]
    authority: bytes = b""
    policy: bytes = b""
    approver: bytes = b""

    def sealing_public(self) -> bytes:
        """The X25519 key to which payload keys are sealed."""
        return nacl.bindings.crypto_scalarmult_base(self.sealing)


def public_key(seed: bytes) -> bytes:
    """The Ed25519 public key of a seed."""
    return nacl.bindings.crypto_sign_seed_keypair(seed)[0]


def make_identity(entropy: Entropy, *, roles: tuple[RoleName, ...], authority: bool) -> Identity:
    """Fresh keys for a node; with ``authority`` also those of a 1-of-1 swarm."""
    return Identity(
        node_id="node-" + entropy.token(6).hex(),
        transport=entropy.token(SEED_BYTES),
        sealing=entropy.token(SEED_BYTES),
        roles={role: entropy.token(SEED_BYTES) for role in roles},
        authority=entropy.token(SEED_BYTES) if authority else b"",
        policy=entropy.token(SEED_BYTES) if authority else b"",
        approver=entropy.token(SEED_BYTES) if authority else b"",
    )


def save_identity(data_dir: Path, identity: Identity) -> None:
    """Write the keys; nothing that exists is replaced. Raises ``ALREADY_RUNNING`` where there is an identity."""
    folder = data_dir / FOLDER
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise GnusError("ALREADY_RUNNING", "this data directory has an identity already", fix="use --force to replace it") from None
    secrets = {"transport": identity.transport, "sealing": identity.sealing}
    secrets |= {f"role-{role}": seed for role, seed in identity.roles.items()}
    for name, seed in (("authority", identity.authority), ("policy", identity.policy), ("approver", identity.approver)):
        if seed:
            secrets[name] = seed
    for name, seed in secrets.items():
        _write(folder / f"{name}.seed", seed)
    _write(folder / "node_id", identity.node_id.encode())


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> bytes:
    """A key file's bytes. Raises ``CONFIG`` where others could read it."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise GnusError("CONFIG", f"the key file {path.name} is readable by others", fix=f"chmod 600 {path.name}")
        return file.read(4096)


def load_identity(data_dir: Path) -> Identity:
    """Read the keys. Raises ``CONFIG`` where there are none, or where their files are open to others."""
    folder = data_dir / FOLDER
    if not folder.is_dir():
        raise GnusError("CONFIG", "this data directory has no identity", fix="run gnus-node init first")
    seeds = {path.stem: _read(path) for path in sorted(folder.glob("*.seed"))}
    if any(len(seed) != SEED_BYTES for seed in seeds.values()) or not {"transport", "sealing"} <= set(seeds):
        raise GnusError("CONFIG", "the identity is incomplete or damaged", fix="restore it from a backup")
    roles = {role: seeds[f"role-{role}"] for role in RoleName if f"role-{role}" in seeds}
    return Identity(
        node_id=_read(folder / "node_id").decode("ascii"),
        transport=seeds["transport"],
        sealing=seeds["sealing"],
        roles=roles,
        authority=seeds.get("authority", b""),
        policy=seeds.get("policy", b""),
        approver=seeds.get("approver", b""),
    )
