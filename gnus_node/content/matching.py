"""Finds the pattern families in one scan copy, in one pass over its words.

Invariants: total; linear in the text (each word is visited once and each pattern is bounded); hits are capped by ``MAX_HITS``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gnus_node.content.patterns import Part

MAX_HITS = 10_000
"""Hits kept per copy; a text with more is one finding after another anyway."""
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
        self._by_raw: list[tuple[str, Part]] = []
        for part in parts:
            for lead in part.leads:
                if part.raw:
                    self._by_raw.append((lead, part))
                else:
                    self._by_word.setdefault(lead, []).append(part)
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
        tokens = copy.translate(_TO_BLANKS).split(" ")
        present = self.known.intersection(tokens)
        tried: dict[str, list[Part]] = {}
        for lead in present:
            parts = [p for p in self._by_word.get(lead, ()) if all(not present.isdisjoint(group) for group in p.needs)]
            if parts:
                tried[lead] = parts
        if tried:
            places = [i for i, token in enumerate(tokens) if token in tried]
            ends = list(accumulate(map(len, tokens)))
            for i in places:
                yield from _try(copy, ends[i] - len(tokens[i]) + i, tried[tokens[i]])
        for raw, part in self._by_raw:
            at = copy.find(raw)
            while at >= 0:
                yield from _try(copy, at, [part])
                at = copy.find(raw, at + len(raw))


def _try(copy: str, at: int, parts: Sequence[Part]) -> Iterator[Hit]:
    for part in parts:
        if (not part.edge or _edge(copy, at)) and (found := part.pattern.match(copy, at)):
            yield Hit(at, found.end(), part.family)


def _edge(copy: str, at: int) -> bool:
    """Whether a line, quotation or bracket opens just before ``at``."""
    before = copy[max(0, at - 6) : at].rstrip(" ")
    return not before or before[-1] in _OPENERS
