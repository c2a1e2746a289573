"""Choosing the span: which piece covers what the question asks, and what of it is the answer. Pure.

The rules err towards silence. A *field* answers only if its path names the question's subject exactly, its label holds nothing the question
does not ask for, and together with the value it covers every concept of the question. A *sentence* answers only if names and numbers of the
question are all there and at least four fifths of its concepts; where an attribute of something is asked for, it must be said of that thing.
What is said in the question already is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gnus_node.content.quoting import plain_quote
from gnus_node.experts.backend import Passage
from gnus_node.experts.extractive.pieces import Piece, path_of, pieces
from gnus_node.experts.extractive.question import Ask, Concept, Question
from gnus_node.experts.extractive.subjects import aliases, is_document, main_stems, subject_stems, unclear_roots
from gnus_node.experts.extractive.values import (
    MAX_ANSWER,
    bare_items,
    date_span,
    fits,
    numbers_of,
    quantity,
    says_new,
    value_span,
    worded_quantity,
)
from gnus_node.experts.extractive.words import SOFT_STEMS, STOP_STEMS, fold, keys, parts, stems, words

MAX_PASSAGES = 64
MAX_LISTED = 2_600
"""Longest answer that is a sentence with the list it announces, in characters."""
MIN_COVERAGE = 80
"""Percent of a question's concepts that a sentence and its headings must cover."""
FIELD_BONUS = 20.0
LINK = 4
"""Most words between an attribute and its owner, in "the attribute of the owner"."""
_DEFAULT_LEAF = frozenset(stems("total population overall name title text value general all"))
_COUNTS = stems("count number quantity amount total stock pieces")
_MEANINGS = frozenset("meaning means description definition purpose role explanation what does do is it the about task for".split())
"""Words of the column that says what a row's thing is."""
_ASIDE = re.compile(r"\([^)]*\)| at \w+|\b(?:19|20)\d\d\b")
"""What of a label narrows nothing: brackets, "at birth", a year."""
_PLACEHOLDER = re.compile(r"(?<=[a-z] )[A-Z]{2,}\b")
"""What of a label stands for anything: KEY in "asserted by KEY"."""
_CODE_NAME = re.compile(r"_|\b[A-Z]{2,}\b|^-")
"""A label that is a code, an identifier or an option: another thing than the word it is made of."""
_DETERMINERS = frozenset({"a", "an", "the", "each", "every", "any", "this"})
_THING = re.compile(r"(?:an?|the|one|any|every|what|who|whoever|where)\b", re.I)
"""How a sentence goes on that says what something is, and not how it is."""
_GLOSSARY = re.compile(r"\b(?:glossary|definitions?|terms|terminology|vocabulary)\b", re.I)
_IS = re.compile(r"\s*(?:\([^)]{0,60}\)\s*)?(?:is|are|was|were|means|refers to|denotes|stands for|[-–—:])\s", re.I)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be the answer. ``subject`` is the root of its path, ``anchored`` whether the question names that root, ``field``
    whether it is a labelled value, ``label`` what it is called there; ``shown`` is the answer where it is not just the span's words."""

    passage: Passage
    start: int
    end: int
    score: float
    subject: str
    anchored: bool
    field: bool
    label: frozenset[str] = frozenset()
    shown: str = ""
    numbers: frozenset[str] = frozenset()
    row: str = ""
    """The label of its row in a table."""
    unclear: bool = False
    """Its subject shares its short name with another, and the question says neither."""
    full: bool = False
    """It holds every concept of the question in itself."""

    @property
    def text(self) -> str:
        """What a reader sees of the span."""
        return self.shown or plain_quote(self.passage.text[self.start : self.end])


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


def _leaf(piece: Piece, path: tuple[str, ...], question: Question) -> frozenset[str]:
    """What the label that decides is made of: of "Population > total" it is the population, of a count's column the row's label."""
    labels = [stems(_ASIDE.sub(" ", segment)) for segment in path]
    leaf = labels[-1] if labels else frozenset()
    if len(labels) > 1 and ((leaf and leaf <= _DEFAULT_LEAF and not leaf & question.own) or (question.counted and leaf <= _COUNTS)):
        leaf = labels[-2]
        if piece.row and question.counted:
            return leaf & question.stems  # "ceramic fuse 10 A" is a ceramic fuse
    return frozenset(s for s in leaf if not parts(s) or s in question.own)


def _label_problem(piece: Piece, path: tuple[str, ...], question: Question) -> bool:
    """Whether the label names something else, or something narrower, than the question asks for."""
    leaf = _leaf(piece, path, question)
    return bool(leaf - question.stems - _DEFAULT_LEAF) or not leaf & (question.stems | _DEFAULT_LEAF)


