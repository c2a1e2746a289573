"""What of a piece is the answer, and whether it looks like one. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gnus_node.content.unit_table import Unit
from gnus_node.experts.extractive.pieces import Piece, abbreviated, line_breaks
from gnus_node.experts.extractive.question import Ask, Question
from gnus_node.experts.extractive.words import Word, fold, words
from gnus_node.experts.symbolic.numbers import SCALES, TEENS, TENS, UNITS
from gnus_node.experts.symbolic.tokens import tokenize
from gnus_node.experts.symbolic.units import read_unit

MAX_ANSWER = 400
"""Longest span, in characters."""
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?")
_NUMBER_WORDS = frozenset({*UNITS, *TEENS, *TENS, *SCALES, "hundred", "half", "dozen", "once", "twice", "hourly", "daily", "weekly"})
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_DATE = re.compile(
    rf"\b(?:{_DAY} (?:of )?(?:{_MONTHS})\.?,? \d{{4}}|(?:{_MONTHS})\.? {_DAY},? \d{{4}}|\d{{4}}-\d\d-\d\d|(?:{_MONTHS}) \d{{4}})\b", re.I
)
_MONTH = re.compile(r"\b(january|february|march|april|may|june|july|august|september|october|november|december)\b", re.I)
_AFTER_VALUE = re.compile(r"\s*(?:;|\s\(|\bnote\s*[:-])|\.\s")
_AFTER_LIST = re.compile(r"\s*(?:;?\s*\bnote\s*[:-])")
_AMOUNT = re.compile(r"^(?P<name>[^\d;,]*[^\W\d][^\d;,]*?)\s+[\d.,]+\s*(?:%|[a-z²³]{1,3}(?:\s[a-z²³]{1,3})?)?\s*(?:\([^()]*\))?\s*$")
"""An item of a list that names a thing and then measures it: ``Spain 1,224 km``."""
MAX_ITEMS = 64
MAX_BARE = 8
"""Longest value that is taken for what its label says, in words."""
_EMPTY = frozenset({"", "na", "n/a", "-", "unknown", "tbd", "todo"})


def says_new(found: Sequence[Word], question: Question) -> bool:
    """Whether the text says anything that the question does not."""
    return any(w.stem not in question.own for w in found)


def _has_number(found: Sequence[Word], question: Question, value: bool) -> bool:
    said = {w.stem for w in found if w.raw[0].isdigit() or fold(w.raw) in _NUMBER_WORDS}
    if question.counted and not value:
        return _counts(found, question)
    return bool(said - question.own)


def _counts(found: Sequence[Word], question: Question) -> bool:
    """Whether a number stands beside what the question counts."""
    concept = next((c for c in question.concepts if c.stem == question.counted), None)
    for at, word in enumerate(found):
        if (word.raw[0].isdigit() or fold(word.raw) in _NUMBER_WORDS) and word.stem not in question.own:
            beside = frozenset(w.stem for w in found[max(0, at - 3) : at + 5])
            if question.counted in beside or (concept is not None and concept.covered(beside)):
                return True
    return False


def fits(text: str, found: Sequence[Word], question: Question, *, value: bool) -> bool:
    """Whether a text, of these words, looks like an answer of the kind asked for; ``value`` where it stands under a fitting label."""
    if question.ask is Ask.NUMBER and not _has_number(found, question, value):
        return False
    if question.ask is Ask.TIME and not (any(c.isdigit() for c in text) or _MONTH.search(text)):
        return False
    if question.ask is Ask.WHO and not any(w.capital for w in found):
        return False
    named = frozenset(c.stem for c in question.names)
    return says_new(found, question) or (value and bool(found) and named.issuperset(w.stem for w in found))  # the capital of Luxembourg


def quantity(text: str, unit: Unit) -> tuple[int, int] | None:
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


_WORDED = re.compile(rf"\b(?:{'|'.join(sorted(_NUMBER_WORDS))})\s+([A-Za-z]+(?: [A-Za-z]+)?)", re.I)


def worded_quantity(text: str, unit: Unit) -> bool:
    """Whether a number in words stands before exactly this unit: ``two days``."""
    for found in _WORDED.finditer(text):
        tokens = tokenize(found[1])
        if any(u.dimension == unit.dimension and u.factor == unit.factor for u, _ in read_unit(tokens or (), 0)):
            return True
    return False


def _width(text: str, raws: Sequence[str]) -> int:
    at = 0
    for raw in raws:
        at = text.index(raw, at) + len(raw)
    return at


def date_span(text: str) -> tuple[int, int] | None:
    """The one date of a text, None where it has none or several."""
    found = [m.span() for m in _DATE.finditer(text)]
    return found[0] if len(found) == 1 else None


def numbers_of(found: Sequence[Word], question: Question) -> frozenset[str]:
    """The numbers that these words say and the question does not."""
    return frozenset(w.stem for w in found if w.raw[0].isdigit() or fold(w.raw) in _NUMBER_WORDS) - question.own


def bare_items(text: str) -> tuple[str, ...]:
    """The names of a list whose every item is a name with an amount in a unit; empty where it is no such list."""
    parts = [p.strip() for p in re.split(r"[;\n]", text) if p.strip()]
    if not parts or len(parts) > MAX_ITEMS:
        return ()
    found = [_AMOUNT.match(p) for p in parts]
    return tuple(m["name"].strip() for m in found if m) if all(found) else ()


def _fits_value(answer: str, question: Question) -> bool:
    """Whether a field's value looks like the answer; prose under a label must say itself what it counts."""
    found = words(answer)
    return fits(answer, found, question, value=len(found) <= MAX_BARE or question.ask is not Ask.NUMBER)


def value_span(piece: Piece, question: Question) -> tuple[int, int] | None:
    """The answer within a field's value."""
    text = piece.text
    if "\n" in text and (breaks := line_breaks(text)):
        text = text[: breaks[0]]
    if question.unit is not None:
        found = quantity(text, question.unit)
        return (piece.start + found[0], piece.start + found[1]) if found else None
    cuts = (_AFTER_LIST if question.plural and question.ask in (Ask.WHAT, Ask.WHO, Ask.WHERE) else _AFTER_VALUE).finditer(text, 1)
    cut = next((c for c in cuts if not (c[0][0] == "." and abbreviated(text, c.start() + 1))), None)
    end = cut.start() if cut else len(text)
    if question.ask is Ask.WHAT and cut is not None and ";" in cut[0] and text[:1].islower():
        longer = _AFTER_LIST.search(text, 1)  # a description, not a name
        end = longer.start() if longer else len(text)
    while end > 1 and (text[end - 1] in " ,:-`*\"'" or (text[end - 1] == "." and "." not in text[: end - 1])):
        end -= 1  # "Washington, D.C." keeps its last dot
    start = 0
    while start < end and text[start] in " `*\"'":
        start += 1
    answer = text[start:end]
    if fold(answer) in _EMPTY or len(answer) > MAX_ANSWER or not _fits_value(answer, question):
        return None
    return piece.start + start, piece.start + end
