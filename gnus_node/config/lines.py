"""Finds the line on which a key of a TOML text stands, so that a refusal can point at it.

``tomllib`` gives values without positions. The text was already accepted by ``tomllib``, so this scanner need not judge it: it follows
headers, keys and where a value ends (strings, arrays over several lines). Keys inside inline tables have their value's line.
"""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]

_KEY = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*""")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL)


def _keys(text: str, at: int) -> tuple[list[str], int]:
    """The dotted key that starts at ``at``, and where it ends."""
    parts: list[str] = []
    while found := _KEY.match(text, at):
        basic, literal, bare = found.groups()
        # Escapes in quoted keys are left as they are: such a key is reported at its table's line.
        parts.append(next(part for part in (basic, literal, bare) if part is not None))
        at = found.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return parts, at


def _value_end(text: str, at: int) -> int:
    """Where the value that starts at ``at`` ends: the first newline outside strings and brackets."""
    depth = 0
    while at < len(text):
        character = text[at]
        if character in "\"'" and (found := _STRING.match(text, at)):
            at = found.end()
            continue
        if character == "#":
            at = text.find("\n", at)
            if at < 0:
                return len(text)
            continue
        if character == "\n" and depth == 0:
            return at
        depth += (character in "[{") - (character in "]}")
        at += 1
    return at


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every table, array entry and key of a TOML text. List entries are numbered from 0 in the path."""
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()

    def place(parts: list[str], base: KeyPath = ()) -> KeyPath:
        """A header's path with the numbers of the array entries it goes through."""
        path = base
        for part in parts:
            path = (*path, part)
            if path in counts:
                path = (*path, counts[path])
        return path

    def note(path: KeyPath, line: int) -> None:
        for size in range(1, len(path) + 1):
            lines.setdefault(path[:size], line)

    at = 0
    while True:
        found = _BLANK.match(text, at)
        at = found.end() if found else at
        if at >= len(text):
            return lines
        line = text.count("\n", 0, at) + 1
        if text[at] == "[":
            many = text.startswith("[[", at)
            parts, at = _keys(text, at + 1 + many)
            if many:
                above = (*place(parts[:-1]), parts[-1])
                counts[above] = counts.get(above, -1) + 1
                table = (*above, counts[above])
            else:
                table = place(parts)
            note(table, line)
            at = _value_end(text, text.index("]", at) + 1 + many)
        else:
            parts, at = _keys(text, at)
            note((*table, *parts), line)
            at = _value_end(text, at + 1)


def nearest_line(lines: dict[KeyPath, int], path: KeyPath) -> int:
    """The line of ``path``, or of the nearest thing around it that has one; 1 at worst."""
    for size in range(len(path), 0, -1):
        if path[:size] in lines:
            return lines[path[:size]]
    return 1
