"""Links of the end: synthesis, the ingress's response, settlement's record. Pure."""

from __future__ import annotations

from gnus_node.evidence.cover import covered
from gnus_node.evidence.links_tools import admit
from gnus_node.evidence.links_work import check_item, memory_permitted
from gnus_node.evidence.verdict import Link
from gnus_node.evidence.walk import Walk
from gnus_node.policy.contain import named_experts
from gnus_node.records.authority import Absence
from gnus_node.records.enums import Outcome, Proof, SignerRole, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import Member, RetrievalResult, SynthesisResult
from gnus_node.records.expert import EvidenceType, ExpertOutput, OutputEvidence
from gnus_node.records.flow import AgentResponse
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.settlement import TaskRecord
from gnus_node.records.tools import EffectReport, ToolAttestation

_SYNTHESIZE = frozenset({Stage.SYNTHESIZE})
_ENDED = {Outcome.ANSWERED, Outcome.ABSTAINED}


def check_synthesis(walk: Walk) -> tuple[Signed[SynthesisResult] | None, list[Link]]:
    """The signed answer: over exactly the plan's experts, from attested outputs and permitted memory only (18.1.3.3)."""
    results = walk.bag.of(SynthesisResult)
    if not results:
        return None, []
    final = max(results, key=lambda r: (_order(walk, r), r.id))
    for result in results:
        dispatch = walk.executed(result, result.body.dispatch, _SYNTHESIZE, "synthesis")
        plan = walk.plan
        if plan is None or result.body.plan != plan.id:
            raise GnusError("CHAIN_BROKEN", "a synthesis of another plan", link="synthesis")
        _check_members(walk, plan, result, dispatch.header.refs)
        _check_sources(walk, plan, result, dispatch.header.refs)
        if result.body.outcome not in _ENDED:
            raise GnusError("CHAIN_BROKEN", "a synthesis answers or abstains", link="synthesis")
        if result.body.outcome is Outcome.ANSWERED and not any(m.cluster and (m.supported or m.weight) for m in result.body.members):
            raise GnusError("CHAIN_BROKEN", "an answer that no member gave", link="synthesis")
    body = final.body
    children = tuple(Link("source", Proof.PROVED, walk.by(final), s.item, s.record) for s in body.sources)
    detail = f"{body.outcome}, agreement {body.agreement}/10000 over {len(body.members)} experts"
    return final, [walk.link("synthesis", final, proof=Proof.ATTESTED, detail=detail, children=children)]


def _order(walk: Walk, result: Signed[SynthesisResult]) -> tuple[int, int]:
    dispatch = walk.dispatches.get(result.body.dispatch)
    return (dispatch.body.turn, dispatch.body.attempt) if dispatch else (-1, -1)


def _check_members(walk: Walk, plan: Signed[ExecutionPlan], result: Signed[SynthesisResult], given: tuple[bytes, ...]) -> None:
    """Exactly the experts the plan names, each by its output or its signed absence: nothing left out, nothing counted twice."""
    members = {m.expert_id: m for m in result.body.members}
    if len(members) != len(result.body.members) or set(members) != set(named_experts(plan.body)):
        raise GnusError("CHAIN_BROKEN", "the synthesis is not over exactly the plan's experts", link="synthesis")
    for member in members.values():
        _check_member(walk, member, given)


def _check_member(walk: Walk, member: Member, given: tuple[bytes, ...]) -> None:
    link = f"member {member.expert_id}"
    if (member.output is None) == (member.absence is None):
        raise GnusError("CHAIN_BROKEN", "a member has an output or an absence", link=link)
    outputs = [r for r in walk.bag.of(ExpertOutput) if r.body.expert_id == member.expert_id]
    if member.output is not None:
        output = walk.bag.get(member.output, ExpertOutput, link)
        newest = max((r.body.turn for r in outputs), default=-1)
        same = output.body.expert_id == member.expert_id and output.body.turn == newest
        if member.weight > (output.body.confidence if output.body.calibration_id else 0):
            raise GnusError("CHAIN_BROKEN", "an expert was given more vote than its calibrated confidence", link=link)
        if output.body.abstained and (member.cluster or member.weight or member.supported):
            raise GnusError("CHAIN_BROKEN", "an abstention was counted as an answer", link=link)
    else:
        absence = walk.bag.get(member.absence or b"", Absence, link)
        counted = member.weight or member.cluster or member.supported
        same = absence.body.expert_id == member.expert_id and not counted and not outputs
    if not same or (member.output or member.absence) not in given:
        raise GnusError("CHAIN_BROKEN", "a member that the synthesis was not given", link=link)


