"""The coordinator's steps: each does one state's work and reports an event (DESIGN.md section 3). What follows is the table's choice.

A step may fail or run out of time without harm: what it has put into the run's bag by then is signed and stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from gnus_node.cognition.planner import PlanInput, plan_request
from gnus_node.content.asked import asked
from gnus_node.evidence.links_work import NOT_NEEDED
from gnus_node.flow.run import RESERVE_MS, Run
from gnus_node.flow.table import Event, State
from gnus_node.records.authority import Absence
from gnus_node.records.enums import BackendKind, EffectState, ExpertRole, MemoryMode, ProcessingPass, RoleName, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import GroundingEvidence, RetrievalResult, SynthesisResult
from gnus_node.records.expert import ExpertEntry, ExpertOutput
from gnus_node.records.plan import Assignment
from gnus_node.records.tools import EffectReport, SanitizedData
from gnus_node.telemetry.events import emit
from gnus_node.telemetry.spans import Span

Step = Callable[[Run, int], Awaitable[Event]]
"""``(run, budget_ms) -> event``."""

_NO_BYPASS = frozenset({"PLAN_EXCEEDS_MANDATE", "MANDATE_EXCEEDS_POLICY", "CHAIN_BROKEN", "LEASE_EXPIRED"})
"""Refusals that are faults of this router: the request fails at once instead of going on without."""


async def remember(run: Run, budget_ms: int) -> Event:
    """Governed context from memory, under the mandate alone (DESIGN.md section 3, step 2)."""
    mandate = run.mandate.body
    hosts = run.context.node.directory.hosts(RoleName.MEMORY_INDEX, mandate.tenant)
    if mandate.ceilings.memory_floor is MemoryMode.NONE or not hosts:
        return Event.OK
    await run.order(
        Stage.MEMORY,
        ProcessingPass.RETRIEVAL,
        hosts[0],
        "memory.retrieve",
        [run.mandate],
        budget_ms=budget_ms - RESERVE_MS,
        with_plan=False,
    )
    return Event.OK


async def plan(run: Run, _budget_ms: int) -> Event:
    """Classify, choose, sign the plan; the experts' registry entries and manifests join the records."""
    node = run.context.node
    started = node.clock.monotonic()
    mandate = run.mandate.body
    question = asked(run.vault.text(mandate.query), run.vault.text(mandate.context) if mandate.context else "")
    roles = (RoleName.GROUNDING, RoleName.VERIFIER, RoleName.TOOL_INTERMEDIARY)
    offers = node.directory.experts(mandate.tenant)
    given = PlanInput(
        question=question,
        mandate=run.mandate,
        hosts={role: node.directory.hosts(role, mandate.tenant) for role in roles},
        offers=offers,
        hints=tuple(r.id for r in run.bag.of(RetrievalResult)),
    )
    body = plan_request(given)
    run.plan = run.context.signer.sign(body, refs=[run.mandate.id, *given.hints])
    chosen = {a.entry for a in body.assignments if a.entry}
    run.bag.add([run.plan])
    for offer in offers:
        if offer.entry.id in chosen:
            run.bag.add([offer.entry, offer.manifest])
    run.timer.add(Span.ROUTING, started, node.clock.monotonic())
    node.metrics.observe("routing_ms", (node.clock.monotonic() - started) * 1000)
    emit(
        node.log,
        "routing.decided",
        request_id=mandate.request_id,
        generation=mandate.generation,
        intent=str(body.intent),
        risk=str(body.risk),
        execution_mode=str(body.execution_graph.mode),
        experts=[a.expert_id for a in body.assignments if a.expert_id],
        confidence=10_000,
    )
    drafting = [a for a in run.places(Stage.DRAFT) if not a.fallback]
    # Where a tool is to be read first, documents are looked into only if it gives nothing.
    reading = any(_reads(run, a) for a in drafting) and not any(_role(run, a) is ExpertRole.TOOL_SUPPORT for a in drafting)
    return Event.OK if reading and Stage.GROUND in body.execution_graph.stages else Event.SKIP


