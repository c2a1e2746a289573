"""What is decided about batches before the disk is asked: bounds, grouping, and what readers see of writes that still queue. Pure.

A batch is atomic and numbered in the order it was accepted. The *overlay* holds the newest queued value of each key, so that a reader
sees its own writes before they are durable. A batch with an ``if_absent`` conflict is kept and judged again in its transaction, which
alone decides; the overlay only foresees the refusal, so that nobody reads a row that will not be there.

Invariants: groups keep the batches' order; a reader sees the stored rows overlaid by all accepted batches in order, foreseen refusals
left out; every bound is checked before a batch is accepted, so the transaction can fail only on the disk's account.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gnus_node.ports import Row, Write
from gnus_node.records.errors import GnusError
from gnus_node.store import tables

ROW_OVERHEAD_BYTES = 64
"""What a row counts beside key and value, so that empty rows are not free."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """The store's bounds. Queue bounds count what is accepted and not yet durable."""

    map_size_bytes: int = 64 << 30
    """Largest size of the data file; sparse, costs nothing until used."""
    batch_rows: int = 4096
    batch_bytes: int = 32 << 20
    queue_rows: int = 16_384
    queue_bytes: int = 64 << 20
    group_rows: int = 4096
    """A commit takes batches up to these, and always at least one batch."""
    group_bytes: int = 32 << 20
    behind_s: float = 1.0
    """Longest time a write-behind batch waits."""
    scan_rows: int = 10_000
    """Most rows one scan may ask for."""


@dataclass(frozen=True, slots=True)
class Batch:
    """An accepted batch. ``shown`` is False where a refusal is foreseen."""

    number: int
    writes: tuple[Write, ...]
    size_bytes: int
    shown: bool


def check_key(key: bytes) -> None:
    """Refuse a key that LMDB cannot hold: ``MALFORMED`` when empty, ``TOO_LARGE`` when too long."""
    if not key:
        raise GnusError("MALFORMED", "a store key is empty")
    if len(key) > tables.MAX_KEY_BYTES:
        raise GnusError("TOO_LARGE", f"a store key is longer than {tables.MAX_KEY_BYTES} bytes")


def check_writes(writes: Iterable[Write], limits: StoreLimits) -> tuple[tuple[Write, ...], int]:
    """The batch as a tuple and its size in bytes. Raises ``INTERNAL`` (unknown table), ``MALFORMED``, ``TOO_LARGE``."""
    batch = tuple(writes)
    size = 0
    if len(batch) > limits.batch_rows:
        raise GnusError("TOO_LARGE", f"a batch has more than {limits.batch_rows} rows")
    for write in batch:
        table = tables.table(write.table)
        check_key(write.key)
        length = 0 if write.value is None else len(write.value)
        if length > table.max_value_bytes:
            raise GnusError("TOO_LARGE", f"a value is over the {table.max_value_bytes} bytes of table {table.name}")
        size += len(write.key) + length + ROW_OVERHEAD_BYTES
    if size > limits.batch_bytes:
        raise GnusError("TOO_LARGE", f"a batch is over {limits.batch_bytes} bytes")
    return batch, size


def conflicts(writes: Sequence[Write], exists: Callable[[str, bytes], bool]) -> bool:
    """Whether an ``if_absent`` of the batch meets a key that is there, by ``exists`` or by an earlier write of the same batch."""
    own: dict[tuple[str, bytes], bool] = {}
    for write in writes:
        place = (write.table, write.key)
        if write.if_absent and (own[place] if place in own else exists(write.table, write.key)):
            return True
        own[place] = write.value is not None
    return False


def group_length(sizes: Iterable[tuple[int, int]], limits: StoreLimits) -> int:
    """How many batches, given as (rows, bytes) from the oldest on, go into one commit: one, or as many as fit the group's bounds."""
    rows = size = count = 0
    for batch_rows, batch_bytes in sizes:
        rows += batch_rows
        size += batch_bytes
        if count and (rows > limits.group_rows or size > limits.group_bytes):
            break
        count += 1
    return count


class Overlay:
    """Newest queued value of each key that waits to become durable. Bounded by the queue's bounds."""

    __slots__ = ("_order", "_tables")

    def __init__(self) -> None:
        self._tables: dict[str, dict[bytes, tuple[int, bytes | None]]] = {}
        self._order: deque[Batch] = deque()

    def add(self, batch: Batch) -> None:
        """Show a batch's writes; it is newer than all before."""
        if not batch.shown:
            return
        self._order.append(batch)
        for write in batch.writes:
            self._tables.setdefault(write.table, {})[write.key] = (batch.number, write.value)

    def drop_through(self, number: int) -> None:
        """Forget every batch up to ``number``: they are stored, or have failed. Newer values of the same keys stay."""
        while self._order and self._order[0].number <= number:
            for write in self._order.popleft().writes:
                entries = self._tables.get(write.table, {})
                entry = entries.get(write.key)
                if entry is not None and entry[0] <= number:
                    del entries[write.key]

    def find(self, table: str, key: bytes) -> tuple[bytes | None] | None:
        """``(value,)`` where the key is queued, with value None for a deletion; None where it is not queued."""
        entry = self._tables.get(table, {}).get(key)
        return None if entry is None else (entry[1],)

    def range(self, table: str, prefix: bytes, after: bytes) -> list[tuple[bytes, bytes | None]]:
        """Queued rows and deletions of a scan's range, in key order."""
        entries = self._tables.get(table)
        if not entries:
            return []
        return sorted((key, entry[1]) for key, entry in entries.items() if key > after and key.startswith(prefix))


def merge(stored: Iterable[tuple[bytes, bytes]], queued: Sequence[tuple[bytes, bytes | None]], limit: int) -> list[Row]:
    """The first ``limit`` rows of stored ones overlaid by queued ones, both in key order; ``stored`` is read no further than needed."""
    rows: list[Row] = []
    waiting = deque(queued)

    def take_queued(below: bytes | None) -> None:
        while waiting and len(rows) < limit and (below is None or waiting[0][0] < below):
            key, value = waiting.popleft()
            if value is not None:
                rows.append(Row(key, value))

    if limit <= 0:
        return rows
    for key, value in stored:
        take_queued(key)
        if len(rows) >= limit:
            return rows
        if waiting and waiting[0][0] == key:
            _, newer = waiting.popleft()
            if newer is not None:
                rows.append(Row(key, newer))
        else:
            rows.append(Row(key, value))
        if len(rows) >= limit:
            return rows
    take_queued(None)
    return rows
