"""Splits Markdown and plain text into passages by headings. Pure.

A passage is the text under one heading, with the path of headings above it. Front matter is left out (its title names the file), headings
inside code fences are code. A section that is too long is cut at paragraph ends into parts of at most ``MAX_PASSAGE_CHARS``. Each row of a
table, and each term of a list of terms, is a passage of its own below its section (``tables``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from urllib.parse import quote

from gnus_node.cognition.documents.corpus import MAX_PASSAGE_CHARS
from gnus_node.content.tables import entries, without

_HEADING = re.compile(r"(?m)^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$|^([^\s#>|`*-][^\n]{0,200})\n(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r"(?ms)^ {0,3}(```+|~~~+)[^\n]*\n.*?(?:^ {0,3}\1[ \t]*$|\Z)")
_FRONT = re.compile(r"\A---[ \t]*\n(.{0,8000}?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"(?m)^title:[ \t]*[\"']?([^\"'\n]{1,200})")
_INLINE = re.compile(r"!?\[([^\]\n]{0,200})\]\([^)\s]{0,500}\)|`([^`\n]*)`|[*_]{1,3}([^*_\n]{1,200})[*_]{1,3}")


@dataclass(frozen=True, slots=True)
class Section:
    """One passage of a file: heading path below the file, anchor, text, and its span in the file."""

    path: tuple[str, ...]
    anchor: str
    text: str
    span: tuple[int, int]
    heading: int = 0
    """Number of the heading it stands under in its file."""
    entry: bool = False
    """A row or a term: it shares its section's anchor."""


def split_markdown(source: str) -> tuple[str, list[Section]]:
    """The front matter's title ("" where there is none), and the sections in order."""
    body_from, title = 0, ""
    if front := _FRONT.match(source):
        body_from = front.end()
        if named := _FRONT_TITLE.search(front[1]):
            title = named[1].strip()
    fenced = [m.span() for m in _FENCE.finditer(source, body_from)]
    headings = [m for m in _HEADING.finditer(source, body_from) if not any(a <= m.start() < b for a, b in fenced)]
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    starts = [body_from, *(m.end() for m in headings)]
    ends = [*(m.start() for m in headings), len(source)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if number:
            heading = headings[number - 1]
            level = len(heading[1]) if heading[1] else 1 if heading[4].startswith("=") else 2
            path = [p for p in path if p[0] < level] + [(level, plain_heading(heading[2] or heading[3]))]
        names = tuple(name for _, name in path)
        anchor = slug(names[-1]) if names else ""
        found, taken = entries(source, start, end, fenced)
        for low, high in without(source, start, end, taken):
            sections += [replace(s, heading=number) for s in _pieces(source, low, high, names, anchor)]
        sections += [Section((*names, e.name), anchor, e.text, e.span, number, True) for e in found]
    return title, sections


def split_text(source: str) -> list[Section]:
    """A plain text as passages cut at paragraph ends."""
    return _pieces(source, 0, len(source), (), "")


def plain_heading(text: str) -> str:
    """A heading without inline markup."""
    return _INLINE.sub(lambda m: m[1] or m[2] or m[3] or "", text).strip()[:200]


def slug(heading: str) -> str:
    """The anchor of a heading, as common Markdown readers make it."""
    return quote(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-"), safe="-_")[:200]


def _pieces(source: str, start: int, end: int, path: tuple[str, ...], anchor: str) -> list[Section]:
    pieces: list[Section] = []
    cuts = [start]
    while end - cuts[-1] > MAX_PASSAGE_CHARS:
        low, high = cuts[-1] + MAX_PASSAGE_CHARS // 2, cuts[-1] + MAX_PASSAGE_CHARS
        at = max(source.rfind("\n\n", low, high), source.rfind("\n", low, high) if source.rfind("\n\n", low, high) < 0 else -1)
        cuts.append(at if at > low else high)
    for low, high in pairwise([*cuts, end]):
        text = source[low:high]
        bare = text.strip()
        if bare:
            at = low + text.index(bare[0])
            pieces.append(Section(path, anchor, bare, (at, at + len(bare))))
    return pieces