def _field_score(piece: Piece, question: Question, place: _Place, rooted: bool, prose: bool) -> float | None:
    """The score of a field, or None where it does not answer. In ``prose`` a value that mentions what is asked does not answer it."""
    path = piece.path[1:] if rooted else piece.path
    if not path or not question.predicates or _label_problem(piece, path, question):
        return None
    around = place.all
    value = piece.stems
    if not all(c.covered(around) for c in question.names):
        return None
    if not all(c.covered(around if prose else around | value) for c in question.predicates):
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
    longest = MAX_LISTED if piece.listing else MAX_ANSWER
    if question.strict or len(text) > longest or not question.concepts or not all(c.covered(around) for c in question.names):
        return None
    near = around | piece.stems_before
    covered = sum(2 if c.covered(around) else c.covered(near) for c in question.concepts)
    inside = sum(c.covered(here) for c in question.concepts)
    asked = question.predicates or question.concepts  # the names are all there; a long name must not stand in for what is asked of it
    told = sum(2 if c.covered(around) else c.covered(near) for c in asked)
    if told * 50 < MIN_COVERAGE * len(asked) or inside * 2 < len(question.concepts):
        return None
    terse = len(piece.path) > 1 and not text.endswith((".", "!", ":")) and not piece.listing
    lettered = sum(w.raw[0].isalpha() for w in piece.words)
    dated = question.ask is Ask.TIME and covered == 2 * len(question.concepts) and date_span(text) is not None
    if not dated and (lettered < (10 if terse else 4) or not _said_of_owner(piece, question, place)):
        return None
    if (
        text.endswith(("?", ":"))
        or (question.quantity and not numbers_of(piece.words, question))
        or not fits(text, piece.words, question, value=False)
    ):
        return None
    if len(question.concepts) == 1 and not _opens_with(piece, question.concepts[0]):
        return None  # it mentions the thing, but says something else
    if terse and not dated and inside < len(question.concepts):
        return None
    if question.unit is not None and quantity(text, question.unit) is None and not worded_quantity(text, question.unit):
        return None
    soft = len(here & question.own & SOFT_STEMS)
    return 10.0 * inside / len(question.concepts) + 4.0 * covered / (2 * len(question.concepts)) + 0.3 * soft - 0.02 * len(piece.words)


def _said_of_owner(piece: Piece, question: Question, place: _Place) -> bool:
    """Whether the sentence says the attribute of its owner: below the owner's heading, of a sentence that opens with the owner, or together."""
    if not question.owner or not question.attribute or question.owner <= (place.subject | place.labels | place.address):
        return True
    content = [w for w in piece.words if w.stem not in STOP_STEMS]
    if content and content[0].stem in question.owner:
        return True
    said = question.attribute.union(*(p for c in question.concepts if c.stem in question.attribute for p in c.phrases))
    for at, word in enumerate(piece.words):
        if word.stem in said and any(w.stem in question.owner for w in piece.words[at + 1 : at + 2 + LINK]):
            between = piece.passage.text[word.end : piece.words[min(at + LINK, len(piece.words) - 1)].end]
            if not re.search(r"[.;:!?]|\b(?:and|but|or)\b", between):
                return True
        if (
            word.stem in question.owner
            and re.search(r"['’]s?$", word.raw)
            and any(w.stem in said for w in piece.words[at + 1 : at + 1 + LINK])
        ):
            return True
    return False


def _opens_with(piece: Piece, concept: Concept) -> bool:
    """Whether the first thing a sentence names, or its heading, is the concept."""
    first = next((w.stem for w in piece.words if w.stem not in STOP_STEMS), "")
    return first == concept.stem or any(first in phrase for phrase in concept.phrases) or concept.covered(stems(" ".join(piece.path[-1:])))


def _same_name(things: frozenset[str], segment: str, question: Question) -> bool:
    """Whether a label is the name of the thing: the same words, written together or apart."""
    named = keys(_PLACEHOLDER.sub(" ", segment)) - (SOFT_STEMS - question.own)
    apart = frozenset(part for one in named for part in (parts(one) or [one]))
    return bool(things) and (things in (named, apart) or frozenset(p for t in things for p in (parts(t) or [t])) == named)


def _written(label: str, text: str) -> float | None:
    """How well a label is what the question wrote: as it stands; a word where the label is a code; None where an option is no word at all."""
    if label in text:
        return 2.0
    if label.startswith("-"):
        core = label.strip("-")
        return -2.0 if "-" in core and (core in text or core.replace("-", "_") in text) else None
    return 0.0 if _CODE_NAME.search(label) is None else -2.0


