"""The symbolic expert: exact answers to arithmetic, unit and date questions, or an abstention (18.1.3.2; DECISIONS, Flow).

Its calibration is ``exact/1``: a full parse is right by construction, so its confidence is 1.0 and its abstentions carry none.
"""

from __future__ import annotations

from gnus_node.experts.backend import BackendInfo, Draft, GenRequest, RuleBackend, ToolCall, abstain
from gnus_node.experts.symbolic.solve import attempt
from gnus_node.records.base import SCORE_ONE
from gnus_node.records.enums import AnswerType, BackendKind, Domain, ExpertRole
from gnus_node.wire.jsontext import canonical

CALIBRATION = "exact/1"


def symbolic_info(backend_id: str = "symbolic") -> BackendInfo:
    """Who the symbolic expert is."""
    return BackendInfo(
        backend_id,
        BackendKind.SYMBOLIC,
        model_id="rules-exact",
        engine="gnus-symbolic",
        engine_version="1",
        model_license="MIT",
        domains=(Domain.MATH,),
        roles=(ExpertRole.DOMAIN_EXPERT, ExpertRole.PRIMARY_DRAFT),
        calibration_id=CALIBRATION,
        supports=frozenset({"cancel", "deterministic"}),
    )


class SymbolicBackend(RuleBackend):
    """Answers what it can prove."""

    def __init__(self, info: BackendInfo | None = None) -> None:
        super().__init__(info or symbolic_info())

    def decide(self, req: GenRequest) -> tuple[tuple[ToolCall, ...], Draft]:
        """The exact answer with confidence 1.0, or an abstention with its reason. Looks at the question alone."""
        if req.json_schema is not None:
            return (), abstain("UNSUPPORTED")
        solution = attempt(req.question)
        if isinstance(solution, str):
            return (), abstain(solution)
        answer = canonical(solution.answer) if req.answer_type is AnswerType.JSON else solution.answer
        claims = (f"exactly {solution.exact}",) if solution.exact else ()
        return (), Draft(answer, req.answer_type, SCORE_ONE, CALIBRATION, claims=claims)
