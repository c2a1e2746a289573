"""Questions whose answer is derived from facts: yes or no, two things, which is more, another unit. Pure, and shared on purpose.

Grounding looks for the facts (``Derived.facts``), an expert finds them, ``conclude`` makes the answer from their quoted values, and the
verifier concludes again from the very spans that are cited: a derived answer that does not follow from its citations counts for nothing.

Invariants: total; only the forms below are read, anything else is no derived question; numbers are compared and converted exactly, only in
one unit, and only rounded when written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from gnus_node.content.agreement import NUMBER_TOLERANCE, agree, number_of, words
from gnus_node.content.unit_table import UNITS, Unit, power_of

MAX_QUESTION = 400
"""Longest question that is read, in characters."""
_NAME = r"[^\W\d_][^?.!,;:]{0,60}?"
_YES_NO = re.compile(
    rf"^\s*(?:is|was|are|were) (?P<claim>[^?,;:]{{1,60}}?) the (?P<what>[a-z][a-z -]{{1,60}}?) (?:of|in) (?P<of>{_NAME})\s*\??\s*$", re.I
)
_THAN = re.compile(
    rf"^\s*(?:is|does|has) (?P<a>{_NAME}) (?:(?:have|got) )?(?:an? )?(?P<how>[a-z -]{{3,40}}?) than (?P<b>{_NAME})(?: (?:does|has|is))?\s*\??\s*$",
    re.I,
)
_OR = re.compile(
    rf"^\s*(?:which|what|who)(?: country| one| state| of them| place| nation)? (?:is|has|have) (?:the |an? )?(?P<how>[a-z -]{{3,40}}?)"
    rf"(?:,|:)? (?P<a>{_NAME}) or (?P<b>{_NAME})\s*\??\s*$",
    re.I,
)
_BOTH = re.compile(
    rf"^\s*(?P<head>(?:what|who|where|how)\b[^?]{{2,80}}? (?:of|in|for) )(?P<a>{_NAME}) and (?:of |in |for )?(?P<b>{_NAME})\s*\??\s*$", re.I
)
_IN_UNIT = re.compile(r"^\s*(?P<base>(?:what|how)\b[^?]{4,200}?) (?:in|measured in|expressed in) (?P<unit>[a-z²³ ]{1,24}?)\s*\??\s*$", re.I)
_SQUARES = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_QUANTITY = re.compile(r"^\s*(?:[$€£]?\s*)?[-−]?\d[\d,]*(?:\.\d+)?\s*(?:thousand|million|billion|trillion)?\s*(?P<unit>[A-Za-z²³ ]{0,24})")
_MORE = {"larger": "", "bigger": "", "greater": "", "higher": "", "longer": "", "more": "", "taller": "", "older": ""}
_LESS = frozenset({"smaller", "lower", "shorter", "less", "fewer"})
_ALONE = {
    "larger": "area",
    "bigger": "area",
    "smaller": "area",
    "populous": "population",
    "people": "population",
    "inhabitants": "population",
}
_SUPERLATIVES = {
    "largest": "larger",
    "biggest": "bigger",
    "smallest": "smaller",
    "highest": "higher",
    "lowest": "lower",
    "longest": "longer",
}


class Form(Enum):
    """What is derived."""

    YES_NO = "yes_no"
    MORE = "more"
    BOTH = "both"
    UNIT = "unit"


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived question: the facts it rests on, as questions of their own, and what is made of them."""

    form: Form
    facts: tuple[str, ...]
    names: tuple[str, ...]
    """Whose each fact is."""
    what: str
    claim: str = ""
    less: bool = False
    """The smaller one is asked for."""
    names_one: bool = False
    """The answer is one of the names, and not yes or no."""


