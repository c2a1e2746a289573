"""One question, one exact answer, or none: tries every symbolic domain and answers only where exactly one answer is possible.

Invariant: an answer means that every token of the question was understood, in every reading with the same result. Where the question was
understood but has no one answer, the reason says so: a code of the error table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from gnus_node.experts.symbolic.arithmetic import Parser, Unreadable
from gnus_node.experts.symbolic.dates import date_answers, shifted_day
from gnus_node.experts.symbolic.exact import Irrational, Tree, Undefined, evaluate, exactly, is_exact, nearly, written
from gnus_node.experts.symbolic.frames import strip_frame
from gnus_node.experts.symbolic.primes import prime_answer
from gnus_node.experts.symbolic.tokens import Kind, Token, tokenize
from gnus_node.experts.symbolic.units import conversions

_YEARS = {("a", "leap", "year"): 366, ("one", "leap", "year"): 366, ("a", "common", "year"): 365, ("a", "non-leap", "year"): 365}
"""Years of a fixed length, in days: other years have none."""
_HOLDS = frozenset({"in", "into", "does", "of", "up", "for"})
_UNCLEAR = {"ton": "tonne", "tons": "tonnes", "nm": "nmi", "month": "week", "months": "weeks", "year": "week", "years": "weeks"}
"""Units that mean different things, or have no fixed length, and one that stands for them to see whether the rest is understood."""


@dataclass(frozen=True, slots=True)
class Solution:
    """An exact answer: its text, the domain that gave it, and the exact value where the text rounds."""

    answer: str
    domain: str
    exact: str = ""


def solve(question: str) -> Solution | None:
    """The answer, or None where the question is not wholly understood, ambiguous, undefined or too large. Never raises."""
    found = attempt(question)
    return found if isinstance(found, Solution) else None


def attempt(question: str) -> Solution | str:
    """The answer; or why there is none: ``UNDEFINED``, ``TOO_LARGE``, ``NO_SUCH_DATE``, ``AMBIGUOUS``, or ``ABSTAINED`` where the question is
    not understood. Never raises."""
    tokens = tokenize(question)
    if not tokens:
        return "ABSTAINED"
    tokens = _fixed_years(tokens)
    try:
        distinct = _solutions(tokens)
    except Undefined as error:
        return "TOO_LARGE" if error.too_large else "UNDEFINED"
    except Unreadable:
        return "ABSTAINED"
    if len(distinct) == 1:
        return distinct[0]
    return "AMBIGUOUS" if distinct else _reason(tokens)


def _solutions(tokens: Sequence[Token]) -> list[Solution]:
    tokens = tuple(tokens)
    found = [*_arithmetic(tokens), *_conversion(tokens), *(Solution(text, "date") for text in date_answers(tokens))]
    if (prime := prime_answer(tokens)) is not None:
        found.append(Solution(prime, "primes"))
    return list({s.answer: s for s in found}.values())


def _fixed_years(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """ "a leap year" as its days."""
    texts = [t.text for t in tokens]
    for phrase, days in _YEARS.items():
        for at in range(len(texts) - len(phrase) + 1):
            if tuple(texts[at : at + len(phrase)]) == phrase and at and texts[at - 1] in _HOLDS:
                made = (Token(Kind.NUMBER, str(days), str(days)), Token(Kind.WORD, "days", "days"))
                return (*tokens[:at], *made, *tokens[at + len(phrase) :])
    return tokens


def _reason(tokens: tuple[Token, ...]) -> str:
    """Why a question that would be understood with another date or unit has no answer."""
    moved = shifted_day(tokens)
    clear = tuple(Token(t.kind, _UNCLEAR[t.text], _UNCLEAR[t.text]) if t.text in _UNCLEAR else t for t in tokens)
    try:
        if moved != tokens and date_answers(moved):
            return "NO_SUCH_DATE"
        if clear != tokens and _conversion(clear):
            return "AMBIGUOUS"
    except (Undefined, Unreadable):
        pass
    return "ABSTAINED"


def _arithmetic(tokens: tuple[Token, ...]) -> list[Solution]:
    bare = strip_frame(tokens)
    if not bare or (len(bare) == 1 and bare[0].kind is Kind.NUMBER):
        return []  # a bare literal asks nothing
    trees = Parser(bare).sentences()
    try:
        values = _values(trees)
    except Irrational:
        return _irrational(trees)
    percents = _values(Parser(bare).percentages())
    found = [Solution(written(v), "arithmetic", "" if is_exact(v) else exactly(v)) for v in values]
    return found + [Solution(f"{written(v)}%", "arithmetic", "" if is_exact(v) else exactly(v)) for v in percents]


def _irrational(trees: list[Tree]) -> list[Solution]:
    """A single root or power that is irrational, rounded; an irrational part of something larger stays without an answer."""
    found = [nearly(tree) for tree in dict.fromkeys(trees)]
    if any(text is None for text in found):
        raise Undefined("an irrational part of a larger expression")
    return [Solution(text, "arithmetic", "an irrational number") for text in dict.fromkeys(t for t in found if t is not None)]


def _values(trees: list[Tree]) -> list[Fraction]:
    return list(dict.fromkeys(evaluate(tree) for tree in trees))


def _conversion(tokens: tuple[Token, ...]) -> list[Solution]:
    return [Solution(c.text(), "units", "" if is_exact(c.value) else f"{exactly(c.value)} {c.unit.plural}") for c in conversions(tokens)]
