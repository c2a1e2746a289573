"""Which record kinds exist, which body each has, and who may sign it.

One table for coding (kind and version to body class), for trust (kind to signing roles) and for schemas. A kind that is not here is
unknown: trust log and memory keep it opaquely, everyone else refuses it (DESIGN.md section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from gnus_node.records import authority, evidence, expert, flow, plan, settlement, tools
from gnus_node.records.base import Body
from gnus_node.records.enums import SignerRole as R

_WORKERS = frozenset({R.SEMANTIC_CORE, R.ELM_WORKER})
_EXECUTORS = frozenset({R.SEMANTIC_CORE, R.ELM_WORKER, R.MEMORY_INDEX, R.GROUNDING, R.VERIFIER, R.TOOL_INTERMEDIARY})


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: the body class and the roles that may sign it."""

    body: type[Body]
    signers: frozenset[R]


def _only(*roles: R) -> frozenset[R]:
    return frozenset(roles)


_ROWS: tuple[Kind, ...] = (
    Kind(authority.SwarmCharter, _only(R.AUTHORITY)),
    Kind(authority.RoleGrant, _only(R.AUTHORITY)),
    Kind(authority.TenantGrant, _only(R.AUTHORITY)),
    Kind(authority.Revocation, _only(R.AUTHORITY)),
    Kind(authority.TrustHead, _only(R.AUTHORITY, R.HEAD)),
    Kind(authority.Policy, _only(R.POLICY)),
    Kind(authority.RequestMandate, _only(R.INGRESS)),
    Kind(authority.Dispatch, _only(R.ROUTER)),
    Kind(authority.Absence, _only(R.ROUTER) | _WORKERS),
    Kind(authority.ApprovalDecision, _only(R.APPROVER)),
    Kind(plan.ExecutionPlan, _only(R.ROUTER)),
    Kind(expert.ExpertOutput, _WORKERS),
    Kind(expert.CapabilityManifest, _WORKERS),
    Kind(expert.ExpertEntry, _WORKERS),
    Kind(evidence.RetrievalResult, _only(R.MEMORY_INDEX)),
    Kind(evidence.GroundingEvidence, _only(R.GROUNDING)),
    Kind(evidence.SynthesisResult, _only(R.VERIFIER)),
    Kind(tools.DryRunResult, _only(R.TOOL_INTERMEDIARY)),
    Kind(tools.SanitizedData, _only(R.TOOL_INTERMEDIARY)),
    Kind(tools.ToolAttestation, _only(R.TOOL_INTERMEDIARY)),
    Kind(tools.EffectReport, _only(R.TOOL_INTERMEDIARY)),
    Kind(settlement.TaskAttestation, _EXECUTORS),
    Kind(settlement.TaskRecord, _only(R.SETTLEMENT)),
    Kind(settlement.Checkpoint, _only(R.SETTLEMENT)),
    Kind(settlement.LearningEvent, _only(R.SETTLEMENT, R.MEMORY_INDEX)),
    Kind(flow.AgentRequest, _only(R.CLIENT)),
    Kind(flow.AgentResponse, _only(R.INGRESS)),
    Kind(flow.Parked, _only(R.INGRESS)),
    Kind(flow.StatusEvent, _only(R.INGRESS, R.ROUTER)),
    Kind(flow.NodeAnnouncement, _only(R.TRANSPORT)),
)

KINDS: dict[tuple[str, int], Kind] = {(row.body.KIND, row.body.VERSION): row for row in _ROWS}
"""Every kind this node reads, by (kind, version)."""

COSIGNED = frozenset({"swarm_charter", "role_grant", "tenant_grant", "revocation", "trust_head"})
"""Kinds that may carry further authority signatures."""


def may_sign(kind: str, version: int, role: R) -> bool:
    """Whether a key of ``role`` may sign this kind at all."""
    row = KINDS.get((kind, version))
    return row is not None and role in row.signers
