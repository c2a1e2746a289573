"""Unit conversion: "5 miles in kilometres", "how many feet are in two and a half yards", "convert 98.6 °F to Celsius".

Exact rational arithmetic throughout. Like arithmetic, it keeps every reading and answers only where all agree and every token is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gnus_node.content.unit_table import MAX_WORDS, UNITS, Unit, per, power_of
from gnus_node.experts.symbolic.exact import is_exact, written
from gnus_node.experts.symbolic.frames import strip_frame
from gnus_node.experts.symbolic.numbers import readings, sign, word
from gnus_node.experts.symbolic.tokens import Kind, Token

_SQUARE = {("square",): 2, ("sq",): 2, ("cubic",): 3, ("cu",): 3}
_SUFFIX = {"²": 2, "³": 3, "2": 2, "3": 3}


@dataclass(frozen=True, slots=True)
class Converted:
    """A quantity in the unit asked for."""

    value: Fraction
    unit: Unit
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Number and unit, with what was assumed."""
        name = self.unit.name if abs(self.value) == 1 and is_exact(self.value) else self.unit.plural
        note = f" ({', '.join(self.notes)})" if self.notes else ""
        return f"{written(self.value)} {name}{note}"


def read_unit(tokens: Sequence[Token], at: int) -> list[tuple[Unit, int]]:
    """Units that may be named here: simple, square and cubic, and per unit of time."""
    found = list(_simple(tokens, at))
    for unit, end in list(found):
        slash = sign(tokens, end) == "/"
        if word(tokens, end) in ("per", "a", "an") or slash:
            for below, after in _simple(tokens, end + 1):
                if (rate := per(unit, below)) is not None:
                    found.append((rate, after))
    return found


def _simple(tokens: Sequence[Token], at: int) -> Iterator[tuple[Unit, int]]:
    for prefix, exponent in _SQUARE.items():
        if word(tokens, at) == prefix[0]:
            for unit, end in _named(tokens, at + 1):
                if (squared := power_of(unit, exponent)) is not None:
                    yield squared, end
    for unit, end in _named(tokens, at):
        yield unit, end
        exponent = _SUFFIX.get(sign(tokens, end), 0) or {"squared": 2, "cubed": 3}.get(word(tokens, end), 0)
        after = end + 1
        if sign(tokens, end) == "^" and end + 1 < len(tokens):
            exponent, after = _SUFFIX.get(tokens[end + 1].text, 0), end + 2
        if exponent and (powered := power_of(unit, exponent)) is not None:
            yield powered, after
    here = word(tokens, at)
    if here and here[-1] in _SUFFIX and (powered := _with_suffix(tokens[at].raw)) is not None:
        yield powered, at + 1


def _with_suffix(raw: str) -> Unit | None:
    """``km2``, ``m³``."""
    unit = _lookup((raw[:-1],))
    return power_of(unit, _SUFFIX[raw[-1]]) if unit is not None else None


def _named(tokens: Sequence[Token], at: int) -> Iterator[tuple[Unit, int]]:
    for length in range(1, MAX_WORDS + 1):
        part = tokens[at : at + length]
        if len(part) < length or any(t.kind is not Kind.WORD for t in part):
            return
        if (unit := _lookup(tuple(t.raw for t in part))) is not None:
            yield unit, at + length


def _lookup(raws: tuple[str, ...]) -> Unit | None:
    folded = tuple(r.casefold() for r in raws)
    return UNITS.get(raws) or UNITS.get((*folded[:-1], raws[-1])) or UNITS.get(folded)


def _quantity(tokens: Sequence[Token], at: int) -> list[tuple[Fraction, Unit, int]]:
    """Amounts with units, in the unit's base: "5 feet 3 inches", "a mile", "minus 40 °C"."""
    negative = sign(tokens, at) == "-" or word(tokens, at) in ("minus", "negative")
    start = at + negative
    numbers = readings(tokens, start)
    if word(tokens, start) in ("a", "an", "one", "each"):
        numbers = [*numbers, (Fraction(1), start + 1)]
    found = []
    for number, number_end in numbers:
        unit_at = number_end
        if number.denominator != 1:  # "half of a mile", "half a mile"
            unit_at += word(tokens, unit_at) == "of"
            unit_at += word(tokens, unit_at) in ("a", "an")
        for unit, end in read_unit(tokens, unit_at):
            value = -number if negative else number
            found.append((value * unit.factor + unit.offset, unit, end))
            if negative or unit.offset or unit.dimension not in ("length", "mass", "time"):
                continue
            rest_at = end + (word(tokens, end) == "and" or sign(tokens, end) == ",")
            for rest, rest_unit, rest_end in _quantity(tokens, rest_at) if rest_at < len(tokens) else []:
                if rest_unit.dimension == unit.dimension and rest_unit.factor < unit.factor and 0 <= rest < unit.factor:
                    found.append((value * unit.factor + rest, unit, rest_end))
    return list(dict.fromkeys(found))


def conversions(tokens: Sequence[Token]) -> list[Converted]:
    """All readings of a conversion question that use every token."""
    tokens = strip_frame(tokens)
    return list(dict.fromkeys([*_to_target(tokens), *_how_many(tokens)]))


_TARGET_LINKS = (("in",), ("to",), ("into",), ("as",), ("converted", "to"), ("converted", "into"), ("expressed", "in"))


def _to_target(tokens: Sequence[Token]) -> Iterator[Converted]:
    """ "[convert] QUANTITY (in|to|into|as) UNIT"."""
    start = 1 if word(tokens, 0) in ("convert", "express", "change", "turn", "write") else 0
    for base, source, at in _quantity(tokens, start):
        for link in _TARGET_LINKS:
            if tuple(t.text for t in tokens[at : at + len(link)]) == link:
                yield from _finish(tokens, at + len(link), base, source)


def _finish(tokens: Sequence[Token], at: int, base: Fraction, source: Unit) -> Iterator[Converted]:
    for target, end in read_unit(tokens, at):
        if end == len(tokens) and target.dimension == source.dimension:
            yield _converted(base, source, target)


def _converted(base: Fraction, source: Unit, target: Unit) -> Converted:
    notes = tuple(dict.fromkeys(u.note for u in (source, target) if u.note))
    return Converted((base - target.offset) / target.factor, target, notes)


_LINKS = (
    ("are", "there", "in"),
    ("are", "in"),
    ("in",),
    ("is",),
    ("are",),
    ("make", "up"),
    ("make",),
    ("does",),
    ("equal",),
    ("fit", "in"),
    ("fit", "into"),
    ("per",),
    ("to",),
)


def _how_many(tokens: Sequence[Token]) -> Iterator[Converted]:
    """ "how many UNIT (are there) in QUANTITY"."""
    if (word(tokens, 0), word(tokens, 1)) not in (("how", "many"), ("number", "of")):
        return
    for target, at in read_unit(tokens, 2):
        for link in _LINKS:
            if tuple(t.text for t in tokens[at : at + len(link)]) != link:
                continue
            start = at + len(link)
            for base, source, end in _quantity(tokens, start):
                if end == len(tokens) and source.dimension == target.dimension:
                    yield _converted(base, source, target)
            if link in (("per",), ("to",)):
                yield from (
                    _converted(unit.factor, unit, target)
                    for unit, end in read_unit(tokens, start)
                    if end == len(tokens) and unit.dimension == target.dimension and not unit.offset
                )