def _definition_score(piece: Piece, question: Question) -> float | None:
    """The score of a piece as a definition of the one thing asked about, or None."""
    things = frozenset(c.stem for c in question.concepts)
    same_label = bool(piece.path) and _same_name(things, piece.path[-1], question) and _written(piece.path[-1], question.text) is not None
    text = piece.text
    if piece.field:
        if not says_new(piece.words, question):
            return None
        column = frozenset(piece.path[-1].casefold().strip("`* ").split())
        meaning = len(piece.path) > 1 and bool(column) and column <= _MEANINGS and _same_name(things, piece.path[-2], question)
        if not meaning and (not same_label or piece.row):
            return None
        label = piece.path[-2 if meaning else -1].strip("`* ")
        written = _written(label, question.text)
        if written is None:
            return None
        glossary = 3.0 * any(_GLOSSARY.search(segment) is not None for segment in piece.path[:-1])
        return FIELD_BONUS + meaning + written + glossary - 3.0 * piece.record
    if len(piece.words) < 4 or len(text) > MAX_ANSWER or not says_new(piece.words, question):
        return None
    seen: set[str] = set()
    for word in piece.words:
        if word.stem in things:
            seen.add(word.stem)
        elif not seen and fold(word.raw) not in _DETERMINERS and word.stem in STOP_STEMS:
            return None  # "How the pump is set" does not say what a pump is
        elif word.stem not in STOP_STEMS:
            return None if not (same_label and piece.before in (0, piece.start)) else 8.0
        if seen == things:
            after = piece.passage.text[word.end : piece.end].lstrip("`*\"'”)")
            if (is_ := _IS.match(after)) and (not question.strict or _THING.match(after, is_.end())):
                return 15.0
            break
    return 8.0 if same_label and piece.before in (0, piece.start) else None


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What all passages together say about names."""

    names: dict[str, tuple[frozenset[str], ...]]
    unclear: frozenset[str]


def _candidates(passage: Passage, question: Question, around: _Surroundings, named: frozenset[str]) -> list[Candidate]:
    path = path_of(passage.title)
    root = path[0] if path else ""
    document = is_document(passage)
    subject = subject_stems(root, question, around.names.get(root, ()), unclear=root in around.unclear)
    mentioned = bool(main_stems(root) & frozenset(c.stem for c in question.names))
    if mentioned and not subject and len(path) > 1 and not document and root not in around.unclear:
        return []  # it is about something whose name only resembles the question's
    rooted = len(path) > 1 and bool(subject)
    # without capitals the question may still mean the name; a value under another name is no answer to it, one in a document may be
    foreign = not subject and len(path) > 1 and not document and bool(main_stems(root) & {c.stem for c in question.concepts})
    foreign = foreign and root not in around.unclear
    address = stems(passage.uri.replace("/", " ")) | named
    found: list[Candidate] = []
    for piece in pieces(passage):
        place = _Place(subject, stems(" ".join(piece.path[rooted:])), address)
        if (piece.field and foreign) or (score := _score(piece, question, place, rooted, document)) is None:
            continue
        if (made := _made(piece, question)) is None:
            continue
        start, end, shown = made
        label = _leaf(piece, piece.path[rooted:], question) if piece.field else frozenset()
        numbers = numbers_of(words(passage.text[start:end]), question)
        full = all(c.covered(piece.stems | subject) for c in question.concepts)
        row = piece.path[-2] if piece.row else ""
        found.append(
            Candidate(
                passage,
                start,
                end,
                score,
                root,
                bool(subject),
                piece.field,
                label,
                shown,
                numbers,
                row,
                not subject and root in around.unclear,
                full,
            )
        )
    return found


def _made(piece: Piece, question: Question) -> tuple[int, int, str] | None:
    """The answer's place in a piece, and how it is shown where its words alone are not enough; None where it holds none."""
    if not piece.field:
        short = question.ask is Ask.TIME and not piece.text.endswith((".", "!")) and date_span(piece.text)
        return (piece.start + short[0], piece.start + short[1], "") if short else (piece.start, piece.end, "")
    if piece.record:
        if question.ask is not Ask.WHAT:
            return None
        shown = "; ".join(plain_quote(line) for line in piece.text.split("\n") if line.strip())
        return (piece.start, piece.end, shown) if len(shown) <= MAX_ANSWER else None
    span = value_span(piece, question)
    if span is None:
        return None
    several = question.plural or piece.path[-1].endswith("s")
    if several and question.unit is None and question.ask in (Ask.WHAT, Ask.WHO, Ask.WHERE) and not question.quantity:
        names = bare_items(piece.passage.text[span[0] : span[1]])
        return (*span, "; ".join(names))
    return (*span, "")


def _score(piece: Piece, question: Question, place: _Place, rooted: bool, document: bool) -> float | None:
    if question.defines and (score := _definition_score(piece, question)) is not None:
        return score
    if question.strict:
        return None
    if piece.field:
        return _field_score(piece, question, place, rooted, document and not piece.record)
    # what one thing is, only a definition says; a sentence that merely mentions it does not
    return None if question.defines and len(question.concepts) == 1 else _sentence_score(piece, question, place)


def candidates(question: Question, passages: Sequence[Passage], named: frozenset[str] = frozenset()) -> list[Candidate]:
    """Every span that answers, best first; among equals the order of the passages. ``named`` are the stems of the files that were read."""
    if not question.asks:
        return []
    passages = passages[:MAX_PASSAGES]
    around = _Surroundings(aliases(passages), unclear_roots(passages))
    found = [c for passage in passages for c in _candidates(passage, question, around, named)]
    return sorted(found, key=lambda c: -c.score)
