"""The store: one LMDB environment, one writer task, natural batching.

Why: a synced commit costs 4-7 ms whatever is in it, so the whole game is to share it. The writer commits at once when idle; what queues
while a commit runs goes out together with the next one. Nobody waits for a timer, and a busy node needs few commits. Write-behind batches
ride along, or go out after ``behind_s``.

Invariants: an acknowledged batch survives a power cut; batches apply in the order they were accepted, each whole or not at all; a refused
batch harms no other; reads see queued batches; no read transaction lives across an await; every accepted batch gets an outcome: leaving
``open_store`` drains the queue also under cancellation, and a disk error ends every wait with its typed error.

A caller that is cancelled while it waits does not take its batch back: others may have read it. It goes out like any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import lmdb
import trio

from gnus_node.ports import Offload, Row, Write
from gnus_node.records.errors import GnusError
from gnus_node.store import tables
from gnus_node.store.batch import Batch, Overlay, StoreLimits, check_key, check_writes, conflicts, group_length, merge
from gnus_node.store.disk import NO_ROWS, GroupResult, Opened, apply_group, mapped_errors, open_tables
from gnus_node.store.sums import checked

LANE = "store"
"""Offload lane of opening, commits and closing."""
SCRUB_ROWS = 256
"""Rows that scrubbing reads before others have their turn."""


@dataclass(frozen=True, slots=True)
class CommitSeen:
    """One observed group commit. ``seconds`` is on trio's clock, from handing the group over to its durability."""

    batches: int
    rows: int
    size_bytes: int
    transactions: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table's rows and bytes (whole pages), and its bound."""

    name: str
    rows: int
    size_bytes: int
    max_rows: int


@dataclass(slots=True, eq=False)
class _Pending:
    """A batch under way. Without ``done`` nobody waits for it. ``due`` is when it goes out at the latest, on trio's clock."""

    batch: Batch
    due: float
    done: trio.Event | None = None
    error: GnusError | None = field(default=None)


