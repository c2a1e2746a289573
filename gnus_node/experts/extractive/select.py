"""Choosing the span: which piece covers what the question asks, and what of it is the answer. Pure.

The rules err towards silence. A *field* answers only if its path names the question's subject exactly, its label holds nothing the question
does not ask for, and together with the value it covers every concept of the question. A *sentence* answers only if names and numbers of the
question are all there and at least four fifths of its concepts. What is said in the question already is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gnus_node.experts.backend import Passage
from gnus_node.experts.extractive.pieces import Piece, path_of, pieces
from gnus_node.experts.extractive.question import Concept, Question
from gnus_node.experts.extractive.subjects import aliases, main_stems, subject_stems, unclear_roots
from gnus_node.experts.extractive.values import MAX_ANSWER, fits, quantity, says_new, value_span
from gnus_node.experts.extractive.words import SOFT_STEMS, STOP_STEMS, stems, words

MAX_PASSAGES = 64
MIN_COVERAGE = 80
"""Percent of a question's concepts that a sentence and its headings must cover."""
RIVAL_MARGIN = 2.0
FIELD_MARGIN = 6.0
FIELD_BONUS = 20.0
_DEFAULT_LEAF = frozenset(stems("total population overall name title text value general all"))
_ASIDE = re.compile(r"\([^)]*\)| at \w+|\b(?:19|20)\d\d\b")
"""What of a label narrows nothing: brackets, "at birth", a year."""
_IS = re.compile(r"\s*(?:\([^)]{0,60}\)\s*)?(?:is|are|was|were|means|refers to|denotes|stands for|[-–—:])\s", re.I)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be the answer. ``subject`` is the root of its path, ``anchored`` whether the question names that root, ``field``
    whether it is a labelled value."""

    passage: Passage
    start: int
    end: int
    score: float
    subject: str
    anchored: bool
    field: bool

    @property
    def text(self) -> str:
        """The span with its blanks made one."""
        return " ".join(self.passage.text[self.start : self.end].split())


@dataclass(frozen=True, slots=True)
class _Place:
    """What a piece's surroundings say: stems of the subject as far as the question means it, of the labels, of the address."""

    subject: frozenset[str]
    labels: frozenset[str]
    address: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """Everything around the text."""
        return self.subject | self.labels | self.address


def _label_problem(path: tuple[str, ...], question: Question) -> bool:
    """Whether the label names something else, or something narrower, than the question asks for."""
    labels = [stems(_ASIDE.sub(" ", segment)) for segment in path]
    leaf = labels[-1] if labels else frozenset()
    if leaf and leaf <= _DEFAULT_LEAF and not leaf & question.own and len(labels) > 1:
        leaf = labels[-2]
    return bool(leaf - question.stems - _DEFAULT_LEAF) or not leaf & (question.stems | _DEFAULT_LEAF)


def _field_score(piece: Piece, question: Question, place: _Place, rooted: bool) -> float | None:
    """The score of a field, or None where it does not answer."""
    path = piece.path[1:] if rooted else piece.path
    if not path or not question.predicates or _label_problem(path, question):
        return None
    around = place.all
    value = piece.stems
    if not all(c.covered(around) for c in question.names):
        return None
    if not all(c.covered(around | value) for c in question.predicates):
        return None
    label = stems(" ".join(path[-2:]))
    if not any(c.covered(label) for c in question.predicates):
        return None
    leaf, middle = stems(path[-1]), stems(" ".join(path[:-1]))
    unmatched_leaf = len(leaf - question.stems - _DEFAULT_LEAF)
    year = max((int(y) for y in re.findall(r"\b(?:19|20)\d\d\b", path[-1])), default=0)
    unmatched_middle = len(middle - question.stems)
    return FIELD_BONUS + 3.0 * len((leaf | middle) & question.stems) - 3.0 * unmatched_leaf - 2.0 * unmatched_middle + year / 10_000


def _sentence_score(piece: Piece, question: Question, place: _Place) -> float | None:
    """The score of a sentence, or None where it does not answer."""
    text = piece.text
    here = piece.stems
    around = here | place.all
    if len(text) > MAX_ANSWER or not question.concepts or not all(c.covered(around) for c in question.names):
        return None
    near = around | piece.stems_before
    covered = sum(2 if c.covered(around) else c.covered(near) for c in question.concepts)
    inside = sum(c.covered(here) for c in question.concepts)
    if covered * 50 < MIN_COVERAGE * len(question.concepts) or inside * 2 < len(question.concepts):
        return None
    terse = len(piece.path) > 1 and not text.endswith((".", "!", ":"))
    lettered = sum(w.raw[0].isalpha() for w in piece.words)
    if lettered < (10 if terse else 4) or text.endswith("?") or not fits(text, piece.words, question, value=False):
        return None
    if len(question.concepts) == 1 and not _opens_with(piece, question.concepts[0]):
        return None  # it mentions the thing, but says something else
    if (terse and inside < len(question.concepts)) or (question.unit is not None and quantity(text, question.unit) is None):
        return None
    soft = len(here & question.own & SOFT_STEMS)
    return 10.0 * inside / len(question.concepts) + 4.0 * covered / (2 * len(question.concepts)) + 0.3 * soft - 0.02 * len(piece.words)


