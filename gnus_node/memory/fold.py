"""The fold: the derived state of an admitted event (18.1.3.4.2 to .4). Pure and order-free.

Trust class comes from quorum certificates in the admitted set; this first form folds none, so every event is lower trust and pending. The
seed's fields are all in the derived record, and none of them is read from the author.
"""

from __future__ import annotations

from gnus_node.memory.admission import AdmittedEvent
from gnus_node.records.enums import ConsensusState, SourceType, TrustClass
from gnus_node.records.memory import DerivedMemory, MemoryProvenanceMetadata

_PROVENANCE = {SourceType.USER: 6_000, SourceType.SYNTHESIS: 5_000, SourceType.EXPERT: 3_000, SourceType.TOOL: 3_000, SourceType.WEB: 1_000}
"""Provenance score by source, before any attestation."""
_ATTESTED = 1_500
"""What attestation references add."""


def derive(admitted: AdmittedEvent, seq: int) -> DerivedMemory:
    """The derived record of one event."""
    body = admitted.event.body
    score = _PROVENANCE[body.source_type] + (_ATTESTED if body.attestation_refs else 0)
    provenance = MemoryProvenanceMetadata(
        source_type=body.source_type,
        source_reputation=0,
        attestation_refs=body.attestation_refs,
        provenance_score=score,
        author=body.author,
        instruction_scrubbed=body.instruction_scrubbed,
        safe_to_memorize=body.claimed_safe_to_memorize,
    )
    return DerivedMemory(
        event=admitted.event.id,
        memory_class=body.memory_class,
        trust_class=TrustClass.LOWER_TRUST,
        consensus_state=ConsensusState.PENDING,
        provenance=provenance,
        privacy_scope=body.privacy_scope,
        replication_policy=body.replication_policy,
        admitted_seq=seq,
        quarantined=False,
    )
