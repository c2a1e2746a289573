"""The extractive expert: reads the passages and tool outputs it is given and answers with a literal span of one (18.1.3.2).

It is uncalibrated: confidence 0 and no calibration, so it counts through its evidence and not as a vote (DECISIONS, Flow). It proposes no
tools. A passage is only ever quoted, whatever it says.
"""

from __future__ import annotations

from gnus_node.content.asked import changes_a_file, is_data
from gnus_node.content.derived import Derived, Form, conclude, derived
from gnus_node.content.filenames import is_of_file, named_files
from gnus_node.content.quoting import plain_quote
from gnus_node.content.tables import separated_values
from gnus_node.experts.backend import BackendInfo, Draft, GenRequest, Passage, RuleBackend, Span, ToolCall, abstain
from gnus_node.experts.extractive.choice import choose
from gnus_node.experts.extractive.question import analyse
from gnus_node.experts.extractive.select import Candidate
from gnus_node.experts.extractive.subjects import main_stems
from gnus_node.experts.extractive.words import stems
from gnus_node.records.enums import AnswerType, BackendKind, Domain, ExpertRole
from gnus_node.wire.jsontext import canonical

MAX_SUPPORT = 16
MAX_EXCERPT = 400


def extractive_info(backend_id: str = "extractive") -> BackendInfo:
    """Who the extractive expert is."""
    return BackendInfo(
        backend_id,
        BackendKind.EXTRACTIVE,
        model_id="rules-extractive",
        engine="gnus-extractive",
        engine_version="1",
        model_license="MIT",
        domains=(Domain.GENERAL,),
        roles=(ExpertRole.PRIMARY_DRAFT, ExpertRole.GROUNDING),
        supports=frozenset({"cancel", "deterministic"}),
    )


class ExtractiveBackend(RuleBackend):
    """Answers with spans. With ``corpora`` it reads only passages of those, and tool outputs."""

    def __init__(self, info: BackendInfo | None = None, *, corpora: frozenset[str] = frozenset()) -> None:
        super().__init__(info or extractive_info())
        self._corpora = corpora

    def decide(self, req: GenRequest) -> tuple[tuple[ToolCall, ...], Draft]:
        """A span with its evidence, or an abstention ``NO_EVIDENCE``."""
        if req.json_schema is not None:
            return (), abstain("UNSUPPORTED")
        passages = tuple(p for p in req.passages if not self._corpora or p.corpus in self._corpora)
        draft = answer(req.question, req.tool_outputs + passages, read=len(req.tool_outputs))
        if draft.abstained is None and req.answer_type is AnswerType.JSON:
            draft = Draft(canonical(draft.answer), AnswerType.JSON, 0, None, draft.evidence_ids, draft.spans, draft.claims, draft.rivals)
        return (), draft


def answer(text: str, passages: tuple[Passage, ...], *, read: int = 0) -> Draft:
    """The draft for a question; the first ``read`` passages are files or pages that were read for it. Pure.

    Where the question names a file, only that file answers: what was read of it, or a document of that name. Never anything else.
    """
    if is_data(text):
        return abstain("NOT_A_QUESTION")
    if changes_a_file(text):
        return abstain("CAPABILITY_DENIED")
    question = analyse(text)
    files = named_files(text)
    if files:
        passages = passages[:read] + tuple(p for p in passages[read:] if is_of_file(p.uri, files))
        if not question.concepts and read and (excerpt := _excerpt(passages[0])) is not None:
            return _draft(excerpt, (), ())
    named = stems(" ".join(files))
    asked = derived(text) if not files else None
    if asked is not None and asked.form is not Form.UNIT and (draft := _derive(asked, passages)) is not None:
        return draft
    choice = choose(question, passages, named) if passages else None
    if choice is None and asked is not None and asked.form is Form.UNIT and (draft := _derive(asked, passages)) is not None:
        return draft
    if choice is None:
        return abstain("NOT_IN_FILE" if files and passages else "NO_EVIDENCE")
    if choice.meant:
        return Draft("", rivals=tuple(_span(c) for c in choice.meant[:MAX_SUPPORT]), abstained="AMBIGUOUS")
    return _draft(choice.best, choice.support, choice.rivals)


def _derive(asked: Derived, passages: tuple[Passage, ...]) -> Draft | None:
    """The answer that follows from one value for each fact; None where a fact is not there, not clear, or contradicted."""
    found = [choose(analyse(fact), _apart(passages, asked.names, own)) for own, fact in enumerate(asked.facts)]
    if any(c is None or c.meant or c.rivals or not c.best.field for c in found):
        return None
    best = [c.best for c in found if c is not None]
    if asked.form is not Form.UNIT and not all(c.anchored for c in best):
        return None
    answer = conclude(asked, [plain_quote(c.passage.text[c.start : c.end]) for c in best])
    if answer is None:
        return None
    spans = tuple(_span(c) for c in best)
    return Draft(answer, evidence_ids=tuple(dict.fromkeys(s.evidence_id for s in spans)), spans=spans, claims=tuple(c.text for c in best))


def _apart(passages: tuple[Passage, ...], names: tuple[str, ...], own: int) -> tuple[Passage, ...]:
    """The passages without those about another of the names."""
    others = [stems(name) for at, name in enumerate(names) if at != own]
    mine = stems(names[own])
    roots = {p.evidence_id: main_stems(p.title.split(" > ", 1)[0]) for p in passages}
    return tuple(p for p in passages if roots[p.evidence_id] <= mine or not any(roots[p.evidence_id] <= other for other in others))


def _excerpt(passage: Passage) -> Candidate | None:
    """The beginning of what was read, up to the end of a line or word: the question asks what it says."""
    text = passage.text
    if table := separated_values(text):
        cells = [row[0] for row in table.rows if row[0][0] < row[0][1]]
        shown = "; ".join(text[a:b] for a, b in cells)
        if cells and len(shown) <= MAX_EXCERPT:
            return Candidate(passage, cells[0][0], cells[-1][1], 0.0, "", anchored=True, field=False, shown=shown)
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if end - start > MAX_EXCERPT:
        line, word = (text.rfind(c, start, start + MAX_EXCERPT) for c in "\n ")
        end = next((cut for cut in (line, word) if cut > start), start + MAX_EXCERPT)
    return Candidate(passage, start, end, 0.0, "", anchored=True, field=False) if end > start else None


def _draft(best: Candidate, support: tuple[Candidate, ...], rivals: tuple[Candidate, ...]) -> Draft:
    spans = tuple(_span(c) for c in (best, *support)[:MAX_SUPPORT])
    ids = tuple(dict.fromkeys(s.evidence_id for s in spans))
    return Draft(best.text, evidence_ids=ids, spans=spans, claims=(best.text,), rivals=tuple(_span(c) for c in rivals[:MAX_SUPPORT]))


def _span(candidate: Candidate) -> Span:
    return Span(candidate.passage.evidence_id, candidate.start, candidate.end)
