"""Links of the tools: every proposal has its attestation; a real output has a second one that binds it (18.1.3.8, DESIGN.md section 6).

``admit`` is the only place where an ``AttestedOutput`` comes from; the verifier composes answers of nothing else that a tool gave.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gnus_node.evidence.verdict import Link
from gnus_node.evidence.walk import Walk
from gnus_node.records.authority import ApprovalDecision
from gnus_node.records.enums import AttestationPhase, EffectClass, EffectState, Proof, SignerRole, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import SynthesisResult
from gnus_node.records.expert import ExpertOutput
from gnus_node.records.tools import DryRunResult, EffectReport, SanitizedData, ToolAttestation
from gnus_node.trust.check import check_role_record
from gnus_node.wire.digests import sha256

NOTHING = sha256(b"")
"""Provenance hash of a proposal that was blocked before its dry run."""
_TOOL = frozenset({Stage.TOOL})
_MADE = object()


class AttestedOutput:
    """A tool's sanitised output whose whole chain of attestations held, on this node, now. Made by ``admit`` only; never serialised."""

    __slots__ = ("attestation", "data")

    def __init__(self, key: object, attestation: Signed[ToolAttestation], data: Signed[SanitizedData]) -> None:
        if key is not _MADE:
            raise TypeError("AttestedOutput is made by evidence.admit only")
        self.attestation = attestation
        self.data = data

    def __reduce__(self) -> Any:
        raise TypeError("an AttestedOutput does not travel; admit it anew on each node")


def check_tools(walk: Walk) -> list[Link]:
    """All attestations of the request, against proposals, dry runs, approvals and sanitised data."""
    links: list[Link] = []
    for report in walk.bag.of(EffectReport):
        _check_report(walk, report)
    first: dict[tuple[bytes, str], Signed[ToolAttestation]] = {}
    attestations = walk.bag.of(ToolAttestation)
    for attestation in attestations:
        if attestation.body.phase is AttestationPhase.DRY_RUN:
            key = (attestation.body.expert_output, attestation.body.tool_call_id)
            if key in first:
                raise GnusError("CHAIN_BROKEN", "two first attestations of one proposal", link="attestation")
            first[key] = attestation
            links.append(_check_first(walk, attestation))
    closed: set[bytes] = set()
    for attestation in attestations:
        if attestation.body.phase is AttestationPhase.RESULT:
            links.append(_check_second(walk, attestation))
            if attestation.body.first_attestation in closed:
                raise GnusError("CHAIN_BROKEN", "two results of one proposal", link=f"result {attestation.body.tool_name}")
            closed.add(attestation.body.first_attestation or b"")
    for attestation in first.values():
        if attestation.body.safe_to_execute and attestation.id not in closed:
            raise GnusError("CHAIN_BROKEN", "what came of an allowed call was left out", link=f"attestation {attestation.body.tool_name}")
    for output in walk.bag.of(ExpertOutput):
        for call in output.body.tool_calls:
            if (output.id, call.tool_call_id) not in first and _mediated(walk, output):
                raise GnusError("CHAIN_BROKEN", "a proposal without an attestation", link=f"proposal {call.tool_name}")
    return links


def _mediated(walk: Walk, output: Signed[ExpertOutput]) -> bool:
    """Whether the proposals of an output had to be put to the intermediary: where its turn was, or where an answer was made of it although
    the plan has tools and turns left."""
    if any(d.body.stage is Stage.TOOL and d.body.turn == output.body.turn for d in walk.dispatches.values()):
        return True
    plan = walk.plan
    if plan is None or not walk.bag.of(SynthesisResult) or output.body.turn >= plan.body.max_turns:
        return False
    return any(place.stage is Stage.TOOL for place in plan.body.assignments)


def _check_report(walk: Walk, report: Signed[EffectReport]) -> None:
    """A report closes one mediation, or answered a successor router; either way the pinned intermediary signed it."""
    if report.body.dispatch is not None:
        walk.executed(report, report.body.dispatch, _TOOL, "effects")
    else:
        walk.signer(report, "effects")
        if report.body.request_id != walk.mandate.body.request_id:
            raise GnusError("CHAIN_BROKEN", "effects of another request", link="effects")
        walk.see(report)
    _check_intermediary(walk, report, "effects")


