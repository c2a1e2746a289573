"""Text normalising: what is returned stays as written, what is scanned or matched is a folded copy.

Why two kinds: NFKC, case folding and look-alike mapping destroy real text, and even plain NFC rewrites Bengali, Hindi and Hebrew letters
that Unicode excludes from composition. So the text a reader gets only loses control characters and gets one kind of line end; every
stronger normalisation happens on a copy that is searched and thrown away (reference: mediation, "Invisible and encoded text").

Invariants: every function is total, linear and idempotent; ``clean_controls`` never adds a character; the scan copies keep the number of
lines, so that a hit in a copy names a line of the text (18.1.3.8.9, ``normalize_utf8``).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

MAX_OSC = 4096
"""Longest terminal string sequence that is taken out whole; a longer one loses its control characters only."""

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TERMINAL = re.compile(
    rf"\x1b\](?P<osc>[^\x07\x1b\n]{{0,{MAX_OSC}}})(?:\x07|\x1b\\)|(?:\x1b\[|\x9b)[0-?]{{0,64}}[ -/]{{0,8}}[@-~]|\x1b[PX^_][^\x1b\n]{{0,{MAX_OSC}}}\x1b\\"
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_MARKS = re.compile("[\u0300-\u036f]")
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SPACE = re.compile(r"\s+")
_ODD_SPACES = {ord(c): " " for c in "\t\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000_"}
_ODD_SPACES |= {ord(c): "'" for c in "\u2018\u2019\u02bc\u0060\u00b4"} | {ord(c): '"' for c in "\u201c\u201d\u201e\u00ab\u00bb"}

# Letters of other scripts that look like a Latin letter, after NFKC, case folding and removal of accents (UTS #39, the common part).
_LOOKALIKES = {
    "a": "аɑα",
    "b": "ьβƅ",
    "c": "сϲ\u1d04",
    "d": "ԁɗ",
    "e": "еҽεɛ",
    "f": "ƒϝ",
    "g": "ɡցɢ",
    "h": "һհн",
    "i": "іιɩıӏ",
    "j": "јϳ",
    "k": "кκ\u1d0b",
    "l": "ⅼ\u01c0",
    "m": "мϻ",
    "n": "ոռηп",
    "o": "оοσօ\u0585ᴏ",
    "p": "рρ",
    "q": "ԛգ",
    "r": "гᴦ",
    "s": "ѕꜱ",
    "t": "тτᴛ",
    "u": "սυᴜ",
    "v": "ѵνᴠ",
    "w": "ѡԝωᴡ",
    "x": "хχ",
    "y": "уүγʏ",
    "z": "ᴢʐ",
}
_SKELETON = {ord(other): latin for latin, others in _LOOKALIKES.items() for other in others}
_LEET = str.maketrans("013456789@$!|+€", "oieasgtbgasilte")
_ROT13 = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm"
)


@dataclass(frozen=True, slots=True)
class Controls:
    """Text without control characters, how many went, and what terminal strings hid."""

    text: str
    removed: int
    payload: str


def clean_controls(text: str) -> Controls:
    """One kind of line end (LF); no control characters but tab; no terminal sequences, no lone surrogates, no leading BOM.

    The strings inside terminal sequences (window titles, links) are invisible to a reader: they are handed back for scanning.
    """
    if not _ODD.search(text):
        return Controls(text.lstrip("\ufeff"), 0, "")
    text = _LINE_ENDS.sub("\n", text)
    hidden: list[str] = []
    before = len(text)
    if "\x1b" in text or "\x9b" in text:
        text = _TERMINAL.sub(lambda m: hidden.append(m["osc"] or "") or "", text)
    text = _CONTROL.sub("", text)
    return Controls(text.lstrip("\ufeff"), before - len(text), "\n".join(h for h in hidden if h))


def nfc(text: str) -> str:
    """Unicode NFC: for comparing and hashing identifiers, not for text that is shown (see the module's opening)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def scan_copy(text: str) -> str:
    """The copy that is scanned: NFKC, case folded, without accents and ignorable characters, odd blanks and quotes made plain.

    Line count is kept. Underscores become blanks, so that ``system_prompt`` reads as two words.
    """
    if text.isascii():
        return text.lower().replace("_", " ").replace("\t", " ")
    text = _IGNORABLE.sub("", text).translate(_ODD_SPACES)
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", text)).translate(_ODD_SPACES)


def skeleton(folded: str) -> str:
    """A scan copy with letters of other scripts replaced by the Latin letter they look like."""
    return folded if folded.isascii() else folded.translate(_SKELETON)


def unleet(folded: str) -> str:
    """A scan copy with digits and signs read as the letters they imitate."""
    return folded.translate(_LEET)


def rot13(text: str) -> str:
    """ASCII letters rotated by 13; everything else stays."""
    return text.translate(_ROT13)


def fold(text: str) -> str:
    """For matching names and words: the scan copy with whitespace runs as one blank, trimmed."""
    return fold_space(scan_copy(text))


def fold_space(text: str) -> str:
    """Whitespace runs as one blank, trimmed."""
    return _SPACE.sub(" ", text).strip()
