"""Every bound of the wire, by name (house rule 7). A limit is checked before the bytes it bounds are read or decoded."""

from __future__ import annotations

from gnus_node.records.jsontext import MAX_JSON_BYTES, MAX_JSON_DEPTH

__all__ = [
    "MAX_COSIGNATURES",
    "MAX_DEPTH",
    "MAX_FRAME_BYTES",
    "MAX_ITEMS",
    "MAX_JSON_BYTES",
    "MAX_JSON_DEPTH",
    "MAX_MESSAGE_PARCELS",
    "MAX_MESSAGE_RECORDS",
    "MAX_RECORD_BYTES",
    "MAX_TEXT_BYTES",
]

MAX_RECORD_BYTES = 64 * 1024
"""Largest signed record; small enough that a frame of colliding map keys stays cheap."""
MAX_FRAME_BYTES = 1024 * 1024
"""Largest RPC frame: a message of records and parcels."""
MAX_DEPTH = 8
"""Deepest nesting of a record."""
MAX_ITEMS = 8192
"""Most values in one decoded structure."""
MAX_MESSAGE_RECORDS = 512
MAX_MESSAGE_PARCELS = 512
MAX_TEXT_BYTES = 256 * 1024
"""Largest single free text (question with context, answer, passage, tool output)."""
MAX_COSIGNATURES = 32
