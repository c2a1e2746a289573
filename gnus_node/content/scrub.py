"""The instruction scrubber (18.1.3.8.9): takes out lines that read like instructions to the machine, keeps them as findings.

The text is cleaned of controls and invisible characters, then looked at through several *views*, each on the same lines: the plain scan
copy, letters of other scripts read as the Latin letters they imitate, digits read as letters, rot13, letters set apart by blanks, and
encoded pieces decoded. A line on which any view shows one of the pattern families is removed; of a very long line only the sentences are.

This is defence in depth: findings decide risk flags, whether text may be memorised and whether a person is asked. A text without findings
is not thereby safe (reference: mediation, 1).

Invariants: total; linear but for capped rounds; scrubbing twice changes nothing more; the result is a subsequence of the input (line ends
made LF). A text that does not settle within ``MAX_ROUNDS`` rounds is removed whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gnus_node.content.decoding import Decoded, decoded_lines, reads_as_prose
from gnus_node.content.invisible import Cleaned, remove_invisible
from gnus_node.content.languages import LANGUAGE_PARTS
from gnus_node.content.matching import Hit, Matcher
from gnus_node.content.normalise import Controls, clean_controls, mixes_scripts, rot13, scan_copy, skeleton, unleet
from gnus_node.content.patterns import COMMAND_PARTS, PARTS

PROMPT_INJECTION, HIDDEN_INSTRUCTION, HIDDEN_TEXT, ENCODED_CONTENT = (
    "prompt_injection_pattern", "hidden_instruction", "hidden_text", "encoded_content",
)  # fmt: skip
MAX_FINDINGS = 256
MAX_LINE_KEPT = 500
"""Characters of a removed line kept in its finding."""
LONG_LINE = 1000
"""A longer line loses only its matching sentences."""
MAX_ROUNDS = 6

_OPEN = Matcher((*PARTS, *LANGUAGE_PARTS))
_CLOSED = Matcher((*PARTS, *LANGUAGE_PARTS, *COMMAND_PARTS))
_SENTENCE_END = re.compile(r"(?<=[.!?])[ \t]+|(?<=[。！？؟।])")
_SPACED = re.compile(r"(?<!\S)\S(?:[ .*_-]{1,3}\S(?![^\s.*_-])){6,}+")
_SPACED_HINT = bytes(0x20 if i == 0x20 else 0x0A if i == 0x0A else 0x61 for i in range(256))
_SPACED_SHAPE = b"a a a a a a "
_LETTERS = re.compile(r"[a-z]+")
_LEET_HINT = bytes(0x61 if chr(i).isalpha() and i < 128 else 0x31 if chr(i) in "0123456789@$!|+" else 0x20 for i in range(256))
_LEET_SHAPE = re.compile(rb"1+a")  # a digit or sign before a letter; counts inside a word or before two letters
_LEET_LETTER = 0x61
MAX_LEET = 64
MAX_TOKENS = 2000
"""Odd tokens looked at for one text."""
MAX_TOKEN = 64
"""Longer runs without a blank are not read as words with digits for letters."""
_ROT_HINTS = ("vtaber", "qvfertneq", "bireevqr", "vafgehpgvba", "cebzcg", "flfgrz", "erirny", "cerivbhf", "cebtenzzvat", "sbetrg")
_SQUEEZED = re.compile(
    r"(?:ignore|disregard|forget|override|bypass)(?:all|any|the|your|my|of|these|those){0,3}(?:previous|prior|above|earlier|preceding|initial|system)?"
    r"(?:instructions?|directions|prompts?|rules|guidelines|commands|programming)|ihavebeen\w{3,10}|(?:reveal|show|print)(?:me)?your(?:system)?(?:prompt|instructions)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One removed or noted line: its text (cut to ``MAX_LINE_KEPT``), why, which family, its number from 1 (0: no line)."""

    line: str
    reason: str
    family: str
    number: int


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """What is left, what was found, and what cleaning took out."""

    text: str
    findings: tuple[Finding, ...]
    removed_invisible: int = 0
    removed_controls: int = 0
    removed_lines: int = 0


