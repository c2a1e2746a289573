"""The bytes of a service's stream: each frame an unsigned varint length, then one canonical CBOR array (docs/protocol/streams.md).

Caller to server: ``[0, budget_ms, request]``. Server to caller: ``[1, item]`` any number of times, then ``[2]`` (end) or ``[3, error]``; then
the next call may follow. There is one call at a time on a stream; resetting the stream cancels it. Sans I/O: bytes in, frames out.
"""

# house: pure

from __future__ import annotations

from enum import IntEnum
from typing import Any

from gnus_node.records.enums import Whose
from gnus_node.records.errors import GnusError
from gnus_node.wire import cbor
from gnus_node.wire.limits import MAX_FRAME_BYTES

MAX_OVERHEAD = 64
"""What the array around a frame takes at most."""
MAX_WIRE_BYTES = MAX_FRAME_BYTES + MAX_OVERHEAD
_LENGTH_BYTES = 4
"""Longest varint read: beyond any length allowed."""


class Kind(IntEnum):
    """First element of every frame."""

    CALL = 0
    ITEM = 1
    END = 2
    ERROR = 3


_PARTS: dict[Kind, tuple[type, ...]] = {Kind.CALL: (int, bytes), Kind.ITEM: (bytes,), Kind.END: (), Kind.ERROR: (dict,)}


def call_frame(budget_ms: int, request: bytes) -> bytes:
    """The frame that asks."""
    return _frame([int(Kind.CALL), budget_ms, request])


def item_frame(item: bytes) -> bytes:
    """The frame of one item."""
    return _frame([int(Kind.ITEM), item])


def last_frame(error: GnusError | None) -> bytes:
    """The frame that ends a call, well or not."""
    return _frame([int(Kind.END)] if error is None else [int(Kind.ERROR), error.to_plain()])


def _frame(parts: list[Any]) -> bytes:
    body = cbor.encode(parts)
    return uvarint(len(body)) + body


def uvarint(value: int) -> bytes:
    """Unsigned LEB128, shortest form."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_frame(body: bytes) -> tuple[Kind, tuple[Any, ...]]:
    """Kind and parts of a frame. Raises ``PROTOCOL``, the peer's fault."""
    try:
        plain = cbor.decode(body, limit=MAX_WIRE_BYTES)
    except GnusError as error:
        raise fault(f"a frame that is not canonical: {error.code}") from None
    if type(plain) is not tuple or not plain or type(plain[0]) is not int or plain[0] not in _KINDS:
        raise fault("a frame of no known kind")
    kind, parts = Kind(plain[0]), plain[1:]
    if tuple(map(type, parts)) != _PARTS[kind]:
        raise fault("a frame with the wrong parts")
    return kind, parts


_KINDS = frozenset(int(kind) for kind in Kind)


def fault(what: str) -> GnusError:
    """The peer broke the protocol."""
    return GnusError("PROTOCOL", what, whose=Whose.REMOTE)


class Splitter:
    """Cuts what comes in into frames. The length is judged before any of the body is kept, so a buffer never holds more than one
    frame of the allowed size and one read."""

    def __init__(self, limit: int = MAX_WIRE_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._place = 0

    @property
    def partial(self) -> bool:
        """Whether the input stopped inside a frame."""
        return self._place < len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole by now. Raises ``PROTOCOL`` for a length over the limit or not in its shortest form."""
        self._buffer += data
        frames: list[bytes] = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        if self._place:
            del self._buffer[: self._place]
            self._place = 0
        return frames

    def _next(self) -> bytes | None:
        start = self._place
        length = shift = 0
        while True:
            if start >= len(self._buffer):
                return None
            byte = self._buffer[start]
            length |= (byte & 0x7F) << shift
            start, shift = start + 1, shift + 7
            if byte < 0x80:
                break
            if start - self._place >= _LENGTH_BYTES:
                raise fault("a frame's length that is too long")
        if length > self._limit or length == 0:
            raise fault(f"a frame of {length} bytes")
        if byte == 0 and start - self._place > 1:
            raise fault("a frame's length not in its shortest form")
        if len(self._buffer) - start < length:
            return None
        self._place = start + length
        return bytes(self._buffer[start : self._place])
