"""What a pattern family is made of: parts with lead words, needed words, and bounded patterns.

Invariants: patterns built from these gaps and words are linear, since repeats are bounded and gaps atomic; they read scan copies
(``normalise.scan_copy``), which are lower case, without accents, with plain quotes, and with underscores as blanks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

G = r"(?>[^\w\n]{1,8}(?:\n[^\w\n]{0,8})?|\n[^\w\n]{0,8})"
"""A gap between two words: blanks and signs, at most one line end (so nothing is matched across a paragraph)."""
S = r"(?>[ ,'\"*-]{1,4}(?:\n {0,4})?)"
"""A narrow gap: inside one sentence."""
W = r"\w{1,24}+"


def words(low: int, high: int, gap: str = G) -> str:
    """Between ``low`` and ``high`` words, each with its gap, as few as will do."""
    return rf"(?:{W}{gap}){{{low},{high}}}?"


@dataclass(frozen=True, slots=True)
class Part:
    """``pattern`` is matched where one of ``leads`` stands, if one word of every group in ``needs`` occurs in the text.

    ``edge``: only where a line, a quotation or a bracket opens. ``raw``: leads are substrings, not words.
    """

    family: str
    leads: tuple[str, ...]
    needs: tuple[frozenset[str], ...]
    pattern: re.Pattern[str] = field(repr=False)
    edge: bool = False
    raw: bool = False


def make_part(family: str, leads: str, pattern: str, *needs: str, edge: bool = False, raw: bool = False) -> Part:
    """``leads`` and ``needs`` are words separated by blanks; needs also count with a plural s. Layout in ``pattern`` is dropped."""
    flat = re.sub(r" *(?<!\\)\| +", "|", re.sub(r"\s*\n\s*", "", pattern))
    groups = tuple(frozenset(w + s for w in group.split() for s in ("", "s")) for group in needs)
    return Part(family, tuple(leads.split()), groups, re.compile(flat), edge, raw)