def instruction_scrub(text: str) -> Scrubbed:
    """Remove invisible text and instruction-like lines. Findings with reason ``encoded_content`` are notes: their lines stay."""
    controls, cleaned = _clean(text)
    findings: list[Finding] = []
    payload = "\n".join(p for p in (cleaned.payload, controls.payload) if p)
    if cleaned.suspicious or controls.payload:
        hits = _matches(payload) if payload else []
        findings.append(Finding(payload[:MAX_LINE_KEPT], HIDDEN_INSTRUCTION if hits else HIDDEN_TEXT, hits[0] if hits else "invisible", 0))
    current, removed_lines = cleaned.text, 0
    for _ in range(MAX_ROUNDS):
        left, found, lines = _round(current)
        new = [f for f in found if f.reason != ENCODED_CONTENT or not any(o.line == f.line for o in findings)]
        findings += new[: MAX_FINDINGS - len(findings)]
        removed_lines += lines
        if left == current:
            break
        _, again = _clean(left)
        current = again.text
    else:
        findings = [*findings[: MAX_FINDINGS - 1], Finding("", HIDDEN_INSTRUCTION, "unsettled", 0)]
        removed_lines += current.count("\n") + 1
        current = ""
    return Scrubbed(current, tuple(findings), cleaned.removed, controls.removed, removed_lines)


def _clean(text: str) -> tuple[Controls, Cleaned]:
    """Controls and invisible characters out, until neither finds anything: taking one out may uncover the other."""
    controls = clean_controls(text)
    cleaned = remove_invisible(controls.text)
    if cleaned.removed:
        more = clean_controls(cleaned.text)
        if more.text != cleaned.text:
            cleaned = Cleaned(remove_invisible(more.text).text, cleaned.removed, cleaned.payload, cleaned.suspicious)
    return controls, cleaned


@dataclass(frozen=True, slots=True)
class _View:
    """One way of reading the text, or some of its lines: ``numbers`` are then their places in the text."""

    copy: str
    reason: str
    hits: list[Hit]
    numbers: Sequence[int] | None = None


def _round(text: str) -> tuple[str, list[Finding], int]:
    """One look through all views: what is left, the findings, and how many lines went."""
    bad: dict[int, tuple[str, str]] = {}
    decoded = decoded_lines(text)
    for view in _views(text, decoded):
        starts: list[int] | None = None
        for hit in view.hits:
            starts = starts or _line_starts(view.copy)
            for number in range(bisect_right(starts, hit.start) - 1, bisect_right(starts, max(hit.start, hit.end - 1))):
                bad.setdefault(view.numbers[number] if view.numbers is not None else number, (view.reason, hit.family))
    noted = [
        Finding(d.before[:MAX_LINE_KEPT], ENCODED_CONTENT, "encoded", d.number + 1) for d in decoded if reads_as_prose(d.before, d.after)
    ]
    if not bad:
        return text, noted[:MAX_FINDINGS], 0
    kept: list[str] = []
    findings: list[Finding] = []
    for number, line in enumerate(text.split("\n")):
        if number not in bad:
            kept.append(line)
            continue
        reason, family = bad[number]
        left, gone = _without(line)
        findings.append(Finding(gone[:MAX_LINE_KEPT], reason, family, number + 1))
        if left:
            kept.append(left)
    return "\n".join(kept), findings + noted[:MAX_FINDINGS], len(bad)


def _line_starts(view: str) -> list[int]:
    starts = [0]
    at = view.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = view.find("\n", at + 1)
    return starts


def _without(line: str) -> tuple[str, str]:
    """A matching line: nothing is left of a short one; a long one keeps the sentences that do not match."""
    if len(line) <= LONG_LINE:
        return "", line
    cuts = [0, *(m.end() for m in _SENTENCE_END.finditer(line)), len(line)]
    kept: list[str] = []
    gone: list[str] = []
    for start, end in pairwise(cuts):
        sentence = line[start:end]
        (gone if len(sentence) > LONG_LINE or _matches(sentence) else kept).append(sentence)
    if not any(g.strip() for g in gone) or _matches("".join(kept)):
        return "", line
    return "".join(kept), "".join(gone)


def _matches(text: str) -> list[str]:
    """Families that any view of a text shows."""
    return [hit.family for view in _views(text, decoded_lines(text)) for hit in view.hits]


