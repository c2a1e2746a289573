"""Views of memory: the seed's event with what the fold derives of it, and its provenance (18.1.3.4.8, 18.1.5.2.1).

The seed's fields mix what an author signs with what only the swarm can say. The second kind (trust class, consensus state, scores, whether
it is safe to memorise) is taken from the local fold; without one the view shows the least: lower trust, pending, zero, not safe.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar, Protocol, Self

from gnus_node.records.base import Uuid
from gnus_node.records.enums import ConsensusState, MemoryClass, MemoryEventKind, PrivacyScope, ReplicationPolicy, SourceType, TrustClass
from gnus_node.records.errors import GnusError
from gnus_node.records.memory import DerivedMemory, MemoryEvent
from gnus_node.records.views.record import SeedView, Whole, dump, read_as
from gnus_node.records.views.scalars import (
    CidText,
    DigestText,
    HexText,
    Items,
    KeyText,
    ScoreNumber,
    SignatureText,
    SwarmText,
    cid,
    signature_text,
)


class OpenedEvent(Protocol):
    """An opened memory event, as ``wire.memory_event`` gives it."""

    @property
    def body(self) -> MemoryEvent:
        """The event."""

    @property
    def raw(self) -> bytes:
        """The envelope; its last 64 bytes are the signature."""

    @property
    def id(self) -> bytes:
        """The event's id."""


def event_uuid(event_id: bytes) -> str:
    """The seed's ``memory_event_id``: the first 16 bytes of the event's id in the form of a UUID."""
    h = event_id[:16].hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


class MemoryProvenanceMetadataView(SeedView):
    """Where an event came from and what vouches for it."""

    source_type: SourceType
    source_reputation: ScoreNumber
    attestation_refs: Items[CidText]
    provenance_score: ScoreNumber
    author: KeyText
    instruction_scrubbed: bool
    safe_to_memorize: bool


class MemoryEventView(SeedView):
    """The seed's memory event."""

    OURS: ClassVar[frozenset[str]] = frozenset(
        {
            "record_id",
            "kind",
            "network_id",
            "author",
            "author_seq",
            "prev",
            "membership_epoch",
            "tenant",
            "hlc_ms",
            "parents",
            "policy_hash",
            "retention_until_ms",
            "privacy_scope",
            "replication_policy",
            "quarantined",
            "signature",
        }
    )

    memory_event_id: Uuid
    request_id: Uuid | None = None
    memory_class: MemoryClass
    trust_class: TrustClass
    content_hash: DigestText
    source_type: SourceType
    source_reputation: ScoreNumber
    attestation_refs: Items[CidText]
    provenance_score: ScoreNumber
    safe_to_memorize: bool
    instruction_scrubbed: bool
    consensus_state: ConsensusState
    payload_ref: CidText
    record_id: DigestText | None = None
    kind: MemoryEventKind | None = None
    network_id: SwarmText | None = None
    author: KeyText | None = None
    author_seq: Whole | None = None
    prev: DigestText | None = None
    membership_epoch: Whole | None = None
    tenant: HexText | None = None
    hlc_ms: Whole | None = None
    parents: Items[DigestText] | None = None
    policy_hash: DigestText | None = None
    retention_until_ms: Whole | None = None
    privacy_scope: PrivacyScope | None = None
    replication_policy: ReplicationPolicy | None = None
    quarantined: bool | None = None
    signature: SignatureText | None = None

    @classmethod
    def from_event(cls, event: OpenedEvent, derived: DerivedMemory | None = None) -> Self:
        """The view of an opened event and, where it was admitted, its derived state. Payloads stay behind their address.

        Raises ``MALFORMED`` where the derived state is another event's.
        """
        body = event.body
        values: dict[str, Any] = {
            "memory_event_id": event_uuid(event.id),
            "request_id": body.request_id,
            "memory_class": body.memory_class,
            "content_hash": _sha(body.content_hash),
            "source_type": body.source_type,
            "attestation_refs": [cid(r) for r in body.attestation_refs],
            "instruction_scrubbed": body.instruction_scrubbed,
            # the content hash is over the ciphertext: it is the payload's address, inline or not
            "payload_ref": cid(body.payload_ref or body.content_hash),
            "record_id": _sha(event.id),
            "kind": body.kind,
            "network_id": f"swarm:{body.network_id.hex()}",
            "author": f"ed25519:{body.author.hex()}",
            "author_seq": body.author_seq,
            "prev": _sha(body.prev) if body.prev else None,
            "membership_epoch": body.membership_epoch,
            "tenant": f"hex:{body.tenant.hex()}",
            "hlc_ms": body.hlc_ms,
            "parents": [_sha(p) for p in body.parents],
            "policy_hash": _sha(body.policy_hash),
            "retention_until_ms": body.retention_until_ms,
            "privacy_scope": body.privacy_scope,
            "replication_policy": body.replication_policy,
            "signature": signature_text(event.raw[-64:]),
        }
        values |= _derived(event, derived)
        return read_as(cls, {name: value for name, value in values.items() if value is not None})

    def to_json(self) -> dict[str, Any]:
        """JSON's own values, for ``jsontext.write_view``."""
        return dump(self)


def _sha(digest: bytes) -> str:
    return f"sha256:{digest.hex()}"


def _derived(event: OpenedEvent, derived: DerivedMemory | None) -> dict[str, Any]:
    if derived is None:
        return {
            "trust_class": TrustClass.LOWER_TRUST,
            "source_reputation": Decimal(0),
            "provenance_score": Decimal(0),
            "safe_to_memorize": False,
            "consensus_state": ConsensusState.PENDING,
        }
    if derived.event != event.id:
        # Showing one event with another's trust would be a quiet lie.
        raise GnusError("MALFORMED", "the derived state is another event's")
    return {
        "trust_class": derived.trust_class,
        "source_reputation": Decimal(derived.provenance.source_reputation).scaleb(-4),
        "provenance_score": Decimal(derived.provenance.provenance_score).scaleb(-4),
        "safe_to_memorize": derived.provenance.safe_to_memorize,
        "consensus_state": derived.consensus_state,
        "quarantined": derived.quarantined,
    }
