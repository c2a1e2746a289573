"""Full-text search over small passages: SQLite FTS5 with BM25. Rebuildable from its sources, never truth.

Why terms are not simply OR-ed: FTS5 scores every row that matches, about 1.5 us each, and counts every row of each term before it starts;
on 76,000 passages one common word costs 120 ms. So a search takes the rare words: all of them first; where that gives too few, any of
them, rarest first, within a budget of rows. A word that a large share of a large index holds has hardly any weight in BM25 anyway.

Each transaction that adds passages leaves a segment of its own, and a search opens every segment for every word: ten make it two to five times as
slow. So ``put`` merges a small index each time, a larger one when enough has changed, and ``merge`` ends a rebuild.

Invariants: a term is a plain word, never syntax: it is quoted, so that a hostile term can at worst find nothing; a search's work is
bounded by ``SearchLimits`` whatever the terms; one connection, one call at a time (a lock), from any thread.

Callers offload: every method blocks. With ``path`` None the index lives in memory only, temporary tables too (user data); a file is for
the operator's own documents, 0600.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gnus_node.ports import TextHit
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import PRIVATE_FILE

TITLE_WEIGHT, BODY_WEIGHT = 4.0, 1.0
"""Weights of the two columns in BM25."""
SCHEMA_VERSION = 1
MAX_ID_CHARS = 512
MAX_TITLE_BYTES = 4 << 10
MAX_BODY_BYTES = 256 << 10
MAX_META_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Bounds of the index and of one search. A "frequent" term is in more than ``frequent_rows`` passages and more than one in
    ``frequent_part`` of all."""

    max_passages: int = 2_000_000
    max_terms: int = 32
    max_term_chars: int = 64
    max_hits: int = 1000
    frequent_rows: int = 2000
    frequent_part: int = 10
    any_terms: int = 8
    any_rows: int = 4000
    """Rows of all terms of an any-search together (its rarest term is always taken)."""
    candidates: int = 4000
    """Rows scored by one query; beyond it, the rows put first win."""
    counted_terms: int = 4096
    """Terms whose frequency is remembered."""
    merged_always: int = 256
    """Up to so many passages, merging takes less than a millisecond and is done with every change."""
    merged_part: int = 8
    """A larger index is merged when one in so many of its passages has changed since."""


_SCHEMA = """
CREATE TABLE IF NOT EXISTS passage (row INTEGER PRIMARY KEY, doc_id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS passage_text USING fts5(title, body, tokenize = 'unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE IF NOT EXISTS term USING fts5vocab(passage_text, 'row');
"""
_SEARCH = f"""
SELECT doc_id, score FROM (
  SELECT hit, score FROM (
    SELECT rowid AS hit, bm25(passage_text, {TITLE_WEIGHT}, {BODY_WEIGHT}) AS score FROM passage_text WHERE passage_text MATCH ? LIMIT ?
  ) ORDER BY score, hit LIMIT ?
) JOIN passage ON passage.row = hit ORDER BY score, hit
"""


def plain_terms(terms: Iterable[str], limits: SearchLimits) -> list[str]:
    """The words of a search: split at blanks, without what UTF-8 or SQLite text cannot hold, without repeats, empty or overlong ones."""
    words: dict[str, str] = {}
    for term in terms:
        for word in "".join(" " if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in term).split():
            if len(word) <= limits.max_term_chars and tokens(word):
                words.setdefault(word.casefold(), word)
            if len(words) >= limits.max_terms:
                return list(words.values())
    return list(words.values())


def tokens(word: str) -> list[str]:
    """Nearly what the ``unicode61`` tokenizer makes of a word. For counting only: a difference costs time, never a hit."""
    if word.isascii() and word.isalnum():
        return [word.lower()]
    letters = (c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c))
    return "".join(c if unicodedata.category(c)[0] in "LN" else " " for c in letters).split()


