"""A node's keys on its own disk: one file for each purpose, mode 0600, never in the store that is backed up (DESIGN.md section 5).

The authority's, policy's and approver's keys lie here only in a 1-of-1 swarm, where the operator is everybody; ``doctor`` says so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import nacl.bindings

from gnus_node.ports.host import Entropy, Offload
from gnus_node.ports.store import Store, Write
from gnus_node.records.base import MAX_NAME
from gnus_node.records.enums import RoleName
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import replace_file

SEED_BYTES = 32
FOLDER = "identity"
INCARNATION_FILE = "incarnation"
INCARNATION = b"incarnation"
"""Its key in the store's table ``meta``."""
MAX_INCARNATION = 2**31 - 1


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
    incarnation: int = 0
    """The last start that used these keys, 0 for none: beside the keys, so that it outlives a lost store."""

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
    """Write the keys; nothing that exists is replaced. Raises ``USAGE`` where there is an identity."""
    folder = data_dir / FOLDER
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise GnusError(
            "USAGE", f"{data_dir} has an identity already", fix="keep it, or replace it and all that belongs to it with --force"
        ) from None
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
    """A key file's bytes. Raises ``CONFIG`` where it cannot be read, or others could read it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if os.fstat(handle).st_mode & 0o077:
                raise _refused(path, "is readable by others", f"chmod 600 {path}, and grant fresh keys if others could read it")
            return os.read(handle, 4096)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise _refused(path, "is missing", _RESTORE) from None
    except OSError as error:
        raise _refused(path, f"cannot be read ({os.strerror(error.errno or 0)})", "make it a plain file of the node's user") from None


_RESTORE = "restore the identity folder from a backup"


def _refused(path: Path, why: str, fix: str) -> GnusError:
    return GnusError("CONFIG", f"the key file {path} {why}", fix=fix)


def seed_name(role: RoleName) -> str:
    """The file of a role's key, below the identity folder."""
    return f"role-{role}.seed"


def has_identity(data_dir: Path) -> bool:
    """Whether there is an identity at all, whole or not."""
    return os.path.lexists(data_dir / FOLDER)


def load_identity(data_dir: Path) -> Identity:
    """Read the keys. Raises ``CONFIG`` where there are none, where a file is missing or damaged, or open to others."""
    folder = data_dir / FOLDER
    if not folder.is_dir():
        raise GnusError("CONFIG", f"the data directory {data_dir} has no identity", fix="run gnus-node init first")
    if folder.stat().st_mode & 0o077:
        raise GnusError(
            "CONFIG", f"{folder} is open to other users", fix=f"chmod 700 {folder}, and grant fresh keys if others could read it"
        )
    seeds = {path.stem: _read(path) for path in sorted(folder.glob("*.seed"))}
    for name in ("transport", "sealing", *seeds):
        if name not in seeds:
            raise _refused(folder / f"{name}.seed", "is missing", _RESTORE)
        if len(seeds[name]) != SEED_BYTES:
            raise _refused(folder / f"{name}.seed", f"has not {SEED_BYTES} bytes", _RESTORE)
    return Identity(
        node_id=_node_id(folder / "node_id"),
        transport=seeds["transport"],
        sealing=seeds["sealing"],
        roles={role: seeds[f"role-{role}"] for role in RoleName if f"role-{role}" in seeds},
        authority=seeds.get("authority", b""),
        policy=seeds.get("policy", b""),
        approver=seeds.get("approver", b""),
        incarnation=_incarnation(folder / INCARNATION_FILE),
    )


def _node_id(path: Path) -> str:
    try:
        name = _read(path).decode("ascii")
    except UnicodeDecodeError:
        name = ""
    if not name or not name.isprintable() or len(name) > MAX_NAME:
        raise _refused(path, "holds no name of a node", _RESTORE)
    return name


def _incarnation(path: Path) -> int:
    if not os.path.lexists(path):
        return 0
    text = _read(path).strip()
    if not text.isdigit() or not 0 < int(text) <= MAX_INCARNATION:
        raise _refused(path, "holds no number", "restore it, or write a number above all starts of this node into it")
    return int(text)


async def next_incarnation(data_dir: Path, identity: Identity, store: Store, offload: Offload, *, ran_before: bool) -> int:
    """The number of this start, durable in both places before anything is signed (DECISIONS, Bytes).

    It goes on above the greater of the two, so that neither a store that was lost nor one restored from a backup makes a key sign one
    sequence number twice. Raises ``STORE_CORRUPT`` where the node ``ran_before`` and the store does not know it.
    """
    stored = await store.get("meta", INCARNATION)
    if ran_before and stored is None:
        raise GnusError("STORE_CORRUPT", "the store knows of no start of this node, but its keys were used", fix="restore a backup")
    number = max(int.from_bytes(stored, "big") if stored else 0, identity.incarnation) + 1
    await offload.run(replace_file, data_dir / FOLDER / INCARNATION_FILE, f"{number}\n")
    await store.commit([Write("meta", INCARNATION, number.to_bytes(8, "big"))])
    return number