def _check_intermediary(walk: Walk, record: Signed[Any], link: str) -> None:
    holder = walk.signer(record, link)
    pinned = walk.mandate.body.intermediary_id
    if pinned is None or holder.node_id != pinned or record.header.role is not SignerRole.TOOL_INTERMEDIARY:
        raise GnusError("CHAIN_BROKEN", "not signed by the pinned intermediary", link=link)


def _check_first(walk: Walk, attestation: Signed[ToolAttestation]) -> Link:
    body = attestation.body
    link = f"attestation {body.tool_name}"
    _check_common(walk, attestation, link)
    if body.sanitized is not None or body.first_attestation is not None:
        raise GnusError("CHAIN_BROKEN", "a first attestation binds no real output", link=link)
    if body.safe_to_execute:
        if not body.dry_run_ok or body.dry_run is None:
            raise GnusError("CHAIN_BROKEN", "safe to execute without a passed dry run", link=link)
        if body.capability not in _granted(walk, body.expert_output):
            raise GnusError("CAPABILITY_DENIED", "safe to execute outside the plan's capabilities", link=link)
    if body.dry_run is None:
        if body.provenance_hash != NOTHING:
            raise GnusError("CHAIN_BROKEN", "a provenance hash without a dry run", link=link)
    else:
        result = walk.bag.get(body.dry_run, DryRunResult, link)
        _check_intermediary(walk, result, link)
        fits = (result.body.tool_call_id, result.body.request_id, result.body.dry_run_ok)
        of_this = body.provenance_hash == result.id and body.expert_output in result.header.refs
        if (
            fits != (body.tool_call_id, body.request_id, body.dry_run_ok)
            or not of_this
            or result.body.dry_run_kind is not body.dry_run_kind
        ):
            raise GnusError("CHAIN_BROKEN", "a dry run of another proposal", link=link)
        walk.see(result)
    detail = f"{body.reason_code}, {body.dry_run_kind}"
    return walk.link(link, attestation, proof=Proof.ATTESTED, detail=detail)


def _granted(walk: Walk, output_id: bytes) -> set[str]:
    """The capabilities that the plan gives to the proposing expert: what it may use, and the whitelist, both."""
    output = walk.bag.find(output_id)
    if walk.plan is None or output is None or not isinstance(output.body, ExpertOutput):
        return set()
    plan = walk.plan.body
    mine = {c for e in plan.selected_elms if e.elm_id == output.body.expert_id for c in e.capabilities}
    return mine & set(plan.tool_policy.capability_whitelist)


def _check_common(walk: Walk, attestation: Signed[ToolAttestation], link: str) -> None:
    """What both phases share: the pinned intermediary, the dispatch, and the proposal it is about."""
    body = attestation.body
    _check_intermediary(walk, attestation, link)
    walk.of_request(attestation, link)
    dispatch = walk.dispatches.get(body.dispatch)
    if dispatch is None or dispatch.body.stage is not Stage.TOOL or dispatch.body.turn != body.turn:
        raise GnusError("CHAIN_BROKEN", "an attestation without its dispatch", link=link)
    if attestation.header.signer != dispatch.body.peer or body.intermediary_node_id != dispatch.body.node_id:
        raise GnusError("CHAIN_BROKEN", "an attestation by another key than was asked", link=link)
    output = walk.bag.get(body.expert_output, ExpertOutput, link)
    call = next((c for c in output.body.tool_calls if c.tool_call_id == body.tool_call_id), None)
    if call is None or call.tool_name != body.tool_name or output.body.turn != body.turn or output.id not in dispatch.header.refs:
        raise GnusError("CHAIN_BROKEN", "an attestation of a proposal nobody made", link=link)
    if body.capability_hash != sha256(body.capability.encode()) or body.policy_hash != policy_hash(walk.mandate.body.policies):
        raise GnusError("CHAIN_BROKEN", "an attestation under other policies or another capability", link=link)
    walk.see(attestation)


