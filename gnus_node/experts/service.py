"""Running an expert on a dispatch: what it is given, what is signed (18.1.3.2).

Both worker roles use it. An expert gets the question, the evidence that was dispatched to it, and the names of the tools its plan lets it
propose; it gets no handle to anything. What it says is data: it is signed as its output, proposals included, and judged by others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from gnus_node.content.asked import asked
from gnus_node.experts.backend import Draft, ExpertBackend, GenRequest, Passage, ToolCall, ToolSpec, Usage
from gnus_node.experts.collect import Collected, Limiter, collect
from gnus_node.net.context import RoleContext
from gnus_node.net.gate import Admitted, admit_dispatch, attest_task
from gnus_node.net.rpc import Request
from gnus_node.policy.contain import expert_role
from gnus_node.records import expert as records
from gnus_node.records.enums import AttestationPhase, EffectState, MemoryMode, RoleName, Stage, TrustClass
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import GroundingEvidence, RetrievalResult
from gnus_node.records.expert import EvidenceType, ExpertOutput, OutputEvidence, ToolProposal
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.tools import SanitizedData, ToolAttestation
from gnus_node.telemetry.events import emit
from gnus_node.wire import jsontext
from gnus_node.wire.limits import MAX_TEXT_BYTES
from gnus_node.wire.message import Message

MAX_EVIDENCE = 64
"""References of one output."""
_STAGES = frozenset({Stage.DRAFT, Stage.VERIFY})
_SCOPES = (".readonly", ".execute", ".proposal_only")
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "files.read": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
}
"""Argument schemas of tools whose form experts are told; others are free-form objects that the intermediary judges."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """One expert of this worker."""

    backend: ExpertBackend
    entry: Signed[records.ExpertEntry]
    manifest: Signed[records.CapabilityManifest]
    limiter: Limiter = field(default_factory=lambda: Limiter(4))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a passage stands in the records."""

    kind: EvidenceType
    record: bytes
    item: str


