"""Document corpora for grounding: loaders, a passage store, an index over one corpus, retrieval (18.1.3.5)."""

from gnus_node.cognition.documents.analysis import Query, analyse_query
from gnus_node.cognition.documents.corpus import CorpusConfig, CorpusKind, Passage
from gnus_node.cognition.documents.disk import OpenCorpus, open_corpus, opening_steps, private_folder
from gnus_node.cognition.documents.index import BuildReport, BulkTextIndex, CorpusIndex, Passages, PassageStore
from gnus_node.cognition.documents.loaders import load, source_digest
from gnus_node.cognition.documents.ranking import Retrieved
from gnus_node.cognition.documents.search import retrieve

__all__ = [
    "BuildReport",
    "BulkTextIndex",
    "CorpusConfig",
    "CorpusIndex",
    "CorpusKind",
    "OpenCorpus",
    "PassageStore",
    "Passage",
    "Passages",
    "Query",
    "Retrieved",
    "analyse_query",
    "load",
    "open_corpus",
    "opening_steps",
    "private_folder",
    "retrieve",
    "source_digest",
]
