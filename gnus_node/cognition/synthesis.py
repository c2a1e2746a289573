"""Composing the final answer from drafts, evidence and attested outputs (18.1.3.3.4). Pure.

Evidence beats votes: a draft counts by what it rests on. An uncalibrated expert has no vote, its supported answer counts through its
evidence; ``exact/1``, the symbolic expert's calibration, counts in full. Experts that read the same item with the same model
are one voice. Where nothing supports any answer, the result is an abstention with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnus_node.cognition.agreement import cluster, contains, divergence
from gnus_node.records.base import SCORE_ONE
from gnus_node.records.enums import AnswerType, BackendKind, Outcome

EXACT = "exact/1"
TRUSTED_WEIGHT = 10_000
UNTRUSTED_WEIGHT = 6_000
"""Weight of an answer that a trusted, or an untrusted, source supports."""
MAX_NOTES = 3
"""Most dissenting answers that are told."""


@dataclass(frozen=True, slots=True)
class Cited:
    """One passage a draft rests on, with its text at hand."""

    record: bytes
    item: str
    span: tuple[int, int]
    text: str
    title: str
    corpus: str
    trusted: bool
    fresh_at_ms: int
    attestation: bytes | None = None
    memory_event: bytes | None = None


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


def supporting(draft: Draft) -> tuple[Cited, ...]:
    """The cited passages that really hold the answer's words, at the cited span."""
    return tuple(c for c in draft.cited if contains(c.text[c.span[0] : c.span[1]], draft.answer) or contains(c.text, draft.answer))


def compose(drafts: Sequence[Draft]) -> Composition:
    """The answer of a set of drafts: the best supported cluster's, dissent told, or an abstention."""
    speaking = [d for d in drafts if d.answer]
    numbers = dict(zip((d.expert_id for d in speaking), cluster([d.answer for d in speaking]), strict=True))
    held = {d.expert_id: supporting(d) for d in speaking}
    judged = tuple(
        Judged(d, numbers.get(d.expert_id, 0), vote_of(d) if d.answer else 0, bool(held.get(d.expert_id)) or _derived(d)) for d in drafts
    )
    weights = {n: _cluster_weight([j for j in judged if j.cluster == n], held) for n in sorted(set(numbers.values()))}
    if not any(weights.values()):
        code, text = _why_not(drafts)
        return Composition(Outcome.ABSTAINED, code, text, "", AnswerType.TEXT, 0, 0, 0, judged, ())
    winner = max(weights, key=lambda n: (weights[n], _freshness(n, judged, held), -n))
    total = sum(weights.values())
    best = _speaker([j for j in judged if j.cluster == winner], held)
    cited = _cited(winner, judged, held)
    notes, dissent = _dissent(winner, weights, judged, held)
    answer = best.answer + notes
    sources = {(c.corpus, c.item) for c in cited} or {("derived", best.expert_id)}
    reason = "sources disagree" if notes else "supported"
    return Composition(
        Outcome.ANSWERED,
        "SOURCES_DISAGREE" if notes else "OK",
        reason,
        answer,
        best.answer_type,
        SCORE_ONE * weights[winner] // total,
        divergence(list(weights.values())),
        len({corpus for corpus, _ in sources}),
        judged,
        cited + dissent,
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
            worth = TRUSTED_WEIGHT if cited.trusted else UNTRUSTED_WEIGHT
            evidence[cited.corpus] = max(evidence.get(cited.corpus, 0), worth)
    return sum(votes.values()) + sum(evidence.values())


def _freshness(number: int, judged: Sequence[Judged], held: dict[str, tuple[Cited, ...]]) -> int:
    return max((c.fresh_at_ms for j in judged if j.cluster == number for c in held.get(j.draft.expert_id, ())), default=0)


def _speaker(members: Sequence[Judged], held: dict[str, tuple[Cited, ...]]) -> Draft:
    """Whose wording is used: derived before cited before bare, then the shorter one."""
    return min((m.draft for m in members), key=lambda d: (not _derived(d), not held.get(d.expert_id), len(d.answer), d.expert_id))


def _cited(number: int, judged: Sequence[Judged], held: dict[str, tuple[Cited, ...]]) -> tuple[Cited, ...]:
    found = {(c.record, c.item): c for j in judged if j.cluster == number for c in held.get(j.draft.expert_id, ())}
    return tuple(found.values())


def _dissent(
    winner: int, weights: dict[int, int], judged: Sequence[Judged], held: dict[str, tuple[Cited, ...]]
) -> tuple[str, tuple[Cited, ...]]:
    """Other supported answers, told with the answer: a reader must see that sources disagree."""
    notes = []
    cited: list[Cited] = []
    for number in sorted((n for n in weights if n != winner and weights[n]), key=lambda n: -weights[n])[:MAX_NOTES]:
        members = [j for j in judged if j.cluster == number and j.supported]
        if not members:
            continue
        speaker = _speaker(members, held)
        sources = _cited(number, judged, held)
        where = sources[0].corpus if sources else speaker.expert_id
        notes.append(f"{speaker.answer} (according to {where})")
        cited.extend(sources)
    return (f"\n\nSources disagree. Another source says: {'; '.join(notes)}." if notes else ""), tuple(cited)


def _why_not(drafts: Sequence[Draft]) -> tuple[str, str]:
    """The reason of an abstention, in words for the person who asked."""
    if any(d.answer for d in drafts):
        return "UNSUPPORTED_ANSWER", "The experts' drafts are not supported by any evidence at hand, so no answer is given."
    if all(d.output is None for d in drafts):
        return "NO_EXPERT", "No expert could be reached in time, so no answer is given."
    return "NO_EVIDENCE", "Nothing at hand supports an answer: no document, memory or calculation covers the question."
