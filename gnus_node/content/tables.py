"""Tables and lists of terms of a text: rows with their header, terms with what is said of them, each with its place. Pure.

A table's cell answers only together with its header and its row's label, and a glossary's line only by itself. Markdown tables and simple
separated values (comma, semicolon, tab) are read. Quoted separated values that span lines are not.

Invariants: linear; what stands in a code fence is code; every span lies within the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gnus_node.content.quoting import plain_quote

MAX_ENTRIES = 5_000
"""Rows and terms taken from one text."""
MAX_COLUMNS = 32
MAX_LABEL = 120
MIN_TERMS = 2
"""A single bold item is no list of terms."""
MAX_HEADER = 40
"""Longest column name of separated values: a longer one is prose."""
_DELIMITER = re.compile(r"(?m)^[ \t]{0,3}\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*){0,31}\|?[ \t]*$")
_CELL = re.compile(r"(?:\\.|[^|\\\n])+")
_TERM = re.compile(
    r"(?m)^[ \t]{0,3}[-*+][ \t]+(?:\*\*([^*\n]{1,100}?):\*\*[ \t]|(?:\*\*([^*\n]{1,100}?)\*\*|`([^`\n]{1,100})`)[ \t]*(?::|—|–|[ \t]-)[ \t])"
    r"[ \t]*(?=\S)"
)
_ITEM_ENDS = re.compile(r"\n(?=[ \t]*\n|[ \t]{0,3}(?:[-*+]|\d{1,3}[.)])[ \t]|[ \t]{0,3}[#|>])")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Table:
    """``span`` covers header and rows; each row has its cells' spans, as many as there are columns at most."""

    span: Span
    columns: tuple[str, ...]
    rows: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One row or term: its name, what is said of it, where it stands in the source."""

    name: str
    text: str
    span: Span


def entries(source: str, start: int, end: int, fenced: Sequence[Span] = ()) -> tuple[list[Entry], list[Span]]:
    """The rows and terms of ``source[start:end]`` in order, and the spans that they fill."""
    found: list[Entry] = []
    taken: list[Span] = []
    for table in markdown_tables(source, start, end, fenced):
        taken.append(table.span)
        found += [e for row in table.rows if (e := _row(source, table.columns, row))]
    terms = [t for t in _TERM.finditer(source, start, end) if not _inside(t.start(), (*fenced, *taken))]
    if len(terms) >= MIN_TERMS:
        for term in terms:
            stop = _ITEM_ENDS.search(source, term.end(), end)
            last = stop.start() if stop else end
            text = source[term.end() : last].strip()
            if text:
                taken.append((term.start(), last))
                found.append(Entry(plain_quote(next(g for g in term.groups() if g))[:MAX_LABEL], text, (term.start(), last)))
    return sorted(found, key=lambda e: e.span)[:MAX_ENTRIES], sorted(taken)


def _row(source: str, columns: Sequence[str], row: Sequence[Span]) -> Entry | None:
    values = [plain_quote(source[a:b].replace("\\|", "|")) for a, b in row]
    if not values or not values[0]:
        return None
    told = [(name, value) for name, value in zip(columns[1:], values[1:], strict=False) if value]
    if not told and len(columns) > 1:
        return None
    text = "\n".join(f"{name}: {value}" if name else value for name, value in told) or values[0]
    return Entry(values[0][:MAX_LABEL], text, (row[0][0], row[-1][1]))


def without(source: str, start: int, end: int, taken: Sequence[Span]) -> list[Span]:
    """The stretches of ``source[start:end]`` that are left."""
    left: list[Span] = []
    for low, high in taken:
        left.append((start, low))
        start = high
    return [(low, high) for low, high in [*left, (start, end)] if source[low:high].strip()]


def _inside(at: int, spans: Sequence[Span]) -> bool:
    return any(a <= at < b for a, b in spans)


def markdown_tables(source: str, start: int, end: int, fenced: Sequence[Span] = ()) -> list[Table]:
    """Each table: a line with cells, a line of dashes, lines with cells."""
    found: list[Table] = []
    done = start
    for rule in _DELIMITER.finditer(source, start, end) if source.find("|", start, end) >= 0 else ():
        before = max(start, rule.start() - 1)
        head_at = max(source.rfind("\n", start, before) + 1, start)
        header = _cells(source, head_at, before)
        if source.find("|", head_at, before) < 0 or not header or head_at < done or _inside(rule.start(), fenced):
            continue
        rows: list[tuple[Span, ...]] = []
        at = min(rule.end() + 1, end)
        while at < end and len(rows) < MAX_ENTRIES:
            stop = source.find("\n", at, end)
            stop = end if stop < 0 else stop
            if source.find("|", at, stop) < 0:
                break
            if cells := _cells(source, at, stop):
                rows.append(cells)
            at = stop + 1
        if rows:
            done = min(at, end)
            found.append(Table((head_at, done), tuple(plain_quote(source[a:b]) for a, b in header), tuple(rows)))
    return found


def _cells(source: str, start: int, end: int) -> tuple[Span, ...]:
    """The cells between the bars of a line; empty ones in the middle keep their place."""
    while start < end and source[start] in " \t":
        start += 1
    while end > start and source[end - 1] in " \t":
        end -= 1
    start += source.startswith("|", start, end)
    cells: list[Span] = []
    at = start
    while at <= end and len(cells) < MAX_COLUMNS:
        match = _CELL.match(source, at, end)
        stop = match.end() if match else at
        if not (stop >= end and match is None):
            cells.append(trimmed(source, at, stop))
        at = stop + 1
    return tuple(cells)


def trimmed(source: str, start: int, end: int) -> Span:
    """The span without blanks at its ends."""
    part = source[start:end]
    low = start + len(part) - len(part.lstrip())
    return low, max(low, start + len(part.rstrip()))


def separated_values(source: str) -> Table | None:
    """A text that is wholly lines of separated values below one header line, or None: then it is prose or something else."""
    lines = [m.span() for m in re.finditer(r"[^\n]+", source[: 64 * 1024]) if m[0].strip()][:MAX_ENTRIES]
    if len(lines) < 2:
        return None
    for mark in (",", ";", "\t"):
        rows = [tuple(_values(source, a, b, mark)) for a, b in lines]
        width = len(rows[0])
        if 2 <= width <= MAX_COLUMNS and all(len(r) == width for r in rows):
            header = tuple(source[a:b].strip('"') for a, b in rows[0])
            if all(0 < len(h) <= MAX_HEADER and not h.endswith((".", "!", "?")) for h in header) and len(set(header)) == width:
                return Table((lines[0][0], lines[-1][1]), header, tuple(rows[1:]))
    return None


def _values(source: str, start: int, end: int, mark: str) -> Iterator[Span]:
    at, quoted = start, False
    for place in range(start, end):
        if source[place] == '"':
            quoted = not quoted
        elif source[place] == mark and not quoted:
            yield _bare(source, at, place)
            at = place + 1
    yield _bare(source, at, end)


def _bare(source: str, start: int, end: int) -> Span:
    start, end = trimmed(source, start, end)
    return (start + 1, end - 1) if end - start >= 2 and source[start] == source[end - 1] == '"' else (start, end)
