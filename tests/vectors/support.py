"""What the vector generator and the record tests share: fixed keys, sample bodies of every kind, and a CBOR encoder of our own.

``sample`` fills a body from its field types alone, once with every optional field and once without any; the same call gives the same body
for ever, so that vectors can be made again and compared. ``Oracle`` encoding follows RFC 8949 section 4.2.1 and shares no code with
``gnus_node.wire``.
"""

from __future__ import annotations

import re
import types
import typing
from enum import Enum
from typing import Annotated, Any

import nacl.bindings
from pydantic.fields import FieldInfo

from gnus_node.records.base import FixedPoint, Part, RawBytes
from gnus_node.records.enums import SignerRole
from gnus_node.records.envelope import Header

SWARM = bytes(range(16))
NOW_MS = 1_775_410_000_000


class Key:
    """An Ed25519 key whose seed is one byte repeated 32 times."""

    def __init__(self, seed_byte: int) -> None:
        self.seed_byte = seed_byte
        self.public, self._secret = nacl.bindings.crypto_sign_seed_keypair(bytes([seed_byte]) * 32)

    def sign(self, message: bytes) -> bytes:
        return nacl.bindings.crypto_sign(message, self._secret)[:64]


KEYS: dict[SignerRole, Key] = {role: Key(number) for number, role in enumerate(SignerRole, start=1)}
"""One key a role; seed bytes are the roles' positions in the enumeration, from 1."""


def header(kind: str, role: SignerRole, *, full: bool = True, **change: Any) -> Header:
    values: dict[str, Any] = {
        "kind": kind,
        "version": 1,
        "swarm": SWARM,
        "epoch": 3,
        "signer": KEYS[role].public,
        "role": role,
        "seq": (7 << 32) | 5,
        "issued_at_ms": NOW_MS,
        "refs": (bytes([1]) * 32, bytes([2]) * 32) if full else (),
    }
    if full:
        values["expires_at_ms"] = NOW_MS + 60_000
    return Header.model_validate(values | change)


UUID = "0f1e2d3c-4b5a-4697-8877-665544332211"
_TEXTS = {
    "capability": "tool.files.read",
    "domain": "docs.example",
    "path": "/srv/docs",
    "uuid": UUID,
    "reason": "OK",
    "node": "node-123",
    "version": "1.2.0",
    "name": "sample",
    "label": "A short text of ours",
}


def text_for(pattern: str | None, number: int) -> str:
    """A text that fits one of the patterns of ``records``; ``number`` makes it different from its neighbours, in order."""
    for name, text in _TEXTS.items():
        if pattern is None:
            return f"{_TEXTS['label']} {number}"
        candidate = text if name == "uuid" else f"{text}{number}" if name not in ("reason",) else text
        if re.fullmatch(pattern, candidate):
            return candidate
    raise AssertionError(f"no sample for {pattern}")


def _limits(marks: tuple[Any, ...]) -> dict[str, Any]:
    """What the marks of a type say, by name: ge, le, min_length, max_length, pattern."""
    found: dict[str, Any] = {}
    for mark in marks:
        for one in mark.metadata if isinstance(mark, FieldInfo) else (mark,):
            for name in ("ge", "le", "min_length", "max_length", "pattern"):
                value = getattr(one, name, None)
                if value is not None and name not in found:
                    found[name] = value
    return found


def is_set(marks: tuple[Any, ...]) -> bool:
    return any(getattr(getattr(mark, "func", None), "__name__", "") == "_sorted_unique" for mark in marks)


def split(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Base type and marks, nested ``Annotated`` included, ``None`` taken off a union."""
    marks: tuple[Any, ...] = ()
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            annotation, *more = typing.get_args(annotation)
            marks = (*more, *marks)
        elif origin in (types.UnionType, typing.Union):
            (annotation,) = [a for a in typing.get_args(annotation) if a is not type(None)]
        else:
            return annotation, marks


def value(annotation: Any, number: int, full: bool) -> Any:
    base, marks = split(annotation)
    limits = _limits(marks)
    for mark in marks:
        if isinstance(mark, RawBytes):
            return bytes([16 + number]) * mark.size
        if isinstance(mark, FixedPoint):
            return 7000 + number
    if typing.get_origin(base) is tuple:
        item = typing.get_args(base)[0]
        enum = split(item)[0]
        if isinstance(enum, type) and issubclass(enum, Enum):
            return tuple(sorted(enum, key=str)[:2]) if full else ()
        return tuple(value(item, n, full) for n in range(2)) if full else ()
    if base is bytes:
        return bytes([32 + number]) * limits.get("min_length", 4)
    if base is bool:
        return number % 2 == 0
    if base is int:
        return min(limits.get("ge", 0) + 1 + number, limits.get("le", 10**6))
    if base is str:
        return text_for(limits.get("pattern"), number)
    if issubclass(base, Enum):
        return list(base)[number % len(base)]
    if issubclass(base, Part):
        return sample(base, full=full, number=number)
    raise AssertionError(f"no sample for {base}")


def sample(part: type[Part], *, full: bool = True, number: int = 0) -> Any:
    """A valid part; with ``full`` every optional field is there and every list has two items."""
    hints = typing.get_type_hints(part, include_extras=True)
    wanted = [name for name, info in part.model_fields.items() if full or info.is_required()]
    return part.model_validate({name: value(hints[name], number, full) for name in wanted})


def to_json(plain: Any) -> Any:
    """A plain structure in JSON: byte strings as ``{"hex": ...}``."""
    if isinstance(plain, bytes):
        return {"hex": plain.hex()}
    if isinstance(plain, list | tuple):
        return [to_json(item) for item in plain]
    if isinstance(plain, dict):
        return {str(key): to_json(item) for key, item in plain.items()}
    return plain


def from_json(value: Any) -> Any:
    """The inverse of ``to_json`` for text-keyed structures."""
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]) if set(value) == {"hex"} else {key: from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    return value


def oracle(value: Any) -> bytes:
    """Deterministic CBOR by RFC 8949 section 4.2.1, written apart from the node's coder."""
    if value is False or value is True:
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        data = value.encode()
        return _head(3, len(data)) + data
    if isinstance(value, list | tuple):
        return _head(4, len(value)) + b"".join(map(oracle, value))
    if isinstance(value, dict):
        pairs = sorted((oracle(key), oracle(item)) for key, item in value.items())
        return _head(5, len(pairs)) + b"".join(key + item for key, item in pairs)
    raise AssertionError(type(value))


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << (8 * size):
            return bytes([major << 5 | code]) + number.to_bytes(size, "big")
    raise AssertionError(number)


def plain_of(part: Part) -> dict[str, Any]:
    """A part as text-keyed plain structure, enumerations as their text, absent fields left out; not the node's own code."""

    def walk(item: Any) -> Any:
        if isinstance(item, Part):
            return {name: walk(v) for name in type(item).model_fields if (v := getattr(item, name)) is not None}
        if isinstance(item, Enum):
            return item.name if isinstance(item.value, int) else item.value
        if isinstance(item, tuple):
            return [walk(v) for v in item]
        return item

    found = walk(part)
    assert isinstance(found, dict)
    return found
