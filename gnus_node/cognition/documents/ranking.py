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

from gnus_node.cognition.documents.analysis import PLAIN_LEAVES, Query, contains, index_terms, name_tokens
from gnus_node.cognition.documents.corpus import Passage

WEIGHT_SUBJECT, WEIGHT_TITLE, WEIGHT_COVERED, WEIGHT_EXACT, WEIGHT_PHRASE, WEIGHT_FOUND = 0.30, 0.26, 0.22, 0.12, 0.05, 0.05
"""Shares of a score: subject named; asked in the path; terms held at all; path says nothing else; quoted phrases; the index's own rank."""
MIN_COVERED = 0.34
"""A passage that holds less of the question's weight is no evidence."""
CODE_CHARS = 4
"""A name this short counts only where the question writes it in capitals."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A passage with its score (0..1), the question's terms it holds, and the share of their weight (0..1)."""

    passage: Passage
    score: float
    terms: tuple[str, ...]
    covered: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    passage: Passage
    rank: int
    subject: tuple[int, int] | None
    """Where in the question's words its longest name stands."""
    path: frozenset[str]
    tail: tuple[frozenset[str], ...]
    text: frozenset[str]


@lru_cache(maxsize=4096)
def _name(name: str) -> tuple[str, ...]:
    return name_tokens(name)


def rank(query: Query, found: Sequence[Passage]) -> list[Retrieved]:
    """Best first; ``found`` is in the index's order. Passages about another subject than the one asked for, or that hold too little of
    the question, are left out."""
    candidates = [_candidate(query, passage, place) for place, passage in enumerate(found)]
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


def _candidate(query: Query, passage: Passage, place: int) -> _Candidate:
    subject: tuple[int, int] | None = None
    for name in passage.names or ():
        tokens = _name(name)
        if len(name) < CODE_CHARS and name.casefold() not in query.upper:
            continue
        at = contains(query.words, tokens)
        if at >= 0 and (subject is None or len(tokens) > subject[1] - subject[0]):
            subject = (at, at + len(tokens))
    segments = passage.path[1:] if passage.names else passage.path
    tail = tuple(frozenset(index_terms(segment)) for segment in segments)
    return _Candidate(
        passage, place, subject, frozenset().union(*tail) if tail else frozenset(), tail, frozenset(index_terms(passage.text))
    )


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
    exact = _exactness(candidate, frozenset(weights) | frozenset(query.terms))
    words = [*index_terms(candidate.passage.title), *index_terms(candidate.passage.text)] if query.phrases else []
    phrase = max((float(contains(words, p) >= 0) for p in query.phrases), default=0.0)
    subject = 1.0 if candidate.subject or not asked_subject else 0.0
    score = (
        WEIGHT_SUBJECT * subject
        + WEIGHT_TITLE * title
        + WEIGHT_COVERED * covered
        + WEIGHT_EXACT * exact
        + WEIGHT_PHRASE * phrase
        + WEIGHT_FOUND / (1 + candidate.rank)
    )
    return Retrieved(candidate.passage, round(score, 6), held, round(covered, 6))


def _exactness(candidate: _Candidate, asked: frozenset[str]) -> float:
    """How much of the last two path segments the question asks for; a plain leaf ("name", "total") says nothing else than its parent."""
    shares: list[float] = []
    for terms in candidate.tail[-2:]:
        rest = [t for t in terms if not t.startswith("x") or not t.endswith("x")]
        if not rest or all(t in PLAIN_LEAVES for t in rest):
            shares.append(1.0)
        else:
            shares.append(sum(t in asked or _concept_asked(t, terms, asked) for t in rest) / len(rest))
    return sum(shares) / len(shares) if shares else 0.0


def _concept_asked(term: str, terms: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether a word of a segment belongs to a concept that is asked for in other words."""
    return any(t in asked for t in terms if t.startswith("x") and t.endswith("x"))