def policy_hash(policies: Iterable[bytes]) -> bytes:
    """``ToolAttestation.policy_hash``: over the ids of the mandate's policies."""
    return sha256(b"".join(sorted(policies)))


def _check_second(walk: Walk, attestation: Signed[ToolAttestation]) -> Link:
    """The real output: after a first attestation that allowed it, an approval where due, and bound to the sanitised data."""
    body = attestation.body
    link = f"result {body.tool_name}"
    _check_common(walk, attestation, link)
    first = walk.bag.get(body.first_attestation or b"", ToolAttestation, link)
    same = ("tool_call_id", "effect_key", "expert_output", "capability", "effect_class")
    if first.body.phase is not AttestationPhase.DRY_RUN or not first.body.safe_to_execute:
        raise GnusError("UNATTESTED", "a real output without a dry run that allowed it", link=link)
    if any(getattr(first.body, name) != getattr(body, name) for name in same) or first.header.signer != attestation.header.signer:
        raise GnusError("CHAIN_BROKEN", "a real output of another proposal", link=link)
    _check_approval(walk, attestation, first, link)
    if body.effect_state is EffectState.DONE and body.safe_to_execute:
        data = walk.bag.get(body.sanitized or b"", SanitizedData, link)
        _check_intermediary(walk, data, link)
        same_call = data.body.tool_call_id == body.tool_call_id and data.body.request_id == body.request_id
        if not same_call or data.id != body.provenance_hash or body.expert_output not in data.header.refs:
            raise GnusError("CHAIN_BROKEN", "sanitised data of another proposal", link=link)
        walk.see(data)
    elif body.sanitized is not None or body.provenance_hash != NOTHING:
        raise GnusError("CHAIN_BROKEN", "an output of an effect that is not done, or not usable", link=link)
    children = (Link("isolation", Proof.ATTESTED, walk.by(attestation), body.isolation),)
    detail = f"{body.effect_class}, {body.effect_state}, {body.reason_code}"
    return walk.link(link, attestation, proof=Proof.ATTESTED, detail=detail, children=children)


def _check_approval(walk: Walk, second: Signed[ToolAttestation], first: Signed[ToolAttestation], link: str) -> None:
    """Writes need a person's signed decision, or a capability that every policy pre-granted."""
    approval_id = second.body.approval
    needed = first.body.effect_state is EffectState.AWAITING_APPROVAL
    if approval_id is None:
        granted = first.body.effect_class is EffectClass.READ or first.body.capability in walk.mandate.body.ceilings.pre_granted
        if needed or not granted:
            raise GnusError("APPROVAL_REQUIRED", "an effect that needed a person's approval", link=link)
        return
    approval = walk.bag.get(approval_id, ApprovalDecision, link)
    holder = check_role_record(walk.trust, approval, walk.now_ms, SignerRole.APPROVER, live=False)
    body = approval.body
    bound = (body.tool_call_id, body.effect_key, body.attestation, body.policy_hash, body.request_id)
    expected = (first.body.tool_call_id, first.body.effect_key, first.id, first.body.policy_hash, first.body.request_id)
    if second.header.issued_at_ms > body.not_after_ms:
        raise GnusError("APPROVAL_REQUIRED", "an effect after its approval had ended", link=link)
    if not body.approved or bound != expected or holder.tenants != (walk.mandate.body.tenant,):
        raise GnusError("APPROVAL_REQUIRED", "an approval of something else", link=link)
    walk.see(approval)


def admit(walk: Walk) -> dict[bytes, AttestedOutput]:
    """The attested outputs of a judged walk, by the id of their second attestation.

    Call after ``check_tools`` on the same walk: only what that check accepted and what is safe and done is admitted.
    """
    admitted: dict[bytes, AttestedOutput] = {}
    for attestation in walk.bag.of(ToolAttestation):
        body = attestation.body
        if body.phase is AttestationPhase.RESULT and body.effect_state is EffectState.DONE and body.safe_to_execute and body.sanitized:
            data = walk.bag.get(body.sanitized, SanitizedData, f"result {body.tool_name}")
            admitted[attestation.id] = AttestedOutput(_MADE, attestation, data)
    return admitted
