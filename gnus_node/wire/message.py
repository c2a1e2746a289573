"""The RPC message: signed records, sealed parcels, the request key's box, and small arguments (DESIGN.md section 5).

A message carries authority only in its records; ``args`` are conveniences a receiver checks or ignores. Parcels are ciphertext, found by
the commitment that stands in a record. ``key_box`` seals the request's key to the receiving node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnus_node.records.errors import GnusError
from gnus_node.wire import cbor
from gnus_node.wire.limits import MAX_FRAME_BYTES, MAX_MESSAGE_PARCELS, MAX_MESSAGE_RECORDS, MAX_RECORD_BYTES, MAX_TEXT_BYTES

MESSAGE_VERSION = 1
_PARCEL_OVERHEAD = 256
_KEYS = frozenset("akprv")
_ARGS = bytes((0xA0 | len(_KEYS), 0x61)) + b"a"
"""How every frame begins: a map of five, then the key of the arguments."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request or item. ``parcels`` maps a 32-byte commitment to ciphertext; ``args`` holds plain values of a service."""

    records: tuple[bytes, ...] = ()
    parcels: Mapping[bytes, bytes] = field(default_factory=dict)
    key_box: bytes = b""
    args: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The frame. Raises ``TOO_LARGE``."""
        plain = {
            "k": self.key_box,
            "p": [(key, self.parcels[key]) for key in sorted(self.parcels)],
            "r": self.records,
            "v": MESSAGE_VERSION,
        }
        # The arguments come first, and only they can hold maps in another than the canonical order.
        frame = _ARGS + cbor.encode(dict(self.args)) + cbor.encode_ordered(plain)[1:]
        if len(frame) > MAX_FRAME_BYTES:
            raise GnusError("TOO_LARGE", f"a frame of {len(frame)} bytes")
        return frame


def decode_message(frame: bytes) -> Message:
    """Read a frame strictly. Raises ``MALFORMED``, ``NON_CANONICAL``, ``TOO_LARGE``, ``UNKNOWN_KIND`` (message version)."""
    plain = cbor.load(frame, limit=MAX_FRAME_BYTES)
    if type(plain) is not dict or set(plain) != _KEYS:
        raise GnusError("MALFORMED", "a message has the keys v, r, p, k, a")
    if type(plain["v"]) is not int or plain["v"] != MESSAGE_VERSION:
        raise GnusError("UNKNOWN_KIND", "a message version this node does not read")
    records, parcels, box, args = plain["r"], plain["p"], plain["k"], plain["a"]
    if type(records) is not list or type(parcels) is not list or type(box) is not bytes or type(args) is not dict:
        raise GnusError("MALFORMED", "a message field has the wrong type")
    if len(records) > MAX_MESSAGE_RECORDS or len(parcels) > MAX_MESSAGE_PARCELS or len(box) > 256:
        raise GnusError("TOO_LARGE", "a message with too many parts")
    if any(type(r) is not bytes or len(r) > MAX_RECORD_BYTES for r in records):
        raise GnusError("MALFORMED", "a record is a byte string of at most 64 KiB")
    if any(type(k) is not str for k in args):
        raise GnusError("MALFORMED", "argument names are text")
    message = Message(tuple(records), _parcels(parcels), box, cbor.checked(args))
    # Every part's type is known by now, so a message has one encoding: an order, a head or a key in another form shows here.
    if message.encode() != frame:
        raise GnusError("NON_CANONICAL", "the bytes are not the canonical encoding of their message")
    return message


def _parcels(pairs: list[Any]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for pair in pairs:
        if type(pair) is not list or [type(x) for x in pair] != [bytes, bytes] or len(pair[0]) != 32:
            raise GnusError("MALFORMED", "a parcel is a pair of commitment and ciphertext")
        if pair[0] in found or len(pair[1]) > MAX_TEXT_BYTES + _PARCEL_OVERHEAD:
            raise GnusError("MALFORMED", "a repeated or oversized parcel")
        found[pair[0]] = pair[1]
    return found
