"""Passages cut into pieces that can answer: fields (a path of labels and a value) and sentences, each with its exact place. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from gnus_node.experts.backend import Passage
from gnus_node.experts.extractive.words import Word, content, stems, words

MAX_TEXT = 20_000
MAX_PIECES = 400
MAX_FIELD = 600
MAX_LABEL_WORDS = 6
_PATH = re.compile(r"\s+(?:>|»|::|›|\|)\s+")
_LABEL = re.compile(r"(?:^|(?<=[;\n]))[ \t]*(?:[-*•]\s+)?\**`?([^\W_][\w &/()',.%-]{0,60}?)`?\**[ \t]*(?::|=(?!=))\**[ \t]+(?=\S)", re.M)
_ROW = re.compile(r"^\|[ \t]*([^|\n]{1,60}?)[ \t]*\|[ \t]*([^|\n]{1,400}?)[ \t]*\|", re.M)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])|\n\s*\n|\n(?=\s*(?:[-*•#|>]|\d+\.)\s*)")
_ABBREVIATED = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|est|Mr|Mrs|Ms|Dr|St|No|Fig|Inc|Ltd|Jr|Sr)|\b[A-Z])\.$")
_MARKUP = re.compile(r"(?:\s|[-*•#>]|\d+\.\s)+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one passage that may hold an answer: characters ``start:end`` of its text."""

    passage: Passage
    path: tuple[str, ...]
    """Title segments, then the label if it has its own."""
    start: int
    end: int
    field: bool
    before: int
    """Where the sentence before starts; equals ``start`` where there is none."""
    words: tuple[Word, ...]
    stems: frozenset[str]
    stems_before: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The value, or the sentence."""
        return self.passage.text[self.start : self.end]


def path_of(title: str) -> tuple[str, ...]:
    """The segments of a title."""
    return tuple(s for s in (p.strip(" #`*") for p in _PATH.split(title)) if s)


class _Reader:
    """One passage, its words found once."""

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.text = passage.text[:MAX_TEXT]
        self.path = path_of(passage.title)
        self._words = words(self.text)
        self._starts = [w.start for w in self._words]

    def piece(self, path: tuple[str, ...], start: int, end: int, *, field: bool, before: int | None = None) -> Piece:
        """The piece of these characters."""
        before = start if before is None else before
        found = self._between(start, end)
        ahead = content(self._between(before, start)) if before < start else frozenset()
        return Piece(self.passage, path, start, end, field, before, tuple(found), content(found), ahead)

    def _between(self, start: int, end: int) -> list[Word]:
        return self._words[bisect_left(self._starts, start) : bisect_left(self._starts, end)]


def pieces(passage: Passage) -> list[Piece]:
    """Every piece of a passage, fields first, bounded by ``MAX_PIECES``."""
    reader = _Reader(passage)
    return list(islice(chain(_fields(reader), _sentences(reader)), MAX_PIECES))


def abbreviated(text: str, end: int) -> bool:
    """Whether the dot before ``end`` belongs to an abbreviation."""
    return _ABBREVIATED.search(text[max(0, end - 12) : end]) is not None


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _fields(reader: _Reader) -> Iterator[Piece]:
    text, path = reader.text, reader.path
    labels = list(_LABEL.finditer(text))
    if len(path) > 1 and len(text) <= MAX_FIELD:
        start, end = _trimmed(text, 0, len(text))
        if labels and labels[0].start() <= start and stems(labels[0][1]) <= stems(" ".join(path)):
            start = labels[0].end()  # the value repeats its label
        if start < end:
            yield reader.piece(path, start, end, field=True)
    for at, label in enumerate(labels):
        stop = labels[at + 1].start() if at + 1 < len(labels) else len(text)
        line = text.find("\n", label.end())
        stop = min(stop, line if line >= 0 else len(text), label.end() + MAX_FIELD)
        start, end = _trimmed(text, label.end(), stop)
        if start < end and len(label[1].split()) <= MAX_LABEL_WORDS:
            yield reader.piece((*path, label[1]), start, end, field=True)
    for row in _ROW.finditer(text):
        if row[2].strip("-: "):
            yield reader.piece((*path, row[1].strip("`* ")), row.start(2), row.end(2), field=True)


def _sentences(reader: _Reader) -> Iterator[Piece]:
    text = reader.text
    cuts = [m for m in _SENTENCE_END.finditer(text) if "\n" in m[0] or not abbreviated(text, m.start())]
    starts = [0, *(m.end() for m in cuts)]
    ends = [*(m.start() for m in cuts), len(text)]
    before = 0
    for start, end in zip(starts, ends, strict=True):
        lead = _MARKUP.match(text, start)
        first, last = _trimmed(text, lead.end() if lead and lead.end() < end else start, end)
        if last > first:
            yield reader.piece(reader.path, first, last, field=False, before=before)
            before = first
