"""Choosing the span: which piece covers what the question asks, and what of it is the answer. Pure.

The rules err towards silence. A *field* answers only if its path names the question's subject exactly, its label holds nothing the question
does not ask for, and together with the value it covers every concept of the question. A *sentence* answers only if names and numbers of the
question are all there and at least three quarters of its concepts. What is said in the question already is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gnus_node.experts.backend import Passage
from gnus_node.experts.extractive.pieces import Piece, path_of, pieces
from gnus_node.experts.extractive.question import Ask, Question
from gnus_node.experts.extractive.words import SOFT_STEMS, STOP_STEMS, fold, stems, words
from gnus_node.experts.symbolic.numbers import SCALES, TEENS, TENS, UNITS
from gnus_node.experts.symbolic.tokens import tokenize
from gnus_node.experts.symbolic.unit_table import Unit
from gnus_node.experts.symbolic.units import read_unit

MAX_PASSAGES = 64
MAX_SENTENCE = 400
MIN_COVERAGE = 75
"""Percent of a question's concepts that a sentence and its headings must cover."""
RIVAL_MARGIN = 2.0
FIELD_BONUS = 20.0
_DEFAULT_LEAF = frozenset(stems("total population overall name title text value general all"))
_FORM_WORDS = frozenset(stems("republic federated federation states state kingdom islands island commonwealth union the"))
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?")
_NUMBER_WORDS = frozenset({*UNITS, *TEENS, *TENS, *SCALES, "hundred", "half", "dozen", "once", "twice", "hourly", "daily", "weekly"})
_MONTH = re.compile(r"\b(january|february|march|april|may|june|july|august|september|october|november|december)\b", re.I)
_AFTER_VALUE = re.compile(r"\s*(?:;|\n|\s\(|\bnote\s*[:-])|(?<=\w)\s+-\s+|\.\s")
_IS = re.compile(r"\s*(?:\([^)]{0,60}\)\s*)?(?:is|are|was|were|means|refers to|denotes|stands for|[-–—:])\s", re.I)
_EMPTY = frozenset({"", "na", "n/a", "-", "unknown", "tbd", "todo"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be the answer. ``subject`` is the root of its path, ``anchored`` whether the question names that root."""

    passage: Passage
    start: int
    end: int
    score: float
    subject: str
    anchored: bool

    @property
    def text(self) -> str:
        """The span with its blanks made one."""
        return " ".join(self.passage.text[self.start : self.end].split())


# --- subjects


def aliases(passages: Sequence[Passage]) -> dict[str, tuple[frozenset[str], ...]]:
    """Other names of a root, as its own passages about names give them ("X > Country name > local short form": "Y")."""
    found: dict[str, list[frozenset[str]]] = {}
    for passage in passages:
        path = path_of(passage.title)
        if len(path) > 1 and len(passage.text) <= 200 and any("name" in stems(segment) for segment in path[1:]):
            value = stems(re.split(r"[;(/\n]", passage.text.split(":")[-1], maxsplit=1)[0])
            if value:
                found.setdefault(path[0], []).append(value)
    return {root: tuple(values) for root, values in found.items()}


def subject_stems(root: str, question: Question, other_names: Iterable[frozenset[str]] = ()) -> frozenset[str]:
    """The stems a root may stand for: none unless the question names exactly this root.

    "Guinea" is not "Guinea-Bissau", "Georgia" not "South Georgia". What follows a comma or stands in brackets may be left out where it is
    only the form of a state, or a list of parts.
    """
    plain = re.sub(r"\([^)]*\)", " ", root)
    head, _, tail = plain.partition(",")
    main, extra = stems(head), stems(tail)
    named = question.own
    if main and main <= named:
        missing = extra - named - _FORM_WORDS
        if not missing or re.search(r"\band\b", tail):
            return main | extra | stems(root)
    found: frozenset[str] = frozenset()
    for alias in other_names:
        if alias <= named:
            found |= alias | main
    return found


# --- the answer within a piece


def _says_new(text: str, question: Question) -> bool:
    """Whether the text says anything that the question does not."""
    return any(w.stem not in question.own for w in words(text))


def _has_number(text: str, question: Question) -> bool:
    said = {w.stem for w in words(text) if w.raw[0].isdigit() or fold(w.raw) in _NUMBER_WORDS}
    return bool(said - question.own)


def _fits(text: str, question: Question) -> bool:
    """Whether a text looks like an answer of the kind asked for."""
    if question.ask is Ask.NUMBER and not _has_number(text, question):
        return False
    if question.ask is Ask.TIME and not (re.search(r"\d", text) or _MONTH.search(text)):
        return False
    if question.ask is Ask.WHO and not any(w.capital for w in words(text)):
        return False
    return _says_new(text, question)


def _quantity(text: str, unit: Unit) -> tuple[int, int] | None:
    """The first number followed by exactly this unit."""
    for number in _NUMBER.finditer(text):
        after = text[number.end() : number.end() + 40]
        scaled = re.match(r"\s*(?:thousand|million|billion|trillion)\b", after)
        skip = scaled.end() if scaled else 0
        words_of = re.match(r"[A-Za-z0-9²³°µ/ .^]*", after[skip:])
        tokens = tokenize(words_of[0].replace(".", " ")) if words_of else None
        for found, end in sorted(read_unit(tokens or (), 0), key=lambda pair: -pair[1]):
            if tokens and found.dimension == unit.dimension and found.factor == unit.factor and found.offset == unit.offset:
                width = _width(after[skip:], [t.raw for t in tokens[:end]])
                return number.start(), number.end() + skip + width
    return None


def _width(text: str, raws: Sequence[str]) -> int:
    at = 0
    for raw in raws:
        at = text.index(raw, at) + len(raw)
    return at


def _value(piece: Piece, question: Question) -> tuple[int, int] | None:
    """The answer within a field's value."""
    text = piece.text
    if question.unit is not None:
        found = _quantity(text, question.unit)
        return (piece.start + found[0], piece.start + found[1]) if found else None
    cut = _AFTER_VALUE.search(text, 1)
    end = cut.start() if cut else len(text)
    while end > 1 and text[end - 1] in " .,:`*\"'":
        end -= 1
    start = 0
    while start < end and text[start] in " `*\"'":
        start += 1
    answer = text[start:end]
    if fold(answer) in _EMPTY or len(answer) > MAX_SENTENCE or not _fits(answer, question):
        return None
    return piece.start + start, piece.start + end


# --- scoring


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
    labels = [stems(re.sub(r"\([^)]*\)| at \w+", " ", segment)) for segment in path]
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
    value = stems(piece.text)
    if not all(c.covered(around) for c in question.names):
        return None
    if not all(c.covered(around | value) for c in question.predicates):
        return None
    label = stems(" ".join(path[-2:]))
    if not any(c.covered(label) for c in question.predicates):
        return None
    leaf, middle = stems(path[-1]), stems(" ".join(path[:-1]))
    unmatched_leaf = len(leaf - question.stems - _DEFAULT_LEAF)
    unmatched_middle = len(middle - question.stems)
    return FIELD_BONUS + 3.0 * len((leaf | middle) & question.stems) - 3.0 * unmatched_leaf - 2.0 * unmatched_middle


def _sentence_score(piece: Piece, question: Question, place: _Place) -> float | None:
    """The score of a sentence, or None where it does not answer."""
    text = piece.text
    here = stems(text)
    around = here | place.all
    if len(text) > MAX_SENTENCE or len(words(text)) < 4 or text.rstrip().endswith("?") or not _fits(text, question):
        return None
    if not all(c.covered(around) for c in question.names):
        return None
    near = around | stems(piece.passage.text[piece.before : piece.start])
    covered = sum(2 if c.covered(around) else c.covered(near) for c in question.concepts)
    inside = sum(c.covered(here) for c in question.concepts)
    if not question.concepts or covered * 50 < MIN_COVERAGE * len(question.concepts) or inside * 2 < len(question.concepts):
        return None
    if question.unit is not None and _quantity(text, question.unit) is None:
        return None
    soft = len(here & question.own & SOFT_STEMS)
    return 10.0 * inside / len(question.concepts) + 4.0 * covered / (2 * len(question.concepts)) + 0.3 * soft - 0.02 * len(words(text))


def _definition_score(piece: Piece, question: Question) -> float | None:
    """The score of a piece as a definition of the one thing asked about, or None."""
    things = frozenset(c.stem for c in question.concepts)
    leaf = stems(piece.path[-1]) if piece.path else frozenset()
    same_label = things == leaf - (SOFT_STEMS - question.own)
    text = piece.text
    if piece.field:
        return FIELD_BONUS if same_label and _says_new(text, question) else None
    if len(words(text)) < 4 or len(text) > MAX_SENTENCE or not _says_new(text, question):
        return None
    seen: set[str] = set()
    for word in words(text):
        if word.stem in things:
            seen.add(word.stem)
        elif word.stem not in STOP_STEMS:
            return None if not (same_label and piece.before in (0, piece.start)) else 8.0
        if seen == things:
            after = text[word.end :].lstrip("`*\"'”)")
            if _IS.match(after):
                return 15.0
            break
    return 8.0 if same_label and piece.before in (0, piece.start) else None


def _candidates(passage: Passage, question: Question, other: dict[str, tuple[frozenset[str], ...]]) -> list[Candidate]:
    root = path_of(passage.title)[0] if path_of(passage.title) else ""
    subject = subject_stems(root, question, other.get(root, ()))
    mentioned = bool(stems(root) & frozenset(c.stem for c in question.names or question.concepts))
    found: list[Candidate] = []
    for piece in pieces(passage):
        rooted = len(piece.path) > 1 and (bool(subject) or mentioned)
        labels = stems(" ".join(piece.path[1:] if rooted else piece.path))
        place = _Place(subject, labels, stems(passage.uri.replace("/", " ")))
        if question.defines and (score := _definition_score(piece, question)) is not None:
            pass
        elif piece.field:
            score = _field_score(piece, question, place, rooted)
        elif not question.defines:
            score = _sentence_score(piece, question, place)
        if score is None:
            continue
        span = _value(piece, question) if piece.field else (piece.start, piece.end)
        if span is not None:
            found.append(Candidate(passage, span[0], span[1], score, root, bool(subject)))
    return found


def candidates(question: Question, passages: Sequence[Passage]) -> list[Candidate]:
    """Every span that answers, best first; among equals the order of the passages."""
    passages = passages[:MAX_PASSAGES]
    other = aliases(passages)
    found = [c for passage in passages for c in _candidates(passage, question, other)]
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


def choose(question: Question, passages: Sequence[Passage]) -> Choice | None:
    """The answer, or None where nothing answers, or where different subjects that the question does not name give different answers."""
    ranked = candidates(question, passages)
    if not ranked:
        return None
    best = ranked[0]
    near = [c for c in ranked if c.score >= best.score - RIVAL_MARGIN and c.passage.evidence_id != best.passage.evidence_id]
    support = tuple(c for c in near if same_answer(c.text, best.text))
    rivals = tuple(c for c in near if not same_answer(c.text, best.text))
    if not best.anchored and question.names == () and any(r.subject != best.subject and r.score == best.score for r in rivals):
        return None
    if best.anchored and any(r.anchored and r.subject != best.subject for r in rivals):
        return None
    return Choice(best, support, rivals)
