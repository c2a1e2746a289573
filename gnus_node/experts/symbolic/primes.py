"""Whether a number is prime: "is 97 prime?", "is 91 a prime number?". Pure; bounded by ``MAX_PRIME``."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from gnus_node.experts.symbolic.numbers import readings
from gnus_node.experts.symbolic.tokens import Token

MAX_PRIME = 10**10
"""Largest number that is tried: its root bounds the divisions."""
_ASKS = (("prime",), ("a", "prime"), ("a", "prime", "number"), ("prime", "number"))


def prime_answer(tokens: Sequence[Token]) -> str | None:
    """ "yes", or "no" with the smallest divisor; None where it is no such question, or the number is too large."""
    if not tokens or tokens[0].text != "is":
        return None
    end = len(tokens) - (tokens[-1].text in ("?", "."))
    start = 3 if tuple(t.text for t in tokens[1:3]) == ("the", "number") else 1
    found = set()
    for value, at in readings(tokens, start):
        if tuple(t.text for t in tokens[at:end]) in _ASKS and value.denominator == 1 and 0 <= value <= MAX_PRIME:
            found.add(int(value))
    if len(found) != 1:
        return None
    number = found.pop()
    if number < 2:
        return "no"
    divisor = smallest_divisor(number)
    return "yes" if divisor == number else f"no, {number} = {divisor} × {number // divisor}"


def smallest_divisor(number: int) -> int:
    """The smallest divisor above 1."""
    if number % 2 == 0:
        return 2
    return next((d for d in range(3, isqrt(number) + 1, 2) if number % d == 0), number)
