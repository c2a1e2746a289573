"""Exact rational arithmetic with a bound on every size, over a small expression tree; and how results are written.

The tree is evaluated only after the whole question was understood, so that a reading that is too large or undefined is an abstention and
never silently loses to another reading. Bounds are checked before the operation: ``9**9**9`` costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

MAX_BITS = 4096
"""Largest numerator or denominator, in bits (about 1200 decimal digits)."""
MAX_EXPONENT = 4096
MAX_DEGREE = 12
"""Largest degree of an irrational root that is rounded."""
MAX_PLACES = 60
"""Longest terminating decimal that is written out."""
SIGNIFICANT = 12
"""Digits of a rounded result."""


_TOO_LARGE = "too large"


class Undefined(ArithmeticError):
    """No exact value here: division by zero, an irrational root, a size over the bound."""

    @property
    def too_large(self) -> bool:
        """Whether only the size stands in the way."""
        return self.args == (_TOO_LARGE,)


class Irrational(Undefined):
    """A root that is no fraction: there is a value, but none that can be written exactly."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operation over operands; a leaf is a Fraction."""

    op: str
    args: tuple[Node | Fraction, ...]


Tree = Node | Fraction


def evaluate(tree: Tree) -> Fraction:
    """The tree's value. Raises ``Undefined``. The parser bounds the depth."""
    if isinstance(tree, Fraction):
        return tree
    return _checked(_OPERATIONS[tree.op](*[evaluate(a) for a in tree.args]))


def _checked(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise Undefined(_TOO_LARGE)
    return value


def _divide(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Undefined("division by zero")
    return a / b


def _modulo(a: Fraction, b: Fraction) -> Fraction:
    if b <= 0 or a < 0 or a.denominator != 1 or b.denominator != 1:
        raise Undefined("a remainder of other than natural numbers")  # conventions differ for negative ones
    return Fraction(a.numerator % b.numerator)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        return _power(_root(base, exponent.denominator), Fraction(exponent.numerator))
    n = exponent.numerator
    if base == 0 and n <= 0:
        raise Undefined("zero to a power that is not positive")
    if abs(base) == 1 or n == 0:
        return base ** (n % 2) if n else Fraction(1)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(n) > MAX_EXPONENT or size * abs(n) > MAX_BITS * 2:
        raise Undefined(_TOO_LARGE)
    return Fraction(base**n)


def _root(value: Fraction, degree: int) -> Fraction:
    """The exact real root (of an even degree: the positive one). Raises ``Undefined`` where it is irrational."""
    if value < 0 and degree % 2 == 0:
        raise Undefined("an even root of a negative number")
    top, bottom = integer_root(abs(value.numerator), degree), integer_root(value.denominator, degree)
    if top is None or bottom is None:
        raise Irrational("an irrational root")
    return Fraction(top if value >= 0 else -top, bottom)


def integer_root(value: int, degree: int) -> int | None:
    """The natural number whose ``degree``-th power is ``value``, if there is one."""
    if degree == 2:
        found = isqrt(value)
        return found if found * found == value else None
    if degree < 1 or degree > 64:
        return None
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low if low**degree == value else None


def _mean(*values: Fraction) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


_OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": _modulo,
    "^": _power,
    "neg": lambda a: -a,
    "sqrt": lambda a: _root(a, 2),
    "cbrt": lambda a: _root(a, 3),
    "distance": lambda a, b: abs(a - b),
    "mean": _mean,
}


def places(value: Fraction) -> int | None:
    """Decimal places of a terminating decimal, or None."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


def _decimal(value: Fraction, digits: int) -> str:
    """Rounded half to even at ``digits`` places, in plain notation."""
    scaled = round(abs(value) * 10**digits)
    text = str(scaled).rjust(digits + 1, "0")
    sign = "-" if value < 0 and scaled else ""
    return sign + (f"{text[:-digits]}.{text[-digits:]}" if digits else text)


def is_exact(value: Fraction) -> bool:
    """True where ``written`` shows the value exactly."""
    found = places(value)
    return found is not None and found <= MAX_PLACES


def written(value: Fraction) -> str:
    """The value as text: integers plainly, terminating decimals exactly, others rounded to 12 significant digits after a ``≈``.

    One number and no more stands in an answer, so that answers compare; ``exactly`` gives the fraction of a rounded one.
    """
    found = places(value)
    if found is not None and found <= MAX_PLACES:
        return _decimal(value, found)
    whole = abs(value.numerator) // value.denominator
    zeros = 0 if whole else len(str(value.denominator // abs(value.numerator))) - 1
    digits = max(0, SIGNIFICANT - len(str(whole))) if whole else SIGNIFICANT + zeros
    text = _decimal(value, digits)
    return "≈ " + (text.rstrip("0").rstrip(".") if "." in text else text)


def nearly(tree: Tree) -> str | None:
    """A root, or a power with a fraction as exponent, of exact numbers, rounded to ``SIGNIFICANT`` digits; None for any other tree.

    Raises ``Undefined`` where it has no real value or is too large.
    """
    if isinstance(tree, Fraction) or tree.op not in ("sqrt", "cbrt", "^"):
        return None
    if any(not isinstance(a, Fraction) for a in tree.args):
        tree = Node(tree.op, tuple(evaluate(a) for a in tree.args))
    base = evaluate(tree.args[0])
    exponent = evaluate(tree.args[1]) if tree.op == "^" else Fraction(1, 2 if tree.op == "sqrt" else 3)
    if base < 0 and exponent.denominator % 2 == 0:
        raise Undefined("an even root of a negative number")
    degree = exponent.denominator
    if degree > MAX_DEGREE:
        return None
    power = _power(abs(base), Fraction(exponent.numerator))
    scale = 10 ** (SIGNIFICANT + len(str(power.denominator)) + 2)
    root = _floor_root(power.numerator * scale**degree // power.denominator, degree)
    found = Fraction(root, scale) * (-1 if base < 0 and exponent.numerator % 2 else 1)
    whole = len(str(abs(found.numerator) // found.denominator)) if abs(found) >= 1 else 0
    text = _decimal(found, max(0, SIGNIFICANT - whole))
    return "≈ " + text


def _floor_root(value: int, degree: int) -> int:
    """The largest integer whose ``degree``-th power is at most ``value``."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    return low


def exactly(value: Fraction) -> str:
    """The value as an integer or a reduced fraction."""
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