class LmdbStore:
    """The Store port. Made by ``open_store`` only."""

    def __init__(self, opened: Opened, offload: Offload, limits: StoreLimits, on_commit: Callable[[CommitSeen], None] | None) -> None:
        self._opened = opened
        self._offload = offload
        self._limits = limits
        self._on_commit = on_commit
        self._overlay = Overlay()
        self._queue: deque[_Pending] = deque()
        self._inflight: list[_Pending] = []
        self._rows = 0
        self._bytes = 0
        self._last_number = 0
        self._due = inf
        self._wake = trio.Event()
        self._closing = False
        self._closed = False
        self._failed: GnusError | None = None
        self._damage: GnusError | None = None
        self._lost_number = 0
        self._lost_error: GnusError | None = None
        self._flushed_number = 0
        self._commits = 0
        self.commit_wait_s = 0.0
        """Total seconds, on trio's clock, that callers of ``commit`` and ``flush`` have waited."""

    # -- the port ---------------------------------------------------------------------------------------------------------------

    @property
    def commits(self) -> int:
        """Durable commits since opening (transactions synced, not batches)."""
        return self._commits

    @property
    def failed(self) -> GnusError | None:
        """The disk error that ended all writing, or None."""
        return self._failed

    @property
    def damage(self) -> GnusError | None:
        """The first thing found that is not what was written, or what ended all writing; None while all is well."""
        return self._failed or self._damage

    async def commit(self, writes: Sequence[Write]) -> None:
        """Apply a batch durably. Raises ``REPLAYED``, ``STORE_FULL``, ``STORE_CORRUPT``; ``BUSY`` where the queue is full, ``TOO_LARGE``,
        ``MALFORMED``, ``INTERNAL`` for a batch that breaks a bound; ``NOT_RUNNING`` after closing. Cancelled: see the module's head."""
        await trio.lowlevel.checkpoint_if_cancelled()
        pending = self._accept(writes, due=-inf, done=trio.Event())
        await self._outcome(pending)

    def write_behind(self, writes: Sequence[Write]) -> None:
        """Queue a batch that needs no waiting. Raises like ``commit`` what is known at once; a later refusal shows at ``flush``."""
        self._accept(writes, due=trio.current_time() + self._limits.behind_s, done=None)

    async def flush(self) -> None:
        """Wait until all that was queued is durable. Raises the error of a write-behind batch that was lost since the last flush."""
        await trio.lowlevel.checkpoint_if_cancelled()
        since = self._flushed_number
        barrier = self._accept((), due=-inf, done=trio.Event(), bounded=False)
        await self._outcome(barrier)
        self._flushed_number = max(self._flushed_number, barrier.batch.number)
        if self._lost_error is not None and self._lost_number > since:
            raise _again(self._lost_error)

    async def get(self, table: str, key: bytes) -> bytes | None:
        """The value of ``key``, queued batches included: as of the moment of return."""
        await trio.lowlevel.checkpoint()
        return self._look(table, key)

    async def scan(self, table: str, prefix: bytes = b"", *, after: bytes = b"", limit: int = 1000, lenient: bool = False) -> list[Row]:
        """Rows whose key starts with ``prefix`` and is greater than ``after``, in key order, queued batches included.

        At most ``limit`` rows; a limit over ``StoreLimits.scan_rows`` is ``TOO_LARGE``. Go on with ``after`` = the last key. A damaged row
        is ``STORE_CORRUPT``, or with ``lenient`` has an empty value."""
        await trio.lowlevel.checkpoint()
        self._check_open()
        tables.table(table)
        if limit > self._limits.scan_rows:
            raise GnusError("TOO_LARGE", f"a scan asks for more than {self._limits.scan_rows} rows")
        for bound in (prefix, after):
            if bound:
                check_key(bound)
        with self._noticed(), self._opened.env.begin(db=self._opened.handles[table]) as txn:
            stored = self._sound(table, _stored(txn, prefix, after), lenient)
            return merge(stored, self._overlay.range(table, prefix, after), limit)

    async def scrub(self) -> None:
        """Read every row once, so that damage to what nobody reads shows as ``damage`` too."""
        for name in tables.TABLES:
            after = b""
            try:
                while rows := await self.scan(name, after=after, limit=SCRUB_ROWS, lenient=True):
                    after = rows[-1].key
            except GnusError as error:
                if error.code != "STORE_CORRUPT":
                    raise
                return  # the engine itself failed: it is noted, and reading on finds nothing new

    def _sound(self, table: str, rows: Iterator[tuple[bytes, bytes]], lenient: bool) -> Iterator[tuple[bytes, bytes]]:
        """Rows as they were written."""
        for key, stored in rows:
            if table == "meta" and key in NO_ROWS:
                continue
            try:
                value = checked(table, key, stored)
            except GnusError as error:
                self._damage = self._damage or error
                if not lenient:
                    raise
                value = b""
            yield key, value

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        """Type an engine's error, and keep the first damage that is found."""
        try:
            with mapped_errors():
                yield
        except GnusError as error:
            if error.code == "STORE_CORRUPT":
                self._damage = self._damage or error
            raise

    # -- for doctor -------------------------------------------------------------------------------------------------------------

    def table_bytes(self) -> tuple[TableSize, ...]:
        """Rows and bytes of each table as last committed, in the order of ``store.tables``."""
        self._check_open()
        sizes = []
        with mapped_errors(), self._opened.env.begin() as txn:
            for name, table in tables.TABLES.items():
                stat = txn.stat(self._opened.handles[name])
                pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
                sizes.append(TableSize(name, stat["entries"], pages * stat["psize"], table.max_rows))
        return tuple(sizes)

    # -- accepting and reading --------------------------------------------------------------------------------------------------

    def _accept(self, writes: Sequence[Write], *, due: float, done: trio.Event | None, bounded: bool = True) -> _Pending:
        """Number a batch, queue it and show it to readers; wake the writer."""
        self._check_open()
        if self._closing:
            raise GnusError("NOT_RUNNING", "the store is closing")
        if self._failed is not None:
            raise _again(self._failed)
        checked, size = check_writes(writes, self._limits)
        if bounded and (self._rows + len(checked) > self._limits.queue_rows or self._bytes + size > self._limits.queue_bytes):
            raise GnusError("BUSY", "the store's queue is full")
        shown = not conflicts(checked, lambda table, key: self._look(table, key) is not None)
        self._last_number += 1
        pending = _Pending(Batch(self._last_number, checked, size, shown), due, done)
        self._rows += len(checked)
        self._bytes += size
        self._queue.append(pending)
        self._overlay.add(pending.batch)
        if self._rows * 2 > self._limits.queue_rows or self._bytes * 2 > self._limits.queue_bytes:
            due = -inf  # half full: the writer starts before callers are turned away
        if due < self._due:
            self._due = due
            self._wake.set()
        return pending

    async def _outcome(self, pending: _Pending) -> None:
        assert pending.done is not None
        started = trio.current_time()
        try:
            await pending.done.wait()
        finally:
            self.commit_wait_s += trio.current_time() - started
        if pending.error is not None:
            raise pending.error

    def _look(self, table: str, key: bytes) -> bytes | None:
        self._check_open()
        tables.table(table)
        check_key(key)
        queued = self._overlay.find(table, key)
        if queued is not None:
            return queued[0]
        with self._noticed(), self._opened.env.begin(db=self._opened.handles[table]) as txn:
            stored = txn.get(key)
            return None if stored is None else checked(table, key, stored)

    def _check_open(self) -> None:
        if self._closed:
            raise GnusError("NOT_RUNNING", "the store is closed")

    # -- the writer -------------------------------------------------------------------------------------------------------------

    async def _write_loop(self) -> None:
        """Commit groups until closing has drained the queue. Shielded: its end is ``_closing``, which leaving ``open_store`` always sets,
        so a cancelled node still writes what it accepted."""
        finished = False
        try:
            with trio.CancelScope(shield=True):
                while await self._work_due():
                    await self._commit_group()
            finished = True
        finally:
            if not finished:  # a fault in this program: it goes up and stops the node, but nobody may wait for ever
                self._fail(GnusError("INTERNAL", "the store's writer stopped"))

    async def _work_due(self) -> bool:
        """Wait until a group should go out (True), or closing finds nothing left (False)."""
        while True:
            if self._queue and (self._closing or self._due <= trio.current_time()):
                return True
            if self._closing:
                return False
            self._wake = trio.Event()
            with trio.move_on_at(self._due):
                await self._wake.wait()

    async def _commit_group(self) -> None:
        count = group_length(((len(p.batch.writes), p.batch.size_bytes) for p in self._queue), self._limits)
        self._inflight = [self._queue.popleft() for _ in range(count)]
        self._due = min((pending.due for pending in self._queue), default=inf)
        group = [pending.batch for pending in self._inflight]
        writing = [batch for batch in group if batch.writes]
        started = trio.current_time()
        result = GroupResult(known_through=group[-1].number)
        if writing and self._failed is None:
            result = await self._offload.run(apply_group, self._opened, writing, lane=LANE)
            if result.fatal is None:
                result.known_through = group[-1].number
        self._settle(result)
        if writing and self._on_commit is not None:
            rows = sum(len(batch.writes) for batch in writing)
            size = sum(batch.size_bytes for batch in writing)
            self._on_commit(CommitSeen(len(writing), rows, size, result.transactions, trio.current_time() - started))

    def _settle(self, result: GroupResult) -> None:
        """Tell every batch in flight its outcome."""
        self._commits += result.transactions
        group, self._inflight = self._inflight, []
        for pending in group:
            number = pending.batch.number
            self._end(pending, result.refused.get(number) if number <= result.known_through else result.fatal)
        if result.fatal is not None:
            self._fail(result.fatal)

    def _end(self, pending: _Pending, error: GnusError | None) -> None:
        self._rows -= len(pending.batch.writes)
        self._bytes -= pending.batch.size_bytes
        self._overlay.drop_through(pending.batch.number)
        if error is None:
            pass
        elif pending.done is None:
            self._lost_number, self._lost_error = pending.batch.number, error
        else:
            pending.error = _again(error)
        if pending.done is not None:
            pending.done.set()

    def _fail(self, error: GnusError) -> None:
        """End all writing with ``error``: what is in flight and queued, and every later call."""
        self._failed = self._failed or error
        left = [*self._inflight, *self._queue]
        self._inflight = []
        self._queue.clear()
        for pending in left:
            self._end(pending, error)

    def _stop_accepting(self) -> None:
        self._closing = True
        self._wake.set()

    async def _close(self) -> None:
        self._closed = True
        await self._offload.run(self._opened.close, lane=LANE)


