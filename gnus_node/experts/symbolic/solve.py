"""One question, one exact answer, or none: tries every symbolic domain and answers only where exactly one answer is possible.

Invariant: an answer means that every token of the question was understood, in every reading with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gnus_node.experts.symbolic.arithmetic import Parser, Unreadable
from gnus_node.experts.symbolic.dates import date_answers
from gnus_node.experts.symbolic.exact import Tree, Undefined, evaluate, exactly, is_exact, written
from gnus_node.experts.symbolic.frames import strip_frame
from gnus_node.experts.symbolic.tokens import Kind, Token, tokenize
from gnus_node.experts.symbolic.units import conversions


@dataclass(frozen=True, slots=True)
class Solution:
    """An exact answer: its text, the domain that gave it, and the exact value where the text rounds."""

    answer: str
    domain: str
    exact: str = ""


def solve(question: str) -> Solution | None:
    """The answer, or None where the question is not wholly understood, ambiguous, undefined or too large. Never raises."""
    tokens = tokenize(question)
    if not tokens:
        return None
    try:
        found = [*_arithmetic(tokens), *_conversion(tokens), *(Solution(text, "date") for text in date_answers(tokens))]
    except (Undefined, Unreadable):
        return None
    distinct = {s.answer: s for s in found}
    return next(iter(distinct.values())) if len(distinct) == 1 else None


def _arithmetic(tokens: tuple[Token, ...]) -> list[Solution]:
    bare = strip_frame(tokens)
    if not bare or (len(bare) == 1 and bare[0].kind is Kind.NUMBER):
        return []  # a bare literal asks nothing
    values = _values(Parser(bare).sentences())
    percents = _values(Parser(bare).percentages())
    found = [Solution(written(v), "arithmetic", "" if is_exact(v) else exactly(v)) for v in values]
    return found + [Solution(f"{written(v)}%", "arithmetic", "" if is_exact(v) else exactly(v)) for v in percents]


def _values(trees: list[Tree]) -> list[Fraction]:
    return list(dict.fromkeys(evaluate(tree) for tree in trees))


def _conversion(tokens: tuple[Token, ...]) -> list[Solution]:
    return [Solution(c.text(), "units", "" if is_exact(c.value) else f"{exactly(c.value)} {c.unit.plural}") for c in conversions(tokens)]
