"""Durable state of one node: the LMDB store with group commit, the key store, encrypted payloads, full-text search. Floor 4.

``store.tables`` names every table with its bound; ``open_store`` and ``open_keys`` open the two environments, which never share a
directory: the keys are not replicated and not backed up with the data.
"""

from gnus_node.store.batch import StoreLimits
from gnus_node.store.engine import CommitSeen, LmdbStore, TableSize, open_store
from gnus_node.store.keyfile import KeyLimits
from gnus_node.store.keys import KeyStore, open_keys
from gnus_node.store.payloads import PayloadStore
from gnus_node.store.textindex import Fts5Index, SearchLimits

__all__ = [
    "CommitSeen",
    "Fts5Index",
    "KeyLimits",
    "KeyStore",
    "LmdbStore",
    "PayloadStore",
    "SearchLimits",
    "StoreLimits",
    "TableSize",
    "open_keys",
    "open_store",
]
