"""How a request ends at its ingress: the one signed response, and what is stored of it behind the answer (DESIGN.md section 3)."""

from __future__ import annotations

from gnus_node.evidence.cover import ends
from gnus_node.flow import accept
from gnus_node.flow.after import Aftermath
from gnus_node.flow.case import Case
from gnus_node.flow.journal import ANSWER, AnswerRow, Phase, record_rows, request_key
from gnus_node.net.context import RoleContext
from gnus_node.ports.store import Write
from gnus_node.records.enums import AnswerType, Outcome
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import SynthesisResult
from gnus_node.records.flow import AgentResponse, ErrorDetail
from gnus_node.store.payloads import PayloadStore


class Ending:
    """Signs and stores terminals for one ingress."""

    def __init__(self, context: RoleContext, payloads: PayloadStore, aftermath: Aftermath) -> None:
        self._context = context
        self._node = context.node
        self._payloads = payloads
        self._after = aftermath

    def respond(
        self, case: Case, outcome: Outcome, synthesis: Signed[SynthesisResult] | None, error: GnusError | None
    ) -> Signed[AgentResponse]:
        """The signed terminal; it counts once ``store`` has taken it."""
        detail = None
        if error is not None:
            row = error.row
            detail = ErrorDetail(
                code=error.code,
                what=error.what[:200],
                fix=error.fix[:200],
                whose=error.whose,
                definite=row.definite,
                retryable=row.retryable,
            )
        empty = case.accepted.vault.commit("") if synthesis is None else synthesis.body.answer
        body = AgentResponse(
            request_id=case.row.request_id,
            generation=case.row.generation,
            mandate=case.accepted.mandate.id,
            synthesis=synthesis.id if synthesis else None,
            outcome=outcome,
            answer=empty,
            answer_type=synthesis.body.answer_type if synthesis else AnswerType.TEXT,
            error=detail,
            effects=case.effects,
            agreement=synthesis.body.agreement if synthesis else 0,
            finished_at_ms=self._node.clock.wall_ms(),
        )
        return self._context.signer.sign(body, refs=ends(case.bag))

    def store(self, case: Case, response: Signed[AgentResponse]) -> None:
        """Write the terminal behind the answer. Where the store does not take it, the case has no terminal and the error is raised: then
        nothing was answered, and the request is found again at the next start. The first stored terminal wins: a second batch is refused."""
        request_id = case.row.request_id
        stages = {name: round(ms * 1000) for name, ms in self.latency(case).items()}
        records = (*case.bag, response)
        answer = AnswerRow(response.body.outcome, response.id, tuple(r.id for r in records), stages)
        row = case.row.at(Phase.ENDED)
        self._node.store.write_behind(
            [
                *self._payloads.writes_for_parcels(request_id, case.accepted.vault.all_parcels()),
                *record_rows(records),
                Write(ANSWER, request_key(request_id), answer.encode(), if_absent=True),
                accept.journal_write(row),
            ]
        )
        case.bag.add([response])
        case.accepted.row, case.response, case.outcome = row, response, response.body.outcome
        self._node.probe.point("answer.queued", request_id=request_id)
        self._after.enqueue(request_id)

    def latency(self, case: Case) -> dict[str, float]:
        """Milliseconds by stage, to the microsecond; overhead is the whole without inference and commit wait."""
        total = (self._node.clock.monotonic() - case.accepted.started) * 1000
        wait = case.accepted.commit_wait_s * 1000
        spent = {
            **case.stages,
            "inference": case.inference_ms,
            "commit_wait": wait,
            "overhead": max(0.0, total - case.inference_ms - wait),
            "total": total,
        }
        return {name: round(ms, 3) for name, ms in spent.items()}
