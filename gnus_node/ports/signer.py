"""The right to sign as one role: a Signer holds one purpose key and refuses every other kind of record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from gnus_node.records.base import Body
from gnus_node.records.enums import SignerRole
from gnus_node.records.envelope import Signed

B = TypeVar("B", bound=Body)


class Signer(Protocol):
    """Signs the record kinds of one role (DESIGN.md section 5)."""

    @property
    def key(self) -> bytes:
        """The public key."""

    @property
    def role(self) -> SignerRole:
        """The role it signs for."""

    def sign(self, body: B, *, refs: Sequence[bytes] = (), expires_at_ms: int | None = None) -> Signed[B]:
        """Sign a body. Raises ``WRONG_ROLE`` for a kind this role may not sign."""