def _views(text: str, decoded: list[Decoded]) -> Iterator[_View]:
    """Each view that differs from those before it, with its hits."""
    plain = scan_copy(text)
    yield _View(plain, PROMPT_INJECTION, _OPEN.find(plain))
    latin = skeleton(plain) if mixes_scripts(plain) else plain
    if latin is not plain:
        copy, numbers = _some_lines(plain, mixes_scripts)
        copy = skeleton(copy)
        yield _View(copy, PROMPT_INJECTION, _OPEN.find(copy), numbers)
    if tokens := _leet(latin):
        copy, numbers = _some_lines(latin, lambda line: any(t in line for t in tokens))
        letters = unleet(copy)
        yield _View(letters, HIDDEN_INSTRUCTION, _fresh(_OPEN, letters, copy), numbers)
    if any(hint in latin for hint in _ROT_HINTS):
        copy, numbers = _some_lines(latin, lambda line: any(h in line for h in _ROT_HINTS))
        turned = rot13(copy)
        yield _View(turned, HIDDEN_INSTRUCTION, _OPEN.find(turned), numbers)
    if _has_spaced(text):
        copy, numbers = _some_lines(plain, _has_spaced)
        joined = _join_spaced(copy)
        squeezed = [Hit(m.start(), m.end(), "override") for m in _SQUEEZED.finditer(joined)]
        yield _View(joined, HIDDEN_INSTRUCTION, squeezed + _fresh(_OPEN, joined, copy), numbers)
    for opaque, matcher in ((False, _OPEN), (True, _CLOSED)):
        if lines := [d for d in decoded if d.opaque is opaque]:
            copy = skeleton(scan_copy("\n".join(d.before for d in lines)))
            opened = skeleton(scan_copy("\n".join(d.after for d in lines)))
            yield _View(opened, HIDDEN_INSTRUCTION, _fresh(matcher, opened, copy), [d.number for d in lines])


def _some_lines(copy: str, wanted: Callable[[str], bool]) -> tuple[str, list[int]]:
    """The wanted lines of a copy, and their numbers. Views of some lines only keep a text's cost near one reading."""
    lines = copy.split("\n")
    numbers = [n for n, line in enumerate(lines) if wanted(line)]
    return "\n".join(lines[n] for n in numbers), numbers


def _fresh(matcher: Matcher, view: str, plain: str) -> list[Hit]:
    """Hits that the plain reading does not show in the same words (those have their finding already)."""
    return [h for h in matcher.find(view) if view[h.start : h.end] not in plain]


def _leet(folded: str) -> list[str]:
    """Tokens in which digits and signs, read as letters, make a word the families know. At most ``MAX_LEET``."""
    shape = folded.encode("ascii", "replace").translate(_LEET_HINT)
    tokens: set[str] = set()
    for mark in _LEET_SHAPE.finditer(shape):
        if (mark.start() and shape[mark.start() - 1] == _LEET_LETTER) or shape[mark.end() : mark.end() + 1] == b"a":
            start = shape.rfind(b" ", max(0, mark.start() - MAX_TOKEN), mark.start()) + 1
            end = shape.find(b" ", mark.end(), mark.end() + MAX_TOKEN)
            tokens.add(folded[start or max(0, mark.start() - MAX_TOKEN) : end if end >= 0 else mark.end() + MAX_TOKEN])
            if len(tokens) >= MAX_TOKENS:
                break
    found: list[str] = []
    for token in tokens:
        if any(len(w) > 3 and w in _OPEN.known and w not in token for w in _LETTERS.findall(unleet(token))):
            found.append(token)
    return sorted(found)[:MAX_LEET]


def _has_spaced(text: str) -> bool:
    return _SPACED_SHAPE in text.encode("ascii", "replace").translate(_SPACED_HINT)


def _join_spaced(plain: str) -> str:
    """Letters set apart are put together; two or more blanks part words."""

    def join(found: re.Match[str]) -> str:
        return " ".join(re.sub(r"[ .*_-]", "", word) for word in re.split(r" {2,}", found[0]))

    return _SPACED.sub(join, plain)
