"""What a person or a program reads: one JSON object with ``--json``, otherwise lines; styled on a terminal, plain in a pipe.

Text from outside (answers, sources, names) never reaches a terminal raw: control characters would move the cursor, retitle the window or
hide what follows. rich is imported only when a terminal is there to style for.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from gnus_node.records.errors import GnusError

STYLES = {"ok": "green", "warn": "yellow", "problem": "bold red", "head": "bold", "dim": "dim", "": ""}
PROOF_STYLES = {"proved": "ok", "attested": "ok", "asserted": "warn", "absent": "warn", "refused": "problem"}


MAX_COLUMNS = 100
"""Lines longer than this are hard to read, however wide the terminal."""
MIN_TEXT_COLUMNS = 20
"""Least room beside an indentation for it to be kept."""

_KEPT = "\n\t\u200c\u200d"


def clean(text: object) -> str:
    """``text`` without anything that acts on a terminal: controls, escapes, bidirectional overrides. Newlines, tabs and joiners stay."""
    return "".join(c for c in str(text) if c in _KEPT or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))


def one_line(text: object) -> str:
    """``clean``, on one line."""
    return " ".join(clean(text).split())


class Page:
    """Lines with a style each, printed together.

    ``hangs`` says for each line how far its continuation is indented where a terminal is too narrow for it. In a pipe nothing is wrapped.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.hangs: list[int] = []

    def line(self, text: object = "", style: str = "", *, hang: int = 0) -> Page:
        """Add a text, which may have several lines."""
        parts = clean(text).split("\n")
        self.lines += [(part, style) for part in parts]
        self.hangs += [hang] * len(parts)
        return self

    def pairs(self, rows: Iterable[tuple[object, object]], *, indent: int = 0, style: str = "") -> Page:
        """Add names and values in two columns; a value of several lines keeps its column."""
        table = [(one_line(name), [one_line(part) for part in clean(value).split("\n")]) for name, value in rows]
        width = max((cells(name) for name, _ in table), default=0)
        for name, parts in table:
            for number, part in enumerate(parts):
                self.line(f"{' ' * indent}{padded('' if number else name, width)}  {part}".rstrip(), style, hang=indent + width + 2)
        return self

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[object]], *, indent: int = 2, style: str = "") -> Page:
        """Add rows below their heads, each column as wide as its widest entry; numbers stand to the right. No rows, no heads."""
        body = [tuple(row) for row in rows]
        if not body:
            return self
        texts = [[one_line(f"{cell:,}" if _is_number(cell) else cell) for cell in row] for row in body]
        right = [all(_is_number(row[column]) for row in body) for column in range(len(heads))]
        widths = [max(cells(row[column]) for row in [list(heads), *texts]) for column in range(len(heads))]
        hang = indent + sum(widths[:-1]) + 2 * (len(widths) - 1)
        for number, row in enumerate([list(heads), *texts]):
            shown = "  ".join(padded(cell, width, right=r) for cell, width, r in zip(row, widths, right, strict=True))
            self.line(f"{' ' * indent}{shown}".rstrip(), style if number else "dim", hang=hang)
        return self

    def show(self, *, indent: int = 0) -> None:
        """Print to standard output."""
        lead = " " * indent
        if not sys.stdout.isatty():
            sys.stdout.write("".join(f"{lead}{text}".rstrip() + "\n" for text, _ in self.lines))
            return
        width = min(shutil.get_terminal_size().columns, MAX_COLUMNS) - indent
        rows = [
            (f"{lead}{part}".rstrip(), style)
            for (text, style), hang in zip(self.lines, self.hangs, strict=True)
            for part in wrapped(text, width, hang)
        ]
        if not styled(sys.stdout):
            sys.stdout.write("".join(f"{text}\n" for text, _ in rows))
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        for text, style in rows:
            console.print(Text(text, style=STYLES[style]), soft_wrap=True)


def styled(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can show styles, and its user has not asked for none (NO_COLOR)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def cells(text: str) -> int:
    """Columns a text takes on a terminal: wide letters take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """``text`` filled up with blanks to ``width`` columns."""
    blanks = " " * max(0, width - cells(text))
    return blanks + text if right else text + blanks


def wrapped(text: str, width: int, hang: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns, cut at blanks; further lines are indented by ``hang``. A word that is longer than a
    line stays whole, so that it can be copied."""
    if cells(text) <= width:
        return [text]
    hang = hang if hang < width - MIN_TEXT_COLUMNS else 0
    body = text.lstrip(" ")
    lines: list[str] = []
    line = " " * (len(text) - len(body))
    filled = False
    for word in body.split(" "):
        if filled and cells(line) + 1 + cells(word) > width:
            lines.append(line.rstrip())
            line, filled = " " * hang, False
        line += f" {word}" if filled else word
        filled = True
    return [*lines, line]


def emit(value: Mapping[str, Any], as_json: bool, page: Page) -> None:
    """Print ``value`` as JSON or the page made of it."""
    if as_json:
        show_json(value)
    else:
        page.show()


def show_json(value: object) -> None:
    """One JSON value on standard output; on one line unless a person is reading."""
    sys.stdout.write(json.dumps(value, indent=2 if sys.stdout.isatty() else None, default=str) + "\n")


def report(errors: Sequence[GnusError], as_json: bool) -> int:
    """Print errors, four lines each on standard error or one JSON object on standard output; returns the first one's exit code."""
    if as_json:
        details = [_detail(error) for error in errors]
        more = {"errors": details} if len(details) > 1 else {}
        show_json({"error": details[0], **more})
    else:
        for place, error in enumerate(errors):
            sys.stderr.write("\n" if place else "")
            _four_lines(error)
    return errors[0].row.exit or 1


def _why(error: GnusError) -> str:
    why = error.row.meaning if error.what != error.row.meaning else f"whose: {error.whose}"
    return f"{why} (at {error.link})" if error.link else why


def _detail(error: GnusError) -> dict[str, Any]:
    row = error.row
    return {**error.to_plain(), "why": _why(error), "definite": row.definite, "retryable": row.retryable, "exit": row.exit}


def _four_lines(error: GnusError) -> None:
    lines = (("what", error.what), ("why", _why(error)), ("fix", error.fix), ("code", error.code))
    bold = styled(sys.stderr)
    for name, text in lines:
        shown = f"\x1b[1;31m{name}\x1b[0m" if bold and name == "what" else f"\x1b[1m{name}\x1b[0m" if bold else name
        sys.stderr.write(f"{shown}:{' ' * (5 - len(name))}{one_line(text)}\n")
