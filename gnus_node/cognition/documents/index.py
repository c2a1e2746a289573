"""One corpus made searchable: its passages in a store, their terms in a full-text index, built once for each digest of the source.

Each corpus has its own index, so that what a request may not see (another tenant's, another source class, too old) is left out before any
relevance is computed, and cannot shift a score (18.1.3.5.3). Blocking and serial: one lock for each store; called through Offload.

Invariants: the digest is written last, so a build that was cut off is done again; ids left over from an earlier build are removed.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from gnus_node.cognition.documents.analysis import index_terms
from gnus_node.cognition.documents.corpus import CorpusConfig, Passage
from gnus_node.cognition.documents.loaders import load, source_digest
from gnus_node.ports import TextIndex
from gnus_node.records.enums import SourceClass
from gnus_node.records.errors import GnusError

T = TypeVar("T")

MAX_PASSAGES = 500_000
"""Passages of one corpus."""
MAX_INDEX_TITLE = 4000
BATCH = 2000
MAX_SUBJECTS = 4096
"""Subjects whose names are remembered."""
MAX_GET = 2000
"""Passages fetched in one call."""


@runtime_checkable
class BulkTextIndex(Protocol):
    """What an index may offer beside the port: many passages in one transaction."""

    def put_many(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Add or replace ``(doc_id, title, body)``."""

    def merge(self) -> None:
        """All batches are in: make searching fast."""


class Passages(Protocol):
    """Passages by id."""

    def get_many(self, doc_ids: Sequence[str]) -> list[Passage]:
        """Those there are, in the order asked for."""

    def put_many(self, passages: Iterable[Passage]) -> None:
        """Add or replace."""

    def remove_many(self, doc_ids: Iterable[str]) -> None:
        """Remove; unknown ids do nothing."""

    def ids(self) -> list[str]:
        """Every id."""

    def count(self) -> int:
        """How many."""

    def digest(self) -> str:
        """Digest of the source this was built from; "" while it is not complete."""

    def set_digest(self, digest: str) -> None:
        """Mark complete, or with "" not complete."""


