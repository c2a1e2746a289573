"""Digests and commitments, each under its own domain so that no value of one kind can stand for another."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

SALT_BYTES = 16

RECORD_DOMAIN = b"gnus/record/1\x00"
MEMORY_DOMAIN = b"gnus/mem/ev/1\x00"
_COMMIT = b"gnus/commit/1\x00"
_SWARM = b"gnus/swarm/1\x00"
_INPUT = b"gnus/input/1\x00"
_EFFECT = b"gnus/effect/1\x00"
_TENANT = b"gnus/tenant/1\x00"
_NODE = b"gnus/merkle/node/1\x00"
_LEAF = b"gnus/merkle/leaf/1\x00"


def sha256(data: bytes) -> bytes:
    """Plain SHA-256, for files and foreign bytes."""
    return hashlib.sha256(data).digest()


def record_id(header: bytes, body: bytes) -> bytes:
    """Id of a record: over domain, header and body, without the signature (DECISIONS, Bytes)."""
    return hashlib.sha256(RECORD_DOMAIN + header + body).digest()


def swarm_id(charter_body: bytes) -> bytes:
    """A swarm's 16-byte id, from its charter's body alone: the header cannot be in it, for it names the swarm."""
    return hashlib.sha256(_SWARM + charter_body).digest()[:16]


def commitment(salt: bytes, text: bytes) -> bytes:
    """Commitment to a free text: hides it until salt and text are shown."""
    if len(salt) != SALT_BYTES:
        raise ValueError("a salt has 16 bytes")
    return hashlib.sha256(_COMMIT + salt + text).digest()


def input_digest(commitments: Iterable[bytes], records: Iterable[bytes]) -> bytes:
    """What a dispatch's ``input_digest`` covers: the sets of commitments and record ids that go with it."""
    parts = [b"c" + c for c in sorted(set(commitments))] + [b"r" + r for r in sorted(set(records))]
    return hashlib.sha256(_INPUT + b"".join(parts)).digest()


def effect_key(secret: bytes, request_id: str, turn: int, tool: str, arguments: str) -> bytes:
    """Key of one effect: an HMAC with the request's secret, so that it tells nothing about the arguments (DECISIONS, Bytes)."""
    message = b"\x00".join((_EFFECT, request_id.encode(), str(turn).encode(), tool.encode(), arguments.encode()))
    return hmac.new(secret, message, hashlib.sha256).digest()


def tenant_hash(swarm: bytes, tenant: str) -> bytes:
    """16-byte salted name of a tenant, for replicated records."""
    return hashlib.sha256(_TENANT + swarm + tenant.encode()).digest()[:16]


def merkle_root(leaves: Iterable[bytes]) -> bytes:
    """Merkle root over leaf values, in order, with separated leaf and node domains; an odd node is carried up unchanged."""
    level = [hashlib.sha256(_LEAF + leaf).digest() for leaf in leaves]
    if not level:
        return hashlib.sha256(_LEAF).digest()
    while len(level) > 1:
        paired = [hashlib.sha256(_NODE + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0]
