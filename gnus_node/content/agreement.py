"""Whether two texts say the same, and whether one holds the other (18.1.3.3). Pure.

Two answers agree where their normalised words are the same, one stands whole within the other, both are lists of which one holds the other,
or both are numbers within a tolerance. What is compared is what a reader sees: markup counts for nothing.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from gnus_node.content.quoting import plain_quote

NUMBER_TOLERANCE = Fraction(1, 200)
"""Numbers within half a percent agree: sources round."""
_WORD = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?|[^\W_]+", re.UNICODE)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ITEM_END = re.compile(r"\s*[;\n]\s*|,\s+(?![0-9]{3}\b)|\s+and\s+")
_BRACKETS = re.compile(r"\([^()]{0,300}\)")
MAX_ITEMS = 64
"""Items of a list that are compared."""
_SHORT = {"st": "saint", "ste": "sainte", "mt": "mount"}
_APOSTROPHES = str.maketrans("", "", "'’‘ʻʼ`")
_ARTICLES = frozenset({"the", "a", "an"})


def words(text: str) -> tuple[str, ...]:
    """Case-folded words without marks, punctuation and articles; numbers without separators."""
    flat = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    found = [w.replace(",", "") if w[-1].isdigit() else _SHORT.get(w, w) for w in _WORD.findall(flat.translate(_APOSTROPHES))]
    return tuple(w for w in found if w not in _ARTICLES)


def number_of(text: str) -> Fraction | None:
    """The number an answer is, where it holds exactly one (with a scale word, with or without a unit): ``1.284 million sq km``."""
    found = words(bare(text))
    places = [at for at, w in enumerate(found) if w.lstrip("+-")[:1].isdigit()]
    if len(places) != 1:
        return None
    try:
        number = Fraction(Decimal(found[places[0]]))
    except (InvalidOperation, ValueError):
        return None
    return number * _SCALES.get(found[places[0] + 1] if places[0] + 1 < len(found) else "", 1)


def numbers_in(text: str) -> tuple[Fraction, ...]:
    """Every number of an answer's parts ("China: 1.4 billion; India: 1.5 billion"); empty where a part has none, or several."""
    found = [number_of(part) for part in text.split(";")]
    return tuple(n for n in found if n is not None) if all(n is not None for n in found) else ()


def bare(text: str) -> str:
    """The text without what stands in brackets, where anything is left: a date, a remark, what an answer was derived from."""
    if "(" not in text:
        return text
    left = _BRACKETS.sub(" ", text)
    return left if words(left) else text


def agree(a: str, b: str) -> bool:
    """Whether two answers say the same."""
    left, right = number_of(a), number_of(b)
    if left is not None and right is not None:
        return abs(left - right) <= max(NUMBER_TOLERANCE * max(abs(left), abs(right)), _rounding(a, b), _rounding(b, a))
    first, second = words(bare(a)), words(bare(b))
    if first == second and first:
        return True
    if {first, second} == {("yes",), ("no",)}:
        return False
    first, second = words(a), words(b)
    if not first or not second:
        return False
    return first == second or _within(first, second) or _within(second, first) or _lists_agree(a, b)


def _rounding(short: str, long: str) -> Fraction:
    """Half of the last place of a number that is written with fewer decimals than the other; nothing where it is not."""
    places = [
        max((len(w.partition(".")[2]) for w in words(bare(text)) if w.lstrip("+-")[:1].isdigit()), default=0) for text in (short, long)
    ]
    return Fraction(1, 2 * 10 ** places[0]) if places[0] < places[1] else Fraction(0)


def _lists_agree(a: str, b: str) -> bool:
    """Whether both are lists of two or more items, and every item of the shorter one is one of the longer one, in any order."""
    left, right = items(a), items(b)
    short, long = (left, right) if len(left) <= len(right) else (right, left)
    return len(short) > 1 and short <= long


def items(text: str) -> frozenset[tuple[str, ...]]:
    """The items of a list, each as words; what stands in brackets says no more than the item."""
    return frozenset([w for part in _ITEM_END.split(bare(text))[:MAX_ITEMS] if (w := words(part))])


def _within(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    size = len(short)
    return size < len(long) and any(long[i : i + size] == short for i in range(len(long) - size + 1))


def contains(text: str, answer: str) -> bool:
    """Whether an answer's words stand, in order and together, in a text."""
    needle, hay = words(answer), words(text)
    return bool(needle) and (needle == hay or _within(needle, hay))


def supports(text: str, span: tuple[int, int], answer: str) -> bool:
    """Whether a passage really holds an answer: at the span, in what a reader sees of it, or anywhere; a list ("A; B; C") by its items, in
    their order, within the span."""
    cut = text[span[0] : span[1]]
    shown = plain_quote(cut)
    if contains(cut, answer) or contains(shown, answer) or contains(text, answer):
        return True
    parts = [p for p in answer.split(";") if p.strip()]
    return len(parts) > 1 and _in_order(words(shown), [words(p) for p in parts])


def _in_order(hay: tuple[str, ...], parts: list[tuple[str, ...]]) -> bool:
    at = 0
    for part in parts:
        size = len(part)
        at = next((i + size for i in range(at, len(hay) - size + 1) if hay[i : i + size] == part), -1)
        if not size or at < 0:
            return False
    return True
