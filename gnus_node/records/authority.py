"""Who allowed this: charter, grants, policies, mandate, dispatch, absence (DESIGN.md sections 2 and 5)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gnus_node.records.base import (
    Amount,
    Body,
    Committed,
    Count,
    Digest,
    Epoch,
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
    SealingKey,
    SortedSet,
    Uuid,
)
from gnus_node.records.enums import (
    ApprovalMode,
    ColocationProfile,
    IndependenceUnit,
    KeyMode,
    MemoryMode,
    PolicyLevel,
    PrivacyMode,
    ProcessingPass,
    RoleName,
    Stage,
    Tier,
)

CapabilityName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,5}$", max_length=128)]
"""Canonical capability, e.g. ``tool.web.fetch.readonly``; other spellings are read by ``policy.capabilities``."""
Domainname = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$", max_length=253)]
PathRoot = Annotated[str, Field(pattern=r"^/[^\x00]{0,1023}$")]


class Ceilings(Part):
    """The most a request may use. Merging takes the strictest of each; containment compares field by field."""

    capabilities: SortedSet[CapabilityName]
    domains: SortedSet[Domainname]
    paths: SortedSet[PathRoot]
    pre_granted: SortedSet[CapabilityName]
    """Write capabilities whose proven arguments need no person (template ``delegated`` only)."""
    max_tokens: Count
    max_wall_ms: Millis
    max_spend: Amount
    max_turns: Annotated[int, Field(ge=1, le=16)]
    privacy_floor: PrivacyMode
    approval_floor: ApprovalMode
    memory_floor: MemoryMode


class SwarmCharter(Body):
    """What a swarm is: its authority (k of n keys), profile and quorum unit. Its body's digest is the swarm's id."""

    KIND = "swarm_charter"
    name: Name
    authority_keys: Annotated[SortedSet[PublicKey], Field(max_length=32)]
    threshold: Annotated[int, Field(ge=1, le=32)]
    head_keys: Annotated[SortedSet[PublicKey], Field(max_length=8)]
    """Keys that may only issue trust heads."""
    profile: ColocationProfile
    independence_unit: IndependenceUnit
    created_at_ms: Millis
    head_max_age_ms: Millis


class RoleKey(Part):
    """One purpose key: this key signs for this role on this node and for nothing else."""

    role: RoleName
    key: PublicKey


class RoleGrant(Body):
    """A node's place in the swarm: its keys, roles, tier, operator, tenants, validity (DESIGN.md section 5)."""

    KIND = "role_grant"
    node_id: NodeId
    operator: Name
    transport_key: PublicKey
    sealing_key: SealingKey
    roles: Annotated[Listing[RoleKey], Field(max_length=9)]
    tier: Tier
    tenants: SortedSet[Name]
    """Tenants whose text the node may see; ``*`` is not a name, a node serves the tenants it lists."""
    not_before_ms: Millis
    not_after_ms: Millis
    grant_epoch: Epoch


class TenantGrant(Body):
    """A tenant's keys, so that the charter alone suffices to check policies and approvals (DECISIONS, Authority)."""

    KIND = "tenant_grant"
    tenant: Name
    policy_keys: Annotated[SortedSet[PublicKey], Field(max_length=32)]
    approver_keys: Annotated[SortedSet[PublicKey], Field(max_length=64)]
    client_keys: Annotated[SortedSet[PublicKey], Field(max_length=256)]
    payout_key: PublicKey | None = None
    not_before_ms: Millis
    not_after_ms: Millis
    grant_epoch: Epoch


class Revocation(Body):
    """From ``cut_epoch`` on the key counts no more; older records count only below a checkpoint older than the cut."""

    KIND = "revocation"
    key: PublicKey
    node_id: NodeId | None = None
    cut_epoch: Epoch
    revoked_at_ms: Millis
    reason: Label


class TrustHead(Body):
    """The trust log up to ``head_epoch`` has this digest; a head older than the charter's ``head_max_age_ms`` is stale."""

    KIND = "trust_head"
    head_epoch: Epoch
    log_digest: Digest
    log_size: Count


class Policy(Body):
    """A policy document of a tenant: what a workspace, project or user may use at most."""

    KIND = "policy"
    policy_id: Name
    tenant: Name
    level: PolicyLevel
    subject: Name
    """The workspace, project or user it applies to; ``any`` for all of the tenant."""
    policy_version: Count
    ceilings: Ceilings
    not_after_ms: Millis | None = None


class RequestMandate(Body):
    """What the ingress allows for one request and generation; everything later is narrower (DESIGN.md section 2)."""

    KIND = "request_mandate"
    request_id: Uuid
    generation: Generation
    tenant: Name
    project: Name
    principal: Name
    key_mode: KeyMode
    query: Committed
    context: Committed | None = None
    policies: Annotated[SortedSet[RecordId], Field(max_length=16)]
    ceilings: Ceilings
    """Never wider than the merge of the policies; a session narrows here."""
    ingress_node: NodeId
    router: PublicKey
    router_node: NodeId
    not_after_ms: Millis
    """End of this router's lease; later records of it are refused."""
    settlement: PublicKey
    intermediary_id: NodeId | None = None
    """The one node that takes every tool call of this request, in every generation; durable with the acceptance."""
    idempotency: Digest | None = None
    client_key: PublicKey | None = None
    client_signature: RecordId | None = None
    """Id of the client's own signed AgentRequest, if it sent one: then the user is proved, otherwise asserted."""


class Remaining(Part):
    """Budget left for this dispatch, in the plan's units."""

    tokens: Count
    wall_ms: Millis
    spend: Amount


class Dispatch(Body):
    """One order to one peer. It refers to the plan, or before the plan (pass ``retrieval``) to the mandate only."""

    KIND = "dispatch"
    request_id: Uuid
    generation: Generation
    mandate: RecordId
    plan: RecordId | None = None
    stage: Stage
    processing_pass: ProcessingPass
    turn: Annotated[int, Field(ge=0, le=16)]
    attempt: Annotated[int, Field(ge=0, le=16)]
    expert_id: Name | None = None
    peer: PublicKey
    """The purpose key that may execute it."""
    node_id: NodeId
    input_digest: Digest
    """SHA-256 over the sorted commitments and record ids that go with it."""
    remaining: Remaining


class Absence(Body):
    """An expert named in the plan has no output, and why; signed by the router, or by the worker that refused."""

    KIND = "absence"
    request_id: Uuid
    generation: Generation
    plan: RecordId
    expert_id: Name
    stage: Stage
    turn: Annotated[int, Field(ge=0, le=16)]
    reason: ReasonCode


class ApprovalDecision(Body):
    """A person's decision on one effect; binds arguments, policies and the dry run by digest; single use."""

    KIND = "approval_decision"
    request_id: Uuid
    tool_call_id: Uuid
    effect_key: Digest
    attestation: RecordId
    arguments: Digest
    policy_hash: Digest
    approved: bool
    approver: Name
    comment: Committed | None = None
    not_after_ms: Millis
