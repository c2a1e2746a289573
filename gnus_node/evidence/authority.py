"""Who allowed this, for a node about to act: mandate, policies, plan, dispatch, each contained in the one before (DESIGN.md section 2).

Every role calls ``authorise`` itself on the records that came with a call; nothing is taken on another's word. Pure: records, trust state
and the time in, an ``Authority`` or a typed refusal out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gnus_node.evidence.bag import Bag
from gnus_node.policy.contain import dispatch_within, mandate_within_policies, plan_within_mandate, policies_apply
from gnus_node.records.authority import Dispatch, Policy, RequestMandate
from gnus_node.records.enums import RoleName, SignerRole, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.plan import ExecutionPlan
from gnus_node.trust.check import MAX_SKEW_MS, check_role_record
from gnus_node.trust.state import TrustState

STAGE_ROLES: dict[Stage, frozenset[RoleName]] = {
    Stage.MEMORY: frozenset({RoleName.MEMORY_INDEX}),
    Stage.GROUND: frozenset({RoleName.GROUNDING}),
    Stage.DRAFT: frozenset({RoleName.SEMANTIC_CORE, RoleName.ELM_WORKER}),
    Stage.TOOL: frozenset({RoleName.TOOL_INTERMEDIARY}),
    Stage.VERIFY: frozenset({RoleName.VERIFIER, RoleName.ELM_WORKER, RoleName.SEMANTIC_CORE}),
    Stage.SYNTHESIZE: frozenset({RoleName.VERIFIER}),
}
"""Which roles may execute a stage."""


@dataclass(frozen=True, slots=True)
class Authority:
    """What allows an act: each link checked against the one before it."""

    mandate: Signed[RequestMandate]
    policies: tuple[Signed[Policy], ...]
    plan: Signed[ExecutionPlan] | None = None
    dispatch: Signed[Dispatch] | None = None


# Containment is a pure function of records that never change, and every role of a node asks it of the same ones: a request's are kept at hand.
# Keys are whole envelopes (``Signed`` compares raw bytes); who signed, when, and under which grants is judged anew each time.
_KEPT = 512


@lru_cache(maxsize=_KEPT)
def _beyond_policies(mandate: Signed[RequestMandate], policies: tuple[Signed[Policy], ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    bodies = [p.body for p in policies]
    return tuple(policies_apply(mandate.body, bodies)), tuple(mandate_within_policies(mandate.body, bodies))


@lru_cache(maxsize=_KEPT)
def _beyond_mandate(plan: Signed[ExecutionPlan], mandate: Signed[RequestMandate]) -> tuple[str, ...]:
    return tuple(plan_within_mandate(plan.body, mandate.body))


@lru_cache(maxsize=_KEPT)
def _beyond_plan(dispatch: Signed[Dispatch], mandate: Signed[RequestMandate], plan: Signed[ExecutionPlan] | None) -> tuple[str, ...]:
    return tuple(dispatch_within(dispatch.body, mandate.body, plan.body if plan else None))


def check_mandate(bag: Bag, trust: TrustState, now_ms: int, *, live: bool) -> Authority:
    """Mandate and policies. Raises ``CHAIN_BROKEN``, ``POLICY_MISSING``, ``MANDATE_EXCEEDS_POLICY``, ``LEASE_EXPIRED``, or what
    ``trust.check`` raises."""
    mandate = bag.one(RequestMandate, "mandate")
    holder = check_role_record(trust, mandate, now_ms, SignerRole.INGRESS, live=live)
    body = mandate.body
    if holder.node_id != body.ingress_node:
        raise GnusError("CHAIN_BROKEN", "the mandate names another ingress than its signer", link="mandate")
    if body.tenant not in holder.tenants:
        raise GnusError("FORBIDDEN", "the ingress is not granted this tenant", link="mandate")
    if live and now_ms > body.not_after_ms:
        raise GnusError("LEASE_EXPIRED", link="mandate")
    if body.not_after_ms > mandate.header.issued_at_ms + body.ceilings.max_wall_ms:
        raise GnusError("MANDATE_EXCEEDS_POLICY", "the lease is longer than the wall time allowed", link="mandate")
    if not body.policies:
        raise GnusError("POLICY_MISSING", "a mandate without a policy", link="mandate")
    policies = []
    for policy_id in body.policies:
        if policy_id not in bag:
            raise GnusError("POLICY_MISSING", "a policy of the mandate is not at hand", link="policy")
        policies.append(_check_policy(bag.get(policy_id, Policy, "policy"), mandate, trust, now_ms, live=live))
    wrong, wide = _beyond_policies(mandate, tuple(policies))
    if wrong:
        raise GnusError("POLICY_MISSING", f"policies that do not apply: {', '.join(wrong)}", link="policy")
    if wide:
        raise GnusError("MANDATE_EXCEEDS_POLICY", f"wider than the policies: {', '.join(wide)}", link="mandate")
    _check_named(mandate, trust)
    return Authority(mandate, tuple(policies))


def _check_named(mandate: Signed[RequestMandate], trust: TrustState) -> None:
    """Router, settlement and intermediary that a mandate names are granted their roles, and the tenant."""
    body = mandate.body
    pinned = trust.role_key(body.intermediary_id, RoleName.TOOL_INTERMEDIARY) if body.intermediary_id is not None else None
    named = [(SignerRole.ROUTER, body.router, body.router_node), (SignerRole.SETTLEMENT, body.settlement, None)]
    if body.intermediary_id is not None:
        named.append((SignerRole.TOOL_INTERMEDIARY, pinned or b"", body.intermediary_id))
    for role, key, node_id in named:
        holder = trust.keys.get(key)
        if holder is None or holder.role is not role or node_id not in (None, holder.node_id):
            raise GnusError("CHAIN_BROKEN", f"the mandate names a {role} without a grant", link="mandate")
        if body.tenant not in holder.tenants:
            raise GnusError("FORBIDDEN", f"the mandate names a {role} without the tenant", link="mandate")


def _check_policy(policy: Signed[Policy], mandate: Signed[RequestMandate], trust: TrustState, now_ms: int, *, live: bool) -> Signed[Policy]:
    holder = check_role_record(trust, policy, now_ms, SignerRole.POLICY, live=live)
    if holder.tenants != (mandate.body.tenant,) or policy.body.tenant != mandate.body.tenant:
        raise GnusError("POLICY_MISSING", "a policy that its own tenant did not sign", link="policy")
    ends = policy.body.not_after_ms
    if ends is not None and mandate.header.issued_at_ms > ends:
        raise GnusError("EXPIRED", "a policy that had ended when the mandate was made", link="policy")
    return policy


def check_plan(allowed: Authority, plan: Signed[ExecutionPlan], trust: TrustState, now_ms: int, *, live: bool) -> Authority:
    """The plan within the mandate. Raises ``PLAN_EXCEEDS_MANDATE``, ``CHAIN_BROKEN``, ``LEASE_EXPIRED``, or what ``trust.check`` raises."""
    mandate = allowed.mandate
    check_router(plan, mandate, trust, now_ms, live=live)
    if plan.body.mandate != mandate.id:
        raise GnusError("CHAIN_BROKEN", "the plan belongs to another mandate", link="plan")
    wide = _beyond_mandate(plan, mandate)
    if wide:
        raise GnusError("PLAN_EXCEEDS_MANDATE", f"wider than the mandate: {', '.join(wide)}", link="plan")
    for place in plan.body.assignments:
        holder = trust.keys.get(place.key)
        granted = holder is not None and holder.role.value == place.role.value and holder.node_id == place.node_id
        if not granted or place.role not in STAGE_ROLES[place.stage]:
            raise GnusError("CHAIN_BROKEN", f"stage {place.stage} is assigned to a key without the role", link="plan")
        if holder is not None and mandate.body.tenant not in holder.tenants:
            raise GnusError("FORBIDDEN", f"stage {place.stage} is assigned to a node without the tenant", link="plan")
    return Authority(mandate, allowed.policies, plan)


def check_router(record: Signed[Any], mandate: Signed[RequestMandate], trust: TrustState, now_ms: int, *, live: bool) -> None:
    """A record signed by the mandate's router, within its lease. Raises ``FENCED``, ``LEASE_EXPIRED``, ``CHAIN_BROKEN``, or what
    ``trust.check`` raises."""
    kind = record.header.kind
    check_role_record(trust, record, now_ms, SignerRole.ROUTER, live=live)
    if record.header.signer != mandate.body.router:
        raise GnusError("FENCED", f"a {kind} by another router than the mandate's", link=kind)
    if record.header.issued_at_ms > mandate.body.not_after_ms:
        raise GnusError("LEASE_EXPIRED", f"a {kind} made after the lease", link=kind)
    if record.header.issued_at_ms + MAX_SKEW_MS < mandate.header.issued_at_ms:
        raise GnusError("CHAIN_BROKEN", f"a {kind} older than its mandate", link=kind)


def check_dispatch(allowed: Authority, dispatch: Signed[Dispatch], trust: TrustState, now_ms: int, *, live: bool) -> Authority:
    """A dispatch within the plan, or within the mandate where there is none yet. Raises ``DISPATCH_EXCEEDS_PLAN``, ``CHAIN_BROKEN``."""
    check_router(dispatch, allowed.mandate, trust, now_ms, live=live)
    body = dispatch.body
    if body.mandate != allowed.mandate.id:
        raise GnusError("CHAIN_BROKEN", "the dispatch belongs to another mandate", link="dispatch")
    plan = allowed.plan
    if (body.plan is None) != (plan is None) or (plan is not None and body.plan != plan.id):
        raise GnusError("CHAIN_BROKEN", "the dispatch belongs to another plan", link="dispatch")
    wrong = _beyond_plan(dispatch, allowed.mandate, plan)
    if wrong:
        raise GnusError("DISPATCH_EXCEEDS_PLAN", f"outside the plan: {', '.join(wrong)}", link="dispatch")
    holder = trust.keys.get(body.peer)
    if holder is None or holder.node_id != body.node_id or holder.role.value not in {r.value for r in STAGE_ROLES[body.stage]}:
        raise GnusError("CHAIN_BROKEN", "the dispatch names a key without the role", link="dispatch")
    if allowed.mandate.body.tenant not in holder.tenants:
        raise GnusError("FORBIDDEN", "the dispatch goes to a node without the tenant", link="dispatch")
    return Authority(allowed.mandate, allowed.policies, plan, dispatch)


def authorise(bag: Bag, trust: TrustState, now_ms: int, *, me: bytes, stages: frozenset[Stage], dispatch_id: bytes) -> Authority:
    """For a role about to execute a dispatch addressed to its key ``me``: the whole authority, live.

    Raises any code of the checks above, and ``WRONG_PEER`` where the dispatch is for another key or stage.
    """
    allowed = check_mandate(bag, trust, now_ms, live=True)
    dispatch = bag.get(dispatch_id, Dispatch, "dispatch")
    if dispatch.body.plan is not None:
        allowed = check_plan(allowed, bag.get(dispatch.body.plan, ExecutionPlan, "plan"), trust, now_ms, live=True)
    allowed = check_dispatch(allowed, dispatch, trust, now_ms, live=True)
    if dispatch.body.peer != me or dispatch.body.stage not in stages:
        raise GnusError("WRONG_PEER", "a dispatch for another key or stage", link="dispatch")
    return allowed