def _again(error: GnusError) -> GnusError:
    """A fresh exception of the same error: one object raised in two tasks would mix their tracebacks."""
    return GnusError(error.code, error.what, fix=error.fix, link=error.link, whose=error.whose)


def _stored(txn: lmdb.Transaction[bytes], prefix: bytes, after: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Committed rows of a scan's range, in key order."""
    with txn.cursor() as cursor:
        start = max(prefix, after)
        if not (cursor.set_range(start) if start else cursor.first()):
            return
        for key, value in cursor:
            if not key.startswith(prefix):
                return
            if key > after:
                yield key, value


@asynccontextmanager
async def open_store(
    path: Path,
    offload: Offload,
    *,
    limits: StoreLimits | None = None,
    on_commit: Callable[[CommitSeen], None] | None = None,
    expected: bool = False,
) -> AsyncIterator[LmdbStore]:
    """Open the store in ``path`` (made 0700 if missing) and run its writer; leaving the block drains the queue and closes. Where it is
    ``expected`` to be there, because the node ran before, a missing or empty one is refused.

    ``on_commit`` sees every group commit; it must not raise. Raises ``ALREADY_RUNNING``, ``CONFIG`` (permissions), ``STORE_CORRUPT``,
    ``STORE_FULL``. What the block raises comes out as it is, not wrapped in the group of the writer's nursery.
    """
    limits = limits or StoreLimits()
    opened = await offload.run(open_tables, path, limits.map_size_bytes, expected, lane=LANE)
    store = LmdbStore(opened, offload, limits, on_commit)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store._write_loop)
            try:
                yield store
            finally:
                store._stop_accepting()
    except ExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise
    finally:
        with trio.CancelScope(shield=True):
            await store._close()
