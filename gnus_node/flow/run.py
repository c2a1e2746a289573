"""One generation of one request at the router: its records so far, its budget, and how a dispatch is made and answered.

Pure state and one piece of input and output, ``order``: sign a dispatch, send it with exactly the records and texts it refers to, open what
comes back and put it into the bag. Nothing here decides what happens next; ``flow.table`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gnus_node.evidence.bag import Bag
from gnus_node.evidence.inputs import committed_of, digest_of
from gnus_node.evidence.links_work import NOT_NEEDED
from gnus_node.net.calls import call_peer
from gnus_node.net.context import RoleContext
from gnus_node.net.directory import Peer
from gnus_node.privacy.parcels import Vault
from gnus_node.records.authority import Absence, Dispatch, Policy, Remaining, RequestMandate
from gnus_node.records.enums import ProcessingPass, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import GroundingEvidence, RetrievalResult
from gnus_node.records.expert import ExpertOutput
from gnus_node.records.plan import Assignment, ExecutionPlan
from gnus_node.records.tools import SanitizedData, ToolAttestation
from gnus_node.telemetry.spans import Span, StageTimer
from gnus_node.wire.message import Message

SPANS: dict[Stage, Span] = {
    Stage.MEMORY: Span.MEMORY,
    Stage.GROUND: Span.GROUNDING,
    Stage.DRAFT: Span.DISPATCH,
    Stage.TOOL: Span.DRY_RUN,
    Stage.VERIFY: Span.VERIFICATION,
    Stage.SYNTHESIZE: Span.SYNTHESIS,
}
"""Where the time of a stage's call is counted; of a draft, inference is taken out."""
RESERVE_MS = 50
"""Time kept back of each hop, so that an answer still travels when a peer uses all of its budget."""
MIN_BUDGET_MS = 5
MAX_COMMITS = 1024
"""Most durable commits a peer's word is taken for."""


def commits_said(word: object) -> int:
    """How many durable commits a peer says it waited for: a count for the metrics, so junk is none and its bound is ours."""
    return min(word, MAX_COMMITS) if type(word) is int and word > 0 else 0


