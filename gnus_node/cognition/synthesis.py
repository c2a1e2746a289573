"""Composing the final answer from drafts, evidence and attested outputs (18.1.3.3.4). Pure.

Evidence beats votes: a draft counts by what it rests on. An uncalibrated expert has no vote, its supported answer counts through its
evidence; ``exact/1``, the symbolic expert's calibration, counts in full. Experts that read the same item with the same model
are one voice. Where nothing supports any answer, the result is an abstention with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gnus_node.cognition.agreement import cluster, divergence
from gnus_node.cognition.dissent import Cited, Opposing, dissent_of
from gnus_node.cognition.reasons import FINAL, telling, text_of, tool_text_of
from gnus_node.content.agreement import agree, contains, supports
from gnus_node.content.derived import conclude, derived
from gnus_node.records.base import SCORE_ONE
from gnus_node.records.enums import AnswerType, BackendKind, Outcome

EXACT = "exact/1"
TRUSTED_WEIGHT = 10_000
UNTRUSTED_WEIGHT = 6_000
"""Weight of an answer that a trusted, or an untrusted, source supports."""
MAX_MEANINGS = 6
"""Most meanings of an ambiguous question that are told."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One expert's contribution. ``output`` or ``absence`` is its record; an abstention has an empty answer."""

    expert_id: str
    output: bytes | None
    absence: bytes | None
    answer: str
    answer_type: AnswerType
    confidence: int
    calibration_id: str | None
    backend_kind: BackendKind
    model_id: str
    reason: str
    cited: tuple[Cited, ...] = ()
    rivals: tuple[Cited, ...] = ()
    """Passages the expert names that answer as well and say otherwise."""


@dataclass(frozen=True, slots=True)
class Judged:
    """How a draft counted."""

    draft: Draft
    cluster: int
    weight: int
    """Its vote (calibrated confidence), 0..10000; evidence is counted apart."""
    supported: bool


@dataclass(frozen=True, slots=True)
class Composition:
    """What the verifier signs."""

    outcome: Outcome
    reason_code: str
    reason: str
    answer: str
    answer_type: AnswerType
    agreement: int
    divergence: int
    independent_sources: int
    judged: tuple[Judged, ...]
    cited: tuple[Cited, ...]


def vote_of(draft: Draft) -> int:
    """A draft's vote: its calibrated confidence. Only the symbolic expert may be ``exact``."""
    if draft.calibration_id is None or (draft.calibration_id == EXACT and draft.backend_kind is not BackendKind.SYMBOLIC):
        return 0
    return draft.confidence


def supporting(draft: Draft, question: str = "") -> tuple[Cited, ...]:
    """The cited passages that really hold the answer's words, at the cited span; of a derived answer all, where it follows from them."""
    asked = derived(question)
    if asked is not None and 0 < len(draft.cited) == len(asked.facts) and conclude(asked, [c.quote for c in draft.cited]) == draft.answer:
        speaks = all(contains(f"{c.title} {c.text}", name) or not name for c, name in zip(draft.cited, asked.names, strict=True))
        return draft.cited if speaks else ()
    return tuple(c for c in draft.cited if supports(c.text, c.span, draft.answer))


def compose(drafts: Sequence[Draft], tool_reason: str = "", question: str = "") -> Composition:
    """The answer of a set of drafts: the best supported cluster's, dissent told, or an abstention.

    ``question`` is what was asked, for answers that are derived from what they cite.
    ``tool_reason`` is the code with which a tool call of this request was refused or failed, "" where none was.
    """
    speaking = [d for d in drafts if d.answer]
    numbers = dict(zip((d.expert_id for d in speaking), cluster([d.answer for d in speaking]), strict=True))
    held = {d.expert_id: supporting(d, question) for d in speaking}
    judged = tuple(
        Judged(d, numbers.get(d.expert_id, 0), vote_of(d) if d.answer else 0, bool(held.get(d.expert_id)) or _derived(d)) for d in drafts
    )
    weights = {n: _cluster_weight([j for j in judged if j.cluster == n], held) for n in sorted(set(numbers.values()))}
    if not any(weights.values()) or _undecided(drafts):
        code, text, told = _why_not(drafts, tool_reason)
        silent = tuple(replace(j, cluster=0, weight=0, supported=False) for j in judged)
        return Composition(Outcome.ABSTAINED, code, text, "", AnswerType.TEXT, 0, 0, 0, silent, told)
    winner = max(weights, key=lambda n: (weights[n], _freshness(n, judged, held), -n))
    best = _speaker([j for j in judged if j.cluster == winner], held)
    cited = _cited(winner, judged, held)
    dissent = dissent_of(best.answer, cited, _opposing(winner, weights, judged, held))
    answer = best.answer + dissent.note
    sources = {(c.corpus, c.item) for c in cited} or {("derived", best.expert_id)}
    voices = list(weights.values()) + [_worth(c) for c in dissent.within]
    return Composition(
        Outcome.ANSWERED,
        "SOURCES_DISAGREE" if dissent.disagree else "OK",
        "sources disagree" if dissent.disagree else "supported",
        answer,
        best.answer_type,
        SCORE_ONE * weights[winner] // sum(voices),
        divergence(voices),
        len({corpus for corpus, _ in sources}),
        judged,
        cited + dissent.cited,
    )


