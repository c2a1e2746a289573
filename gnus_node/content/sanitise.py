"""Sanitises a tool's output or a document's text into the only form that may reach prompts, indexes and memory (18.1.3.8.7).

Text and Markdown are scrubbed line by line; JSON is parsed strictly and every string in it scrubbed. Any other type, undecodable bytes,
odd JSON or anything over a bound fails closed with ``SANITIZER_FAILED``. HTML, PDF and images have their place here through sandboxed
parsers (floor 5) that hand their visible text to this module.

Invariants: total but for that one typed error; the same bytes give the same result; sanitising a result again changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gnus_node.content.scrub import ENCODED_CONTENT, HIDDEN_INSTRUCTION, HIDDEN_TEXT, PROMPT_INJECTION, Finding, Scrubbed, instruction_scrub
from gnus_node.records.errors import GnusError

SANITIZER_VERSION = "1.0.0"
"""Goes into every attestation; raised with any change of result."""
TEXT_TYPES = frozenset({"text/plain", "text/markdown"})
JSON_TYPE = "application/json"
MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 32
MAX_NODES = 200_000
MAX_EXACT = 2**53
MAX_FINDINGS = 256

INSTRUCTION_LIKE, HIDDEN, ENCODED, ACTIVE, CONTROLS = (
    "instruction_like_text", "hidden_text", "encoded_content", "active_content", "control_characters",
)  # fmt: skip
_FLAG_OF = {PROMPT_INJECTION: INSTRUCTION_LIKE, HIDDEN_INSTRUCTION: INSTRUCTION_LIKE, HIDDEN_TEXT: HIDDEN, ENCODED_CONTENT: ENCODED}
_SEVERE_FAMILIES = frozenset({"override", "system", "exfiltration", "tool_call", "address", "command", "unsettled"})
_ACTIVE = re.compile(
    r"<(?:script|iframe|object|embed|svg|style|link|meta|form|base)\b[^<>]{0,2000}>|"
    r"(?:javascript|vbscript)\s{0,4}:(?=\S)|data:text/html[;,]|<[a-z][^<>]{0,500}\son[a-z]{3,20}\s{0,4}=",
    re.IGNORECASE,
)
_ACTIVE_HINTS = ("<", "script:", "data:text")


@dataclass(frozen=True, slots=True)
class StripReport:
    """What went (18.1.3.8.7). ``removed_active_content`` is False for plain text: markup in it is data and stays, flagged."""

    removed_zero_width_chars: int
    removed_active_content: bool
    instruction_scrub_applied: bool
    removed_lines: int
    removed_control_chars: int


@dataclass(frozen=True, slots=True)
class Sanitised:
    """``structured_fields`` is a JSON object; a JSON value that is none stands under ``value``. ``risk_flags`` are sorted.

    ``severe``: an instruction was found that a benign source hardly holds (hidden, or of a family that imitates authority or moves data).
    """

    content_type: str
    plain_text: str
    structured_fields: dict[str, Any]
    strip_report: StripReport
    findings: tuple[Finding, ...]
    risk_flags: tuple[str, ...]
    severe: bool
    version: str = SANITIZER_VERSION


def sanitise_text(raw: bytes | str, content_type: str) -> Sanitised:
    """Sanitise one output. ``content_type`` may carry a charset parameter (only UTF-8 is read).

    Raises ``SANITIZER_FAILED`` for other types, bytes that are not UTF-8, JSON that is not strict, and anything over a bound.
    """
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    if kind not in TEXT_TYPES and kind != JSON_TYPE:
        raise GnusError("SANITIZER_FAILED", "no sanitiser for this content type")
    charset = parameters.strip().lower().replace('"', "").replace(" ", "")
    if charset and charset not in ("charset=utf-8", "charset=utf8", "charset=us-ascii"):
        raise GnusError("SANITIZER_FAILED", "only UTF-8 is read")
    text = _decode(raw)
    if kind == JSON_TYPE:
        return _sanitise_json(text)
    scrubbed = instruction_scrub(text)
    return _result(kind, scrubbed.text, {}, [scrubbed], active=_active(text))


def _decode(raw: bytes | str) -> str:
    size = len(raw) if isinstance(raw, bytes) else len(raw) if raw.isascii() else len(raw.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise GnusError("SANITIZER_FAILED", f"more than {MAX_BYTES} bytes")
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise GnusError("SANITIZER_FAILED", "not UTF-8") from None


def _active(text: str) -> bool:
    return any(hint in text for hint in _ACTIVE_HINTS) and bool(_ACTIVE.search(text))


def _result(kind: str, plain: str, fields: dict[str, Any], parts: list[Scrubbed], *, active: bool) -> Sanitised:
    findings = tuple(f for part in parts for f in part.findings)[:MAX_FINDINGS]
    flags = {_FLAG_OF[f.reason] for f in findings}
    controls = sum(p.removed_controls for p in parts)
    if active:
        flags.add(ACTIVE)
    if controls:
        flags.add(CONTROLS)
    severe = any(f.reason == HIDDEN_INSTRUCTION or (f.reason == PROMPT_INJECTION and f.family in _SEVERE_FAMILIES) for f in findings)
    report = StripReport(sum(p.removed_invisible for p in parts), False, True, sum(p.removed_lines for p in parts), controls)
    return Sanitised(kind, plain, fields, report, findings, tuple(sorted(flags)), severe)


def _sanitise_json(text: str) -> Sanitised:
    value = _parse(text.removeprefix("\ufeff"))
    strings = list(_strings(value))
    parts: list[Scrubbed] = []
    # Most JSON is clean: one look over all strings, set apart by blank lines no pattern crosses, spares one look at each.
    together = "\n\n".join(strings)
    joined = instruction_scrub(together)
    if joined.findings or joined.text != together:
        value = _scrubbed(value, parts)
    if not isinstance(value, dict):
        value = {"value": value}
    return _result(JSON_TYPE, json.dumps(value, ensure_ascii=False, separators=(",", ":")), value, parts, active=any(map(_active, strings)))


def _parse(text: str) -> Any:
    _check_depth(text)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_integer, parse_float=_number)
    except (ValueError, RecursionError):
        raise GnusError("SANITIZER_FAILED", "not strict JSON") from None


def _check_depth(text: str) -> None:
    """Depth before parsing, strings skipped, so that the parser's own recursion is never tested."""
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{\]}]', text, re.DOTALL):
        first = token[0][0]
        depth += (first in "[{") - (first in "]}")
        if depth > MAX_DEPTH:
            raise GnusError("SANITIZER_FAILED", f"JSON deeper than {MAX_DEPTH}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key")
    return result


