"""Ranks candidate passages for one question. Pure.

General evidence only: does the passage's subject stand in the question, does its place in the title path say what is asked, do title and
text hold the question's terms, weighted by how rare a term is among the candidates. Scores are 0..1 and mean order, not truth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gnus_node.cognition.documents.analysis import PLAIN_LEAVES, Query, contains, index_terms, is_concept, name_tokens, with_words
from gnus_node.cognition.documents.corpus import Passage

WEIGHT_SUBJECT, WEIGHT_TITLE, WEIGHT_COVERED, WEIGHT_EXACT, WEIGHT_PHRASE, WEIGHT_FOUND = 0.30, 0.26, 0.22, 0.16, 0.05, 0.01
"""Shares of a score: subject named; asked in the path; terms held at all; path says nothing else; quoted phrases; the index's own rank."""
MIN_COVERED = 0.34
"""A passage that holds less of the question's weight is no evidence."""
UNASKED_SUBJECT = 0.8
"""Factor for a passage about a named subject where the question names none."""
CODE_CHARS = 4
"""A name this short counts only where the question writes it in capitals."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A passage with its score (0..1), the question's terms it holds, the share of their weight (0..1), and whether the question names its
    subject, and how much of the end of its path the question asks for (0..1)."""

    passage: Passage
    score: float
    terms: tuple[str, ...]
    covered: float
    subject: bool = False
    exact: float = 0.0


@dataclass(frozen=True, slots=True)
class _Candidate:
    passage: Passage
    rank: int
    subject: tuple[int, int] | None
    """Where in the question's words its longest name stands."""
    path: frozenset[str]
    tail: tuple[tuple[str, ...], ...]
    text: frozenset[str]


@lru_cache(maxsize=4096)
def _name(name: str) -> tuple[str, ...]:
    return name_tokens(name)


def rank(query: Query, found: Sequence[Passage]) -> list[Retrieved]:
    """Best first; ``found`` is in the index's order. Passages about another subject than the one asked for, or that hold too little of
    the question, are left out."""
    subjects: dict[tuple[str, ...], tuple[int, int] | None] = {}
    for names in {p.names for p in found}:
        subjects[names] = _subject(query, names)
    candidates = [_candidate(passage, place, subjects[passage.names]) for place, passage in enumerate(found)]
    spans = {c.subject for c in candidates if c.subject}
    best = {s for s in spans if not any(o != s and o[0] <= s[0] and s[1] <= o[1] for o in spans)}
    weights = _weights(query, candidates, best)
    ranked: list[Retrieved] = []
    for candidate in candidates:
        if best and candidate.passage.names and candidate.subject not in best:
            continue
        if not best and not _names_entities(query, candidate):
            continue
        result = _score(query, candidate, weights, asked_subject=bool(best))
        if result.covered >= MIN_COVERED:
            ranked.append(result)
    ranked.sort(key=lambda r: (-r.score, r.passage.uri))
    return ranked


def _subject(query: Query, names: tuple[str, ...]) -> tuple[int, int] | None:
    """Where the longest of the names stands in the question."""
    subject: tuple[int, int] | None = None
    for name in names:
        if len(name) < CODE_CHARS and name.casefold() not in query.upper:
            continue
        tokens = _name(name)
        at = contains(query.words, tokens)
        if at >= 0 and (subject is None or len(tokens) > subject[1] - subject[0]):
            subject = (at, at + len(tokens))
    return subject


def _candidate(passage: Passage, place: int, subject: tuple[int, int] | None) -> _Candidate:
    terms = passage.terms or tuple(" ".join(index_terms(text)) for text in (*passage.path, passage.text))
    tail = tuple(tuple(segment.split()) for segment in terms[1 if passage.names else 0 : -1])
    return _Candidate(passage, place, subject, frozenset(t for segment in tail for t in segment), tail, frozenset(terms[-1].split()))


def _weights(query: Query, candidates: Sequence[_Candidate], best: set[tuple[int, int]]) -> dict[str, float]:
    """Weight of each term: rarer among the candidates is heavier; the words of the subject's name are judged as subject, not as terms."""
    named = {word for start, end in best for word in query.words[start:end]}
    terms = [t for t in query.terms if t not in named] or list(query.terms)
    holders = Counter(t for c in candidates for t in terms if t in c.path or t in c.text)
    return {t: 1.0 + math.log((1 + len(candidates)) / (1 + holders[t])) if holders[t] else 1.0 for t in terms}


def _names_entities(query: Query, candidate: _Candidate) -> bool:
    """Where no known subject is asked for but something is named, a passage must speak of one of the named things."""
    if not query.entities:
        return True
    held = candidate.path | candidate.text
    return any(all(word in held for word in entity) for entity in query.entities)


def _score(query: Query, candidate: _Candidate, weights: dict[str, float], *, asked_subject: bool) -> Retrieved:
    total = sum(weights.values()) or 1.0
    title = sum(w for t, w in weights.items() if t in candidate.path) / total
    held = tuple(t for t in weights if t in candidate.path or t in candidate.text)
    covered = sum(weights[t] for t in held) / total
    exact = _exactness(candidate, with_words((*weights, *query.terms)))
    words = " ".join(candidate.passage.terms).split() if query.phrases else []
    phrase = max((float(contains(words, p) >= 0) for p in query.phrases), default=0.0)
    score = (
        WEIGHT_TITLE * title
        + WEIGHT_COVERED * covered
        + WEIGHT_EXACT * exact
        + WEIGHT_PHRASE * phrase
        + WEIGHT_FOUND / (1 + candidate.rank)
    )
    if asked_subject:
        score += WEIGHT_SUBJECT * (candidate.subject is not None)
    else:
        score /= 1.0 - WEIGHT_SUBJECT
        if candidate.passage.names:
            score *= UNASKED_SUBJECT
    return Retrieved(candidate.passage, round(score, 6), held, round(covered, 6), candidate.subject is not None, round(exact, 6))


def _exactness(candidate: _Candidate, asked: frozenset[str]) -> float:
    """How much of the last two path segments the question asks for, the parent counting twice. A plain word ("name", "total") says nothing
    else than its parent."""
    if not candidate.tail:
        return 0.0
    shares = [_share(terms, asked) for terms in candidate.tail[-2:]]
    return shares[0] if len(shares) == 1 else (2 * shares[0] + shares[1]) / 3


def _share(segment: Sequence[str], asked: frozenset[str]) -> float:
    """Share of a segment's words that are asked for. The first word counts twice: "school life expectancy" is not life expectancy."""
    words = [t for t in segment if not is_concept(t)]
    if not words:
        return 1.0
    held = [t in asked or t in PLAIN_LEAVES for t in words]
    return (sum(held) + held[0]) / (len(words) + 1)
