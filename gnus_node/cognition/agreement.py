"""Do answers agree? Normalising, clustering, divergence (18.1.3.3, 18.1.6.2). Pure.

Two answers agree where their normalised words are the same, one stands whole within the other, or both are numbers within a tolerance.
Divergence is the Gini impurity of the clusters' weights: 0 where all weight agrees.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction

NUMBER_TOLERANCE = Fraction(1, 200)
"""Numbers within half a percent agree: sources round."""
_WORD = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?|[^\W_]+", re.UNICODE)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ARTICLES = frozenset({"the", "a", "an"})


def words(text: str) -> tuple[str, ...]:
    """Case-folded words without marks, punctuation and articles; numbers without separators."""
    flat = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    found = [w.replace(",", "") if w[-1].isdigit() else w for w in _WORD.findall(flat)]
    return tuple(w for w in found if w not in _ARTICLES)


def number_of(text: str) -> Fraction | None:
    """The number an answer is, where it holds exactly one (with a scale word, with or without a unit): ``1.284 million sq km``."""
    found = words(text)
    places = [at for at, w in enumerate(found) if w.lstrip("+-")[:1].isdigit()]
    if len(places) != 1:
        return None
    try:
        number = Fraction(Decimal(found[places[0]]))
    except (InvalidOperation, ValueError):
        return None
    return number * _SCALES.get(found[places[0] + 1] if places[0] + 1 < len(found) else "", 1)


def agree(a: str, b: str) -> bool:
    """Whether two answers say the same."""
    left, right = number_of(a), number_of(b)
    if left is not None and right is not None:
        return abs(left - right) <= NUMBER_TOLERANCE * max(abs(left), abs(right))
    first, second = words(a), words(b)
    if not first or not second:
        return False
    return first == second or _within(first, second) or _within(second, first)


def _within(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    size = len(short)
    return size < len(long) and any(long[i : i + size] == short for i in range(len(long) - size + 1))


def contains(text: str, answer: str) -> bool:
    """Whether an answer's words stand, in order and together, in a text."""
    needle, hay = words(answer), words(text)
    return bool(needle) and (needle == hay or _within(needle, hay))


def cluster(answers: Sequence[str]) -> list[int]:
    """A cluster number from 1 for each answer, in order; an answer joins the first cluster whose first member it agrees with."""
    firsts: list[str] = []
    numbers: list[int] = []
    for answer in answers:
        for index, first in enumerate(firsts):
            if agree(answer, first):
                numbers.append(index + 1)
                break
        else:
            firsts.append(answer)
            numbers.append(len(firsts))
    return numbers


def divergence(weights: Sequence[int]) -> int:
    """Gini impurity of cluster weights, 0..10000."""
    total = sum(weights)
    if total <= 0:
        return 0
    return round(10_000 * (1 - sum(Fraction(w, total) ** 2 for w in weights)))
