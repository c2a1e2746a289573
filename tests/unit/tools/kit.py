"""What the tool tests share: ports that repeat, and a store that can lose what was not durable."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar, TypeVarTuple, Unpack

import trio

from gnus_node.ports import Row, Write
from gnus_node.records.errors import GnusError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SetClock:
    """Wall time set by hand."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return trio.current_time()


class SeededEntropy:
    """Repeatable chance."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uuid(self) -> str:
        return str(uuid.UUID(bytes=self._random.randbytes(16), version=4))


class ThreadOffload:
    """Real threads; remembers the lanes used."""

    def __init__(self) -> None:
        self.lanes: list[str] = []

    async def run(self, work: Callable[[Unpack[Ts]], T], *args: *Ts, lane: str = "default") -> T:
        self.lanes.append(lane)
        return await trio.to_thread.run_sync(work, *args)


class MemoryStore:
    """A ``Store`` of dictionaries. ``survivor()`` is what a new process finds after a power cut now.

    ``pause`` makes commits wait, ``fail`` makes them raise before anything is durable.
    """

    def __init__(self, durable: dict[str, dict[bytes, bytes]] | None = None) -> None:
        self._durable: dict[str, dict[bytes, bytes]] = durable or {}
        self._live = {table: dict(rows) for table, rows in self._durable.items()}
        self._queue: list[Write] = []
        self._commits = 0
        self.pause: trio.Event | None = None
        self.fail: GnusError | None = None

    @property
    def commits(self) -> int:
        return self._commits

    async def commit(self, writes: Sequence[Write]) -> None:
        self.write_behind(writes)
        await self.flush()

    def write_behind(self, writes: Sequence[Write]) -> None:
        self._queue += writes
        self._apply(self._live, writes)

    async def flush(self) -> None:
        if self.pause is not None:
            await self.pause.wait()
        await trio.lowlevel.checkpoint()
        if self.fail is not None:
            raise self.fail
        queued, self._queue = self._queue, []
        self._apply(self._durable, queued)
        self._commits += 1

    async def get(self, table: str, key: bytes) -> bytes | None:
        found = self._live.get(table, {}).get(key)
        await trio.lowlevel.checkpoint()  # what was read may be old by the time the caller has it
        return found

    async def scan(self, table: str, prefix: bytes = b"", *, after: bytes = b"", limit: int = 1000, lenient: bool = False) -> list[Row]:
        rows = sorted(self._live.get(table, {}).items())
        found = [Row(k, v) for k, v in rows if k.startswith(prefix) and k > after][:limit]
        await trio.lowlevel.checkpoint()
        return found

    def survivor(self) -> MemoryStore:
        return MemoryStore({table: dict(rows) for table, rows in self._durable.items()})

    def poke(self, table: str, key: bytes, value: bytes) -> None:
        """Change a stored value behind everybody's back."""
        for rows in (self._durable, self._live):
            rows.setdefault(table, {})[key] = value

    @staticmethod
    def _apply(tables: dict[str, dict[bytes, bytes]], writes: Sequence[Write]) -> None:
        for write in writes:
            rows = tables.setdefault(write.table, {})
            if write.value is None:
                rows.pop(write.key, None)
            else:
                rows[write.key] = write.value
