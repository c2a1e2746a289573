"""English number words: every way to read a number that starts at a token.

Readers here return *all* readings as ``(value, next token)`` pairs. "one hundred and five" is 105, or 100 followed by "and five": which
of them fits is for the sentence to decide, and where two readings both fit and differ the expert abstains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from gnus_node.experts.symbolic.tokens import Kind, Token

Reading = tuple[Fraction, int]


def _words(text: str) -> list[str]:
    return text.split()


UNITS = {w: i for i, w in enumerate(_words("zero one two three four five six seven eight nine"))} | {"nought": 0, "naught": 0}
TEENS = {w: i + 10 for i, w in enumerate(_words("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"))}
TENS = {w: (i + 2) * 10 for i, w in enumerate(_words("twenty thirty forty fifty sixty seventy eighty ninety"))} | {"fourty": 40}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
SMALL_ORDINALS = {
    w: i + 1
    for i, w in enumerate(
        _words("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth")
        + _words("fifteenth sixteenth seventeenth eighteenth nineteenth twentieth")
    )
}
_PARTS = {w: n for w, n in SMALL_ORDINALS.items() if n > 2} | {
    "half": 2,
    "quarter": 4,
    "thirtieth": 30,
    "fortieth": 40,
    "fiftieth": 50,
    "hundredth": 100,
    "thousandth": 1000,
    "millionth": 10**6,
}
DENOMINATORS = {w: (n, False) for w, n in _PARTS.items()} | {w + "s": (n, True) for w, n in _PARTS.items() if w != "half"}
DENOMINATORS["halves"] = (2, True)
"""Word of a fraction's denominator -> (value, plural)."""
MAX_DECIMALS = 20


def word(tokens: Sequence[Token], at: int) -> str:
    """The word at a place, or an empty text."""
    return tokens[at].text if at < len(tokens) and tokens[at].kind is Kind.WORD else ""


def sign(tokens: Sequence[Token], at: int) -> str:
    """The sign at a place, or an empty text."""
    return tokens[at].text if at < len(tokens) and tokens[at].kind is Kind.SIGN else ""


def digits(tokens: Sequence[Token], at: int) -> Fraction | None:
    """The literal at a place."""
    if at < len(tokens) and tokens[at].kind is Kind.NUMBER:
        return Fraction(tokens[at].text)
    return None


def _below_hundred(tokens: Sequence[Token], at: int) -> Iterator[tuple[int, int]]:
    here = word(tokens, at)
    if here in UNITS:
        yield UNITS[here], at + 1
    elif here in TEENS:
        yield TEENS[here], at + 1
    elif here in TENS:
        yield TENS[here], at + 1
        following = UNITS.get(word(tokens, at + 1), 0)
        if following:
            yield TENS[here] + following, at + 2


def _below_thousand(tokens: Sequence[Token], at: int) -> Iterator[tuple[int, int]]:
    """0..999, and "twelve hundred" style up to 9900 and below."""
    if word(tokens, at) in ("a", "an") and word(tokens, at + 1) == "hundred":
        heads = [(1, at + 1)]
    else:
        heads = list(_below_hundred(tokens, at))
        yield from heads
    for head, next_at in heads:
        if head == 0 or word(tokens, next_at) != "hundred":
            continue
        yield head * 100, next_at + 1
        rest_at = next_at + 1 + (word(tokens, next_at + 1) == "and")
        for rest, end in _below_hundred(tokens, rest_at):
            if rest:
                yield head * 100 + rest, end


