"""Every bound of the wire, by name (house rule 7). A limit is checked before the bytes it bounds are read or decoded."""

from __future__ import annotations

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
MAX_JSON_BYTES = 1024 * 1024
MAX_JSON_DEPTH = 32
MAX_COSIGNATURES = 32
