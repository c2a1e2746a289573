"""JSON at the boundary: strict reading, exact numbers, and RFC 8785 text for free JSON (DECISIONS, Bytes).

It stands beside the records, because a record's JSON view holds free JSON; ``wire.jsontext`` is its name for the rooms above.
Two readers: ``read_view`` for record views (numbers with a point become ``Decimal``), ``read_free`` for free JSON such as tool arguments
(I-JSON numbers; integers beyond 2^53 are refused). Both refuse duplicate keys, NaN, infinities and lone surrogates.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, NoReturn

import rfc8785

from gnus_node.records.errors import GnusError

MAX_JSON_BYTES = 1024 * 1024
MAX_JSON_DEPTH = 32
MAX_EXACT = 2**53 - 1
"""Largest integer every JSON reader holds exactly."""
MAX_DIGITS = 40
"""Longest number text of a view."""
MAX_EXPONENT = 400
"""Widest decimal exponent of a view: above a double's, and far below what would make a huge text."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise GnusError("MALFORMED", "a duplicate key in a JSON object")
        found[key] = value
    return found


def _constant(_text: str) -> NoReturn:
    raise GnusError("MALFORMED", "NaN and infinities are not JSON")


def _free_int(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_EXACT:
        raise GnusError("NUMBER_RANGE", "an integer beyond 2^53 in free JSON; send it as text")
    return int(text)


def _free_float(text: str) -> float:
    value = float(text) if len(text) <= 64 else float("inf")
    if value in (float("inf"), float("-inf")):
        raise GnusError("NUMBER_RANGE", "a number beyond a double in free JSON")
    return value


def _view_int(text: str) -> int:
    if len(text) > 20:
        raise GnusError("NUMBER_RANGE", "an integer beyond 64 bits")
    return int(text)


def _view_decimal(text: str) -> Decimal:
    if len(text) > MAX_DIGITS:
        raise GnusError("NUMBER_RANGE", f"a number of more than {MAX_DIGITS} characters")
    value = Decimal(text)
    if abs(value.adjusted()) > MAX_EXPONENT:
        raise GnusError("NUMBER_RANGE", "a number whose exponent is out of range")
    return value


def _check(value: Any, depth: int) -> None:
    """Depth and lone surrogates, iteratively bounded by ``MAX_JSON_DEPTH``."""
    if depth > MAX_JSON_DEPTH:
        raise GnusError("MALFORMED", f"JSON deeper than {MAX_JSON_DEPTH}")
    if isinstance(value, str):
        if not value.isascii():
            _no_surrogates(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(key, depth)
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)


def _no_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise GnusError("MALFORMED", "a lone surrogate in JSON text") from None


def _read(text: str | bytes, limit: int, parse_int: Any, parse_float: Any) -> Any:
    if len(text) > limit:
        raise GnusError("TOO_LARGE", f"JSON of {len(text)} where at most {limit} bytes are read")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant, parse_int=parse_int, parse_float=parse_float)
    except UnicodeDecodeError as error:
        raise GnusError("MALFORMED", f"not JSON: byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise GnusError("MALFORMED", f"not JSON: line {error.lineno}, column {error.colno} does not read") from None
    except RecursionError:
        raise GnusError("MALFORMED", f"JSON deeper than {MAX_JSON_DEPTH}") from None
    _check(value, 0)
    return value


def read_view(text: str | bytes, *, limit: int = MAX_JSON_BYTES) -> Any:
    """Read the JSON view of a record: decimals stay exact. Raises ``MALFORMED``, ``TOO_LARGE``, ``NUMBER_RANGE``."""
    return _read(text, limit, _view_int, _view_decimal)


def read_free(text: str | bytes, *, limit: int = MAX_JSON_BYTES) -> Any:
    """Read free JSON with I-JSON numbers. Raises ``MALFORMED``, ``TOO_LARGE``, ``NUMBER_RANGE``."""
    return _read(text, limit, _free_int, _free_float)


def canonical(value: Any) -> str:
    """Free JSON as its one RFC 8785 text. Raises ``MALFORMED`` for what JSON cannot hold, ``NUMBER_RANGE`` for inexact integers."""
    try:
        return rfc8785.dumps(value).decode("utf-8")
    except rfc8785.IntegerDomainError:
        raise GnusError("NUMBER_RANGE", "an integer beyond 2^53 in free JSON") from None
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeEncodeError):
        raise GnusError("MALFORMED", "a value that canonical JSON cannot hold") from None


def _number(value: Decimal) -> str:
    """Exact text of a decimal. Arithmetic of ``Decimal`` rounds to 28 digits, formatting does not; hence only formatting."""
    if not value.is_finite() or abs(value.adjusted()) > MAX_EXPONENT:
        raise GnusError("NUMBER_RANGE", "a number that JSON cannot hold exactly")
    text = format(value, "f")
    if len(text) > MAX_DIGITS:
        return str(value)
    if "." in text:
        text = text.rstrip("0")
        return text + "0" if text.endswith(".") else text
    return text + ".0"


def write_view(value: Any, *, indent: int | None = None, _level: int = 0) -> str:
    """Write a view (dicts, lists, text, integers, booleans, None, Decimals) as JSON, every number exact.

    The standard encoder cannot write a Decimal without going through a float, so containers are written here.
    """
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, dict):
        items = [f"{json.dumps(str(k), ensure_ascii=False)}: {write_view(v, indent=indent, _level=_level + 1)}" for k, v in value.items()]
        return _wrap("{", items, "}", indent, _level)
    if isinstance(value, list | tuple):
        return _wrap("[", [write_view(v, indent=indent, _level=_level + 1) for v in value], "]", indent, _level)
    if isinstance(value, float) and not math.isfinite(value):
        raise GnusError("NUMBER_RANGE", "a number that JSON cannot hold exactly")
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _wrap(head: str, items: list[str], tail: str, indent: int | None, level: int) -> str:
    if indent is None or not items:
        return head + ", ".join(items) + tail
    pad = "\n" + " " * indent * (level + 1)
    return head + pad + ("," + pad).join(items) + "\n" + " " * indent * level + tail
