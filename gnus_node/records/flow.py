"""Requests, responses, status, announcements: what clients and peers see of the flow (DESIGN.md sections 2, 3)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gnus_node.records.authority import Ceilings
from gnus_node.records.base import (
    Body,
    Committed,
    Count,
    Generation,
    Label,
    Listing,
    Millis,
    Name,
    NodeId,
    Part,
    PublicKey,
    ReasonCode,
    RecordId,
    Score,
    SortedSet,
    Uuid,
)
from gnus_node.records.enums import AnswerType, Outcome, RoleName, Stage, Whose
from gnus_node.records.tools import EffectSummary


class AgentRequest(Body):
    """A client's own signed request; with it the audit proves the user, without it the ingress asserts the user."""

    KIND = "agent_request"
    tenant: Name
    principal: Name
    query: Committed
    context: Committed | None = None
    answer_type: AnswerType
    narrowing: Ceilings | None = None
    nonce: Uuid


class ErrorDetail(Part):
    """The typed error of a response (DESIGN.md section 4); texts are ours, never the user's."""

    code: ReasonCode
    what: Label
    fix: Label
    whose: Whose
    definite: bool
    retryable: bool


class AgentResponse(Body):
    """The ingress's signed terminal: an answer or a typed error. The last link before settlement."""

    KIND = "agent_response"
    request_id: Uuid
    generation: Generation
    mandate: RecordId
    synthesis: RecordId | None = None
    outcome: Outcome
    answer: Committed
    answer_type: AnswerType
    error: ErrorDetail | None = None
    effects: Annotated[Listing[EffectSummary], Field(max_length=64)]
    agreement: Score
    finished_at_ms: Millis


class Parked(Body):
    """The ingress stored a request that waits for a person; its lease ended (DECISIONS, Flow)."""

    KIND = "parked"
    request_id: Uuid
    generation: Generation
    mandate: RecordId
    attestations: SortedSet[RecordId]
    parked_at_ms: Millis
    not_after_ms: Millis


class StatusEvent(Body):
    """A step a client may see: stage, state, and how it went; numbered from 1 for each request."""

    KIND = "status_event"
    request_id: Uuid
    number: Count
    stage: Stage | None = None
    state: ReasonCode
    at_ms: Millis


class KindVersions(Part):
    """Versions of one record kind or stream that a node reads."""

    name: Name
    versions: SortedSet[int]


class NodeAnnouncement(Body):
    """What a node offers: roles, experts, versions, addresses. It grants nothing; grants do."""

    KIND = "node_announcement"
    node_id: NodeId
    roles: SortedSet[RoleName]
    experts: Annotated[Listing[RecordId], Field(max_length=64)]
    reads: Annotated[Listing[KindVersions], Field(max_length=64)]
    addresses: Annotated[Listing[Label], Field(max_length=16)]
    transport_key: PublicKey
    software: Label
    announced_at_ms: Millis