class PassageStore:
    """``Passages`` in one SQLite file (None: in memory). Raises ``STORE_CORRUPT`` where the file does not read: delete it and rebuild."""

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._subjects: dict[str, tuple[str, ...]] = {}
        try:
            self._db = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False, isolation_level=None)
            self._db.executescript(
                "PRAGMA temp_store=MEMORY; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                "CREATE TABLE IF NOT EXISTS passage (id TEXT PRIMARY KEY, row TEXT NOT NULL);"
                "CREATE TABLE IF NOT EXISTS subject (key TEXT PRIMARY KEY, names TEXT NOT NULL) WITHOUT ROWID;"
                "CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
            )
        except sqlite3.Error as error:
            raise _corrupt() from error

    def close(self) -> None:
        """Close the file; the store is then of no use."""
        with self._lock:
            self._db.close()

    def get_many(self, doc_ids: Sequence[str]) -> list[Passage]:
        """At most ``MAX_GET`` at a time."""
        wanted = list(doc_ids)[:MAX_GET]
        found: dict[str, Passage] = {}
        for part in _batches(wanted, 500):
            marks = ",".join("?" * len(part))
            for doc_id, row in self._rows(f"SELECT id, row FROM passage WHERE id IN ({marks})", part):
                found[str(doc_id)] = _from_row(str(row), self._names)
        return [found[doc_id] for doc_id in wanted if doc_id in found]

    def put_many(self, passages: Iterable[Passage]) -> None:
        """All or none, in one transaction. The names of a subject are kept once, not with each of its passages."""
        rows: list[tuple[str, str]] = []
        subjects: dict[str, str] = {}
        for passage in passages:
            key = _subject_key(passage.names)
            if key:
                subjects[key] = json.dumps(passage.names)
            rows.append((passage.evidence_id, _to_row(passage, key)))
        self._write("INSERT OR REPLACE INTO subject VALUES (?, ?)", subjects.items())
        self._write("INSERT OR REPLACE INTO passage VALUES (?, ?)", rows)

    def _names(self, key: str) -> tuple[str, ...]:
        if not key:
            return ()
        if key not in self._subjects:
            rows = self._rows("SELECT names FROM subject WHERE key = ?", (key,))
            if len(self._subjects) >= MAX_SUBJECTS:
                self._subjects.clear()
            self._subjects[key] = tuple(json.loads(str(rows[0][0]))) if rows else ()
        return self._subjects[key]

    def remove_many(self, doc_ids: Iterable[str]) -> None:
        """All or none, in one transaction."""
        self._write("DELETE FROM passage WHERE id = ?", ((doc_id,) for doc_id in doc_ids))

    def ids(self) -> list[str]:
        """Every id, sorted."""
        return [str(row[0]) for row in self._rows("SELECT id FROM passage ORDER BY id")]

    def count(self) -> int:
        """How many passages there are."""
        return int(str(self._rows("SELECT count(*) FROM passage")[0][0]))

    def digest(self) -> str:
        """The digest set last."""
        rows = self._rows("SELECT value FROM note WHERE name = 'digest'")
        return str(rows[0][0]) if rows else ""

    def set_digest(self, digest: str) -> None:
        """Durable on return."""
        self._write("INSERT OR REPLACE INTO note VALUES ('digest', ?)", [(digest,)])

    def _rows(self, statement: str, values: Sequence[str] = ()) -> list[tuple[object, ...]]:
        with self._lock:
            try:
                return self._db.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise _corrupt() from error

    def _write(self, statement: str, rows: Iterable[tuple[str, ...]]) -> None:
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    self._db.executemany(statement, rows)
                    self._db.execute("COMMIT")
                finally:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise _corrupt() from error


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What building did: ``rebuilt`` False where the digest was the same."""

    corpus: str
    digest: bytes
    passages: int
    rebuilt: bool


class CorpusIndex:
    """A corpus, its passages and its index, kept together. ``build`` first; then ``retrieve`` may use it."""

    def __init__(self, config: CorpusConfig, index: TextIndex, passages: Passages) -> None:
        self.config = config
        self.index = index
        self.passages = passages
        self._digest = b""

    @property
    def digest(self) -> bytes:
        """Digest of the source as built; empty before ``build``."""
        return self._digest

    def build(self, *, force: bool = False, changing: Callable[[], None] = lambda: None) -> BuildReport:
        """Bring index and passages up to the source; ``changing`` is called before the first change.

        Raises what loading raises, and ``TOO_LARGE`` over ``MAX_PASSAGES``."""
        steps = self.build_steps(force=force, changing=changing)
        return next(step for step in steps if isinstance(step, BuildReport))

    def build_steps(self, *, force: bool = False, changing: Callable[[], None] = lambda: None) -> Iterator[int | BuildReport]:
        """``build`` a batch at a time: the passages so far after each, then the report. Who stops taking steps leaves a build that is cut
        off, and is done again. Blocking: each step is a call through Offload, so that a node can say how far it is, and be stopped."""
        digest = source_digest(self.config)
        held = self.passages.count()
        if not force and self.passages.digest() == digest.hex() and self.index.count() == held:
            self._digest = digest
            yield BuildReport(self.config.name, digest, held, False)
            return
        changing()
        old = self.passages.ids()
        self.passages.set_digest("")
        fresh: set[str] = set()
        for batch in _batches(load(self.config), BATCH):
            unique = [_analysed(p) for p in {p.evidence_id: p for p in batch}.values() if p.evidence_id not in fresh]
            fresh.update(p.evidence_id for p in unique)
            if len(fresh) > MAX_PASSAGES:
                raise GnusError("TOO_LARGE", f"corpus {self.config.name}: more than {MAX_PASSAGES} passages")
            self.passages.put_many(unique)
            self._put([_index_row(p) for p in unique])
            yield len(fresh)
        gone = [doc_id for doc_id in old if doc_id not in fresh]
        for doc_id in gone:
            self.index.remove(doc_id)
        if isinstance(self.index, BulkTextIndex):
            self.index.merge()
        self.passages.remove_many(gone)
        self.passages.set_digest(digest.hex())
        self._digest = digest
        yield BuildReport(self.config.name, digest, len(fresh), True)

    def _put(self, rows: list[tuple[str, str, str]]) -> None:
        if isinstance(self.index, BulkTextIndex):
            self.index.put_many(rows)
            return
        for row in rows:
            self.index.put(*row)


def _analysed(passage: Passage) -> Passage:
    return replace(passage, terms=(*map(_segment, passage.path), " ".join(index_terms(passage.text))))


@lru_cache(maxsize=8192)
def _segment(text: str) -> str:
    """Title segments come again and again."""
    return " ".join(index_terms(text))


@lru_cache(maxsize=512)
def _name_terms(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for name in names for term in index_terms(name)))


def _index_row(passage: Passage) -> tuple[str, str, str]:
    """A passage as the index holds it: analysed title with all names of its subject, analysed text."""
    title = (*" ".join(passage.terms[:-1]).split(), *_name_terms(passage.names))
    return passage.evidence_id, " ".join(dict.fromkeys(title))[:MAX_INDEX_TITLE], passage.terms[-1]


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _subject_key(names: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:16] if names else ""


_FIELDS = tuple(field.name for field in fields(Passage))


def _to_row(passage: Passage, subject: str) -> str:
    values = [subject if name == "names" else getattr(passage, name) for name in _FIELDS]
    return json.dumps(values, separators=(",", ":"))


def _from_row(row: str, names_of: Callable[[str], tuple[str, ...]]) -> Passage:
    try:
        values = dict(zip(_FIELDS, json.loads(row), strict=True))
        values["source_class"] = SourceClass(values["source_class"])
        values["names"] = names_of(values["names"])
        values["span"], values["terms"] = tuple(values["span"]), tuple(values["terms"])
        return Passage(**values)
    except (ValueError, TypeError) as error:
        raise _corrupt() from error


def _corrupt() -> GnusError:
    return GnusError("STORE_CORRUPT", "the passage store does not read", fix="delete it; it is built again from its corpus")