class ExpertService:
    """Serves ``expert.run`` for one worker role."""

    def __init__(self, context: RoleContext, hosted: Mapping[str, Hosted]) -> None:
        self._context = context
        self._node = context.node
        self._hosted = dict(hosted)

    async def run(self, request: Request) -> Message:
        """A signed ExpertOutput with its TaskAttestation. Raises what admission raises, ``NO_EXPERT``, ``BUSY``, ``DEADLINE``, ``BACKEND_FAILED``."""
        admitted = admit_dispatch(self._context, request, _STAGES)
        plan = admitted.authority.plan
        expert_id = admitted.dispatch.body.expert_id or ""
        hosted = self._hosted.get(expert_id)
        if plan is None or hosted is None:
            raise GnusError("NO_EXPERT", "this worker does not host the dispatched expert", link="dispatch")
        place = next(a for a in plan.body.assignments if a.expert_id == expert_id and a.key == self._context.signer.key)
        if place.entry != hosted.entry.id:
            raise GnusError("NO_EXPERT", "the plan names another version of this expert", link="plan")
        given, places = self._request(admitted, plan, hosted, request.budget_ms)
        started = self._node.clock.monotonic()
        collected = await collect(hosted.backend, given, limiter=hosted.limiter)
        wall_s = self._node.clock.monotonic() - started
        if collected.failure is not None:
            self._note(admitted, hosted, collected, wall_s, collected.failure.code)
            raise collected.failure
        output = self._sign(admitted, plan, hosted, collected, places)
        usage = output.body.usage
        attestation = attest_task(self._context, admitted, output.id, wall_s * 1000, backend=hosted.entry.body.backend_kind, usage=usage)
        self._note(admitted, hosted, collected, wall_s, output.body.abstained or "OK")
        texts = [
            output.body.answer,
            *(c.arguments for c in output.body.tool_calls),
            *(c.reason for c in output.body.tool_calls if c.reason),
        ]
        compute_us = max(0, round(wall_s * 1_000_000) - usage.queue_ms * 1000)
        return Message((output.raw, attestation.raw), admitted.vault.parcels(texts), b"", {"compute_us": compute_us})

    def _request(
        self, admitted: Admitted, plan: Signed[ExecutionPlan], hosted: Hosted, budget_ms: int
    ) -> tuple[GenRequest, dict[str, _Place]]:
        """What the expert is given, and where each passage stands in the records."""
        mandate = admitted.authority.mandate.body
        vault = admitted.vault
        places: dict[str, _Place] = {}
        grounded = _grounding(admitted, places)
        remembered = _memory(admitted, places)
        trusted_only = plan.body.memory_mode is not MemoryMode.POLICY_SCOPED
        if plan.body.memory_mode is MemoryMode.NONE:
            remembered = []
        if grounded or trusted_only:
            remembered = [p for p in remembered if p.trusted]
        intermediary = mandate.intermediary_id
        pinned = self._node.trust.state.role_key(intermediary, RoleName.TOOL_INTERMEDIARY) if intermediary else None
        outputs = _tool_outputs(admitted, places, pinned)
        selected = next((e for e in plan.body.selected_elms if e.elm_id == hosted.entry.body.expert_id), None)
        allowed = set(selected.capabilities) & set(plan.body.tool_policy.capability_whitelist) if selected else set()
        remaining = admitted.dispatch.body.remaining
        wall_s = min(budget_ms, remaining.wall_ms) / 1000
        context = vault.text(mandate.context) if mandate.context else ""
        request = GenRequest(
            request_id=mandate.request_id,
            question=asked(vault.text(mandate.query), context),
            context=context,
            passages=tuple(grounded + remembered),
            tools=tuple(_tool_spec(c) for c in sorted(allowed) if c.startswith("tool.")),
            tool_outputs=tuple(outputs),
            max_tokens=min(remaining.tokens, 4096),
            deadline=trio.current_time() + wall_s,
            turn=admitted.dispatch.body.turn,
        )
        return request, places

    def _sign(
        self, admitted: Admitted, plan: Signed[ExecutionPlan], hosted: Hosted, collected: Collected, places: Mapping[str, _Place]
    ) -> Signed[ExpertOutput]:
        draft, entry = collected.draft, hosted.entry.body
        vault = admitted.vault
        mandate = admitted.authority.mandate.body
        role = expert_role(plan.body, entry.expert_id)
        if role is None:
            raise GnusError("DISPATCH_EXCEEDS_PLAN", "the plan does not name this expert", link="plan")
        body = ExpertOutput(
            request_id=mandate.request_id,
            expert_id=entry.expert_id,
            expert_version=entry.expert_version,
            expert_role=role,
            answer=vault.commit(draft.answer),
            confidence=draft.confidence,
            evidence=tuple(_evidence(draft, places)),
            tool_calls=tuple(self._proposal(admitted, call) for call in collected.tool_calls),
            answer_type=draft.answer_type,
            abstained=draft.abstained,
            calibration_id=draft.calibration_id,
            dispatch=admitted.dispatch.id,
            generation=mandate.generation,
            turn=admitted.dispatch.body.turn,
            backend_kind=entry.backend_kind,
            model_id=entry.model_id,
            model_license=entry.model_license,
            artifact_hash=entry.artifact_hash,
            usage=_usage(collected.usage),
        )
        return self._context.signer.sign(body, refs=[admitted.dispatch.id, plan.id])

    def _proposal(self, admitted: Admitted, call: ToolCall) -> ToolProposal:
        return ToolProposal(
            tool_call_id=self._node.entropy.uuid(),
            tool_name=call.name,
            arguments=admitted.vault.commit(jsontext.canonical(dict(call.arguments))),
            reason=admitted.vault.commit(call.reason) if call.reason else None,
        )

    def _note(self, admitted: Admitted, hosted: Hosted, collected: Collected, wall_s: float, code: str) -> None:
        entry, usage, metrics = hosted.entry.body, collected.usage, self._node.metrics
        kind = str(entry.backend_kind)
        metrics.observe("compute_ms", wall_s * 1000, backend_kind=kind)
        metrics.count("expert_outputs", expert=entry.expert_id, backend_kind=kind, result=code)
        for direction, amount in (("prompt", usage.prompt), ("completion", usage.completion), ("cached", usage.cached)):
            if amount:
                metrics.count("tokens", amount, expert=entry.expert_id, direction=direction)
        emit(
            self._node.log,
            "expert.finished",
            request_id=admitted.dispatch.body.request_id,
            generation=admitted.dispatch.body.generation,
            expert_id=entry.expert_id,
            backend_kind=kind,
            latency_ms=round(wall_s * 1000, 2),
            prompt_tokens=usage.prompt,
            completion_tokens=usage.completion,
            code=code,
        )


