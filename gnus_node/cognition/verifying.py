"""The verifier's service: judge the chain so far, compose the answer, sign it (18.1.3.3).

Tool outputs enter only as ``AttestedOutput``, made by ``evidence`` on this node from the records that came. The verifier sees each draft's
text and each cited passage, checks that the passage really holds the answer, and asks for the fallback experts where drafts diverge or
nothing is supported.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnus_node.cognition.dissent import Cited
from gnus_node.cognition.synthesis import EXACT, Composition, Draft, compose
from gnus_node.content.asked import asked
from gnus_node.content.filenames import is_of_file, named_files
from gnus_node.evidence.bag import Bag
from gnus_node.evidence.chain import admit_chain
from gnus_node.evidence.links_tools import AttestedOutput
from gnus_node.evidence.links_work import NOT_NEEDED
from gnus_node.net.context import RoleContext
from gnus_node.net.gate import Admitted, admit_dispatch, attest_task
from gnus_node.net.rpc import Request
from gnus_node.privacy.parcels import Vault
from gnus_node.records.authority import Absence
from gnus_node.records.base import Committed
from gnus_node.records.enums import AnswerType, AttestationPhase, BackendKind, Outcome, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import AnswerSource, GroundingEvidence, Member, RetrievalResult, SynthesisResult
from gnus_node.records.expert import EvidenceType, ExpertOutput, OutputEvidence
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.tools import SanitizedData, ToolAttestation
from gnus_node.telemetry.events import emit
from gnus_node.wire import jsontext
from gnus_node.wire.limits import MAX_TEXT_BYTES
from gnus_node.wire.message import Message

DIVERGENCE_LIMIT = 5_000
"""Above this the fallback experts are asked (18.1.6.2)."""
_SYNTHESIZE = frozenset({Stage.SYNTHESIZE})


class VerifierService:
    """Serves ``verifier.synthesize``."""

    def __init__(self, context: RoleContext) -> None:
        self._context = context
        self._node = context.node

    async def synthesize(self, request: Request) -> Message:
        """A signed SynthesisResult over exactly the plan's experts; or ``args.escalate``, asking for the fallback experts first."""
        clock = self._node.clock
        started = clock.monotonic()
        admitted = admit_dispatch(self._context, request, _SYNTHESIZE)
        plan = admitted.authority.plan
        if plan is None:
            raise GnusError("CHAIN_BROKEN", "a synthesis without a plan", link="plan")
        attested = admit_chain(admitted.bag, self._node.trust.state, clock.wall_ms())
        verified = clock.monotonic()
        self._node.metrics.observe("verification_ms", (verified - started) * 1000)
        question = question_of(admitted)
        drafts = drafts_of(admitted, plan, attested, named_files(question))
        composed = compose(drafts, refused(admitted.bag.of(ToolAttestation)), question)
        if self._escalates(composed):
            return Message(args={"escalate": 1})
        body = self._sign_body(admitted, plan, composed)
        result = self._context.signer.sign(body, refs=[admitted.dispatch.id, plan.id])
        wall_ms = (clock.monotonic() - started) * 1000
        self._node.metrics.observe("synthesis_ms", (clock.monotonic() - verified) * 1000)
        attestation = attest_task(self._context, admitted, result.id, wall_ms)
        emit(
            self._node.log,
            "synthesis.finished",
            request_id=body.request_id,
            generation=body.generation,
            latency_ms=round(wall_ms, 2),
            agreement=body.agreement,
            outcome=str(body.outcome),
        )
        return Message((result.raw, attestation.raw), admitted.vault.parcels([body.answer, body.reason, *body.memory_suggestions]))

    @staticmethod
    def _escalates(composed: Composition) -> bool:
        """Whether unused fallback experts should be asked first."""
        unused = any(j.draft.absence is not None and j.draft.reason == NOT_NEEDED for j in composed.judged)
        return unused and (composed.outcome is not Outcome.ANSWERED or composed.divergence > DIVERGENCE_LIMIT)

    def _sign_body(self, admitted: Admitted, plan: Signed[ExecutionPlan], composed: Composition) -> SynthesisResult:
        vault = admitted.vault
        mandate = admitted.authority.mandate.body
        answered = composed.outcome is Outcome.ANSWERED
        sources = {(c.record, c.item): c for c in composed.cited}
        return SynthesisResult(
            request_id=mandate.request_id,
            generation=mandate.generation,
            plan=plan.id,
            dispatch=admitted.dispatch.id,
            outcome=composed.outcome,
            reason_code=composed.reason_code,
            reason=vault.commit(composed.reason),
            answer=vault.commit(composed.answer if answered else composed.reason),
            answer_type=composed.answer_type,
            agreement=composed.agreement,
            divergence=composed.divergence,
            independent_sources=composed.independent_sources,
            members=tuple(
                Member(
                    expert_id=j.draft.expert_id,
                    output=j.draft.output,
                    absence=j.draft.absence,
                    cluster=j.cluster,
                    weight=j.weight,
                    supported=j.supported,
                )
                for j in composed.judged
            ),
            sources=tuple(
                AnswerSource(record=c.record, item=c.item, span_start=c.span[0], span_end=c.span[1]) for c in list(sources.values())[:64]
            ),
            tool_attestations=tuple(sorted({c.attestation for c in composed.cited if c.attestation})),
            memory_used=tuple(sorted({c.memory_event for c in composed.cited if c.memory_event})),
            memory_suggestions=tuple(_suggestions(vault, mandate.query, composed)),
            provisional=False,
        )


