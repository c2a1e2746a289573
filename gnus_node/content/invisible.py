"""Invisible text: takes out what no reader sees, keeps what real writing needs.

Zero-width characters, Unicode tags and variation selectors carry hidden instructions, yet the same characters join emoji, shape Arabic,
Persian and Indic letters and order bidirectional text. So each run of such characters is judged by its neighbours, after UAX #31
(joiners), UAX #9 (direction marks), UTS #51 (emoji sequences) and UTS #37 (ideographic variations). What is taken out is decoded where a
known encoding fits and handed back as ``payload``, to be scanned and never forwarded (18.1.3.8.10, "hidden or zero-width text").

Invariants: linear; the result is a subsequence of the input; running it again changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

MAX_PAYLOAD = 16_384
"""Characters of hidden payload kept for scanning."""
MAX_SETTLE = 4
"""Passes over one text; a removal may change a neighbour's context. After the last one every candidate goes."""
INTERLEAVED_FROM = 8
"""This many single invisible characters inside words are a payload, fewer are stray."""
RUN_FROM = 4
"""This many invisible characters in a row are a payload."""

_CANDIDATES = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_RUN = re.compile(f"[{_CANDIDATES}]+")
_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")


class _Ranges:
    """Membership in sorted code point ranges."""

    def __init__(self, text: str) -> None:
        pairs = sorted(tuple(int(x, 16) for x in (part.split("-") * 2)[:2]) for part in text.split())
        self._starts = [p[0] for p in pairs]
        self._ends = [p[1] for p in pairs]

    def __contains__(self, char: str) -> bool:
        code = ord(char)
        at = bisect_right(self._starts, code) - 1
        return at >= 0 and code <= self._ends[at]


_PICTOGRAPHS = _Ranges(
    "a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab 25b6 25c0 25fb-25fe "
    "2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2767 "
    "2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d 3297 3299 1f000-1f0ff 1f10d-1f10f 1f12f 1f16c-1f171 "
    "1f17e-1f17f 1f18e 1f191-1f19a 1f1ad-1f1e5 1f201-1f20f 1f21a 1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f64f 1f680-1f6ff 1f774-1f77f "
    "1f7d5-1f7ff 1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff 1f90c-1faff 1fc00-1fffd"
)
# Scripts whose writing uses joiners, and South-East Asian ones that mark word borders with U+200B.
_JOINER_SCRIPTS = _Ranges(
    "600-6ff 700-74f 750-77f 780-7bf 7c0-7ff 840-85f 860-86f 870-8ff 900-97f 980-9ff a00-a7f a80-aff b00-b7f b80-bff c00-c7f c80-cff "
    "d00-d7f d80-dff e00-e7f e80-eff f00-fff 1000-109f 1700-177f 1780-17ff 1800-18af 1900-194f 1950-19df 19e0-19ff 1a20-1aaf 1b00-1b7f "
    "1b80-1bbf 1bc0-1bff 1c00-1c4f a800-a82f a840-a87f a880-a8df a8e0-a8ff a930-a95f a980-a9df a9e0-a9ff aa00-aa5f aa60-aa7f aa80-aadf "
    "aae0-aaff abc0-abff fb50-fdff fe70-fefc 10a00-10a5f 11000-1107f 11080-110cf 11100-1114f 11150-1117f 11180-111df 11200-1124f "
    "11300-1137f 11400-1147f 11480-114df 11580-115ff 11600-1165f 1e900-1e95f"
)
_WORD_SPACE_SCRIPTS = _Ranges("e00-e7f e80-eff f00-fff 1000-109f 1780-17ff 1950-19df 1a20-1aaf aa60-aa7f")
_IDEOGRAPHS = _Ranges("3400-4dbf 4e00-9fff f900-faff 20000-323af")
_STANDARD_VS = _Ranges(  # bases of standardised variation sequences outside emoji: signs, punctuation, ideographs, some scripts
    "30 2018-2019 201c-201d 2190-21ff 2200-22ff 2300-23ff 2460-24ff 2500-27bf 2900-2bff 3001-3002 3030-303d 3297 3299 ff01-ff5e 1000-109f "
    "aa60-aa7f a840-a87f 10ac0-10aff 13000-1342f 1f000-1f02f"
)
_MONGOLIAN = _Ranges("1800-18af a840-a87f")
_JAMO_L, _JAMO_V = _Ranges("1100-115f a960-a97f"), _Ranges("1160-11a7 d7b0-d7cb")
_MUSIC = _Ranges("1d100-1d1ff")
_SHORTHAND = _Ranges("1bc00-1bc9f")
_BIDI_MARKS = "\u200e\u200f\u061c"
_BIDI_OPEN, _BIDI_CLOSE = (
    {"\u202a": "\u202c", "\u202b": "\u202c", "\u2066": "\u2069", "\u2067": "\u2069", "\u2068": "\u2069"},
    "\u202c\u2069",
)
_BIDI_NESTING = re.compile("[\u202a\u202b\u202c\u2066-\u2069]")
_FLAGS = tuple("".join(chr(0xE0000 + ord(c)) for c in code) + "\U000e007f" for code in ("gbeng", "gbsct", "gbwls"))
_ZWJ, _ZWNJ, _ZWSP, _SHY, _CGJ = "\u200d", "\u200c", "\u200b", "\u00ad", "\u034f"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """``suspicious`` is set where what went is a payload, not a stray character."""

    text: str
    removed: int
    payload: str
    suspicious: bool


