"""Every record body there is, in one tuple. ``wire.kinds`` says who may sign each; schemas and documents are generated from this list."""

from __future__ import annotations

from gnus_node.records import authority, evidence, expert, flow, plan, settlement, tools
from gnus_node.records.base import Body
from gnus_node.records.memory import MemoryEvent

BODIES: tuple[type[Body], ...] = (
    authority.SwarmCharter,
    authority.RoleGrant,
    authority.TenantGrant,
    authority.Revocation,
    authority.TrustHead,
    authority.Policy,
    authority.RequestMandate,
    authority.Dispatch,
    authority.Absence,
    authority.ApprovalDecision,
    plan.ExecutionPlan,
    expert.ExpertOutput,
    expert.CapabilityManifest,
    expert.ExpertEntry,
    evidence.RetrievalResult,
    evidence.GroundingEvidence,
    evidence.SynthesisResult,
    tools.DryRunResult,
    tools.SanitizedData,
    tools.ToolAttestation,
    tools.EffectReport,
    settlement.TaskAttestation,
    settlement.TaskRecord,
    settlement.Checkpoint,
    settlement.LearningEvent,
    flow.AgentRequest,
    flow.AgentResponse,
    flow.Parked,
    flow.StatusEvent,
    flow.NodeAnnouncement,
)
"""Bodies that travel in a signed envelope."""

COMPACT: tuple[type[Body], ...] = (MemoryEvent,)
"""Bodies with an envelope of their own (``wire.memory_event``)."""

BY_KIND: dict[str, type[Body]] = {body.KIND: body for body in BODIES}