def _refuse(_: str) -> Any:
    raise ValueError("not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > MAX_EXACT:
        raise ValueError("integer out of the exact range")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if len(digits) > 64 or number in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return number


def _strings(value: Any) -> Iterator[str]:
    """Every string, keys included, by a walk that counts nodes."""
    stack, nodes = [value], 0
    while stack:
        node = stack.pop()
        nodes += 1
        if nodes > MAX_NODES:
            raise GnusError("SANITIZER_FAILED", f"more than {MAX_NODES} values")
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            yield from node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _scrubbed(value: Any, parts: list[Scrubbed]) -> Any:
    """The value with every string scrubbed; an entry whose key is an instruction is left out. Depth is bounded by ``MAX_DEPTH``."""
    if isinstance(value, str):
        result = instruction_scrub(value)
        if result.findings or result.text != value:
            parts.append(result)
        return result.text
    if isinstance(value, list):
        return [_scrubbed(item, parts) for item in value]
    if not isinstance(value, dict):
        return value
    fields: dict[str, Any] = {}
    for key, item in value.items():
        clean = instruction_scrub(key)
        if clean.findings or clean.text != key:
            parts.append(clean)
        if clean.removed_lines and not clean.text:
            continue
        if clean.text in fields:
            raise GnusError("SANITIZER_FAILED", "two keys differ only in what was removed")
        fields[clean.text] = _scrubbed(item, parts)
    return fields
