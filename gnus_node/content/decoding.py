"""Encoded text made readable, for scanning only: base64, hex, percent, character references, escapes.

``decoded_lines`` names the lines that hold code and says what they read like with every encoded piece replaced by what it means, so that a
hit there names the line that hid it. Nothing decoded ever reaches a reader.

Invariants: total; depth, pieces and decoded size are capped; only lines that may hold code are looked at twice.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from bisect import bisect_right
from dataclasses import dataclass

MAX_DEPTH = 3
"""Codes within codes that are opened."""
MAX_PIECES = 256
"""Pieces decoded per pass."""
MAX_PIECE = 65_536
"""Characters of one encoded piece that are looked at."""
MIN_CODE = 24
"""Shorter runs of code letters are words and numbers."""

_SPACED_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}[ ,:]){7,4096}+[0-9a-fA-F]{2}(?![0-9A-Za-z])")
_LISTED_HEX = re.compile(r"(?<![0-9A-Za-z])(?:0x[0-9a-fA-F]{2}[ ,]{1,2}){7,4096}+0x[0-9a-fA-F]{2}(?![0-9A-Za-z])")
_MIXED = re.compile(r"(?=[^A-Z]*+[A-Z])(?=[^a-z]*+[a-z])")
_HEX = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2})+)")
_ONE_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")  # begins with a literal: a fast search
_BACKSLASH = re.compile(r"\\[ux][0-9a-fA-F{]")
_CODE_POINT = re.compile(r"U\+[0-9a-fA-F]{4}")
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,31});")
_ESCAPE = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}|\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|U\+([0-9a-fA-F]{4,6}) ?")
_CODE_LETTERS = bytes(0x41 if chr(i) in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-" else 0x20 for i in range(256))
_CODE_RUN = b"A" * MIN_CODE
_HEX_LETTERS = bytes(0x68 if chr(i) in "0123456789abcdefABCDEF" else 0x20 if chr(i) in " ,:" else 0x2E for i in range(256))
_HEX_RUN = b"hh hh hh hh hh hh hh hh"
_BREAKS = str.maketrans(dict.fromkeys("\n\r\x0b\x0c\x85\u2028\u2029", " "))


@dataclass(frozen=True, slots=True)
class Decoded:
    """One line that holds code: its number from 0, as written, and as it reads. ``opaque``: base64 or hex, not mere escaping."""

    number: int
    before: str
    after: str
    opaque: bool


def decoded_lines(text: str) -> list[Decoded]:
    """The lines that read differently once their code is opened, in order."""
    places = _places(text)
    if not places:
        return []
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    found: list[Decoded] = []
    for number in sorted({bisect_right(starts, place) - 1 for place in places}):
        end = starts[number + 1] - 1 if number + 1 < len(starts) else len(text)
        before = text[starts[number] : end]
        after = decode(before)
        if after != before:
            found.append(Decoded(number, before, after, after != decode(before, escapes_only=True)))
    return found


def decode(line: str, *, escapes_only: bool = False) -> str:
    """A line with its encoded pieces read, through up to ``MAX_DEPTH`` layers."""
    for _ in range(MAX_DEPTH):
        opened = _escapes(line) if escapes_only else _codes(_escapes(line))
        if opened == line:
            break
        line = opened
    return line


def _places(text: str) -> list[int]:
    """Where code may stand. Substring and byte-table searches first: most text has none."""
    places: list[int] = []
    if "%" in text:
        places += [m.start() for m in _ONE_PERCENT.finditer(text)]
    if "&" in text:
        places += [m.start() for m in _REFERENCE.finditer(text)]
    if "\\" in text:
        places += [m.start() for m in _BACKSLASH.finditer(text)]
    if "U+" in text:
        places += [m.start() for m in _CODE_POINT.finditer(text)]
    if "0x" in text:
        places += [m.start() for m in _LISTED_HEX.finditer(text)]
    raw = text.encode("ascii", "replace")
    places += [start for start, _ in _runs(raw)]
    return places + [start for start, _ in _hex_runs(raw)]


def _runs(raw: bytes) -> list[tuple[int, int]]:
    """Runs of at least ``MIN_CODE`` code letters."""
    return _spans(raw.translate(_CODE_LETTERS), _CODE_RUN)


def _hex_runs(raw: bytes) -> list[tuple[int, int]]:
    """Places of hex pairs set apart by single blanks or signs."""
    shape = raw.translate(_HEX_LETTERS)
    at = shape.find(_HEX_RUN)
    return [(at, at)] if at >= 0 else []


def _spans(shape: bytes, run: bytes) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    at = shape.find(run)
    while at >= 0:
        end = shape.find(b" ", at)
        end = len(shape) if end < 0 else end
        spans.append((at, end))
        at = shape.find(run, end)
    return spans


def _escapes(line: str) -> str:
    if "&" in line:
        line = _REFERENCE.sub(lambda m: html.unescape(m[0]).translate(_BREAKS), line)
    if "%" in line:
        line = _PERCENT.sub(_percent, line)
    if "\\x" in line or "\\u" in line or "U+" in line:
        line = _ESCAPE.sub(_escape, line)
    return line


def _codes(line: str) -> str:
    if "0x" in line:
        line = _LISTED_HEX.sub(_pairs, line, count=MAX_PIECES)
    raw = line.encode("ascii", "replace")
    if _hex_runs(raw):
        line = _SPACED_HEX.sub(_pairs, line, count=MAX_PIECES)
        raw = line.encode("ascii", "replace")
    pieces: list[str] = []
    done = 0
    for start, end in _runs(raw)[:MAX_PIECES]:
        end = min(end, start + MAX_PIECE)
        pieces += (line[done:start], _run(line[start:end]))
        done = end + (2 if line.startswith("==", end) else line.startswith("=", end))
    return "".join(pieces) + line[done:] if pieces else line


def _plain(data: bytes, otherwise: str) -> str:
    """Decoded bytes as text on one line, or the code itself where they are not text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return otherwise
    if sum(c.isprintable() or c in "\n\r\t" for c in text) * 20 < len(text) * 19:
        return otherwise
    return text.translate(_BREAKS)


def _percent(found: re.Match[str]) -> str:
    return _plain(bytes.fromhex(found[0].replace("%", "")), found[0])


def _escape(found: re.Match[str]) -> str:
    code = int(next(g for g in found.groups() if g), 16)
    return chr(code).translate(_BREAKS) if code < 0x110000 and not 0xD800 <= code < 0xE000 else found[0]


def _pairs(found: re.Match[str]) -> str:
    return _plain(bytes.fromhex(re.sub(r"0x|[ ,:]", "", found[0])), found[0])


def _run(code: str) -> str:
    """A run of code letters as hex or base64, or itself."""
    if digits := _HEX.fullmatch(code):
        return _plain(bytes.fromhex(digits[1]), code)
    if not _MIXED.match(code):
        return code
    letters = code.replace("-", "+").replace("_", "/")
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]
    try:
        data = base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
    except (binascii.Error, ValueError):
        return code
    return _plain(data, code)


_WORDS = re.compile(r"[A-Za-z]{2,20}")


def reads_as_prose(before: str, after: str) -> bool:
    """Whether decoding one line brought at least four words of prose to light, blanks between them."""
    if before == after or after.count(" ") - before.count(" ") < 3:
        return False
    return len(_WORDS.findall(after)) - len(_WORDS.findall(before)) >= 3