def _check_sources(walk: Walk, plan: Signed[ExecutionPlan], result: Signed[SynthesisResult], given: tuple[bytes, ...]) -> None:
    """Sources, tool outputs and memory it names were given to it, and hold."""
    for source in result.body.sources:
        if source.record not in given:
            raise GnusError("CHAIN_BROKEN", "a source that the synthesis was not given", link="source")
        span = (source.span_start, source.span_end)
        reference = OutputEvidence(type=EvidenceType.CITATION, record=source.record, item=source.item, span_start=span[0], span_end=span[1])
        check_item(walk, reference, "source")
    admitted = admit(walk)
    sanitised = {a.data.id for a in admitted.values()}
    tool_records = {r.id for r in walk.bag if r.header.kind == "sanitized_data"}
    for attestation in result.body.tool_attestations:
        if attestation not in admitted or attestation not in given:
            raise GnusError("UNATTESTED", "the synthesis uses a tool output without a valid attestation", link="synthesis")
    for source in result.body.sources:
        if source.record in tool_records and source.record not in sanitised:
            raise GnusError("UNATTESTED", "the synthesis cites a tool output without a valid attestation", link="source")
    items = [item for r in walk.bag.of(RetrievalResult) if r.id in given for item in r.body.items]
    permitted = {item.event for item in items if memory_permitted(plan.body.memory_mode, item)}
    if not set(result.body.memory_used) <= permitted:
        raise GnusError("CHAIN_BROKEN", "the synthesis uses memory that was not retrieved, or not permitted", link="synthesis")


def check_response(
    walk: Walk, synthesis: Signed[SynthesisResult] | None, *, ended: bool
) -> tuple[Signed[AgentResponse] | None, list[Link]]:
    """The ingress's last word: the synthesis's answer, or a typed error; over every record there is (``evidence.cover``)."""
    response = walk.bag.maybe(AgentResponse, "response")
    if response is None:
        if ended:
            raise GnusError("CHAIN_BROKEN", "no response: the request has not ended, or its end was left out", link="response")
        return None, [Link("response", Proof.ABSENT, "", "not answered yet")]
    body = response.body
    walk.signer(response, "response")
    walk.of_request(response, "response")
    if response.header.signer != walk.mandate.header.signer or body.mandate != walk.mandate.id:
        raise GnusError("CHAIN_BROKEN", "a response by another ingress or to another mandate", link="response")
    if body.outcome in _ENDED:
        if synthesis is None or body.synthesis != synthesis.id or body.error is not None or synthesis.body.provisional:
            raise GnusError("CHAIN_BROKEN", "an answer without its synthesis", link="response")
        copied = (body.answer, body.answer_type, body.outcome, body.agreement)
        if copied != (synthesis.body.answer, synthesis.body.answer_type, synthesis.body.outcome, synthesis.body.agreement):
            raise GnusError("CHAIN_BROKEN", "an answer that is not the synthesis's", link="response")
    else:
        if body.synthesis is not None or body.answer.size or body.agreement:
            raise GnusError("CHAIN_BROKEN", "a request that did not end in an answer gives one", link="response")
        if body.error is None and body.outcome is not Outcome.PENDING_APPROVAL:
            raise GnusError("CHAIN_BROKEN", "a failure without a typed error", link="response")
    reported = {effect for report in walk.bag.of(EffectReport) for effect in report.body.effects}
    if not set(body.effects) <= reported:
        raise GnusError("CHAIN_BROKEN", "the response lists effects that the intermediary did not report", link="response")
    settled = {r.id for r in walk.bag.of(TaskRecord)}
    if covered(walk.bag, response) != {r.id for r in walk.bag} - {response.id} - settled:
        raise GnusError("CHAIN_BROKEN", "records that the response does not cover", link="response")
    walk.see(response)
    return response, [walk.link("response", response, detail=str(body.outcome))]


def check_task(walk: Walk, response: Signed[AgentResponse] | None, settled: bool | None) -> list[Link]:
    """Settlement's record: of this plan, these outputs, these attestations, this response; by the node the mandate names."""
    task = walk.bag.maybe(TaskRecord, "settlement")
    if task is None:
        if settled:
            raise GnusError("CHAIN_BROKEN", "no task record", link="settlement")
        return [Link("settlement", Proof.ABSENT, "", "not settled yet")]
    if settled is False:
        raise GnusError("CHAIN_BROKEN", "a task record before its time", link="settlement")
    body = task.body
    walk.signer(task, "settlement")
    walk.of_request(task, "settlement")
    if task.header.role is not SignerRole.SETTLEMENT or task.header.signer != walk.mandate.body.settlement:
        raise GnusError("CHAIN_BROKEN", "settled by another node than the mandate names", link="settlement")
    plan = walk.plan
    expected = (
        plan.id if plan else None,
        tuple(sorted(r.id for r in walk.bag.of(ExpertOutput))),
        tuple(sorted(r.id for r in walk.bag.of(ToolAttestation))),
        response.id if response else None,
    )
    found = (
        body.plan_hash,
        tuple(sorted(body.expert_result_hashes)),
        tuple(sorted(body.tool_attestation_hashes)),
        body.final_response_hash,
    )
    if found != expected or body.key_mode is not walk.mandate.body.key_mode:
        raise GnusError("CHAIN_BROKEN", "a task record of other work", link="settlement")
    if body.price > walk.mandate.body.ceilings.max_spend:
        raise GnusError("SPEND_EXCEEDED", "a price above the mandate's ceiling", link="settlement")
    walk.see(task)
    return [walk.link("settlement", task, proof=Proof.ATTESTED, detail=f"{body.status}, price {body.price} minions")]