def remove_invisible(text: str) -> Cleaned:
    """Take out invisible characters that no script or emoji sequence at their place needs."""
    if text.isascii() or not _RUN.search(text):
        return Cleaned(text, 0, "", False)
    gone: list[str] = []
    interleaved = 0
    for last in (*[False] * MAX_SETTLE, True):
        pieces: list[str] = []
        line = _Line(text)
        done, before = 0, len(gone)
        for found in _RUN.finditer(text):
            kept = "" if last else _judge(text, found, line)
            if kept == found[0]:
                continue
            gone.append(found[0])
            interleaved += len(found[0]) == 1 and _inside_word(text, found.start(), found.end())
            pieces += (text[done : found.start()], kept)
            done = found.end()
        if len(gone) == before:
            break
        text = "".join(pieces) + text[done:]
    removed = sum(map(len, gone))
    hidden = "\n".join(h for h in map(_decode, gone) if h)
    spread = _decode("".join(g for g in gone if len(g) < RUN_FROM))
    payload = "\n".join(h for h in (hidden, spread) if h)[:MAX_PAYLOAD]
    suspicious = bool(payload) or interleaved >= INTERLEAVED_FROM or any(len(g) >= RUN_FROM or "\u202d" in g or "\u202e" in g for g in gone)
    return Cleaned(text, removed, payload, suspicious)


def _inside_word(text: str, start: int, end: int) -> bool:
    return start > 0 and end < len(text) and not text[start - 1].isspace() and not text[end].isspace()


def _judge(text: str, found: re.Match[str], line: _Line) -> str:
    """What of this run may stay."""
    run, start, end = found[0], found.start(), found.end()
    prev = text[start - 1] if start else ""
    following = text[end] if end < len(text) else ""
    if len(run) == 1:
        return run if _single(text, run, prev, following, start, line) else ""
    if run in _FLAGS:
        return run if prev == "\U0001f3f4" else ""
    if run[1:] == _ZWJ and run[0] in "\ufe0e\ufe0f":
        return run if prev and following and prev in _PICTOGRAPHS and following in _PICTOGRAPHS else ""
    if len(run) <= RUN_FROM and all(c in _BIDI_MARKS or c in _BIDI_OPEN or c in _BIDI_CLOSE for c in run):
        return run if line.bidi(start, end) else ""
    return ""


def _single(text: str, char: str, prev: str, following: str, start: int, line: _Line) -> bool:
    """Whether one invisible character has a use at its place."""
    if char == _ZWJ and prev and following and _emoji(prev) and following in _PICTOGRAPHS:
        return True
    if char in (_ZWJ, _ZWNJ):  # also at the edge of a word: they shape the one letter they touch
        return _joins(prev) or _joins(following)
    if "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0100":
        return bool(prev) and _variation(char, prev, following)
    if char in _BIDI_MARKS or char in _BIDI_OPEN or char in _BIDI_CLOSE:
        return line.bidi(start, start + 1)
    if char == _SHY:
        around = text[max(0, start - 2) : start] + text[start + 1 : start + 3]
        return len(around) == 4 and around.isalpha()
    if not prev or not following:
        return False
    if char == _ZWSP:
        return prev in _WORD_SPACE_SCRIPTS and following in _WORD_SPACE_SCRIPTS
    if char == _CGJ:
        return _mark(following) and (_mark(prev) or prev.isalpha())
    if char in "\u115f\u1160":
        return following in _JAMO_V if char == "\u115f" else prev in _JAMO_L
    if "\u180b" <= char <= "\u180f":
        return prev in _MONGOLIAN
    if "\U0001d173" <= char <= "\U0001d17a":
        return prev in _MUSIC and following in _MUSIC
    return "\U0001bca0" <= char <= "\U0001bca3" and prev in _SHORTHAND and following in _SHORTHAND


