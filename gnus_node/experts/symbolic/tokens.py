"""Text to tokens for the symbolic expert. Every character is accounted for: one unknown character and the question is not understood.

Only ASCII digits are digits. Thousands separators are read only where they stand right (``1,234,567``), leading zeros are kept (they
matter to dates). A hyphen between letters joins words (``twenty-one``, ``top-level``); any other hyphen is a minus sign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

MAX_CHARACTERS = 2000
MAX_TOKENS = 240
MAX_DIGITS = 60
"""Longest literal in a question."""


class Kind(Enum):
    """What a token is."""

    NUMBER = "number"
    ORDINAL = "ordinal"
    DATE = "date"
    WORD = "word"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; ``text`` is its normal form (words case-folded), ``raw`` what stood there."""

    kind: Kind
    text: str
    raw: str


_SIGNS = {
    "×": "*",
    "·": "*",
    "⋅": "*",
    "∗": "*",
    "÷": "/",
    "∕": "/",
    "−": "-",
    "–": "-",
    "’": "'",
    "\u00a0": " ",
    "\u202f": " ",
    "\u2009": " ",
}
_PATTERN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9A-Za-z-]))"
    r"|(?P<ordinal>[0-9]{1,4}(?:st|nd|rd|th)(?![A-Za-z0-9]))"
    r"|(?P<number>(?:[0-9]+(?:,[0-9]+)*)(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3}(?![0-9A-Za-z]))?|\.[0-9]+)"
    r"|(?P<times>(?<=[0-9) ])x(?= *[0-9(.]))"
    r"|(?P<word>[A-Za-z°µ]+(?:[²³]|[23](?![0-9A-Za-z]))?(?:'[A-Za-z]+)?)"
    r"|(?P<join>(?<=[A-Za-z])-(?=[A-Za-z]))"
    r"|(?P<sign>\*\*|[-+*/^%()=?.,:;²³√!])",
    re.ASCII,
)


def tokenize(text: str) -> tuple[Token, ...] | None:
    """Tokens of a question, or None where a character or the size is not understood. Never raises."""
    if len(text) > MAX_CHARACTERS:
        return None
    text = "".join(_SIGNS.get(c, c) for c in text)
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None or len(found) >= MAX_TOKENS:
            return None
        kind, raw = match.lastgroup, match[0]
        at = match.end()
        if kind in ("space", "join"):
            continue
        if kind == "number":
            pieces = _numbers(raw)
            if pieces is None:
                return None
            found.extend(pieces)
        elif kind == "word":
            found.append(Token(Kind.WORD, raw.casefold(), raw))
        elif kind in ("sign", "times"):
            found.append(Token(Kind.SIGN, _SPELLED.get(raw, raw), raw))
        else:
            found.append(Token(Kind(kind), raw, raw))
    return tuple(found)


_SPELLED = {"**": "^", "x": "*"}
_GROUPED = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?(e[+-]?[0-9]+)?")


def _numbers(raw: str) -> list[Token] | None:
    """One number, or the items of a list written without blanks (``1,2,3``); None where it could be either."""
    if len(raw) > MAX_DIGITS:
        return None
    if "," not in raw or _GROUPED.fullmatch(raw):
        return [Token(Kind.NUMBER, raw.replace(",", ""), raw)]
    items = raw.split(",")
    if any(len(item) >= 3 for item in items[1:]):
        return None
    found: list[Token] = []
    for item in items:
        found += [Token(Kind.SIGN, ",", ","), Token(Kind.NUMBER, item, item)]
    return found[1:]
