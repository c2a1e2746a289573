"""Checksums of stored rows: a bit that flipped on the disk is noticed when the row is read, not believed.

LMDB keeps no checksums of its pages. So every value carries a CRC-32 of its table, key and value as its last four bytes: enough against
a disk's accidents, which is all it is for; against an enemy records are signed and texts sealed. Table and key are covered, so that a row
that moved is noticed too. # house: pure
"""

from __future__ import annotations

import zlib

from gnus_node.records.errors import GnusError

SUM_BYTES = 4


def _sum(table: str, key: bytes, value: bytes) -> bytes:
    return zlib.crc32(value, zlib.crc32(key, zlib.crc32(table.encode("ascii")))).to_bytes(SUM_BYTES, "big")


def summed(table: str, key: bytes, value: bytes) -> bytes:
    """A value as it is stored."""
    return value + _sum(table, key, value)


def checked(table: str, key: bytes, stored: bytes) -> bytes:
    """The value of a stored row. Raises ``STORE_CORRUPT`` with the table's name where it is not what was written."""
    value = stored[:-SUM_BYTES]
    if len(stored) < SUM_BYTES or stored[-SUM_BYTES:] != _sum(table, key, value):
        raise GnusError("STORE_CORRUPT", f"a row of the table {table} is damaged", fix="check the disk, then restore a backup")
    return value
