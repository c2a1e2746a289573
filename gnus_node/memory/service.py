"""The memory role's services: governed retrieval for a dispatch, candidates after an answer, search for the owner (18.1.3.4).

Retrieval order: identity, privacy, tenant, trust, then relevance. Every text handed out was scrubbed when it was written and is scrubbed again.
"""

from __future__ import annotations

from gnus_node.content.scrub import instruction_scrub
from gnus_node.evidence.bag import Bag
from gnus_node.evidence.chain import verify_chain
from gnus_node.memory.gate import GateDecision, GateInput, GateSettings, decide
from gnus_node.memory.log import Candidate, MemoryLog, Remembered
from gnus_node.net.context import RoleContext
from gnus_node.net.gate import admit_dispatch, attest_task
from gnus_node.net.rpc import Request
from gnus_node.privacy.parcels import Vault
from gnus_node.records.authority import RequestMandate
from gnus_node.records.base import SCORE_ONE, Committed
from gnus_node.records.enums import MemoryClass, MemoryMode, Outcome, SourceType, Stage, TrustClass
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import RetrievalResult, RetrievedItem, SynthesisResult
from gnus_node.telemetry.events import emit
from gnus_node.trust.check import require_fresh
from gnus_node.wire.message import Message

MAX_ITEMS = 4
_MEMORY = frozenset({Stage.MEMORY})