def _grounding(admitted: Admitted, places: dict[str, _Place]) -> list[Passage]:
    """Passages of the dispatched grounding evidence; which corpora an expert reads is its backend's setting."""
    passages = []
    for record in admitted.inputs:
        if not isinstance(record.body, GroundingEvidence):
            continue
        for item in record.body.items:
            plain = jsontext.read_free(admitted.vault.text(item.passage), limit=MAX_TEXT_BYTES)
            name = f"g{len(places)}"
            places[name] = _Place(EvidenceType.CITATION, record.id, item.item)
            passages.append(
                Passage(
                    evidence_id=name,
                    title=plain["title"],
                    text=plain["text"],
                    uri=plain["uri"],
                    source_class=str(item.source_class),
                    fresh_at_ms=item.fresh_at_ms,
                    corpus=item.corpus,
                    trusted=item.trusted,
                    score=item.score / 10_000,
                )
            )
    return passages


def _memory(admitted: Admitted, places: dict[str, _Place]) -> list[Passage]:
    """Governed memory, labelled: lower trust may support reasoning only where nothing else does."""
    passages = []
    for record in admitted.inputs:
        if isinstance(record.body, RetrievalResult):
            for item in record.body.items:
                name = f"m{len(places)}"
                places[name] = _Place(EvidenceType.MEMORY_POINTER, record.id, item.item)
                trusted = item.trust_class is TrustClass.HIGHER_TRUST
                text = admitted.vault.text(item.content)
                passages.append(Passage(name, "memory", text, f"memory:{item.event.hex()}", "memory", 0, "memory", trusted))
    return passages


def _tool_outputs(admitted: Admitted, places: dict[str, _Place], pinned: bytes | None) -> list[Passage]:
    """Sanitised outputs of this request whose second attestation, by the pinned intermediary, came along."""
    attested = {
        a.body.sanitized
        for a in admitted.inputs
        if isinstance(a.body, ToolAttestation)
        and a.header.signer == pinned
        and a.body.phase is AttestationPhase.RESULT
        and a.body.effect_state is EffectState.DONE
        and a.body.safe_to_execute
    }
    passages = []
    for record in admitted.inputs:
        if isinstance(record.body, SanitizedData):
            if record.id not in attested or record.header.signer != pinned:
                raise GnusError("UNATTESTED", "a tool output came without its attestation", link="dispatch")
            name = f"t{len(places)}"
            places[name] = _Place(EvidenceType.TOOL_OUTPUT, record.id, record.body.tool_call_id)
            text = admitted.vault.text(record.body.plain_text)
            passages.append(Passage(name, "tool output", text, f"tool:{record.body.tool_call_id}", "tool", 0, "tool", False))
    return passages


def _evidence(draft: Draft, places: Mapping[str, _Place]) -> list[OutputEvidence]:
    """The draft's spans as references into the records, then its rivals."""
    found = []
    for span in draft.spans:
        place = places[span.evidence_id]
        found.append(OutputEvidence(type=place.kind, record=place.record, item=place.item, span_start=span.start, span_end=span.end))
    for span in draft.rivals:
        place, kind = places[span.evidence_id], EvidenceType.CONTRADICTION
        found.append(OutputEvidence(type=kind, record=place.record, item=place.item, span_start=span.start, span_end=span.end))
    return found[:MAX_EVIDENCE]


def _tool_spec(capability: str) -> ToolSpec:
    name = capability.removeprefix("tool.")
    for scope in _SCOPES:
        name = name.removesuffix(scope)
    return ToolSpec(name, f"capability {capability}", _SCHEMAS.get(name, {"type": "object"}))


def _usage(usage: Usage) -> records.Usage:
    return records.Usage(
        prompt_tokens=usage.prompt,
        completion_tokens=usage.completion,
        cached_tokens=usage.cached,
        wall_ms=usage.wall_ms,
        queue_ms=usage.queue_ms,
        source=usage.source,
    )
