"""Why there is no answer, in words for the person who asked: the reason that a tool, an expert or a document gave, never less (18.1.3.3). Pure.

A code says it for programs, one sentence for people. Neither holds a text of the question, a path or a secret.
"""

from __future__ import annotations

from collections.abc import Iterable

from gnus_node.records.errors import CODES

TELLS = frozenset(
    {"UNDEFINED", "NO_SUCH_DATE", "AMBIGUOUS", "TOO_LARGE", "CAPABILITY_DENIED", "NOT_A_QUESTION", "NOT_IN_FILE", "MALFORMED"}
)
"""Codes with which an expert says what stands in the way, rather than that it has nothing to say."""
FINAL = frozenset({"UNDEFINED", "NO_SUCH_DATE", "AMBIGUOUS", "TOO_LARGE"})
"""Codes of a calculation that was wholly understood and has no one result: then no document answers in its place."""
_TEXTS = {
    "UNSUPPORTED_ANSWER": "The experts' drafts are not supported by any evidence at hand, so no answer is given.",
    "NO_EXPERT": "No expert could be reached in time, so no answer is given.",
    "NO_EVIDENCE": "Nothing at hand supports an answer: no document, memory or calculation covers the question.",
    "NOT_IN_FILE": "The named file says nothing that answers this, and no other source may answer for it.",
    "UNDEFINED": "The calculation has no defined value: it divides by zero, or takes a power or root that has none.",
    "NO_SUCH_DATE": "The date in the question does not exist in the calendar, or lies outside the years 1583 to 9999.",
    "AMBIGUOUS": "The question can be read in more than one way, and the readings give different answers. Say which one is meant.",
    "NOT_A_QUESTION": "This is data, not a question; nothing is done with it.",
    "CAPABILITY_DENIED": "This asks for an action that nothing here may do: no tool with that right is allowed.",
    "PATH_DENIED": "The file may not be read: its path lies outside the allowed folders, leaves them, or is no regular file.",
    "NOT_FOUND": "There is no such file below the allowed folders.",
    "TOO_LARGE": "What would be needed is over a size limit, so it was not used.",
    "SANITIZER_FAILED": "The file is no readable text: it is binary, not UTF-8, or broken JSON.",
    "TRAP_DETECTED": "The file holds text that tries to give orders to this system, so it was not used.",
    "TAINTED": "The tool call was not clearly the asker's own wish, so it was not run.",
    "APPROVAL_REQUIRED": "A person must approve the tool call first.",
    "APPROVAL_DENIED": "A person denied the tool call.",
}
_TOOL_TEXTS = {
    "TOO_LARGE": "The file is larger than may be read here.",
    "TOOL_FAILED": "The file could not be read.",
    "DEADLINE": "The tool did not end in its time.",
    "BAD_ARGUMENTS": "The tool was called with arguments it does not take.",
}


def text_of(code: str) -> str:
    """The sentence of a reason code."""
    return _TEXTS.get(code) or f"No answer is given: {CODES[code].meaning if code in CODES else 'the reason is not known here'}."


def tool_text_of(code: str) -> str:
    """The sentence of a reason code that a tool, or the intermediary before it, gave."""
    return _TOOL_TEXTS.get(code) or text_of(code)


def telling(codes: Iterable[str]) -> str:
    """The first code that says what stands in the way; "" where none does."""
    return next((code for code in codes if code in TELLS), "")
