"""View of the task record (18.1.3.6.2)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from gnus_node.records import settlement
from gnus_node.records.base import Body, ReasonCode, Uuid
from gnus_node.records.enums import KeyMode
from gnus_node.records.settlement import TaskStatus
from gnus_node.records.views.record import HeaderView, RecordView, Whole
from gnus_node.records.views.scalars import AmountNumber, DigestText, Items, SignatureText


class TaskRecordView(RecordView):
    """The seed's task record, with what settlement decided; ``price`` in GNUS."""

    BODY: ClassVar[type[Body]] = settlement.TaskRecord
    SIGNATURE: ClassVar[str] = "settlement_signature"
    OURS: ClassVar[frozenset[str]] = frozenset(
        {"generation", "status", "reason_code", "key_mode", "price", "settled_at_ms", "record_id", "header"}
    )

    task_id: Uuid
    request_id: Uuid
    plan_hash: DigestText | None = None
    expert_result_hashes: Items[DigestText]
    tool_attestation_hashes: Items[DigestText]
    memory_event_hashes: Items[DigestText]
    final_response_hash: DigestText
    settlement_signature: SignatureText
    generation: Annotated[int, Field(ge=1, le=2**31)] | None = None
    status: TaskStatus | None = None
    reason_code: ReasonCode | None = None
    key_mode: KeyMode | None = None
    price: AmountNumber | None = None
    settled_at_ms: Whole | None = None
    record_id: DigestText | None = None
    header: HeaderView | None = None