def cardinals(tokens: Sequence[Token], at: int, below: int = 10**15) -> Iterator[tuple[int, int]]:
    """Natural numbers in words below ``below``: groups in descending scales, joined by nothing, "and" or a comma."""
    if word(tokens, at) in ("a", "an") and word(tokens, at + 1) in SCALES:
        groups = [(1, at + 1)]
    else:
        groups = list(_below_thousand(tokens, at))
        yield from ((n, end) for n, end in groups if n < below)
    for group, next_at in groups:
        scale = SCALES.get(word(tokens, next_at), 0)
        if not scale or group == 0 or group * scale >= below or group > 999:
            continue
        head = group * scale
        yield head, next_at + 1
        for rest_at in _joined(tokens, next_at + 1):
            for rest, end in cardinals(tokens, rest_at, scale):
                if rest and word(tokens, rest_at) not in ("a", "an"):
                    yield head + rest, end


def _joined(tokens: Sequence[Token], at: int) -> Iterator[int]:
    """Where the next, smaller group may start."""
    yield at
    after = at + (sign(tokens, at) == ",")
    after += word(tokens, after) == "and"
    if after != at:
        yield after


def _literals(tokens: Sequence[Token], at: int) -> Iterator[Reading]:
    """Digits, with a scale word or without: ``3.5 million``."""
    value = digits(tokens, at)
    if value is None:
        return
    yield value, at + 1
    scale = SCALES.get(word(tokens, at + 1), 0) or (100 if word(tokens, at + 1) == "hundred" else 0)
    if scale:
        yield value * scale, at + 2


def _with_point(tokens: Sequence[Token], at: int) -> Iterator[Reading]:
    """``three point one four``, ``point five``; each digit is one word."""
    heads = [(0, at)] if word(tokens, at) == "point" else list(cardinals(tokens, at, 1000 * 1000))
    for head, next_at in heads:
        if word(tokens, next_at) != "point":
            continue
        value, end = Fraction(head), next_at + 1
        while end - next_at <= MAX_DECIMALS and (word(tokens, end) in UNITS or word(tokens, end) == "oh"):
            value += Fraction(UNITS.get(word(tokens, end), 0), 10 ** (end - next_at))
            end += 1
            yield value, end
            if (scale := SCALES.get(word(tokens, end), 0)) and word(tokens, end + 1) not in SCALES:
                yield value * scale, end + 1


def fractions(tokens: Sequence[Token], at: int) -> Iterator[Reading]:
    """``three quarters``, ``a third``, ``half``, ``half a million``."""
    if word(tokens, at) == "half":
        yield Fraction(1, 2), at + 1
        if word(tokens, at + 1) in ("a", "an"):
            scale = SCALES.get(word(tokens, at + 2), 0) or {"hundred": 100, "dozen": 12}.get(word(tokens, at + 2), 0)
            if scale:
                yield Fraction(scale, 2), at + 3
    heads = [(1, at + 1)] if word(tokens, at) in ("a", "an") else list(cardinals(tokens, at, 1000))
    for head, next_at in heads:
        denominator, plural = DENOMINATORS.get(word(tokens, next_at), (0, False))
        if denominator and plural == (head != 1):
            yield Fraction(head, denominator), next_at + 1


def readings(tokens: Sequence[Token], at: int) -> list[Reading]:
    """Every number that may start here, without repeats: digits, words, decimals, fractions, dozens, mixed numbers."""
    found: dict[Reading, None] = {}
    whole = [*_literals(tokens, at), *((Fraction(n), end) for n, end in cardinals(tokens, at))]
    for value, end in whole:
        found[value, end] = None
        if word(tokens, end) == "dozen":
            found[value * 12, end + 1] = None
        if word(tokens, end) == "and":
            for part, after in fractions(tokens, end + 1):
                if part < 1 and value.denominator == 1:
                    found[value + part, after] = None
                    if scale := SCALES.get(word(tokens, after), 0):
                        found[(value + part) * scale, after + 1] = None
    for reading in (*_with_point(tokens, at), *fractions(tokens, at)):
        found[reading] = None
    here = word(tokens, at)
    if here == "dozen" or (here == "a" and word(tokens, at + 1) == "dozen"):
        found[Fraction(12), at + 1 + (here == "a")] = None
    return list(found)
