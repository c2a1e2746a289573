"""The signed envelope as data: header, body, signatures, raw bytes. ``wire.signed`` makes and opens it.

The signature covers a domain, the header bytes and the body bytes exactly as received; both are kept raw, so that a record is passed on
and stored without being encoded again. The record id is the digest of the same bytes, without the signature (DECISIONS, Bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from gnus_node.records.base import Body, Epoch, Listing, Millis, Name, Part, PublicKey, RecordId, SwarmId
from gnus_node.records.enums import SignerRole

MAX_REFS = 256
"""Most records one header may refer to."""


class Header(Part):
    """What every record says of itself. ``seq`` = incarnation << 32 | counter; ``signer`` is the key, and its own id."""

    kind: Name
    version: Annotated[int, Field(ge=1, le=1000)]
    swarm: SwarmId
    epoch: Epoch
    signer: PublicKey
    role: SignerRole
    seq: Annotated[int, Field(ge=0, le=2**63 - 1)]
    issued_at_ms: Millis
    expires_at_ms: Millis | None = None
    refs: Annotated[Listing[RecordId], Field(max_length=MAX_REFS)]


B = TypeVar("B", bound=Body, covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Signed(Generic[B]):
    """One opened record: its signature was verified against ``header.signer``; whether that key may sign it is ``trust``'s question.

    ``cosigners`` are further keys whose signatures over the same bytes verified (k-of-n authority records only).
    """

    header: Header
    body: B
    raw: bytes
    id: bytes
    cosigners: tuple[bytes, ...] = ()
    signature: bytes = b""
    """The signer's 64 bytes, for the JSON view; also the third part of ``raw``."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signed) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)
