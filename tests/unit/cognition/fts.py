"""A small real full-text index for these tests: SQLite FTS5 behind the TextIndex port."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from gnus_node.ports import TextHit


class SmallIndex:
    """All terms first, then any; BM25."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.execute("CREATE VIRTUAL TABLE t USING fts5(id UNINDEXED, title, body)")

    def put(self, doc_id: str, title: str, body: str) -> None:
        self.remove(doc_id)
        self._db.execute("INSERT INTO t VALUES (?, ?, ?)", (doc_id, title, body))

    def remove(self, doc_id: str) -> None:
        self._db.execute("DELETE FROM t WHERE id = ?", (doc_id,))

    def search(self, terms: Sequence[str], limit: int) -> list[TextHit]:
        hits: dict[str, float] = {}
        for joiner in (" AND ", " OR "):
            match = joiner.join('"' + term.replace('"', '""') + '"' for term in terms)
            rows = self._db.execute("SELECT id, -bm25(t, 0, 4, 1) FROM t WHERE t MATCH ? ORDER BY 2 DESC LIMIT ?", (match, limit))
            for doc_id, score in rows:
                hits.setdefault(doc_id, score)
            if len(hits) >= limit:
                break
        return [TextHit(doc_id, score) for doc_id, score in hits.items()][:limit]

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM t").fetchone()[0])
