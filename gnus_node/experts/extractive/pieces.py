"""Passages cut into pieces that can answer: fields (a path of labels and a value) and sentences, each with its exact place. Pure.

A line break of the source ends nothing by itself: sentences and values go on over wrapped lines, up to a blank line, a list item, a heading,
a row, or a short line that stands alone. Rows of tables and of separated values are fields below their row's label.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice

from gnus_node.content.tables import Table, markdown_tables, separated_values, trimmed
from gnus_node.experts.backend import Passage
from gnus_node.experts.extractive.words import STOP, Word, content, fold, stems, words

MAX_TEXT = 20_000
MAX_PIECES = 600
MAX_FIELD = 600
MAX_LABEL_WORDS = 6
MAX_LISTING = 2_400
"""Longest list that goes with the sentence that announces it, in characters."""
SHORT_LINE = 0.7
"""A line shorter than this share of the longest one of its paragraph was not broken for its length."""
_PATH = re.compile(r"\s+(?:>|»|::|›|\|)\s+")
_LABEL = re.compile(r"(?:^|(?<=[;\n]))[ \t]*(?:[-*•]\s+)?\**`?([^\W_][\w &/()',.%-]{0,60}?)`?\**[ \t]*(?::|=(?!=))\**[ \t]+(?=\S)", re.M)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[`*]?[A-Z0-9])")
_ABBREVIATED = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|est|Mr|Mrs|Ms|Dr|St|No|Fig|Inc|Ltd|Jr|Sr)|\b[A-Z]|(?:^|\n)[ \t]*\d{1,3})\.$")
_MARKUP = re.compile(r"(?:\s|[-*•>](?=\s)|#{1,6}\s|\d+[.)]\s)+")
_ITEM = re.compile(r"[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]")
_STARTS = re.compile(r"[ \t]*(?:(?:[-*•+]|\d{1,3}[.)])[ \t]|#{1,6}[ \t]|[|>]|```|~~~|[-=]{3,}[ \t]*$)")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}[ \t]")


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
    record: bool = False
    """The whole of several labelled values."""
    row: bool = False
    """A cell below its row's label."""
    listing: bool = False
    """A sentence with the list that it announces."""

    @property
    def text(self) -> str:
        """The value, or the sentence."""
        return self.passage.text[self.start : self.end]


