"""Evidence and what is made of it: retrieval results, grounding evidence, the synthesis (18.1.3.3 to 18.1.3.5)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gnus_node.records.base import (
    Body,
    Committed,
    Count,
    Digest,
    Generation,
    Listing,
    Millis,
    Name,
    Part,
    ReasonCode,
    RecordId,
    Score,
    SortedSet,
    Uuid,
)
from gnus_node.records.enums import AnswerType, MemoryClass, MemoryMode, Outcome, PrivacyScope, SourceClass, SourceType, TrustClass


class RetrievedItem(Part):
    """One memory event handed out: its id, derived trust, and the commitment of its scrubbed text."""

    item: Name
    event: RecordId
    content: Committed
    memory_class: MemoryClass
    trust_class: TrustClass
    source_type: SourceType
    provenance_score: Score
    privacy_scope: PrivacyScope
    instruction_scrubbed: bool


class RetrievalResult(Body):
    """What memory gave for a retrieval dispatch, after privacy, tenant and trust filters (18.1.3.4.6)."""

    KIND = "retrieval_result"
    request_id: Uuid
    generation: Generation
    dispatch: RecordId
    memory_mode: MemoryMode
    items: Annotated[Listing[RetrievedItem], Field(max_length=64)]


class EvidenceItem(Part):
    """One passage. ``passage`` commits to RFC 8785 JSON ``{"text", "title", "uri"}``; spans count characters of ``text``."""

    item: Name
    passage: Committed
    source_hash: Digest
    """SHA-256 of the passage's text before scrubbing."""
    source_class: SourceClass
    corpus: Name
    fresh_at_ms: Millis
    """When the source was last known to hold; 0 is unknown."""
    trusted: bool
    scrubbed: bool
    score: Score


class GroundingEvidence(Body):
    """What grounding found for a dispatch (18.1.3.5)."""

    KIND = "grounding_evidence"
    request_id: Uuid
    generation: Generation
    dispatch: RecordId
    turn: Count
    items: Annotated[Listing[EvidenceItem], Field(max_length=64)]
    corpora: SortedSet[Digest]
    """Digests of the corpora that were searched."""


class Member(Part):
    """One expert of the plan in the synthesis: its output or its signed absence, and how it counted."""

    expert_id: Name
    output: RecordId | None = None
    absence: RecordId | None = None
    cluster: Count
    """Answers that agree share a cluster; 0 for an absence or abstention."""
    weight: Score
    supported: bool


class AnswerSource(Part):
    """A passage the answer rests on."""

    record: RecordId
    item: Name
    span_start: Count
    span_end: Count


class SynthesisResult(Body):
    """The verifier's signed answer, composed from attested outputs and permitted memory only (18.1.3.3.3)."""

    KIND = "synthesis_result"
    SEED = "18.1.3.3.3"
    request_id: Uuid
    generation: Generation
    plan: RecordId
    dispatch: RecordId
    outcome: Outcome
    reason_code: ReasonCode
    reason: Committed
    answer: Committed
    answer_type: AnswerType
    agreement: Score
    divergence: Score
    independent_sources: Count
    members: Annotated[Listing[Member], Field(max_length=32)]
    sources: Annotated[Listing[AnswerSource], Field(max_length=64)]
    tool_attestations: SortedSet[RecordId]
    memory_used: SortedSet[RecordId]
    memory_suggestions: Annotated[Listing[Committed], Field(max_length=16)]
    provisional: bool