def _suggestions(vault: Vault, query: Committed, composed: Composition) -> list[Committed]:
    """What is worth offering to memory: an undisputed answer that evidence supports, with its question; no calculations."""
    derived = any(j.draft.calibration_id == EXACT and j.draft.answer for j in composed.judged)
    if (
        composed.outcome is not Outcome.ANSWERED
        or composed.reason_code != "OK"
        or derived
        or not composed.cited
        or any(c.memory_event for c in composed.cited)
    ):
        return []
    question = vault.text(query)
    text = f"{question}\n{composed.answer}"
    return [vault.commit(text)] if len(text.encode("utf-8")) <= 3_000 else []


def question_of(admitted: Admitted) -> str:
    """What was asked, as every role understands it."""
    mandate, vault = admitted.authority.mandate.body, admitted.vault
    return asked(vault.text(mandate.query), vault.text(mandate.context) if mandate.context else "")


def drafts_of(
    admitted: Admitted, plan: Signed[ExecutionPlan], attested: dict[bytes, AttestedOutput], files: tuple[str, ...] = ()
) -> list[Draft]:
    """Each expert of the plan by its newest output, or its absence; ``files`` are those the question names. Raises ``CHAIN_BROKEN`` where one
    has neither."""
    given = set(admitted.dispatch.header.refs)
    vault = admitted.vault
    drafts = []
    core = [plan.body.selected_core.core_id] if plan.body.selected_core else []
    for expert in [*core, *(e.elm_id for e in plan.body.selected_elms)]:
        outputs = [o for o in admitted.bag.of(ExpertOutput) if o.body.expert_id == expert and o.id in given]
        if outputs:
            newest = max(outputs, key=lambda o: o.body.turn)
            drafts.append(_draft(newest, admitted.bag, vault, attested, files))
            continue
        absences = [a for a in admitted.bag.of(Absence) if a.body.expert_id == expert and a.id in given]
        if not absences:
            raise GnusError("CHAIN_BROKEN", "an expert of the plan has neither output nor absence", link=f"member {expert}")
        absence = absences[-1]
        drafts.append(Draft(expert, None, absence.id, "", AnswerType.TEXT, 0, None, BackendKind.SERVICE, "", absence.body.reason))
    return drafts


def refused(attestations: Sequence[Signed[ToolAttestation]]) -> str:
    """The code with which the newest tool call was refused or failed; "" where none was, or one gave its output."""
    if any(a.body.phase is AttestationPhase.RESULT and a.body.sanitized is not None for a in attestations):
        return ""
    codes = [a.body.reason_code for a in sorted(attestations, key=lambda a: (a.body.turn, a.body.phase is AttestationPhase.RESULT))]
    return next((code for code in reversed(codes) if code not in ("OK", "NOT_SELECTED")), "")


def _draft(output: Signed[ExpertOutput], bag: Bag, vault: Vault, attested: dict[bytes, AttestedOutput], files: tuple[str, ...]) -> Draft:
    """A draft with what it cites. Where the question names a file, nothing but that file counts as evidence."""
    body = output.body
    answer = "" if body.abstained else vault.text(body.answer)
    found = [(e, c) for e in body.evidence if (c := _cited(e, bag, vault, attested)) is not None and (not files or _of_files(c, files))]
    cited = [c for e, c in found if e.type is not EvidenceType.CONTRADICTION]
    return Draft(
        expert_id=body.expert_id,
        output=output.id,
        absence=None,
        answer=answer,
        answer_type=body.answer_type,
        confidence=body.confidence,
        calibration_id=body.calibration_id,
        backend_kind=body.backend_kind,
        model_id=body.model_id,
        reason=body.abstained or "",
        cited=tuple(cited),
        rivals=tuple(c for e, c in found if e.type is EvidenceType.CONTRADICTION),
    )


def _of_files(cited: Cited, files: tuple[str, ...]) -> bool:
    return cited.attestation is not None or is_of_file(cited.uri, files)


def _cited(evidence: OutputEvidence, bag: Bag, vault: Vault, attested: dict[bytes, AttestedOutput]) -> Cited | None:
    """A citation with its text; a tool output only where it was admitted, memory only as lower trust says."""
    record = bag.find(evidence.record)
    span = (evidence.span_start, evidence.span_end)
    body = record.body if record else None
    if isinstance(body, GroundingEvidence):
        item = next((i for i in body.items if i.item == evidence.item), None)
        if item is None:
            return None
        passage = jsontext.read_free(vault.text(item.passage), limit=MAX_TEXT_BYTES)
        text, title, uri = passage["text"], passage["title"], passage["uri"]
        return Cited(evidence.record, evidence.item, span, text, title, item.corpus, item.trusted, item.fresh_at_ms, uri=uri)
    if isinstance(body, RetrievalResult):
        found = next((i for i in body.items if i.item == evidence.item), None)
        if found is None:
            return None
        text = vault.text(found.content)
        return Cited(evidence.record, evidence.item, span, text, "memory", "memory", False, 0, memory_event=found.event)
    if isinstance(body, SanitizedData):
        admitted = next((a for a in attested.values() if a.data.id == evidence.record), None)
        if admitted is None:
            return None
        text = vault.text(admitted.data.body.plain_text)
        title = admitted.attestation.body.tool_name
        return Cited(evidence.record, evidence.item, span, text, title, f"tool {title}", False, 0, attestation=admitted.attestation.id)
    return None