class MemoryService:
    """Serves ``memory.retrieve``, ``memory.put`` and ``memory.search``."""

    def __init__(self, context: RoleContext, log: MemoryLog, settings: GateSettings | None = None) -> None:
        self._context = context
        self._node = context.node
        self._log = log
        self._settings = settings or GateSettings()

    async def retrieve(self, request: Request) -> Message:
        """Governed context for a dispatch: a signed RetrievalResult, texts sealed beside it."""
        started = self._node.clock.monotonic()
        admitted = admit_dispatch(self._context, request, _MEMORY)
        mandate = admitted.authority.mandate.body
        mode = mandate.ceilings.memory_floor
        items: list[RetrievedItem] = []
        if mode is not MemoryMode.NONE:
            question = admitted.vault.text(mandate.query)
            found = await self._log.search(mandate.tenant, mandate.principal, question, MAX_ITEMS)
            permitted = [m for m in found if mode is not MemoryMode.TRUSTED_ONLY or m.derived.trust_class is TrustClass.HIGHER_TRUST]
            items = [self._item(admitted.vault, m, n) for n, m in enumerate(permitted)]
        body = RetrievalResult(
            request_id=mandate.request_id,
            generation=mandate.generation,
            dispatch=admitted.dispatch.id,
            memory_mode=mode,
            items=tuple(items),
        )
        result = self._context.signer.sign(body, refs=[admitted.dispatch.id])
        wall_ms = (self._node.clock.monotonic() - started) * 1000
        self._node.metrics.observe("memory_ms", wall_ms)
        attestation = attest_task(self._context, admitted, result.id, wall_ms)
        return Message((result.raw, attestation.raw), admitted.vault.parcels([i.content for i in items]))

    @staticmethod
    def _item(vault: Vault, memory: Remembered, number: int) -> RetrievedItem:
        derived = memory.derived
        return RetrievedItem(
            item=f"m{number}",
            event=memory.event,
            content=vault.commit(instruction_scrub(memory.text).text),
            memory_class=derived.memory_class,
            trust_class=derived.trust_class,
            source_type=derived.provenance.source_type,
            provenance_score=derived.provenance.provenance_score,
            privacy_scope=derived.privacy_scope,
            instruction_scrubbed=True,
        )

    async def put(self, request: Request) -> Message:
        """Candidates of an answered request: judged with its whole chain, scrubbed, scored, written or skipped."""
        node = self._node
        require_fresh(node.trust.state, node.clock.wall_ms())
        bag = Bag.read(request.message.records, node.opener.open)
        mandate = bag.one(RequestMandate, "mandate")
        if node.trust.state.by_transport(request.peer) != mandate.body.ingress_node:
            raise GnusError("WRONG_PEER", "candidates come from the request's ingress", link="mandate")
        verdict = verify_chain(bag, node.trust.state, node.clock.wall_ms(), settled=False)
        if verdict.outcome is not Outcome.ANSWERED:
            raise GnusError("MEMORY_REFUSED", "only answered requests leave memories")
        vault = node.vaults.receive(mandate.body.request_id, request.message.key_box)
        vault.add(request.message.parcels)
        synthesis = bag.of(SynthesisResult)[-1]
        events = []
        for suggestion in synthesis.body.memory_suggestions:
            written = await self._consider(vault, suggestion, mandate, synthesis)
            if written is not None:
                events.append(written.event)
        return Message(args={"events": events})

    async def _consider(
        self, vault: Vault, suggestion: Committed, mandate: Signed[RequestMandate], synthesis: Signed[SynthesisResult]
    ) -> Remembered | None:
        """One suggestion through the write gate."""
        scrubbed = instruction_scrub(vault.text(suggestion))
        who = (mandate.body.tenant, mandate.body.principal)
        known = await self._log.known(*who, scrubbed.text)
        decision = decide(self._score(known=known, findings=len(scrubbed.findings), synthesis=synthesis), self._settings)
        self._note(decision, mandate)
        if not decision.write or not scrubbed.text.strip():
            return None
        candidate = Candidate(
            text=scrubbed.text,
            memory_class=MemoryClass.FACT,
            source_type=SourceType.SYNTHESIS,
            request_id=mandate.body.request_id,
            attestations=(synthesis.id,),
            policy_hash=mandate.body.policies[0],
            safe_to_memorize=not scrubbed.findings,
        )
        return await self._log.put(*who, candidate)

    @staticmethod
    def _score(*, known: bool, findings: int, synthesis: Signed[SynthesisResult]) -> GateInput:
        return GateInput(
            novelty=0 if known else SCORE_ONE,
            utility=SCORE_ONE // 2,
            consistency=synthesis.body.agreement,
            contamination=min(SCORE_ONE, findings * SCORE_ONE),
            provenance=5_000,
            consensus=0,
            attestation=SCORE_ONE,
        )

    def _note(self, decision: GateDecision, mandate: Signed[RequestMandate]) -> None:
        trust = str(TrustClass.LOWER_TRUST)
        verb = "write" if decision.write else "skip"
        self._node.metrics.count("memory_writes", decision=verb, trust_class=trust)
        emit(
            self._node.log,
            "memory.scored",
            request_id=mandate.body.request_id,
            generation=mandate.body.generation,
            score=decision.write_score,
            decision=verb,
            trust_class=trust,
        )

    async def search(self, request: Request) -> Message:
        """The owner's own search; only this node's own front door may ask it."""
        self._own(request)
        tenant, principal, query, limit = (request.message.args.get(k) for k in ("tenant", "principal", "query", "limit"))
        if not all(isinstance(v, str) for v in (tenant, principal, query)) or type(limit) is not int:
            raise GnusError("MALFORMED", "memory.search takes tenant, principal, query, limit")
        found = await self._log.search(str(tenant), str(principal), str(query), max(1, min(limit, 50)))
        rows = [
            {"event": m.event, "text": m.text, "class": str(m.derived.memory_class), "trust": str(m.derived.trust_class)} for m in found
        ]
        return Message(args={"found": rows})

    async def remember(self, request: Request) -> Message:
        """A note of the owner, through this node's own front door; lower trust until somebody endorses it."""
        self._own(request)
        tenant, principal, text, kind = (request.message.args.get(k) for k in ("tenant", "principal", "text", "class"))
        if not all(isinstance(v, str) for v in (tenant, principal, text, kind)):
            raise GnusError("MALFORMED", "memory.remember takes tenant, principal, text, class")
        require_fresh(self._node.trust.state, self._node.clock.wall_ms())
        scrubbed = instruction_scrub(str(text))
        candidate = Candidate(
            text=scrubbed.text,
            memory_class=MemoryClass(str(kind)) if kind in MemoryClass.__members__.values() else MemoryClass.FACT,
            source_type=SourceType.USER,
            request_id=None,
            attestations=(),
            policy_hash=bytes(32),
            safe_to_memorize=not scrubbed.findings,
        )
        written = await self._log.put(str(tenant), str(principal), candidate)
        return Message(args={"event": written.event, "trust": str(written.derived.trust_class), "findings": len(scrubbed.findings)})

    def _own(self, request: Request) -> None:
        if request.peer != self._node.transport.local_key:
            raise GnusError("FORBIDDEN", "only this node's own front door may ask")
