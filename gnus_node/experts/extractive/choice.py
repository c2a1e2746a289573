"""The best of the candidates, what supports it, and what speaks against it: contradictions and other things the question may mean. Pure.

A contradiction is another value of the same thing: two fields of one name, or two sentences alike but for their numbers or what follows
"is". Two descriptions of one thing in other words are none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gnus_node.content.agreement import agree
from gnus_node.experts.backend import Passage
from gnus_node.experts.extractive.pieces import path_of, pieces
from gnus_node.experts.extractive.question import Ask, Question
from gnus_node.experts.extractive.select import Candidate, candidates
from gnus_node.experts.extractive.subjects import is_document, main_stems
from gnus_node.experts.extractive.values import value_span
from gnus_node.experts.extractive.words import stems, words

RIVAL_MARGIN = 2.0
FIELD_MARGIN = 6.0
MAX_RANKED = 64
"""Candidates that are compared with the best."""
MAX_VALUE_WORDS = 8
"""A longer text describes; it is no value that another one contradicts."""
ALIKE = 0.6
"""Share of common words from which two sentences say the same of something."""
_COPULA = re.compile(r"\b(?:is|are|was|were|equals|means)\b|[:=]", re.I)


@dataclass(frozen=True, slots=True)
class Choice:
    """The best candidate, those that say the same, those that contradict it; ``meant`` are the things of which no single one is meant."""

    best: Candidate
    support: tuple[Candidate, ...]
    rivals: tuple[Candidate, ...]
    meant: tuple[Candidate, ...] = ()


def same_answer(a: str, b: str) -> bool:
    """Whether two spans say the same: folded words, numbers without separators."""

    def key(text: str) -> tuple[str, ...]:
        plain = re.sub(r"(?<=\d)[,\u00a0\u202f ](?=\d{3})", "", text)
        return tuple(w.stem for w in words(plain))

    return key(a) == key(b)


def choose(question: Question, passages: Sequence[Passage], named: frozenset[str] = frozenset()) -> Choice | None:
    """The answer, or None where nothing answers, or where passages about different subjects answer and the question names neither."""
    ranked = candidates(question, passages, named)[:MAX_RANKED]
    if not ranked:
        return None
    best = ranked[0]
    others = [c for c in ranked[1:] if (c.passage.evidence_id, c.start, c.end) != (best.passage.evidence_id, best.start, best.end)]
    near = [c for c in others if c.score >= best.score - _margin(best, c)]
    meant = [c for c in near if _another_thing(best, c, question)] or [
        t for c in (best, *near) for t in _namesakes(c, question, passages) if agree(c.text, best.text) and not agree(t.text, best.text)
    ]
    if meant or best.unclear:
        asked = frozenset(c.stem for c in question.concepts)
        named_all = all(is_document(c.passage) or c.anchored or main_stems(c.subject) & asked for c in (best, *meant))
        return Choice(best, (), (), tuple(_each_thing((best, *meant)))) if named_all else None
    support = tuple(c for c in near if c.passage.evidence_id != best.passage.evidence_id and same_answer(c.text, best.text))
    return Choice(best, support, tuple(c for c in others if contradicts(best, c, question)))


def _margin(best: Candidate, other: Candidate) -> float:
    """How much lower the score of what still counts beside the best. Corpora name their sections differently; fields that passed the label
    check say the same thing all the same."""
    return FIELD_MARGIN if best.field and other.field and best.passage.corpus != other.passage.corpus else RIVAL_MARGIN


def _another_thing(best: Candidate, other: Candidate, question: Question) -> bool:
    """Whether a field is as good an answer, but of another thing than the best one: another country, another row."""
    if not (best.field and other.field) or best.anchored != other.anchored or agree(best.text, other.text):
        return False
    if best.passage.evidence_id == other.passage.evidence_id:
        return best.row != other.row and bool(best.row) and bool(other.row)
    if best.row and other.row and is_document(best.passage) and is_document(other.passage):
        return best.row != other.row and not (stems(best.row) | stems(other.row)) & question.own  # "the default": of what?
    return other.subject != best.subject and not (is_document(best.passage) and is_document(other.passage))


def _namesakes(best: Candidate, question: Question, passages: Sequence[Passage]) -> list[Candidate]:
    """The same field of other things: retrieval, which knows all names of a thing, found the question's name to be one of theirs ("Congo")."""
    if not (best.field and best.anchored) or is_document(best.passage):
        return []
    tail = path_of(best.passage.title)[1:]
    found: list[Candidate] = []
    for passage in passages:
        path = path_of(passage.title)
        if passage.corpus != best.passage.corpus or path[1:] != tail or is_document(passage) or not passage.score:
            continue
        whole = next((p for p in pieces(passage) if p.field and p.path == path), None)
        span = value_span(whole, question) if whole is not None else None
        if span is not None and path[0] != best.subject:
            found.append(replace(best, passage=passage, start=span[0], end=span[1], subject=path[0], shown=""))
    return [c for c in found if not agree(c.text, best.text)]


def _each_thing(found: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each thing."""
    return list({(c.subject, c.row): c for c in reversed(found)}.values())[::-1]


def contradicts(best: Candidate, other: Candidate, question: Question) -> bool:
    """Whether another candidate gives another value of the same."""
    if agree(best.text, other.text) or same_answer(best.text, other.text):
        return False
    if best.field and other.field:
        return _other_value(best, other)
    if best.field != other.field:
        return _number_asked(question) and other.full and best.full and _apart(best.numbers, other.numbers)
    return _other_sentence(best, other, question)


def _other_value(best: Candidate, other: Candidate) -> bool:
    if _undated(best.passage.title) == _undated(other.passage.title) and best.passage.title != other.passage.title:
        return False  # an older year of the same
    if max(len(best.text.split()), len(other.text.split())) > MAX_VALUE_WORDS or ";" in best.shown + other.shown:
        return False  # a description, or a list: others say it in other words
    if best.passage.corpus == other.passage.corpus:
        return best.label == other.label and (best.subject == other.subject or (is_document(best.passage) and is_document(other.passage)))
    return other.score >= best.score - FIELD_MARGIN


def _number_asked(question: Question) -> bool:
    return question.quantity or question.ask in (Ask.NUMBER, Ask.TIME)


def _apart(a: frozenset[str], b: frozenset[str]) -> bool:
    return bool(a) and bool(b) and not a & b


def _other_sentence(best: Candidate, other: Candidate, question: Question) -> bool:
    if _apart(best.numbers, other.numbers):
        if _number_asked(question) and best.full and other.full:
            return True
        left, right = (frozenset(s for s in stems(c.text) if not s[0].isdigit()) for c in (best, other))
        return len(left & right) >= ALIKE * len(left | right)
    return _other_predicate(best.text, other.text)


def _other_predicate(a: str, b: str) -> bool:
    """Whether both say what one thing is, in a few words that have nothing in common: "the code is heron", "the code is crane"."""
    left, right = _COPULA.search(a), _COPULA.search(b)
    if left is None or right is None or stems(a[: left.start()]) != stems(b[: right.start()]) or not stems(a[: left.start()]):
        return False
    first, second = stems(a[left.end() :]), stems(b[right.end() :])
    return 0 < len(first) <= MAX_VALUE_WORDS // 2 and 0 < len(second) <= MAX_VALUE_WORDS // 2 and not first & second


def _undated(title: str) -> str:
    return re.sub(r"\d+", "", title)
