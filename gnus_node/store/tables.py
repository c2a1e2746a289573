"""The durable tables of a node, as data: what each is for, its bound, and how its rows end.

Every table of the store stands here (DESIGN.md section 1, rule 7); a name that does not is a fault of the program. The engine enforces
``max_rows`` and ``max_value_bytes`` at every write; ``doctor`` shows rows and bytes against them. Values are opaque to the store: what
holds user text is encrypted before it comes here.

Keys: requests are keyed by the ASCII of their UUID, records by their 32-byte id, sequences by ``owner || 8-byte big-endian number``
(``sequenced``), so that a prefix scan gives them in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from gnus_node.records.errors import GnusError

SCHEMA_VERSION = 2
"""Version of the tables' meaning; a directory of another version is refused, but for 1, which only lacked the rows' checksums."""
MAX_KEY_BYTES = 511
"""LMDB's own bound."""

_KIB = 1024
_MIB = 1024 * _KIB


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its bound in rows and bytes a value, and who removes its rows, when."""

    name: str
    purpose: str
    max_rows: int
    max_value_bytes: int
    end_of_life: str


_ALL = (
    Table("meta", "schema, engine, incarnation, cursors", 1_000, 64 * _KIB, "with the data directory"),
    Table("journal", "request_id -> accepted request, as its ingress owns it", 1_000_000, 256 * _KIB, "request retention, once settled"),
    Table("payload", "commitment -> encrypted parcel", 4_000_000, 8 * _MIB, "with its request, or at erasure"),
    Table(
        "request_key",
        "request_id -> wrapped key, sealed subject",
        1_000_000,
        4 * _KIB,
        "with its request; dead at erasure",
    ),
    Table("record", "record id -> raw signed envelope", 20_000_000, 1 * _MIB, "request retention, or the record's own kind"),
    Table("effects", "effect_key -> effect state and what it did", 4_000_000, 4 * _KIB, "audit retention; never while undecided"),
    Table("effects_by_request", "request id || effect_key -> mark", 4_000_000, 64, "with its effect"),
    Table("answer", "request_id -> stored terminal answer, digests only", 1_000_000, 256 * _KIB, "request retention"),
    Table(
        "idempotency",
        "hash of tenant and key -> request_id, digest",
        1_000_000,
        1 * _KIB,
        "24 hours after the request ended",
    ),
    Table("task", "task id -> settled or rejected task record", 4_000_000, 256 * _KIB, "audit retention"),
    Table("checkpoint", "settlement epoch -> checkpoint record", 1_000_000, 1 * _MIB, "kept: revocation cuts rest on them"),
    Table("mem_log", "local seq -> memory envelope", 20_000_000, 128 * _KIB, "retention class, below a checkpoint"),
    Table(
        "mem_ix",
        "memory event id -> local seq, shard, bucket, flags",
        20_000_000,
        1 * _KIB,
        "with its event; erasure keeps a stub",
    ),
    Table("mem_owner", "owner pseudonym || local seq -> memory event id", 20_000_000, 64, "with its event"),
    Table("mem_payload", "memory content hash -> ciphertext", 20_000_000, 1 * _MIB, "with its event, or at erasure"),
    Table("trust_log", "sequence -> charter, grant, revocation or head", 1_000_000, 1 * _MIB, "kept: old records are judged by it"),
    Table("audit_unsafe", "record id -> unsafe tool output, encrypted", 100_000, 8 * _MIB, "30 days"),
    Table("fence", "request_id -> highest generation seen", 4_000_000, 64, "request retention"),
)

TABLES: dict[str, Table] = {table.name: table for table in _ALL}


def table(name: str) -> Table:
    """The table's row. Raises ``INTERNAL`` for a name that is not declared."""
    found = TABLES.get(name)
    if found is None:
        raise GnusError("INTERNAL", "a write or read names a table that is not declared in store.tables")
    return found


def request(request_id: str) -> bytes:
    """The key of a request. Raises ``MALFORMED`` where the id is not 1 to 128 ASCII characters."""
    if not 0 < len(request_id) <= 128 or not request_id.isascii():
        raise GnusError("MALFORMED", "a request id is 1 to 128 ASCII characters")
    return request_id.encode("ascii")


def sequenced(owner: bytes, number: int) -> bytes:
    """The key of entry ``number`` (0 to 2^64-1) of an owner's sequence: key order is number order under the prefix ``owner``."""
    return owner + number.to_bytes(8, "big")
