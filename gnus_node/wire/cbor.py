"""Deterministic CBOR: one value, one encoding, and nothing else is read (RFC 8949 section 4.2.1).

Allowed: maps with text keys only or non-negative integer keys only, arrays, text, bytes, integers within 64 bits, booleans. Refused:
floats, null, undefined, simple values, tags, indefinite lengths, duplicate or unsorted keys, trailing bytes, anything not minimal.
"""

from __future__ import annotations

from typing import Any, NoReturn

import cbor2

from gnus_node.records.errors import GnusError
from gnus_node.wire.limits import MAX_DEPTH, MAX_ITEMS, MAX_RECORD_BYTES

Plain = Any
"""What a decoded structure holds: dict, tuple, str, bytes, int, bool."""


def _deny_tag(*_args: object) -> NoReturn:
    raise ValueError("tags are not allowed")


_DENY = dict.fromkeys((*range(64), 100, 256, 258, 260, 261, 1004, 25, 43000, 55799), _deny_tag)
_MAX_INT = 2**63 - 1
_ONLY_BYTES = {bytes}
_UNCOUNTED = 4
"""Bytes for each allowed value that are decoded without counting first: at worst as many empty maps, ten milliseconds and two megabytes."""


def encode(value: Plain) -> bytes:
    """Encode a plain structure canonically. The caller's types are trusted to be the allowed ones."""
    return cbor2.dumps(value, canonical=True)


def encode_ordered(value: Plain) -> bytes:
    """As ``encode``, four times as fast, for a structure whose maps have their keys in canonical order already (shorter first, then by bytes)."""
    return cbor2.dumps(value)


def decode_loose(data: bytes, *, limit: int = MAX_RECORD_BYTES, depth: int = MAX_DEPTH, items: int = MAX_ITEMS) -> Plain:
    """Decode and type-check, without the canonical comparison; for callers that compare a re-encoding of their own.

    Raises ``TOO_LARGE``, ``MALFORMED``. Lists come back as tuples.
    """
    return checked(load(data, limit=limit, depth=depth, items=items), items=items)


def load(data: bytes, *, limit: int, depth: int = MAX_DEPTH, items: int = MAX_ITEMS) -> Any:
    """Only what the decoder itself can judge: size, number of values, depth, tags, indefinite lengths, repeated keys. Types are *not* checked, and
    arrays are lists; for a caller that checks every part itself. Raises ``TOO_LARGE``, ``MALFORMED``."""
    if len(data) > limit:
        raise GnusError("TOO_LARGE", f"{len(data)} bytes where at most {limit} are read")
    if len(data) > _UNCOUNTED * items:
        _refuse_crowds(data, items)
    try:
        return cbor2.loads(
            data,
            max_depth=depth,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            tag_hook=_deny_tag,
            semantic_decoders=_DENY,
        )
    except (cbor2.CBORDecodeError, ValueError, TypeError, OverflowError, RecursionError, MemoryError):
        raise GnusError("MALFORMED", "not strict CBOR, or cut short") from None


def checked(value: Any, *, items: int = MAX_ITEMS) -> Plain:
    """A loaded value if all its types and keys are allowed, its lists as tuples. Raises ``TOO_LARGE``, ``MALFORMED``, ``NUMBER_RANGE``."""
    return _walk(value, [items])


def decode(data: bytes, *, limit: int = MAX_RECORD_BYTES, depth: int = MAX_DEPTH, items: int = MAX_ITEMS) -> Plain:
    """Decode bytes that must be the one canonical encoding of their value. Raises ``TOO_LARGE``, ``MALFORMED``, ``NON_CANONICAL``."""
    value = decode_loose(data, limit=limit, depth=depth, items=items)
    if encode(value) != data:
        raise GnusError("NON_CANONICAL", "the bytes are not the canonical encoding of their value")
    return value


def bytes_length(data: bytes) -> int:
    """Length of a byte string's one canonical encoding."""
    return len(data) + head_length(len(data))


def head_length(number: int) -> int:
    """Length of the shortest head that says ``number`` (below 2**32): of a length or an integer."""
    if number < 24:
        return 1
    if number < 256:
        return 2
    return 3 if number < 65536 else 5


def _refuse_crowds(data: bytes, items: int) -> None:
    """Count the heads before anything is built: a megabyte of empty maps costs the decoder a third of a second and 70 MB.

    Stops at the bound, so it costs little; what is not well-formed is left to the decoder. Short input needs no count (``_UNCOUNTED``).
    """
    place, waiting, seen = 0, 1, 0
    while waiting and place < len(data):
        major, number = data[place] >> 5, data[place] & 31
        place += 1
        if number >= 24:
            if number > 27:
                return
            size = 1 << (number - 24)
            number = int.from_bytes(data[place : place + size], "big")
            place += size
        seen, waiting = seen + 1, waiting - 1
        if major in (2, 3):
            place += number
        elif major >= 4:
            waiting += {4: number, 5: 2 * number, 6: 1}.get(major, 0)
        if seen + waiting > 2 * items:  # keys count here, but not in the walk
            raise GnusError("TOO_LARGE", f"more than {items} values")


def _walk(value: Plain, budget: list[int]) -> Plain:
    """The type-and-key walk: refuses what the decoder lets pass, and freezes lists."""
    budget[0] -= 1
    if budget[0] < 0:
        raise GnusError("TOO_LARGE", f"more than {MAX_ITEMS} values")
    kind = type(value)
    if kind is str or kind is bytes or kind is bool:
        return value
    if kind is int:
        if not -_MAX_INT <= value <= _MAX_INT:
            raise GnusError("NUMBER_RANGE", "an integer beyond 64 bits")
        return value
    if kind is list or kind is tuple:
        if set(map(type, value)) == _ONLY_BYTES and len(value) <= budget[0]:
            budget[0] -= len(value)
            return tuple(value)
        return tuple([_walk(item, budget) for item in value])
    if kind is dict:
        keys = set(map(type, value))
        if keys == {int}:
            if min(value) < 0:
                raise GnusError("MALFORMED", "a negative map key")
        elif keys - {str}:
            raise GnusError("MALFORMED", "map keys must be all text or all non-negative integers")
        return {key: _walk(item, budget) for key, item in value.items()}
    raise GnusError("MALFORMED", f"a value of type {kind.__name__} is not allowed")
