"""What a person asked, as every role understands it: the visible text, with a follow-up completed from the turns before. Pure.

Router, grounding, experts and verifier each call ``asked`` on the same sealed texts, so they answer one question. The signed commitment stays
that of the text as it came.

Invariants: total; only the person's own earlier turns complete a follow-up, never what an assistant said; a text that is no follow-up
stays as it is but for characters that nobody sees.
"""

from __future__ import annotations

import re

from gnus_node.content.invisible import remove_invisible
from gnus_node.content.normalise import clean_controls

MAX_TURNS = 32
"""Earlier turns looked at for what a follow-up goes on from."""
MAX_FOLLOW_UP = 120
"""Longest text that may be a follow-up, in characters."""
_FOLLOWS = re.compile(
    r"^\s*(?:and|but|what about|how about|and what about|and how about|same for|the same for)\b[\s,]*(?:(of|in|for|about|with)\s+)?"
    r"((?:the\s+)?[^?.!,;:]{1,80}?)(?:\s+then)?\s*[?.!]*\s*$",
    re.I,
)
_SLOTS = (
    re.compile(
        r"^(.*\b(?:of|in|for|about)\s+)((?:the\s+)?[^?.!,;:]{1,80}?)((?:\s+(?:have|has|cover|use|mean|say))?\s*[?.!]*\s*)$", re.I | re.S
    ),
    re.compile(r"^(.*\b(?:does|do|did)\s+)((?:the\s+)?[^?.!,;:]{1,80}?)(\s+(?:do|have|cover|use|mean|say|border)\b.{0,80})$", re.I | re.S),
    re.compile(r"^(\W*(?:what|who|where)(?:'s| is| are| was| were)\s+)((?:the\s+|an?\s+)?[^?.!,;:]{1,80}?)(\s*[?.!]*\s*)$", re.I | re.S),
)
_VERB = re.compile(r"\b(?:is|are|was|were|do|does|did|has|have|what|who|when|where|why|how|which|can|will)\b", re.I)
_TURN = re.compile(r"^user: (.*)$", re.M)
_DATA = re.compile(r"^\s*(?:\{.*[}\]]|\[.*\])\s*$", re.S)
_CHANGES = re.compile(
    r"^\W*(?:please\s+|(?:can|could|would|will)\s+you\s+(?:please\s+)?|i want you to\s+|go and\s+)?"
    r"(?:delete|remove|erase|wipe|overwrite|rename|move|truncate|create|edit|modify|change|append|write|save|chmod|chown|execute|run|upload|send)\b",
    re.I,
)


def asked(question: str, context: str = "") -> str:
    """The question to answer: without invisible and control characters, a follow-up completed from ``context`` (``role: text`` lines)."""
    text = visible(question)
    if not context or len(text) > MAX_FOLLOW_UP:
        return text
    for earlier in reversed(_TURN.findall(context)[-MAX_TURNS:]):
        done = completed(text, visible(earlier))
        if done is None:
            return text
        text = done
        if _FOLLOWS.match(text) is None:
            return text
    return text


def visible(text: str) -> str:
    """The text without characters that nobody sees."""
    if text.isascii() and text.isprintable():
        return text
    return remove_invisible(clean_controls(text).text).text


def completed(text: str, earlier: str) -> str | None:
    """A follow-up ("and of Germany?") with the rest of the question before it; None where it is none, or nothing fits."""
    follow = _FOLLOWS.match(text)
    if follow is None or _VERB.search(follow[2]):
        return None
    if (before := _FOLLOWS.match(earlier)) is not None and not _VERB.search(before[2]):
        return f"and {follow[1] + ' ' if follow[1] else ''}{follow[2]}?"  # the turn before was a follow-up itself: go on from the one before that
    slot = next((m for pattern in _SLOTS if (m := pattern.match(earlier))), None)
    return f"{slot[1]}{follow[2].strip()}{slot[3]}" if slot else None


def is_data(text: str) -> bool:
    """Whether the text is a JSON value or the like: data, and no question."""
    return _DATA.match(text) is not None


def changes_a_file(text: str) -> bool:
    """Whether the text is an order to change something: reading is no answer to it."""
    return _CHANGES.match(text) is not None