def quoted(word: str) -> str:
    """The word as an FTS5 string: everything in it is text."""
    return '"' + word.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Which words must all be there, and which words may any be there."""

    every: tuple[str, ...]
    any: tuple[str, ...]


def plan_search(frequencies: Sequence[tuple[str, int]], passages: int, limits: SearchLimits) -> SearchPlan:
    """Plan a search over words with their frequencies (number of passages), for an index of ``passages``. Words that seem to be in no
    passage must not be there, and come last among those that may."""
    rarest_first = sorted(frequencies, key=lambda item: (item[1] == 0, item[1]))
    bound = max(limits.frequent_rows, passages // limits.frequent_part)
    every = [word for word, rows in rarest_first if 0 < rows <= bound] or [word for word, _ in rarest_first[:2]]
    some: list[str] = []
    spent = 0
    for word, rows in rarest_first[: limits.any_terms]:
        if some and spent + rows > limits.any_rows:
            continue
        spent += rows
        some.append(word)
    return SearchPlan(tuple(every), tuple(some))


def join_hits(every: Sequence[TextHit], some: Sequence[TextHit], limit: int) -> list[TextHit]:
    """Hits with every word, then hits with some, without repeats. The two queries' scores are not on one scale, so a later hit's score
    is capped by the last one before it: the order of the list is the order of the scores."""
    hits = list(every)
    seen = {hit.doc_id for hit in hits}
    for hit in some:
        if hit.doc_id not in seen:
            hits.append(TextHit(hit.doc_id, min(hit.score, hits[-1].score) if hits else hit.score))
    return hits[:limit]


class Fts5Index:
    """The TextIndex port on SQLite. Raises ``MISSING_DEPENDENCY`` (no FTS5), ``STORE_CORRUPT`` (the file does not read: delete it and
    rebuild), ``STORE_FULL``, ``TOO_LARGE``, ``MALFORMED``; ``NOT_RUNNING`` after ``close``."""

    def __init__(self, path: Path | None, limits: SearchLimits | None = None) -> None:
        self._limits = limits or SearchLimits()
        self._lock = threading.Lock()
        self._counted: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._passages = 0
        self._unmerged = 0
        if path is not None:
            try:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE))
            except OSError as error:
                raise GnusError("CONFIG", f"cannot open {path}: {os.strerror(error.errno or 0)}", fix="choose a file you own") from error
        self._db: sqlite3.Connection | None = None
        with _mapped():
            self._db = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False, isolation_level=None)
        try:
            with _mapped():
                self._prepare(self._db, on_disk=path is not None)
        except GnusError:
            self.close()
            raise

    def _prepare(self, db: sqlite3.Connection, *, on_disk: bool) -> None:
        db.execute("PRAGMA temp_store = MEMORY")
        if on_disk:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            raise _rebuild(f"the text index has version {version}, this program reads {SCHEMA_VERSION}")
        db.executescript(_SCHEMA)
        if version != SCHEMA_VERSION:  # a file that is only read is not written to: its digest is known
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        (self._passages,) = db.execute("SELECT count(*) FROM passage").fetchone()

    # -- the port ---------------------------------------------------------------------------------------------------------------

    def put(self, doc_id: str, title: str, body: str) -> None:
        """Add or replace a passage."""
        self.put_many([(doc_id, title, body)])
        if self._passages <= max(self._limits.merged_always, self._unmerged * self._limits.merged_part):
            self.merge()

    def put_many(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Add or replace passages ``(doc_id, title, body)``, all or none, in one transaction. After the last batch, ``merge``."""
        with self._changing() as db:
            for doc_id, title, body in rows:
                _check_id(doc_id)
                texts = (_text(title, MAX_TITLE_BYTES, "a title"), _text(body, MAX_BODY_BYTES, "a passage"))
                self._delete(db, doc_id)
                if self._passages >= self._limits.max_passages:
                    raise GnusError("STORE_FULL", "the text index is at its bound of passages")
                row = db.execute("INSERT INTO passage (doc_id) VALUES (?)", (doc_id,)).lastrowid
                db.execute("INSERT INTO passage_text (rowid, title, body) VALUES (?, ?, ?)", (row, *texts))
                self._passages += 1
                self._unmerged += 1

    def remove(self, doc_id: str) -> None:
        """Remove a passage; nothing happens where there is none."""
        with self._changing() as db:
            self._delete(db, doc_id)

    def search(self, terms: Sequence[str], limit: int) -> list[TextHit]:
        """Best passages holding the terms (plain words): all of them first, then any; frequent words are left out where rarer ones are
        there. Score is BM25, higher is better, in the order of the list. At most ``limit`` hits, and ``SearchLimits.max_hits``."""
        words = plain_terms(terms, self._limits)
        wanted = min(limit, self._limits.max_hits)
        if not words or wanted <= 0:
            return []
        with self._using() as db:
            plan = plan_search([(word, self._frequency(db, word)) for word in words], self._passages, self._limits)
            every = self._query(db, " AND ".join(map(quoted, plan.every)), wanted)
            if len(every) >= wanted or (len(plan.any) == 1 and plan.every == plan.any):
                return every
            return join_hits(every, self._query(db, " OR ".join(map(quoted, plan.any)), wanted), wanted)

    def count(self) -> int:
        """Number of passages."""
        return self._passages

    # -- beside the port --------------------------------------------------------------------------------------------------------

    def merge(self) -> None:
        """Merge all segments into one, at the end of a rebuild: a second for 70,000 passages. Nothing happens where nothing was added since."""
        with self._changing() as db:
            if self._unmerged:
                self._merge(db)

    def meta_get(self, name: str) -> str | None:
        """A note beside the passages, e.g. the digest of the corpus they were built from; None where there is none."""
        with self._using() as db:
            row = db.execute("SELECT value FROM note WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    def meta_set(self, name: str, value: str) -> None:
        """Write a note. Set the corpus digest after the passages: an index without it is not complete."""
        _check_id(name)
        with self._changing() as db:
            db.execute("INSERT OR REPLACE INTO note (name, value) VALUES (?, ?)", (name, _text(value, MAX_META_BYTES, "a note")))

    def clear(self) -> None:
        """Remove every passage and note, for a rebuild."""
        with self._changing() as db:
            for table in ("passage", "note", "passage_text"):
                db.execute(f"DELETE FROM {table}")
            self._passages = 0

    def close(self) -> None:
        """Close the connection; an index in memory is gone."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    # -- inside -----------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._db is None:
                raise GnusError("NOT_RUNNING", "the text index is closed")
            with _mapped():
                yield self._db

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: whatever is raised inside undoes it."""
        with self._using() as db:
            before = self._passages
            done = False
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
                done = True
            finally:
                if not done:
                    self._passages = before
                    if db.in_transaction:
                        db.execute("ROLLBACK")

    def _merge(self, db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO passage_text (passage_text) VALUES ('optimize')")
        self._unmerged = 0

    def _delete(self, db: sqlite3.Connection, doc_id: str) -> None:
        row = db.execute("SELECT row FROM passage WHERE doc_id = ?", (doc_id,)).fetchone()
        if row is not None:
            db.execute("DELETE FROM passage_text WHERE rowid = ?", row)
            db.execute("DELETE FROM passage WHERE row = ?", row)
            self._passages -= 1

    def _query(self, db: sqlite3.Connection, match: str, limit: int) -> list[TextHit]:
        rows = db.execute(_SEARCH, (match, self._limits.candidates, limit))
        return [TextHit(doc_id, -score) for doc_id, score in rows]

    def _frequency(self, db: sqlite3.Connection, word: str) -> int:
        """About how many passages hold the word: counting a common one costs milliseconds, so a count is kept until the index has changed
        by an eighth. A word of several tokens is as rare as its rarest."""
        return min(self._token_frequency(db, token) for token in tokens(word))

    def _token_frequency(self, db: sqlite3.Connection, token: str) -> int:
        known = self._counted.get(token)
        if known is not None and abs(self._passages - known[1]) * 8 <= self._passages:
            self._counted.move_to_end(token)
            return known[0]
        row = db.execute("SELECT doc FROM term WHERE term = ?", (token,)).fetchone()
        rows = 0 if row is None else int(row[0])
        self._counted[token] = (rows, self._passages)
        if len(self._counted) > self._limits.counted_terms:
            self._counted.popitem(last=False)
        return rows


def _check_id(doc_id: str) -> None:
    if not 0 < len(doc_id) <= MAX_ID_CHARS or "\0" in doc_id or any("\ud800" <= c <= "\udfff" for c in doc_id):
        raise GnusError("MALFORMED", f"an id of the text index is 1 to {MAX_ID_CHARS} characters of valid text")


def _text(text: str, bound: int, what: str) -> str:
    """The text as SQLite can hold it: a lone surrogate becomes ``?``, a NUL a blank. Raises ``TOO_LARGE``."""
    raw = text.replace("\0", " ").encode("utf-8", "replace")
    if len(raw) > bound:
        raise GnusError("TOO_LARGE", f"{what} is over {bound} bytes")
    return raw.decode()


def _rebuild(what: str) -> GnusError:
    return GnusError("STORE_CORRUPT", what, fix="delete the index file; it is rebuilt from its documents")


@contextmanager
def _mapped() -> Iterator[None]:
    """Turn an SQLite error into its typed error. Messages stay out: they may quote a query."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name == "SQLITE_FULL":
            raise GnusError("STORE_FULL") from error
        if "no such module" in str(error):
            raise GnusError("MISSING_DEPENDENCY", "this Python's SQLite has no FTS5", fix="use a Python whose sqlite3 has FTS5") from error
        raise _rebuild(f"the text index failed: {name}") from error