@lru_cache(maxsize=4096)
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
        self.breaks = line_breaks(self.text)
        csv = separated_values(self.text) if passage.source_class == "tool" else None
        self.tables: Sequence[Table] = [csv] if csv else markdown_tables(self.text, 0, len(self.text))
        self.labels = [m for m in _LABEL.finditer(self.text) if len(m[1].split()) <= MAX_LABEL_WORDS and not self.tabular(m.start(1))]
        first, last = trimmed(self.text, 0, len(self.text))
        lines = 1 + len([b for b in self.breaks if b < last])
        self.labelled = bool(self.labels) and self.labels[0].start() <= first and lines <= len(self.labels)
        """Whether every line is a label with its value: then nothing of it is prose."""

    def piece(
        self,
        path: tuple[str, ...],
        start: int,
        end: int,
        *,
        field: bool,
        before: int | None = None,
        record: bool = False,
        row: bool = False,
        listing: bool = False,
    ) -> Piece:
        """The piece of these characters."""
        before = start if before is None else before
        found = self._between(start, end)
        ahead = content(self._between(before, start)) if before < start else frozenset()
        return Piece(self.passage, path, start, end, field, before, tuple(found), content(found), ahead, record, row, listing)

    def _between(self, start: int, end: int) -> list[Word]:
        return self._words[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def tabular(self, at: int) -> bool:
        """Whether a place belongs to a table."""
        return any(a <= at < b for a, b in (t.span for t in self.tables))

    def stop(self, at: int) -> int:
        """The next line break that ends what stands at ``at``."""
        place = bisect_left(self.breaks, at)
        return self.breaks[place] if place < len(self.breaks) else len(self.text)


def line_breaks(text: str) -> list[int]:
    """The places of the line breaks that end something, in order; the others are only where a line was full."""
    if "\n" not in text:
        return []
    lines: list[tuple[int, int]] = []
    at = 0
    for line in text.split("\n"):
        lines.append((at, at + len(line)))
        at += len(line) + 1
    found: list[int] = []
    longest = 0
    paragraph_end = -1
    for number, (start, end) in enumerate(lines[:-1]):
        if start > paragraph_end:
            paragraph = text.find("\n\n", start)
            paragraph_end = len(text) if paragraph < 0 else paragraph
            longest = max((len(line) for line in text[start:paragraph_end].split("\n")), default=0)
        line, after = text[start:end], text[slice(*lines[number + 1])]
        if _ends(line, after, longest):
            found.append(end)
    return found


def _ends(line: str, after: str, longest: int) -> bool:
    """Whether something ends with this line."""
    bare = line.strip()
    if not bare or not after.strip() or _STARTS.match(after) or _HEADING.match(line) or bare.startswith("|"):
        return True
    if _LABEL.match(after):
        return True
    last = fold(bare.split()[-1]).strip("\"'”’)")
    first = after.strip()[0]
    alone = len(line) < SHORT_LINE * longest and (first.isupper() or first.isdigit()) and last not in STOP and bare[-1] not in ",;-–—("
    return alone and bare[-1] not in ".!?:"


def pieces(passage: Passage) -> list[Piece]:
    """Every piece of a passage, fields first, bounded by ``MAX_PIECES``."""
    reader = _Reader(passage)
    return list(islice(chain(_fields(reader), _rows(reader), _sentences(reader)), MAX_PIECES))


def abbreviated(text: str, end: int) -> bool:
    """Whether the dot before ``end`` belongs to an abbreviation."""
    return _ABBREVIATED.search(text[max(0, end - 12) : end]) is not None


def _fields(reader: _Reader) -> Iterator[Piece]:
    text, path = reader.text, reader.path
    labels = reader.labels
    start, end = trimmed(text, 0, len(text))
    several = len(labels) > 1 and reader.labelled
    if len(path) > 1 and len(text) <= MAX_FIELD:
        if labels and labels[0].start() <= start and stems(labels[0][1]) <= stems(" ".join(path)):
            start = labels[0].end()  # the value repeats its label
        if start < end and (several or reader.stop(start) >= end):  # a value is one paragraph
            yield reader.piece(path, start, end, field=True, record=several)
    for at, label in enumerate(labels):
        stop = labels[at + 1].start() if at + 1 < len(labels) else len(text)
        stop = min(stop, reader.stop(label.end()), label.end() + MAX_FIELD)
        start, end = trimmed(text, label.end(), stop)
        if start < end:
            yield reader.piece((*path, label[1]), start, end, field=True, row=several and len(path) > 1)


def _rows(reader: _Reader) -> Iterator[Piece]:
    """The cells of tables: each below its row's label and its column, and the label itself below the row's other cells."""
    text = reader.text
    for table in reader.tables:
        for row in table.rows:
            label = text[slice(*row[0])].strip("`* ")
            others = " ".join(f"{column} {text[a:b]}" for column, (a, b) in zip(table.columns[1:], row[1:], strict=False))
            if not label:
                continue
            if len(row) == 2 and row[1][0] < row[1][1]:
                yield reader.piece((*reader.path, label), *row[1], field=True)
            for column, (start, end) in list(zip(table.columns, row, strict=False))[1:]:
                if start < end:
                    yield reader.piece((*reader.path, label, column), start, end, field=True, row=True)
            if row[0][0] < row[0][1]:
                yield reader.piece((*reader.path, others, table.columns[0]), *row[0], field=True, row=True)


def _sentences(reader: _Reader) -> Iterator[Piece]:
    """Sentences, below the heading line that stands over them; one that announces a list comes with the list as well."""
    text = reader.text
    soft = [(m.start(), m.end()) for m in _SENTENCE_END.finditer(text) if not abbreviated(text, m.start())]
    cuts = sorted([*soft, *((b, b + 1) for b in reader.breaks)])
    starts = [0, *(b for _, b in cuts)]
    ends = [*(a for a, _ in cuts), len(text)]
    before = 0
    heading: tuple[str, ...] = ()
    if reader.labelled and len(reader.path) > 1:
        return
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        lead = _MARKUP.match(text, start, end)
        first, last = trimmed(text, lead.end() if lead and lead.end() < end else start, end)
        if last <= first or reader.tabular(first):
            continue
        line = text[first:last]
        yield reader.piece((*reader.path, *heading), first, last, field=False, before=before if before < first else first)
        if _titles(reader, start, end, line):
            heading = (line[: MAX_LABEL_WORDS * 20],)
        elif line.endswith(":") and (stop := _list_end(reader, ends, place)) > last:
            yield reader.piece((*reader.path, *heading), first, stop, field=False, before=first, listing=True)
        before = first


def _titles(reader: _Reader, start: int, end: int, line: str) -> bool:
    """Whether a piece is a heading: marked as one, or a line by itself without an end, with something below it."""
    text = reader.text
    below = text[end : end + 2]
    marked = _HEADING.match(text, max(start, text.rfind("\n", 0, max(start, 1)) + 1))
    alone = "\n" not in line and line[-1:] not in ".!?:;," and not _ITEM.match(text, start) and (start == 0 or text[start - 1] == "\n")
    return bool(marked) or (alone and below[:1] == "\n" and below != "\n\n" and line[:1].isupper() and len(line.split()) <= 12)


def _list_end(reader: _Reader, ends: Sequence[int], place: int) -> int:
    """Where the list ends that follows the piece at ``place``; 0 where none does, or it is too long."""
    text = reader.text
    at = ends[place]
    stop = 0
    for line in re.finditer(r"\n([^\n]*)", text[at : at + MAX_LISTING + 400]):
        bare = line[1]
        if _ITEM.match(bare):
            stop = at + line.end()
        elif not bare.strip():
            continue
        elif stop and (bare[:1] in " \t" or not _STARTS.match(bare)) and text[at + line.start() - 1] != "\n":
            stop = at + line.end()
        else:
            break
    return trimmed(text, at, stop)[1] if 0 < stop - at <= MAX_LISTING else 0