@dataclass(slots=True)
class Run:
    """State of one generation. ``deadline`` is on trio's clock, in seconds."""

    context: RoleContext
    mandate: Signed[RequestMandate]
    policies: tuple[Signed[Policy], ...]
    bag: Bag
    vault: Vault
    deadline: float
    plan: Signed[ExecutionPlan] | None = None
    turn: int = 0
    escalated: bool = False
    spent_tokens: int = 0
    commits: int = 0
    """Durable commits the intermediary says it waited for: a count for the metrics, no authority."""
    attempts: dict[tuple[str, int, str], int] = field(default_factory=dict)
    proposing: list[Signed[ExpertOutput]] = field(default_factory=list)
    mediated: set[bytes] = field(default_factory=set)
    timer: StageTimer = field(default_factory=lambda: StageTimer(0.0))

    def remaining_ms(self) -> int:
        """Time left of the mandate's wall time."""
        return max(0, int((self.deadline - self.context.node.clock.monotonic()) * 1000))

    def base(self) -> list[Signed[Any]]:
        """Mandate and plan: what every dispatch refers to first."""
        return [self.mandate, *([self.plan] if self.plan else [])]

    def evidence(self) -> list[Signed[Any]]:
        """What drafts may rest on: memory, grounding, and sanitised data whose second attestation stands in the bag."""
        attested = {a.body.sanitized for a in self.bag.of(ToolAttestation)}
        data = [d for d in self.bag.of(SanitizedData) if d.id in attested]
        attestations = [a for a in self.bag.of(ToolAttestation) if a.body.sanitized is not None]
        return [*self.bag.of(RetrievalResult), *self.bag.of(GroundingEvidence), *data, *attestations]

    def places(self, stage: Stage) -> list[Assignment]:
        """The plan's assignments of a stage."""
        return [a for a in self.plan.body.assignments if a.stage is stage] if self.plan else []

    def drafters(self, *, fallback: bool) -> list[list[Assignment]]:
        """The drafting experts that step in only (``fallback``) or do not, each with its places: its own first, then its standbys."""
        experts: dict[str, list[Assignment]] = {}
        for place in self.places(Stage.DRAFT):
            experts.setdefault(place.expert_id or "", []).append(place)
        return [places for places in experts.values() if places[0].fallback is fallback]

    def peer_of(self, place: Assignment) -> Peer:
        """The live peer of an assignment. Raises ``UNREACHABLE``."""
        hosts = self.context.node.directory.hosts(place.role, self.mandate.body.tenant)
        found = next((h for h in hosts if h.role_key == place.key), None)
        if found is None:
            raise GnusError("UNREACHABLE", "an assigned peer is not live", link=str(place.stage))
        return found

    async def order(
        self,
        stage: Stage,
        processing_pass: ProcessingPass,
        peer: Peer,
        service: str,
        refs: Sequence[Signed[Any]],
        *,
        budget_ms: int,
        expert_id: str | None = None,
        extra: Iterable[Signed[Any]] = (),
        with_plan: bool = True,
    ) -> list[Signed[Any]]:
        """Dispatch to one peer and take in what it signed. ``extra`` records go along unreferred (entries, manifests).

        Returns the new records in order. Raises the peer's ``GnusError``, or ``UNREACHABLE``, ``DEADLINE``, ``PROTOCOL``.
        """
        dispatch = self._sign(stage, processing_pass, peer, refs, budget_ms, expert_id, with_plan=with_plan)
        self.bag.add([dispatch])
        texts = [c for r in refs for c in committed_of(r) if self.vault.holds(c)]
        records = {r.id: r.raw for r in (*self.policies, self.mandate, *refs, *extra, dispatch)}
        message = Message(
            tuple(records.values()), self.vault.parcels(texts), self.vault.box_for(peer.sealing_key), {"dispatch": dispatch.id}
        )
        clock, started = self.context.node.clock, self.context.node.clock.monotonic()
        answer: Message | None = None
        try:
            answer = await call_peer(self.context.node, peer, service, message, budget_ms=max(MIN_BUDGET_MS, budget_ms))
        finally:
            self._account(stage, started, clock.monotonic(), answer)
        self.commits += commits_said(answer.args.get("commits"))
        opened = [self.context.node.opener.open(raw) for raw in answer.records]
        self.bag.add(opened)
        self.vault.add(answer.parcels)
        return opened

    def _account(self, stage: Stage, started: float, now: float, answer: Message | None) -> None:
        """Where the time went; a worker's own word for its inference is clipped to the call (``spans.add_remote``)."""
        compute_us = answer.args.get("compute_us") if answer is not None else None
        if stage is Stage.DRAFT and isinstance(compute_us, int):
            self.timer.add_remote(started, now, compute_us / 1000)
        else:
            self.timer.add(SPANS[stage], started, now)

    def _sign(
        self,
        stage: Stage,
        processing_pass: ProcessingPass,
        peer: Peer,
        refs: Sequence[Signed[Any]],
        budget_ms: int,
        expert_id: str | None,
        *,
        with_plan: bool,
    ) -> Signed[Dispatch]:
        place = (str(stage), self.turn, expert_id or peer.node_id)
        attempt = self.attempts.get(place, -1) + 1
        self.attempts[place] = attempt
        mandate = self.mandate.body
        plan = self.plan if with_plan else None
        limits = plan.body.constraints if plan else None
        tokens = limits.max_tokens if limits else mandate.ceilings.max_tokens
        body = Dispatch(
            request_id=mandate.request_id,
            generation=mandate.generation,
            mandate=self.mandate.id,
            plan=plan.id if plan else None,
            stage=stage,
            processing_pass=processing_pass,
            turn=self.turn,
            attempt=attempt,
            expert_id=expert_id,
            peer=peer.role_key,
            node_id=peer.node_id,
            input_digest=digest_of(refs),
            remaining=Remaining(
                tokens=max(0, tokens - self.spent_tokens),
                wall_ms=min(budget_ms, limits.max_wall_ms if limits else mandate.ceilings.max_wall_ms),
                spend=limits.max_spend if limits else mandate.ceilings.max_spend,
            ),
        )
        return self.context.signer.sign(body, refs=[r.id for r in refs])

    def absent(self, expert_id: str, stage: Stage, reason: str) -> None:
        """Sign that an expert of the plan has no output, and why."""
        assert self.plan is not None
        said = {a.body.reason for a in self.bag.of(Absence) if a.body.expert_id == expert_id}
        # NOT_NEEDED holds of a fallback expert until the verifier asks for it; what became of it then is said beside it.
        if any(o.body.expert_id == expert_id for o in self.bag.of(ExpertOutput)) or said - {NOT_NEEDED} or reason in said:
            return
        mandate = self.mandate.body
        body = Absence(
            request_id=mandate.request_id,
            generation=mandate.generation,
            plan=self.plan.id,
            expert_id=expert_id,
            stage=stage,
            turn=self.turn,
            reason=reason,
        )
        self.bag.add([self.context.signer.sign(body, refs=[self.plan.id])])
