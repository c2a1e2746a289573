"""Retrieval over corpora: filter first, then search, rank, and let corpora that disagree both speak (18.1.3.5).

Blocking (index and store); called through Offload. The decisions are ``may_use`` here and ``ranking.rank``, both pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gnus_node.cognition.documents.analysis import Query, analyse_query, is_concept
from gnus_node.cognition.documents.corpus import CorpusConfig, Passage
from gnus_node.cognition.documents.index import CorpusIndex
from gnus_node.cognition.documents.ranking import Retrieved, rank
from gnus_node.records.enums import SourceClass

MAX_LIMIT = 64
CANDIDATES, WIDE = 50, 320
"""Hits taken from one search; the wide one holds all passages of one subject, whose index may have passed over a frequent term."""
MAX_SEARCHES = 4
"""Searches of one corpus for one question."""
SECOND_CORPUS = 0.7
"""Another corpus's best passage is shown beside the first where it reaches this share of the best score."""


def may_use(config: CorpusConfig, tenant: str | None, source_classes: Collection[SourceClass] | None) -> bool:
    """Whether a request of ``tenant`` may see the corpus at all. Nothing else is looked at before this."""
    if config.tenant is not None and config.tenant != tenant:
        return False
    return source_classes is None or config.source_class in source_classes


def fresh_enough(fresh_at_ms: int, now_ms: int, max_age_ms: int | None) -> bool:
    """With an age asked for, unknown freshness (0) and a future date do not satisfy it."""
    return max_age_ms is None or 0 < fresh_at_ms <= now_ms <= fresh_at_ms + max_age_ms


def retrieve(
    question: str,
    corpora: Sequence[CorpusIndex],
    *,
    limit: int,
    now_ms: int,
    max_age_ms: int | None = None,
    tenant: str | None = None,
    source_classes: Collection[SourceClass] | None = None,
) -> list[Retrieved]:
    """The passages that speak to the question, best first, at most ``limit`` (and ``MAX_LIMIT``); empty where none does."""
    query = analyse_query(question)
    if not query.terms or limit <= 0:
        return []
    by_corpus: list[list[Retrieved]] = []
    for corpus in corpora:
        if not may_use(corpus.config, tenant, source_classes):
            continue
        if corpus.config.fresh_at_ms is not None and not fresh_enough(corpus.config.fresh_at_ms, now_ms, max_age_ms):
            continue
        ranked = _search(query, corpus, now_ms, max_age_ms)
        if ranked:
            by_corpus.append(ranked)
    return diversify(by_corpus, min(limit, MAX_LIMIT))


def diversify(by_corpus: Sequence[Sequence[Retrieved]], limit: int) -> list[Retrieved]:
    """Merge rankings by score, but the best of each corpus that comes near the overall best goes to the front."""
    firsts = sorted((ranked[0] for ranked in by_corpus if ranked), key=_order)
    if not firsts:
        return []
    lead = firsts[0]
    front = [r for r in firsts if r.score >= SECOND_CORPUS * lead.score and r.covered >= SECOND_CORPUS * lead.covered]
    shown = {r.passage.evidence_id for r in front}
    rest = sorted((r for ranked in by_corpus for r in ranked if r.passage.evidence_id not in shown), key=_order)
    return [*front, *rest][:limit]


def _order(result: Retrieved) -> tuple[float, str]:
    return -result.score, result.passage.uri


def _search(query: Query, corpus: CorpusIndex, now_ms: int, max_age_ms: int | None) -> list[Retrieved]:
    found: dict[str, Passage] = {}

    def look(terms: Sequence[str], hits: int) -> list[Retrieved]:
        new = [hit.doc_id for hit in corpus.index.search(terms, hits) if hit.doc_id not in found]
        found.update((p.evidence_id, p) for p in corpus.passages.get_many(new) if fresh_enough(p.fresh_at_ms, now_ms, max_age_ms))
        return rank(query, list(found.values()))

    ranked = look(query.terms, CANDIDATES)
    if ranked and settles(ranked[0]):
        return ranked
    if ranked and ranked[0].subject:
        return look(query.terms, WIDE)
    for terms in searches(query)[1:]:
        ranked = look(terms, CANDIDATES)
        if ranked and settles(ranked[0]):
            break
    return ranked


def settles(best: Retrieved) -> bool:
    """Whether nothing better can be found: the asked subject, all terms, and a place that says exactly what is asked."""
    return best.subject and best.covered >= 1.0 and best.exact >= 1.0


def searches(query: Query) -> list[tuple[str, ...]]:
    """The searches to try, most specific first: all terms; then what is named with each other term, concepts first."""
    named = [t for entity in query.entities for t in entity if t in query.terms]
    rest = sorted((t for t in query.terms if t not in named), key=lambda t: (not is_concept(t), -len(t)))
    plan = [query.terms, *((*named, term) for term in rest if named)]
    return list(dict.fromkeys(plan))[:MAX_SEARCHES]
