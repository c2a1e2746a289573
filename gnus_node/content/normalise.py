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
    rf"\x1b\](?P<osc>[^\x07\x1b\n]{{0,{MAX_OSC}}})(?:\x07|\x1b\\)"  # a window title, a link
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # a colour, a cursor move
    rf"|\x1b[PX^_][^\x1b\n]{{0,{MAX_OSC}}}\x1b\\"
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_MARKS = re.compile("[\u0300-\u036f]")
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SPACE = re.compile(r"\s+")
_ASCII_ODD = bytes(i for i in range(128) if (i < 32 and i not in (9, 10)) or i == 127)
_PLAINER = [(c, "'") for c in "\u2018\u2019\u02bc\u0060"] + [(c, '"') for c in "\u201c\u201d\u201e\u00ab\u00bb"] + [("\t", " "), ("_", " ")]

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
_OTHERS = "".join(sorted(set(map(chr, _SKELETON))))
_MIXED_WORD = re.compile(f"[a-z][{_OTHERS}]|[{_OTHERS}][a-z]")
_LEET = str.maketrans("013456789@$!|+€", "oieasgtbgasilte")
_ROT13 = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm")


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
    if not _odd(text):
        return Controls(text.lstrip("\ufeff"), 0, "")
    text = _LINE_ENDS.sub("\n", text)
    hidden: list[str] = []
    before = len(text)
    if "\x1b" in text or "\x9b" in text:
        hidden = [m["osc"] for m in _TERMINAL.finditer(text) if m["osc"]]
        text = _TERMINAL.sub("", text)
    text = _CONTROL.sub("", text)
    return Controls(text.lstrip("\ufeff"), before - len(text), "\n".join(hidden))


def _odd(text: str) -> bool:
    if text.isascii():
        raw = text.encode()
        return len(raw.translate(None, _ASCII_ODD)) != len(raw)
    return bool(_ODD.search(text))


def nfc(text: str) -> str:
    """Unicode NFC: for comparing and hashing identifiers, not for text that is shown (see the module's opening)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def scan_copy(text: str) -> str:
    """The copy that is scanned: NFKC, case folded, without accents and ignorable characters, odd blanks and quotes made plain.

    Line count is kept. Underscores become blanks, so that ``system_prompt`` reads as two words.
    """
    if text.isascii():
        return text.lower().replace("_", " ").replace("\t", " ")
    text = unicodedata.normalize("NFKC", _IGNORABLE.sub("", text)).casefold()
    for odd, plain in _PLAINER:
        text = text.replace(odd, plain)
    apart = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", _MARKS.sub("", apart)) if apart != text else text


def skeleton(folded: str) -> str:
    """A scan copy with letters of other scripts replaced by the Latin letter they look like."""
    return folded if folded.isascii() else folded.translate(_SKELETON)


def mixes_scripts(folded: str) -> bool:
    """Whether some word has a Latin letter beside a letter that only looks Latin."""
    return not folded.isascii() and bool(_MIXED_WORD.search(folded))


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
