"""What a person or a program reads: one JSON object with ``--json``, otherwise lines; styled on a terminal, plain in a pipe.

Text from outside (answers, sources, names) never reaches a terminal raw: control characters would move the cursor, retitle the window or
hide what follows. rich is imported only when a terminal is there to style for.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gnus_node.records.errors import GnusError

STYLES = {"ok": "green", "warn": "yellow", "problem": "bold red", "head": "bold", "dim": "dim", "": ""}
PROOF_STYLES = {"proved": "ok", "attested": "ok", "asserted": "warn", "absent": "warn", "refused": "problem"}


_KEPT = "\n\t\u200c\u200d"


def clean(text: object) -> str:
    """``text`` without anything that acts on a terminal: controls, escapes, bidirectional overrides. Newlines, tabs and joiners stay."""
    return "".join(c for c in str(text) if c in _KEPT or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))


def one_line(text: object) -> str:
    """``clean``, on one line."""
    return " ".join(clean(text).split())


class Page:
    """Lines with a style each, printed together."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def line(self, text: object = "", style: str = "") -> Page:
        """Add a text, which may have several lines."""
        self.lines += [(part, style) for part in clean(text).split("\n")]
        return self

    def pairs(self, rows: Iterable[tuple[object, object]], *, indent: int = 0, style: str = "") -> Page:
        """Add names and values in two columns."""
        table = [(one_line(name), one_line(value)) for name, value in rows]
        width = max((len(name) for name, _ in table), default=0)
        for name, value in table:
            self.line(f"{' ' * indent}{name:<{width}}  {value}".rstrip(), style)
        return self

    def show(self) -> None:
        """Print to standard output."""
        if not sys.stdout.isatty():
            sys.stdout.write("".join(f"{text}\n" for text, _ in self.lines))
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        for text, style in self.lines:
            console.print(Text(text, style=STYLES[style]), soft_wrap=True)


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
    styled = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    for name, text in lines:
        shown = f"\x1b[1;31m{name}\x1b[0m" if styled and name == "what" else f"\x1b[1m{name}\x1b[0m" if styled else name
        sys.stderr.write(f"{shown}:{' ' * (5 - len(name))}{one_line(text)}\n")