def _joins(char: str) -> bool:
    return bool(char) and char in _JOINER_SCRIPTS


def _emoji(char: str) -> bool:
    return char in _PICTOGRAPHS or "\U0001f1e6" <= char <= "\U0001f1ff" or char == "\u20e3"


def _mark(char: str) -> bool:
    return "\u0300" <= char <= "\u036f" or "\u0591" <= char <= "\u05c7" or "\u064b" <= char <= "\u065f"


def _variation(char: str, prev: str, following: str) -> bool:
    if char in "\ufe0e\ufe0f":
        return prev in _PICTOGRAPHS or (prev in "0123456789#*" and following == "\u20e3") or (prev in _STANDARD_VS and not prev.isdigit())
    if char >= "\U000e0100":
        return prev in _IDEOGRAPHS and char <= "\U000e01ef"
    if "\ufe00" <= char <= "\ufe02":
        return prev in _IDEOGRAPHS or (prev in _STANDARD_VS and not (prev == "0" and char != "\ufe00"))
    return "\ufe03" <= char <= "\ufe06" and "\U00013000" <= prev <= "\U0001342f"


class _Line:
    """What direction marks need to know of their line; remembers the last line asked for, runs come in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._from = self._to = -1
        self._rtl = self._balanced = False

    def bidi(self, start: int, end: int) -> bool:
        """Direction marks stand in lines with right-to-left letters, not between two letters of one direction; embeddings balance."""
        text = self._text
        if not self._from <= start <= self._to:
            self._load(start)
        if not self._rtl:
            return False
        if any(c not in _BIDI_MARKS for c in text[start:end]):
            return self._balanced
        prev, following = text[start - 1 : start], text[end : end + 1]
        return not (prev.isalpha() and following.isalpha() and bool(_RTL.match(prev)) == bool(_RTL.match(following)))

    def _load(self, start: int) -> None:
        text = self._text
        self._from, self._to = text.rfind("\n", 0, start) + 1, text.find("\n", start)
        self._to = len(text) if self._to < 0 else self._to
        self._rtl = bool(_RTL.search(text, self._from, self._to))
        stack: list[str] = []
        self._balanced = True
        for found in _BIDI_NESTING.finditer(text, self._from, self._to):
            if found[0] in _BIDI_OPEN:
                stack.append(_BIDI_OPEN[found[0]])
            elif not stack or stack.pop() != found[0]:
                self._balanced = False
                return
        self._balanced = not stack


def _decode(run: str) -> str:
    """The text a run of invisible characters encodes: tags, variation-selector bytes, or zero-width bits; else nothing."""
    tags = "".join(chr(ord(c) - 0xE0000) for c in run if "\U000e0020" <= c <= "\U000e007e")
    if len(tags) >= 2:
        return tags
    selectors = bytes(
        ord(c) - 0xFE00 if c <= "\ufe0f" else ord(c) - 0xE0100 + 16
        for c in run
        if "\ufe00" <= c <= "\ufe0f" or "\U000e0100" <= c <= "\U000e01ef"
    )
    if len(selectors) >= 2 and (text := _readable(selectors)):
        return text
    bits = [c for c in run if c in "\u200b\u200c\u200d\u2060\ufeff"]
    kinds = sorted(set(bits))
    if len(bits) < 16 or len(kinds) != 2:
        return ""
    readings: list[str] = []
    for one in kinds:  # which of the two stands for 1, and how many bits make a letter, is not known: every reading is scanned
        word = "".join("1" if c == one else "0" for c in bits)
        for width in (8, 7):
            readings.append(_readable(bytes(int(word[i : i + width], 2) for i in range(0, len(word) - width + 1, width))))
    return "\n".join(r for r in readings if r)


def _readable(data: bytes) -> str:
    """UTF-8 text that is mostly letters, or nothing. One known encoding shifts every byte by 16."""
    for shift in (0, 16):
        moved = bytes((b - shift) % 256 for b in data) if shift else data
        text = moved.decode("utf-8", "ignore")
        good = sum(c.isalnum() or c.isspace() or c in ".,:;!?'\"-/()" for c in text)
        if len(text) >= 2 and good * 10 >= len(text) * 8 and not any(c < " " and c not in "\t\n" for c in text):
            return text
    return ""