def _opens_with(piece: Piece, concept: Concept) -> bool:
    """Whether the first thing a sentence names, or its heading, is the concept."""
    first = next((w.stem for w in piece.words if w.stem not in STOP_STEMS), "")
    return first == concept.stem or any(first in phrase for phrase in concept.phrases) or concept.covered(stems(" ".join(piece.path[-1:])))


def _definition_score(piece: Piece, question: Question) -> float | None:
    """The score of a piece as a definition of the one thing asked about, or None."""
    things = frozenset(c.stem for c in question.concepts)
    leaf = stems(piece.path[-1]) if piece.path else frozenset()
    same_label = things == leaf - (SOFT_STEMS - question.own)
    text = piece.text
    if piece.field:
        return FIELD_BONUS if same_label and says_new(piece.words, question) else None
    if len(piece.words) < 4 or len(text) > MAX_ANSWER or not says_new(piece.words, question):
        return None
    seen: set[str] = set()
    for word in piece.words:
        if word.stem in things:
            seen.add(word.stem)
        elif word.stem not in STOP_STEMS:
            return None if not (same_label and piece.before in (0, piece.start)) else 8.0
        if seen == things:
            after = piece.passage.text[word.end : piece.end].lstrip("`*\"'”)")
            if _IS.match(after):
                return 15.0
            break
    return 8.0 if same_label and piece.before in (0, piece.start) else None


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What all passages together say about names."""

    names: dict[str, tuple[frozenset[str], ...]]
    unclear: frozenset[str]


def _candidates(passage: Passage, question: Question, around: _Surroundings) -> list[Candidate]:
    path = path_of(passage.title)
    root = path[0] if path else ""
    subject = subject_stems(root, question, around.names.get(root, ()), unclear=root in around.unclear)
    mentioned = bool(main_stems(root) & frozenset(c.stem for c in question.names))
    if mentioned and not subject and len(path) > 1:
        return []  # it is about something whose name only resembles the question's
    rooted = len(path) > 1 and bool(subject)
    # without capitals the question may still mean the name; a value under another name is no answer to it, one in a file "x.md" may be
    foreign = (
        not subject and len(path) > 1 and not re.search(r"[./]", root) and bool(main_stems(root) & {c.stem for c in question.concepts})
    )
    address = stems(passage.uri.replace("/", " "))
    found: list[Candidate] = []
    for piece in pieces(passage):
        place = _Place(subject, stems(" ".join(piece.path[rooted:])), address)
        if (piece.field and foreign) or (score := _score(piece, question, place, rooted)) is None:
            continue
        span = value_span(piece, question) if piece.field else (piece.start, piece.end)
        if span is not None:
            found.append(Candidate(passage, span[0], span[1], score, root, bool(subject), piece.field))
    return found


def _score(piece: Piece, question: Question, place: _Place, rooted: bool) -> float | None:
    if question.defines and (score := _definition_score(piece, question)) is not None:
        return score
    if piece.field:
        return _field_score(piece, question, place, rooted)
    # what one thing is, only a definition says; a sentence that merely mentions it does not
    return None if question.defines and len(question.concepts) == 1 else _sentence_score(piece, question, place)


def candidates(question: Question, passages: Sequence[Passage]) -> list[Candidate]:
    """Every span that answers, best first; among equals the order of the passages."""
    passages = passages[:MAX_PASSAGES]
    around = _Surroundings(aliases(passages), unclear_roots(passages))
    found = [c for passage in passages for c in _candidates(passage, question, around)]
    return sorted(found, key=lambda c: -c.score)


def same_answer(a: str, b: str) -> bool:
    """Whether two spans say the same: folded words, numbers without separators."""

    def key(text: str) -> tuple[str, ...]:
        plain = re.sub(r"(?<=\d)[,\u00a0\u202f ](?=\d{3})", "", text)
        return tuple(w.stem for w in words(plain))

    return key(a) == key(b)


@dataclass(frozen=True, slots=True)
class Choice:
    """The best candidate, those that say the same, and those as good that say otherwise."""

    best: Candidate
    support: tuple[Candidate, ...]
    rivals: tuple[Candidate, ...]


def _margin(best: Candidate, other: Candidate) -> float:
    """How much lower the score of what still counts beside the best. Corpora name their sections differently; fields that passed the label
    check say the same thing all the same."""
    return FIELD_MARGIN if best.field and other.field and best.passage.corpus != other.passage.corpus else RIVAL_MARGIN


def _undated(title: str) -> str:
    return re.sub(r"\d+", "", title)


def choose(question: Question, passages: Sequence[Passage]) -> Choice | None:
    """The answer, or None where nothing answers, or where passages about different subjects answer and the question names neither."""
    ranked = candidates(question, passages)
    if not ranked:
        return None
    best = ranked[0]
    near = [c for c in ranked if c.passage.evidence_id != best.passage.evidence_id and c.score >= best.score - _margin(best, c)]
    support = tuple(c for c in near if same_answer(c.text, best.text))
    rivals = tuple(c for c in near if not same_answer(c.text, best.text) and _undated(c.passage.title) != _undated(best.passage.title))
    if best.field and any(r.field and r.subject != best.subject and r.anchored == best.anchored for r in rivals):
        return None  # the label fits, but whose value is meant?
    return Choice(best, support, rivals)