def derived(question: str) -> Derived | None:
    """The derived question this is, or None."""
    if len(question) > MAX_QUESTION:
        return None
    if m := _YES_NO.match(question):
        return Derived(Form.YES_NO, (f"What is the {m['what']} of {m['of']}?",), (m["of"],), m["what"], claim=m["claim"])
    for pattern in (_THAN, _OR):
        if (m := pattern.match(question)) and (found := _attribute(m["how"])):
            what, less = found
            facts = tuple(f"What is the {what} of {m[n]}?" for n in "ab")
            return Derived(Form.MORE, facts, (m["a"], m["b"]), what, less=less, names_one=pattern is _OR)
    if m := _BOTH.match(question):
        return Derived(Form.BOTH, tuple(f"{m['head']}{m[n]}?" for n in "ab"), (m["a"], m["b"]), "")
    if (m := _IN_UNIT.match(question)) and unit_named(m["unit"]) is not None:
        return Derived(Form.UNIT, (f"{m['base']}?",), ("",), m["unit"])
    return None


def _attribute(how: str) -> tuple[str, bool] | None:
    """What is compared, and whether the smaller is asked for: "larger" is the area, "more people" the population, "longer coastline" that."""
    said = [_SUPERLATIVES.get(w, w) for w in how.casefold().split()]
    if not said or not (said[0] in _MORE or said[0] in _LESS):
        return None
    less, rest = said[0] in _LESS, [w for w in said[1:] if w != "a"]
    if not rest:
        return (_ALONE[said[0]], less) if said[0] in _ALONE else None
    return _ALONE.get(rest[-1], " ".join(rest)), less


def conclude(question: Derived, quotes: Sequence[str]) -> str | None:
    """The answer that follows from one quoted value for each fact, or None where none does."""
    if len(quotes) != len(question.facts) or not all(quotes):
        return None
    if question.form is Form.YES_NO:
        same = agree(question.claim, quotes[0])
        return f"{'Yes' if same else 'No'} (the {question.what} of {question.names[0]} is {quotes[0]})"
    if question.form is Form.BOTH:
        return "; ".join(f"{name}: {quote}" for name, quote in zip(question.names, quotes, strict=True))
    if question.form is Form.UNIT:
        return _converted(quotes[0], question.what)
    return _compared(question, quotes[0], quotes[1])


def _compared(question: Derived, first: str, second: str) -> str | None:
    a, b = number_of(first), number_of(second)
    if a is None or b is None or _unit_text(first) != _unit_text(second) or abs(a - b) <= NUMBER_TOLERANCE * max(abs(a), abs(b)):
        return None
    holds = (a < b) if question.less else (a > b)
    told = f"({question.what}: {question.names[0]} {first}; {question.names[1]} {second})"
    return f"{question.names[0 if holds else 1] if question.names_one else 'Yes' if holds else 'No'} {told}"


def _unit_text(quote: str) -> tuple[str, ...]:
    found = _QUANTITY.match(quote)
    return words(found["unit"]) if found else (quote,)


def unit_named(text: str) -> Unit | None:
    """The unit a text names: ``square miles``, ``sq km``, ``feet``."""
    parts = text.split()
    power = _SQUARES.get(parts[0].casefold(), 0) if len(parts) > 1 else 0
    name = parts[1:] if power else parts
    if not power and name and name[-1][-1] in "²³":
        power, name = ("²³".index(name[-1][-1]) + 2), [*name[:-1], name[-1][:-1]]
    unit = UNITS.get(tuple(name)) or UNITS.get(tuple(p.casefold() for p in name))
    return power_of(unit, power) if unit is not None and power else unit


def _converted(quote: str, target: str) -> str | None:
    """The quantity in the unit asked for, with the quoted one beside it."""
    found, number, wanted = _QUANTITY.match(quote), number_of(quote), unit_named(target)
    source = unit_named(found["unit"].strip()) if found and found["unit"].strip() else None
    if number is None or source is None or wanted is None or source.dimension != wanted.dimension or source == wanted:
        return None
    return f"≈ {rounded((number * source.factor + source.offset - wanted.offset) / wanted.factor)} {wanted.plural} ({quote})"


def rounded(value: Fraction) -> str:
    """Whole above a thousand, else four significant digits."""
    if abs(value) >= 1000:
        return f"{round(value):,}"
    digits = 0
    while digits < 12 and abs(value) * 10**digits < 1000:
        digits += 1
    scaled = round(abs(value) * 10**digits)
    whole, rest = divmod(scaled, 10**digits)
    text = f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".") if digits else str(whole)
    return ("-" if value < 0 and scaled else "") + text
