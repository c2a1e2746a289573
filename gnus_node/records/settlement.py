"""Work as auditable tasks: attestations, the task record, checkpoints, learning events (18.1.3.6, 18.1.4.2)."""

from __future__ import annotations

from gnus_node.records.base import (
    Amount,
    Body,
    Count,
    Digest,
    Generation,
    Listing,
    Millis,
    Name,
    NodeId,
    ReasonCode,
    RecordId,
    Score,
    Uuid,
)
from gnus_node.records.enums import BackendKind, Domain, ExpertRole, KeyMode, LearningQueue, ProcessingPass, WireEnum
from gnus_node.records.expert import Usage


class TaskAttestation(Body):
    """Whoever executed a Dispatch says so: which output came of it, with what kind of backend, at what cost."""

    KIND = "task_attestation"
    request_id: Uuid
    generation: Generation
    dispatch: RecordId
    output: RecordId
    processing_pass: ProcessingPass
    node_id: NodeId
    backend_kind: BackendKind
    wall_ms: Millis
    usage: Usage | None = None


class TaskStatus(WireEnum):
    """Whether settlement accepted the chain."""

    SETTLED = "settled"
    REJECTED = "rejected"


class TaskRecord(Body):
    """The seed's task record (18.1.3.6.2), with what settlement decided."""

    KIND = "task_record"
    SEED = "18.1.3.6.2"
    task_id: Uuid
    request_id: Uuid
    plan_hash: RecordId | None = None
    """Absent where the request ended before a plan."""
    expert_result_hashes: Listing[RecordId]
    tool_attestation_hashes: Listing[RecordId]
    memory_event_hashes: Listing[RecordId]
    final_response_hash: RecordId
    # ours
    generation: Generation
    status: TaskStatus
    reason_code: ReasonCode
    key_mode: KeyMode
    price: Amount
    settled_at_ms: Millis


class Checkpoint(Body):
    """The settlement log up to ``size``: Merkle root over task record ids, chained to the one before."""

    KIND = "checkpoint"
    settlement_epoch: Count
    size: Count
    root: Digest
    previous: RecordId | None = None


class LearningEvent(Body):
    """A curated outcome for an improvement queue (18.1.4.2)."""

    KIND = "learning_event"
    event_id: Uuid
    request_id: Uuid
    queue: LearningQueue
    domain: Domain
    expert_role: ExpertRole
    policy_scope: Name
    task: RecordId
    outcome: ReasonCode
    score: Score
