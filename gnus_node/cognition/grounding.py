"""The grounding role's service: evidence for a dispatch, signed (18.1.3.5).

Filters come before relevance; every passage is scrubbed before anybody reads it, and says where it comes from, how fresh it is and whether its
source is trusted. What the service signs is that these passages stood in these corpora; whether they are true it does not say.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnus_node.cognition.documents.analysis import name_tokens
from gnus_node.cognition.documents.index import CorpusIndex
from gnus_node.cognition.documents.ranking import Retrieved
from gnus_node.cognition.documents.search import retrieve
from gnus_node.content.asked import asked
from gnus_node.content.derived import derived
from gnus_node.content.scrub import instruction_scrub
from gnus_node.net.context import RoleContext
from gnus_node.net.gate import admit_dispatch, attest_task
from gnus_node.net.rpc import Request
from gnus_node.privacy.parcels import Vault
from gnus_node.records.base import SCORE_ONE
from gnus_node.records.enums import Stage
from gnus_node.records.evidence import EvidenceItem, GroundingEvidence
from gnus_node.wire import jsontext
from gnus_node.wire.message import Message

MAX_ITEMS = 8
"""Passages handed out for one question; half as many for the question and for each fact of a derived one."""
LANE = "grounding"
_GROUND = frozenset({Stage.GROUND})


class GroundingService:
    """Serves ``grounding.retrieve`` over built corpora."""

    def __init__(self, context: RoleContext, corpora: Sequence[CorpusIndex]) -> None:
        self._context = context
        self._node = context.node
        self._corpora = tuple(corpora)

    async def retrieve(self, request: Request) -> Message:
        """A signed GroundingEvidence; no passages where nothing speaks to the question."""
        clock = self._node.clock
        started = clock.monotonic()
        admitted = admit_dispatch(self._context, request, _GROUND)
        mandate = admitted.authority.mandate.body
        context = admitted.vault.text(mandate.context) if mandate.context else ""
        question = asked(admitted.vault.text(mandate.query), context)
        found = await self._node.offload.run(self._search, question, clock.wall_ms(), mandate.tenant, lane=LANE)
        items = [_item(admitted.vault, number, one) for number, one in enumerate(found)]
        body = GroundingEvidence(
            request_id=mandate.request_id,
            generation=mandate.generation,
            dispatch=admitted.dispatch.id,
            turn=admitted.dispatch.body.turn,
            items=tuple(items),
            corpora=tuple(sorted({c.digest for c in self._corpora if c.digest})),
        )
        evidence = self._context.signer.sign(body, refs=[admitted.dispatch.id])
        wall_ms = (clock.monotonic() - started) * 1000
        self._node.metrics.observe("grounding_ms", wall_ms)
        attestation = attest_task(self._context, admitted, evidence.id, wall_ms)
        return Message((evidence.raw, attestation.raw), admitted.vault.parcels([i.passage for i in items]))

    def _search(self, question: str, now_ms: int, tenant: str) -> list[Retrieved]:
        return evidence_for(question, self._corpora, now_ms=now_ms, tenant=tenant)


def evidence_for(question: str, corpora: Sequence[CorpusIndex], *, now_ms: int, tenant: str | None = None) -> list[Retrieved]:
    """The passages for a question; for a derived one also those for each fact it rests on. Blocking."""
    asked = derived(question)
    if asked is None:
        return retrieve(question, corpora, limit=MAX_ITEMS, now_ms=now_ms, tenant=tenant)
    found = {r.passage.evidence_id: r for r in retrieve(question, corpora, limit=MAX_ITEMS // 2, now_ms=now_ms, tenant=tenant)}
    for fact, name in zip(asked.facts, asked.names, strict=True):
        for one in retrieve(fact, corpora, limit=MAX_ITEMS // 2, now_ms=now_ms, tenant=tenant):
            if not name or not one.passage.names or name_tokens(name) in map(name_tokens, one.passage.names):
                found.setdefault(one.passage.evidence_id, one)
    return list(found.values())


def _item(vault: Vault, number: int, found: Retrieved) -> EvidenceItem:
    """One passage as evidence: its text scrubbed, text, title and URI committed together."""
    passage = found.passage
    text = instruction_scrub(passage.text).text
    return EvidenceItem(
        item=f"g{number}",
        passage=vault.commit(jsontext.canonical({"text": text, "title": passage.title, "uri": passage.uri})),
        source_hash=bytes.fromhex(passage.sha256),
        source_class=passage.source_class,
        corpus=passage.corpus,
        fresh_at_ms=max(0, passage.fresh_at_ms),
        trusted=passage.trusted,
        scrubbed=True,
        score=max(0, min(SCORE_ONE, round(found.score * SCORE_ONE))),
    )
