"""Signers: one purpose key each, limited to the record kinds of its role (DESIGN.md section 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import nacl.bindings

from gnus_node.ports.host import Clock
from gnus_node.records.base import Body
from gnus_node.records.enums import SignerRole
from gnus_node.records.envelope import Header, Signed
from gnus_node.records.errors import GnusError
from gnus_node.wire.kinds import may_sign
from gnus_node.wire.signed import seal

B = TypeVar("B", bound=Body)


class KeySigner:
    """Signs with one Ed25519 seed. ``seq`` = incarnation << 32 | counter: a restart never reuses a number (DECISIONS, Bytes).

    ``after`` is a number used before, where no incarnation is kept. ``made`` is told of each record, so that this node need not verify its own
    signature when the very same bytes come back.
    """

    def __init__(
        self,
        seed: bytes,
        role: SignerRole,
        swarm: bytes,
        epoch: Callable[[], int],
        clock: Clock,
        incarnation: int,
        *,
        made: Callable[[Signed[Any]], None] | None = None,
        after: int = 0,
    ) -> None:
        self._public, self._secret = nacl.bindings.crypto_sign_seed_keypair(seed)
        self._role = role
        self._swarm = swarm
        self._epoch = epoch
        self._clock = clock
        self._made = made
        self._seq = max(incarnation << 32, after)

    @property
    def key(self) -> bytes:
        """The public key."""
        return self._public

    @property
    def role(self) -> SignerRole:
        """The role it signs for."""
        return self._role

    def sign_bytes(self, message: bytes) -> bytes:
        """A raw Ed25519 signature; callers separate domains (records, memory events, co-signatures)."""
        signature: bytes = nacl.bindings.crypto_sign(message, self._secret)[:64]
        return signature

    def sign(self, body: B, *, refs: Sequence[bytes] = (), expires_at_ms: int | None = None) -> Signed[B]:
        """Sign a body. Raises ``WRONG_ROLE`` for a kind that is not this role's."""
        if not may_sign(body.KIND, body.VERSION, self._role):
            raise GnusError("WRONG_ROLE", f"role {self._role} does not sign a {body.KIND}")
        self._seq += 1
        header = Header(
            kind=body.KIND,
            version=body.VERSION,
            swarm=self._swarm,
            epoch=self._epoch(),
            signer=self._public,
            role=self._role,
            seq=self._seq,
            issued_at_ms=self._clock.wall_ms(),
            expires_at_ms=expires_at_ms,
            refs=tuple(refs),
        )
        record = seal(header, body, self.sign_bytes)
        if self._made:
            self._made(record)
        return record
