"""MemoryEvent in its final wire form, and what is derived from it (18.1.3.4.8).

The wire form is compact: an integer-keyed map in its own envelope and domain (``wire.memory_event``). Trust class, consensus state and
provenance score are *not* in it: they are derived by the fold; an author's own view is at most ``claimed``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gnus_node.records.base import Body, Count, Digest, Epoch, Listing, Millis, Part, PublicKey, RecordId, Score, Uuid
from gnus_node.records.enums import (
    ConsensusState,
    MemoryClass,
    MemoryEventKind,
    PrivacyScope,
    ReplicationPolicy,
    SourceType,
    TrustClass,
)

MAX_INLINE_PAYLOAD = 4096
"""Largest ciphertext an event carries inline."""


class MemoryEvent(Body):
    """One immutable, signed, content-addressed event. Payloads are ciphertext; ``content_hash`` is over the ciphertext."""

    KIND = "memory_event"
    SEED = "18.1.3.4.8"
    network_id: Annotated[bytes, Field(min_length=16, max_length=16)]
    kind: MemoryEventKind
    author: PublicKey
    author_seq: Count
    prev: RecordId | None = None
    membership_epoch: Epoch
    tenant: Annotated[bytes, Field(min_length=16, max_length=16)]
    """Salted hash of the tenant's name."""
    memory_class: MemoryClass
    hlc_ms: Millis
    parents: Annotated[Listing[RecordId], Field(max_length=8)]
    request_id: Uuid | None = None
    source_type: SourceType
    attestation_refs: Annotated[Listing[RecordId], Field(max_length=16)]
    policy_hash: Digest
    content_hash: Digest
    payload: Annotated[bytes, Field(max_length=MAX_INLINE_PAYLOAD)] | None = None
    payload_ref: Digest | None = None
    dek_id: Annotated[bytes, Field(min_length=16, max_length=16)]
    retention_until_ms: Millis | None = None
    privacy_scope: PrivacyScope
    replication_policy: ReplicationPolicy
    claimed_safe_to_memorize: bool
    instruction_scrubbed: bool
    content_key: Digest | None = None
    """Keyed digest of the normalised content, for finding repeats without reading it."""


class MemoryProvenanceMetadata(Part):
    """Where an event came from and what vouches for it (18.1.5.2.1)."""

    source_type: SourceType
    source_reputation: Score
    attestation_refs: Listing[RecordId]
    provenance_score: Score
    author: PublicKey
    instruction_scrubbed: bool
    safe_to_memorize: bool


class DerivedMemory(Part):
    """The derived, local state of one admitted event: never sent as truth, always folded anew."""

    event: RecordId
    memory_class: MemoryClass
    trust_class: TrustClass
    consensus_state: ConsensusState
    provenance: MemoryProvenanceMetadata
    privacy_scope: PrivacyScope
    replication_policy: ReplicationPolicy
    admitted_seq: Count
    quarantined: bool