def _reads(run: Run, place: Assignment) -> bool:
    """Whether an assigned expert reads evidence at all; symbolic ones calculate or propose."""
    entry = run.bag.find(place.entry or b"")
    return entry is not None and isinstance(entry.body, ExpertEntry) and entry.body.backend_kind is not BackendKind.SYMBOLIC


async def ground(run: Run, budget_ms: int) -> Event:
    """Evidence for the question; a second grounding node takes over where the first fails."""
    places = run.places(Stage.GROUND)
    for place in places:
        try:
            await run.order(
                Stage.GROUND,
                ProcessingPass.RETRIEVAL,
                run.peer_of(place),
                "grounding.retrieve",
                run.base(),
                budget_ms=budget_ms - RESERVE_MS,
            )
        except GnusError as error:
            _note(run, "ground", error)
            continue
        return Event.OK
    return Event.FAILED


async def draft(run: Run, budget_ms: int) -> Event:
    """The plan's own experts draft in parallel; tool proposers go first, the others draft once their output is there."""
    places = [a for a in run.places(Stage.DRAFT) if not a.fallback]
    helpers = [a for a in places if _role(run, a) is ExpertRole.TOOL_SUPPORT]
    others = [a for a in places if a not in helpers]
    now = helpers if helpers and run.turn == 0 else others
    if now is others:
        await _ground_late(run, budget_ms)
    drafted = await _draft_all(run, now, budget_ms)
    if now is helpers and not any(o.body.tool_calls for o in drafted):
        await _ground_late(run, budget_ms)
        drafted += await _draft_all(run, others, budget_ms // 2)
    return Event.OK if any(o.body.tool_calls or not o.body.abstained for o in drafted) else Event.EMPTY


async def _ground_late(run: Run, budget_ms: int) -> None:
    """Evidence for drafts that a tool left without any."""
    if run.places(Stage.GROUND) and not run.bag.of(GroundingEvidence) and not run.bag.of(SanitizedData) and _grounds_late(run):
        await ground(run, budget_ms // 3)


def _grounds_late(run: Run) -> bool:
    return any(_role(run, a) is ExpertRole.TOOL_SUPPORT for a in run.places(Stage.DRAFT))


def _role(run: Run, place: Assignment) -> ExpertRole | None:
    assert run.plan is not None
    return next((e.role for e in run.plan.body.selected_elms if e.elm_id == place.expert_id), None)


async def escalate(run: Run, budget_ms: int) -> Event:
    """The fallback experts step in, once, with evidence if the plan grounds (18.1.6.2)."""
    if run.escalated:
        return Event.EMPTY
    run.escalated = True
    places = [a for a in run.places(Stage.DRAFT) if a.fallback]
    if not places:
        return Event.EMPTY
    if not run.bag.of(GroundingEvidence) and run.places(Stage.GROUND):
        await ground(run, budget_ms // 3)
    drafted = await _draft_all(run, places, budget_ms)
    return Event.OK if any(not o.body.abstained for o in drafted) else Event.EMPTY


async def _draft_all(run: Run, places: Sequence[Assignment], budget_ms: int) -> list[Signed[ExpertOutput]]:
    """Dispatch to each; who fails is absent with the reason, and costs nobody else anything."""
    done: list[Signed[ExpertOutput]] = []
    finished = {o.body.expert_id for o in run.bag.of(ExpertOutput)}
    refs = [*run.base(), *run.evidence()]

    async def one(place: Assignment) -> None:
        expert = place.expert_id or ""
        try:
            with trio.fail_after(max(0.001, (budget_ms - RESERVE_MS) / 1000)):
                records = await run.order(
                    Stage.DRAFT,
                    ProcessingPass.INFERENCE,
                    run.peer_of(place),
                    "core.run" if place.role is RoleName.SEMANTIC_CORE else "expert.run",
                    refs,
                    budget_ms=budget_ms - RESERVE_MS,
                    expert_id=expert,
                    extra=[r for r in (run.bag.find(place.entry or b""),) if r],
                )
        except trio.TooSlowError:
            run.absent(expert, Stage.DRAFT, "DEADLINE")
            return
        except GnusError as error:
            if error.code in _NO_BYPASS:
                raise
            _note(run, "draft", error)
            run.absent(expert, Stage.DRAFT, error.code)
            return
        outputs = [r for r in records if isinstance(r.body, ExpertOutput)]
        if not outputs and not any(isinstance(r.body, Absence) for r in records):
            run.absent(expert, Stage.DRAFT, "PROTOCOL")
        for output in outputs:
            run.spent_tokens += output.body.usage.completion_tokens
            done.append(output)

    async with trio.open_nursery() as nursery:
        for place in places:
            if place.expert_id not in finished:
                nursery.start_soon(one, place)
    return sorted(done, key=lambda o: o.body.expert_id)


async def adjudicate(run: Run, _budget_ms: int) -> Event:
    """Which proposals go to mediation: all of the turn, each once; none beyond the plan's turns (DESIGN.md section 3, step 4)."""
    assert run.plan is not None
    run.proposing = [o for o in run.bag.of(ExpertOutput) if o.body.tool_calls and o.id not in run.mediated]
    if not run.proposing or not run.places(Stage.TOOL) or run.turn + 1 > run.plan.body.max_turns:
        return Event.OK
    return Event.PROPOSALS


async def tool(run: Run, budget_ms: int) -> Event:
    """Mediation by the pinned intermediary. Refusals are outcomes; a person's turn parks the request."""
    place = run.places(Stage.TOOL)[0]
    outputs = run.proposing
    run.mediated.update(o.id for o in outputs)
    entries = [r for r in run.bag if r.header.kind in ("expert_entry", "capability_manifest")]
    dispatches = [d for o in outputs if (d := run.bag.find(o.body.dispatch))]
    try:
        records = await run.order(
            Stage.TOOL,
            ProcessingPass.COMPUTE,
            run.peer_of(place),
            "tools.mediate",
            [*run.base(), *outputs],
            budget_ms=budget_ms - RESERVE_MS,
            extra=[*entries, *dispatches],
        )
    finally:
        run.turn += 1
    reports = [r for r in records if isinstance(r.body, EffectReport)]
    waiting = [e for r in reports for e in r.body.effects if e.state is EffectState.AWAITING_APPROVAL]
    return Event.PENDING if waiting else Event.OK


async def synthesize(run: Run, budget_ms: int) -> Event:
    """Everything to the verifier; a second one takes over where the first fails."""
    assert run.plan is not None
    for place in run.places(Stage.DRAFT):
        run.absent(place.expert_id or "", Stage.DRAFT, NOT_NEEDED if place.fallback and not run.escalated else "NOT_REACHED")
    skip = {"dispatch", "task_attestation", "request_mandate", "execution_plan", "policy", "expert_entry", "capability_manifest"}
    given = [r for r in run.bag if r.header.kind not in skip]
    for place in run.places(Stage.SYNTHESIZE):
        try:
            records = await run.order(
                Stage.SYNTHESIZE,
                ProcessingPass.VERIFICATION,
                run.peer_of(place),
                "verifier.synthesize",
                [*run.base(), *given],
                budget_ms=budget_ms - RESERVE_MS,
                extra=[r for r in run.bag if r.header.kind in skip],
            )
        except GnusError as error:
            if error.code in _NO_BYPASS:
                raise
            _note(run, "synthesize", error)
            continue
        if any(isinstance(r.body, SynthesisResult) for r in records):
            return Event.OK
        if run.escalated:
            return Event.FAILED
        return Event.AGAIN
    return Event.FAILED


def _note(run: Run, step: str, error: GnusError) -> None:
    """A peer failed and the run goes on without it."""
    run.context.node.metrics.count("errors", code=error.code)
    run.context.node.log.warning("step.failed", request_id=run.mandate.body.request_id, step=step, code=error.code, link=error.link)


STEPS: dict[State, Step] = {
    State.REMEMBER: remember,
    State.PLAN: plan,
    State.GROUND: ground,
    State.DRAFT: draft,
    State.ESCALATE: escalate,
    State.ADJUDICATE: adjudicate,
    State.TOOL: tool,
    State.SYNTHESIZE: synthesize,
}
"""The step of each state that is not terminal."""
