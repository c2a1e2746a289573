"""Durable state: named tables of bytes with group commit, a key store, and full-text search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Write:
    """One change: ``value`` None deletes. With ``if_absent`` the whole batch fails ``REPLAYED`` where the key exists."""

    table: str
    key: bytes
    value: bytes | None
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One stored pair."""

    key: bytes
    value: bytes


class Store(Protocol):
    """One writer, group commit; a batch is atomic. Tables are declared with a bound each in ``store.tables``."""

    async def commit(self, writes: Sequence[Write]) -> None:
        """Apply a batch durably: on return it survives a power cut. Batches that queue meanwhile share one commit.

        Raises ``STORE_FULL``, ``REPLAYED`` (``if_absent``), ``STORE_CORRUPT``.
        """

    def write_behind(self, writes: Sequence[Write]) -> None:
        """Queue a batch that needs no waiting; it goes out with the next commit, at the latest within a second. Order is kept."""

    async def flush(self) -> None:
        """Wait until all that was queued is durable."""

    async def get(self, table: str, key: bytes) -> bytes | None:
        """The value of ``key``, queued batches included."""

    async def scan(self, table: str, prefix: bytes = b"", *, after: bytes = b"", limit: int = 1000, lenient: bool = False) -> list[Row]:
        """Rows whose key starts with ``prefix`` and is greater than ``after``, in key order.

        Raises ``STORE_CORRUPT`` at a damaged row; with ``lenient`` such a row has an empty value, for readers to whom that is no row.
        """

    @property
    def commits(self) -> int:
        """Durable commits since opening (transactions synced, not batches)."""


class Keys(Protocol):
    """Data keys, one per (subject, class), made once, in an environment of their own that is never replicated."""

    async def key_for(self, subject: str, purpose: str) -> bytes:
        """The 32-byte key, made durable at first use. Raises ``ERASED`` where it was destroyed."""

    async def destroy(self, subject: str, purpose: str) -> bool:
        """Destroy the key for good; False where there was none."""


@dataclass(frozen=True, slots=True)
class TextHit:
    """One full-text result: the caller's document id and BM25 score (higher is better)."""

    doc_id: str
    score: float


class TextIndex(Protocol):
    """Full-text search over small passages (FTS5, BM25). Rebuildable, never truth."""

    def put(self, doc_id: str, title: str, body: str) -> None:
        """Add or replace a passage."""

    def remove(self, doc_id: str) -> None:
        """Remove a passage."""

    def search(self, terms: Sequence[str], limit: int) -> list[TextHit]:
        """Best passages holding the terms: all of them first, then any, frequent terms dropped."""

    def count(self) -> int:
        """Number of passages."""


class ClosableIndex(TextIndex, Protocol):
    """A full-text index that may be on disk."""

    def close(self) -> None:
        """Close it: all of it is in its file then, and it is of no further use."""
