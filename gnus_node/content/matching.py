"""Finds the pattern families in one scan copy, in one pass over its words.

Invariants: total; linear in the text (pieces overlap by a fixed part, each pattern is bounded); hits are capped by ``MAX_HITS``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gnus_node.content.parts import Part

MAX_HITS = 10_000
"""Hits kept per copy; a text with more is one finding after another anyway."""
CHUNK, OVERLAP = 4096, 768
"""The words a part needs must stand near its lead: a text is looked at in overlapping pieces of this many characters."""
_OPENERS = "\n\"'>#*[(}].!?:;-|`~="
_TO_BLANKS = str.maketrans({c: " " for c in [*map(chr, range(128)), *"¡¿…–—·•«»‹›、。，！？：；（）「」『』【】،؛؟।"] if not c.isalnum()})


@dataclass(frozen=True, slots=True)
class Hit:
    """One match: where in the copy, and of which family."""

    start: int
    end: int
    family: str


class Matcher:
    """A fixed set of parts, indexed by lead."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._by_word: dict[str, list[Part]] = {}
        raws: dict[str, list[tuple[str, Part]]] = {}
        for part in parts:
            for lead in part.leads:
                if part.raw:
                    raws.setdefault(lead[0], []).append((lead, part))
                else:
                    self._by_word.setdefault(lead, []).append(part)
        # One search per first sign: it begins with a literal, which is what makes it fast.
        self._by_raw = [
            (re.compile(f"{re.escape(first)}(?:{'|'.join(re.escape(lead[1:]) for lead, _ in pairs)})"), pairs)
            for first, pairs in raws.items()
        ]
        self.known = frozenset(self._by_word) | frozenset(w for p in parts for group in p.needs for w in group)

    def find(self, copy: str) -> list[Hit]:
        """All hits in a scan copy, unordered, at most ``MAX_HITS``."""
        hits: list[Hit] = []
        for hit in self._find(copy):
            hits.append(hit)
            if len(hits) >= MAX_HITS:
                break
        return hits

    def _find(self, copy: str) -> Iterator[Hit]:
        for start in range(0, len(copy), CHUNK):
            low, high = max(0, start - OVERLAP), start + CHUNK
            words = copy[low:high]
            present = self.known.intersection(words.translate(_TO_BLANKS).split())
            for lead in present:
                parts = [p for p in self._by_word.get(lead, ()) if all(not present.isdisjoint(group) for group in p.needs)]
                at = copy.find(lead, low, high) if parts else -1
                while at >= 0:
                    end = at + len(lead)
                    if not (copy[end : end + 1].isalnum() or (at and copy[at - 1].isalnum())):
                        yield from _try(copy, at, parts)
                    at = copy.find(lead, end, high)
        for raw, pairs in self._by_raw:
            for found in raw.finditer(copy):
                yield from _try(copy, found.start(), [part for lead, part in pairs if copy.startswith(lead, found.start())])


def _try(copy: str, at: int, parts: Sequence[Part]) -> Iterator[Hit]:
    for part in parts:
        if (not part.edge or _edge(copy, at)) and (found := part.pattern.match(copy, at)):
            yield Hit(at, found.end(), part.family)


def _edge(copy: str, at: int) -> bool:
    """Whether a line, quotation or bracket opens just before ``at``."""
    before = copy[max(0, at - 6) : at].rstrip(" ")
    return not before or before[-1] in _OPENERS