def _derived(draft: Draft) -> bool:
    return bool(draft.answer) and draft.calibration_id == EXACT and draft.backend_kind is BackendKind.SYMBOLIC


def _cluster_weight(members: Sequence[Judged], held: dict[str, tuple[Cited, ...]]) -> int:
    """Votes of distinct voices plus evidence of distinct sources: one model reading one item counts once."""
    votes: dict[tuple[str, str], int] = {}
    evidence: dict[str, int] = {}
    for member in members:
        draft = member.draft
        voice = (draft.model_id, str(draft.backend_kind))
        votes[voice] = max(votes.get(voice, 0), member.weight)
        for cited in held.get(draft.expert_id, ()):
            evidence[cited.corpus] = max(evidence.get(cited.corpus, 0), _worth(cited))
    return sum(votes.values()) + sum(evidence.values())


def _worth(cited: Cited) -> int:
    return TRUSTED_WEIGHT if cited.trusted else UNTRUSTED_WEIGHT


def _freshness(number: int, judged: Sequence[Judged], held: dict[str, tuple[Cited, ...]]) -> int:
    return max((c.fresh_at_ms for j in judged if j.cluster == number for c in held.get(j.draft.expert_id, ())), default=0)


def _speaker(members: Sequence[Judged], held: dict[str, tuple[Cited, ...]]) -> Draft:
    """Whose wording is used: derived before cited before bare, a trusted source's before others, then the shorter one."""

    def order(draft: Draft) -> tuple[bool, bool, bool, int, str]:
        cited = held.get(draft.expert_id, ())
        return not _derived(draft), not cited, not any(c.trusted for c in cited), len(draft.answer), draft.expert_id

    return min((m.draft for m in members), key=order)


def _cited(number: int, judged: Sequence[Judged], held: dict[str, tuple[Cited, ...]]) -> tuple[Cited, ...]:
    found = {(c.record, c.item): c for j in judged if j.cluster == number for c in held.get(j.draft.expert_id, ())}
    return tuple(found.values())


def _opposing(winner: int, weights: dict[int, int], judged: Sequence[Judged], held: dict[str, tuple[Cited, ...]]) -> list[Opposing]:
    """What else is said: the other supported answers, strongest first, then the passages that the winner's own drafts name as rivals."""
    found: list[Opposing] = []
    for number in sorted((n for n in weights if n != winner and weights[n]), key=lambda n: -weights[n]):
        members = [j for j in judged if j.cluster == number and j.supported]
        if members:
            speaker = _speaker(members, held)
            found.append(Opposing(speaker.answer, _cited(number, judged, held), speaker.expert_id))
    rivals = {(c.record, c.item, c.span): c for j in judged if j.cluster == winner and j.supported for c in j.draft.rivals}
    return found + [Opposing(c.quote, (c,), "") for c in rivals.values() if c.quote]


def _undecided(drafts: Sequence[Draft]) -> bool:
    """Whether somebody showed that the question means more than one thing, or has no answer at all: then no single one is given."""
    exact = any(_derived(d) for d in drafts)
    shown = any(d.reason == "AMBIGUOUS" and d.rivals for d in drafts)
    return not exact and (shown or any(d.backend_kind is BackendKind.SYMBOLIC and d.reason in FINAL for d in drafts))


def _why_not(drafts: Sequence[Draft], tool_reason: str) -> tuple[str, str, tuple[Cited, ...]]:
    """The reason of an abstention, in words for the person who asked, with the passages it rests on."""
    if tool_reason:
        return tool_reason, tool_text_of(tool_reason), ()
    symbolic = telling(d.reason for d in drafts if d.backend_kind is BackendKind.SYMBOLIC)
    if symbolic:
        return symbolic, text_of(symbolic), ()
    rivals = {(c.record, c.item, c.span): c for d in drafts if d.reason == "AMBIGUOUS" for c in d.rivals}
    if rivals:
        told = tuple(rivals.values())[:MAX_MEANINGS]
        meanings = [f"{c.thing}: {c.quote}" for at, c in enumerate(told) if not any(agree(c.quote, o.quote) for o in told[:at])]
        return (
            "AMBIGUOUS",
            f"The question fits more than one thing, so no single answer is given. {'; '.join(meanings)}. Say which is meant.",
            told,
        )
    if code := telling(d.reason for d in drafts):
        return code, text_of(code), ()
    if any(d.answer for d in drafts):
        return "UNSUPPORTED_ANSWER", text_of("UNSUPPORTED_ANSWER"), ()
    code = "NO_EXPERT" if all(d.output is None for d in drafts) else "NO_EVIDENCE"
    return code, text_of(code), ()
