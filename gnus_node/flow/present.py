"""From a judged chain to what a person or client sees: answer, sources, route, backends, agreement, latency. Pure, given the vault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnus_node.evidence.bag import Bag
from gnus_node.ports.submit import Answered, Source
from gnus_node.privacy.parcels import Vault
from gnus_node.records.base import SCORE_ONE
from gnus_node.records.enums import AnswerType, EffectState, Outcome, Proof
from gnus_node.records.envelope import Signed
from gnus_node.records.evidence import AnswerSource, GroundingEvidence, RetrievalResult, SynthesisResult
from gnus_node.records.expert import ExpertOutput
from gnus_node.records.flow import AgentResponse
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.tools import SanitizedData
from gnus_node.wire import jsontext

MAX_QUOTE = 300


def present(bag: Bag, vault: Vault, response: Signed[AgentResponse], latency_ms: Mapping[str, float], created_at_ms: int) -> Answered:
    """What a terminal response says, with everything it rests on."""
    body = response.body
    synthesis = bag.find(body.synthesis) if body.synthesis else None
    result = synthesis.body if synthesis is not None and isinstance(synthesis.body, SynthesisResult) else None
    plan = bag.of(ExecutionPlan)
    outputs = bag.of(ExpertOutput)
    answer = vault.text(body.answer) if body.outcome is Outcome.ANSWERED else ""
    reason = vault.text(result.reason) if result else (body.error.what if body.error else "")
    usage = {
        "prompt_tokens": sum(o.body.usage.prompt_tokens for o in outputs),
        "completion_tokens": sum(o.body.usage.completion_tokens for o in outputs),
    }
    return Answered(
        request_id=body.request_id,
        audit_id=body.request_id,
        outcome=body.outcome,
        answer=answer,
        answer_type=AnswerType(body.answer_type),
        sources=tuple(_source(bag, vault, s) for s in result.sources) if result else (),
        route=_route(plan[0].body) if plan else {},
        backends=tuple(
            {"expert": o.body.expert_id, "kind": str(o.body.backend_kind), "model": o.body.model_id, "license": o.body.model_license}
            for o in outputs
        ),
        agreement=result.agreement / SCORE_ONE if result and body.outcome is Outcome.ANSWERED else None,
        latency_ms=dict(latency_ms),
        usage=usage,
        verdict=Proof.PROVED,
        reason_code=body.error.code if body.error else (result.reason_code if result else "OK"),
        reason=reason,
        pending_approvals=tuple(
            {"tool": e.tool_name, "tool_call_id": e.tool_call_id, "effect": str(e.effect_class)}
            for e in body.effects
            if e.state is EffectState.AWAITING_APPROVAL
        ),
        effects=tuple({"tool": e.tool_name, "state": str(e.state), "effect": str(e.effect_class)} for e in body.effects),
        created_at_ms=created_at_ms,
    )


def _route(plan: ExecutionPlan) -> dict[str, Any]:
    return {
        "intent": str(plan.intent),
        "risk": str(plan.risk),
        "mode": str(plan.execution_graph.mode),
        "topology": str(plan.execution_graph.topology),
        "stages": [str(s) for s in plan.execution_graph.stages],
        "experts": list(dict.fromkeys(a.expert_id for a in plan.assignments if a.expert_id)),
        "privacy_mode": str(plan.privacy_mode),
        "memory_mode": str(plan.memory_mode),
        "reasons": list(plan.reasons),
    }


def _source(bag: Bag, vault: Vault, source: AnswerSource) -> Source:
    """One source with its quote, opened from the vault."""
    record = bag.find(source.record)
    body = record.body if record else None
    span = (source.span_start, source.span_end)
    if isinstance(body, GroundingEvidence):
        item = next(i for i in body.items if i.item == source.item)
        passage = jsontext.read_free(vault.text(item.passage))
        return Source(passage["uri"], passage["title"], str(item.source_class), span, item.fresh_at_ms, _quote(passage["text"], span))
    if isinstance(body, RetrievalResult):
        remembered = next(i for i in body.items if i.item == source.item)
        return Source(f"memory:{remembered.event.hex()}", "memory", "memory", span, 0, _quote(vault.text(remembered.content), span))
    if isinstance(body, SanitizedData):
        return Source(f"tool:{body.tool_call_id}", "tool output", "tool", span, 0, _quote(vault.text(body.plain_text), span))
    return Source("unknown:", "", "unknown", span, 0, "")


def _quote(text: str, span: tuple[int, int]) -> str:
    return text[span[0] : span[1]][:MAX_QUOTE]
