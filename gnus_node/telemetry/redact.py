"""The guard every log line passes: ids, codes, counts and durations go through, anything that may hold text does not.

House rule: no user text in logs. Callers keep it; this guard keeps a mistake from becoming a leak. It never raises and bounds each line:
names by form, values by type, size and known text-field names. What it takes out it counts in ``fields_refused`` or marks in place.
"""

# house: pure

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Mapping
from typing import Any

from gnus_node.records.enums import Tier
from gnus_node.records.errors import GnusError

MAX_FIELDS = 32
MAX_FIELD_CHARS = 200
MAX_LIST_FIELD = 16
"""Most items of a list field; they are joined with commas."""
MAX_RAW_BYTES = 32
"""Longest bytes value shown, in hex: a digest or key."""
_MAX_INT = 2**63 - 1

# fmt: off
TEXT_FIELDS = frozenset({
    "answer", "api_key", "argument", "arguments", "authorization", "body", "claim", "claims", "comment", "content",
    "context", "cookie", "credential", "credentials", "data", "document", "draft", "history", "input", "key_material",
    "message", "messages", "output", "passage", "password", "payload", "plain_text", "preview", "prompt", "query",
    "question", "quote", "raw", "salt", "secret", "seed", "signing_key", "snippet", "summary", "text", "title", "token",
    "value", "user_text",
})
# fmt: on
"""Names of fields that would hold a person's text or a secret: their value is never written, whatever its type."""
_TEXT_SUFFIXES = ("_text", "_secret", "_password", "_prompt", "_answer", "_question", "_query", "_content", "_salt")

_EVENT = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,47}")
_RESERVED = frozenset({"at", "level", "event", "fields_refused", "exc_info", "stack_info"})

Scalar = str | int | float | bool | None


def is_text_field(name: str) -> bool:
    """Whether a field of this name is taken to hold text or a secret."""
    return name in TEXT_FIELDS or name.endswith(_TEXT_SUFFIXES)


def clean_event(event: object) -> str:
    """The event's name, or ``event.refused``: a name built from data would carry it."""
    return event if isinstance(event, str) and len(event) <= 80 and _EVENT.fullmatch(event) else "event.refused"


def clean_fields(fields: Mapping[str, Any]) -> dict[str, Scalar]:
    """The fields as scalars, in the given order."""
    kept: dict[str, Scalar] = {}
    refused = 0
    for name, value in fields.items():
        if name in _RESERVED:
            refused += name not in ("exc_info", "stack_info", "event")
        elif len(kept) >= MAX_FIELDS or not _FIELD.fullmatch(name):
            refused += 1
        elif is_text_field(name):
            kept[name] = "[redacted]"
        else:
            kept[name] = clean_value(value)
    if refused:
        kept["fields_refused"] = refused
    return kept


def clean_value(value: object) -> Scalar:
    """One value as a scalar of bounded size: identifiers and numbers as they are, exceptions by code or type, the rest by type name."""
    if isinstance(value, Tier):
        return value.name
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_MAX_INT <= value <= _MAX_INT else "[refused int]"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else "[refused float]"
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, bytes):
        return value.hex() if len(value) <= MAX_RAW_BYTES else f"[{len(value)} bytes]"
    if isinstance(value, GnusError):
        return value.code
    if isinstance(value, BaseException):
        return f"[{type(value).__name__}]"
    if isinstance(value, list | tuple):
        return _clean_list(value)
    return f"[refused {type(value).__name__[:40]}]"


def _clean_text(value: str) -> str:
    """Text on one line: controls, line ends, direction marks and lone surrogates as escapes; longer text is refused whole."""
    if len(value) > MAX_FIELD_CHARS:
        return f"[{len(value)} characters]"
    if value.isprintable():
        return str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode("ascii") for c in value)


def _clean_list(values: list[object] | tuple[object, ...]) -> str:
    if len(values) > MAX_LIST_FIELD or any(isinstance(v, list | tuple | dict | set) for v in values):
        return f"[{len(values)} items]"
    joined = ",".join(str(clean_value(v)) for v in values)
    return joined if len(joined) <= 2 * MAX_FIELD_CHARS else f"[{len(values)} items]"


def fault_fields(fault: BaseException) -> dict[str, str]:
    """What may be logged of a fault of this program: its type, and the innermost frames as ``file:line:function``; never its message."""
    frames = traceback.extract_tb(fault.__traceback__)[-3:]
    where = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}:{frame.name}" for frame in reversed(frames))
    return {"fault": type(fault).__name__, "where": where[:MAX_FIELD_CHARS]}
