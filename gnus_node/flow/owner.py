"""Ownership of a request at its ingress: journal, deadline, generations, the terminal answer (DESIGN.md section 3).

The ingress owns a request from the durable acceptance on. Routers come and go under leases; the owner runs the OWNER table, starts a new
generation where a router is lost, never releases an answer whose chain does not verify, and signs the one terminal response. After a restart
every accepted request that has no stored terminal is taken up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import trio

from gnus_node.evidence.bag import Bag
from gnus_node.evidence.chain import verify_chain
from gnus_node.flow import accept
from gnus_node.flow.accept import Accepted, FlowLimits
from gnus_node.flow.acceptance import Acceptance
from gnus_node.flow.after import Aftermath
from gnus_node.flow.archive import Archive
from gnus_node.flow.case import Case
from gnus_node.flow.ending import Ending
from gnus_node.flow.happened import ask_effects, happened, may_act
from gnus_node.flow.journal import JournalRow
from gnus_node.flow.present import present
from gnus_node.flow.preview import preview_plan
from gnus_node.flow.queue import FairQueue
from gnus_node.flow.run import commits_said
from gnus_node.flow.table import OWNER, Event, State, advance, deadline_ms
from gnus_node.net.boundary import supervise
from gnus_node.net.calls import call_peer
from gnus_node.net.context import RoleContext
from gnus_node.ports.submit import Answered, Ask, Caller, Status, StatusSink
from gnus_node.records.authority import Policy
from gnus_node.records.enums import EffectState, Outcome, RoleName
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import SynthesisResult
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.tools import EffectReport
from gnus_node.store.payloads import PayloadStore
from gnus_node.telemetry.spans import Durations, observe_request
from gnus_node.wire import cbor
from gnus_node.wire.message import Message

_LOST = frozenset({"UNREACHABLE", "BUSY", "PROTOCOL", "INTERNAL", "UNKNOWN_SERVICE", "WRONG_PEER"})
"""Errors of a router that another router may do without."""


class Owner:
    """The ingress's requests. Implements ``ports.Submit.ask`` and ``lookup``; ``recover`` runs once at start."""

    def __init__(
        self,
        context: RoleContext,
        payloads: PayloadStore,
        archive: Archive,
        policies: Sequence[Signed[Policy]],
        aftermath: Aftermath,
        limits: FlowLimits,
        idempotency_secret: bytes,
    ) -> None:
        self._context = context
        self._node = context.node
        self._archive = archive
        self._policies = tuple(policies)
        self._after = aftermath
        self._acceptance = Acceptance(context, payloads, idempotency_secret)
        self._ending = Ending(context, payloads, aftermath)
        self._limits = limits
        self._secret = idempotency_secret
        self._queue = FairQueue(limits.running, limits.waiting)
        self._running: dict[str, trio.Event] = {}
        self._closed = False

    # -- asking ---------------------------------------------------------------------------------------------------------------

    async def ask(self, caller: Caller, ask: Ask, *, on_status: StatusSink | None = None) -> Answered:
        """Accept durably, carry to a terminal state, return it (``ports.Submit.ask``)."""
        if self._closed:
            raise GnusError("BUSY", "the node is stopping", fix="ask again when it is back, or another node")
        accept.check_size(ask, self._limits)
        repeated = await self._repeat(caller, ask)
        if repeated is not None:
            return await self._join(caller, repeated)
        started = self._node.clock.monotonic()
        policies = accept.applicable(self._policies, caller, self._node.clock.wall_ms())
        ceilings = accept.merged(policies, ask)
        async with self._queue.turn(caller.tenant, wait_s=ceilings.max_wall_ms / 1000):
            request_id = self._node.entropy.uuid()
            with self._under_way(request_id):
                try:
                    accepted = await self._acceptance.accept(request_id, caller, ask, policies, ceilings, started)
                except GnusError as error:
                    if error.code != "REPLAYED" or ask.idempotency_key is None:
                        raise
                else:
                    return await self._carry(Case(accepted, self._bag(accepted), on_status), State.OWN_RUN)
        repeated = await self._repeat(caller, ask)  # another with the same key was accepted while this one waited
        if repeated is None:
            raise GnusError("BUSY", "the first request with this idempotency key was not accepted")
        return await self._join(caller, repeated)

    def close(self) -> None:
        """Take no further question: the node is stopping."""
        self._closed = True

    async def wait_idle(self) -> None:
        """Wait until nothing that was accepted is under way."""
        while self._running:
            await next(iter(self._running.values())).wait()

    @contextmanager
    def _under_way(self, request_id: str) -> Iterator[None]:
        """Known as carried by this process, from before its row can be seen until its end: recovery leaves it alone, repeats wait for it."""
        ended = self._running[request_id] = trio.Event()
        self._node.metrics.gauge("requests_in_flight", len(self._running))
        try:
            yield
        finally:
            del self._running[request_id]
            ended.set()
            self._node.metrics.gauge("requests_in_flight", len(self._running))

    async def _repeat(self, caller: Caller, ask: Ask) -> str | None:
        """The request an idempotency key stands for, or None. Raises ``IDEMPOTENCY_MISMATCH``."""
        if ask.idempotency_key is None:
            return None
        stored = await self._node.store.get("idempotency", accept.idempotency_key(caller, ask.idempotency_key))
        if stored is None:
            return None
        plain = cbor.decode(stored)
        if plain["digest"] != accept.question_digest(self._secret, ask):
            raise GnusError("IDEMPOTENCY_MISMATCH")
        return str(plain["request"])

    async def _join(self, caller: Caller, request_id: str) -> Answered:
        """Wait for a request that runs already, and give its answer."""
        running = self._running.get(request_id)
        if running is not None:
            await running.wait()
        found = await self.lookup(caller, request_id)
        if found is None:
            raise GnusError("BUSY", "the first request with this idempotency key has not ended", link=request_id)
        return found

    @staticmethod
    def _bag(accepted: Accepted) -> Bag:
        return Bag([accepted.mandate, *accepted.policies])

    def preview(self, caller: Caller, ask: Ask) -> ExecutionPlan:
        """The plan a question would get now, under a mandate that goes nowhere; nothing is stored or sent."""
        accept.check_size(ask, self._limits)
        return preview_plan(self._context, self._policies, caller, ask)

    # -- carrying -------------------------------------------------------------------------------------------------------------

    async def _carry(self, case: Case, state: State) -> Answered:
        """Run the OWNER table to a terminal state; a caller that leaves closes the request. A fault of this program costs this request
        only, and gives it its terminal too: so no request takes the node, or its next start, down with it."""
        try:
            fault = await supervise(lambda: self._run_table(case, state), self._node.log, "ingress")
            if fault is not None and case.response is None:
                case.error = fault
                await supervise(lambda: self._run_table(case, State.OWN_CLOSE), self._node.log, "ingress")
        except trio.Cancelled:
            if not case.accepted.recovered:  # a recovered one has no caller: the node is stopping, and its next start goes on with it
                with trio.CancelScope(shield=True):
                    await supervise(lambda: self._cancelled(case), self._node.log, "ingress")
            raise
        return self._finish(case)

    async def _run_table(self, case: Case, state: State) -> None:
        steps = {
            State.OWN_EFFECTS: self._effects,
            State.OWN_RUN: self._generation,
            State.OWN_VERIFY: self._verify,
            State.OWN_CLOSE: self._close,
        }
        while not OWNER[state].terminal:
            self._node.probe.point(f"ingress.{state}", request_id=case.row.request_id, generation=case.row.generation)
            remaining = max(1, int((case.accepted.deadline - self._node.clock.monotonic()) * 1000))
            budget = deadline_ms(OWNER, state, remaining)
            try:
                if state is State.OWN_CLOSE:  # bounds its waiting itself, so that there is a terminal when time is over
                    event = await self._close(case, budget)
                else:
                    with trio.fail_after(budget / 1000):
                        event = await steps[state](case, budget)
            except trio.TooSlowError:
                case.error = GnusError("DEADLINE", "the request's time ran out", link=str(state))
                event = Event.DEADLINE
            except GnusError as error:
                case.error = error
                event = Event.FAILED
            state = advance(OWNER, state, event)
        self._node.probe.point(f"ingress.{state}", request_id=case.row.request_id, generation=case.row.generation)

    async def _generation(self, case: Case, budget_ms: int) -> Event:
        """One router carries one generation; its records come back and are judged later."""
        accepted = case.accepted
        trust = self._node.trust.state
        router = next(
            (h for h in self._node.directory.hosts(RoleName.ROUTER, case.row.tenant) if h.role_key == accepted.mandate.body.router), None
        )
        if router is None:
            case.error = GnusError("UNREACHABLE", "the router is not live", link=trust.node(accepted.mandate.body.router_node).node_id)
            return self._lost(case)
        message = Message(
            self._bag(accepted).raws(),
            accepted.vault.parcels([c for c in (accepted.mandate.body.query, accepted.mandate.body.context) if c]),
            accepted.vault.box_for(router.sealing_key),
            {"watched": True} if case.sink is not None else {},
        )

        async def status(item: Message) -> None:
            await self._status(case, str(item.args.get("state", "")))

        try:
            answer = await call_peer(self._node, router, "router.route", message, budget_ms=budget_ms, on_item=status)
        except GnusError as error:
            case.error = error
            if error.code == "FENCED":
                return Event.FENCED if self._another(case) else Event.FAILED
            return self._lost(case) if error.code in _LOST else Event.FAILED
        return self._take(case, answer)

    def _lost(self, case: Case) -> Event:
        return Event.LOST if self._another(case) else Event.FAILED

    def _another(self, case: Case) -> bool:
        """Whether a further generation is allowed and there is time for one."""
        return case.row.generation < self._limits.max_generations and case.accepted.deadline > self._node.clock.monotonic()

    def _take(self, case: Case, answer: Message) -> Event:
        """Take in what the router made."""
        case.bag.add(self._node.opener.open(raw) for raw in answer.records)
        case.accepted.vault.add(answer.parcels)
        stages = answer.args.get("stages")
        if isinstance(stages, dict):
            case.stages = {str(k): v / 1000 for k, v in stages.items() if isinstance(v, int)}
        inference = answer.args.get("inference_us")
        case.inference_ms = inference / 1000 if isinstance(inference, int) else 0.0
        case.accepted.commits += commits_said(answer.args.get("commits"))
        state = answer.args.get("state")
        if state == State.DONE:
            return Event.OK
        if state == State.PARKED:
            return self._park(case)
        error = answer.args.get("error")
        case.error = GnusError.from_plain(error) if error is not None else GnusError("BACKEND_FAILED", "the router gave up")
        if state == State.FENCED:
            return Event.FENCED if self._another(case) else Event.FAILED
        return Event.FAILED

    def _park(self, case: Case) -> Event:
        """A person must decide first: nothing was executed, the signed response says what waits. Resuming is a later generation."""
        verify_chain(case.bag, self._node.trust.state, self._node.clock.wall_ms(), settled=False)
        waiting = [e for r in case.bag.of(EffectReport) for e in r.body.effects if e.state is EffectState.AWAITING_APPROVAL]
        case.effects = tuple({e.effect_key: e for e in waiting}.values())
        error = GnusError("APPROVAL_REQUIRED", f"{len(case.effects)} tool calls wait for a person")
        self._ending.store(case, self._ending.respond(case, Outcome.PENDING_APPROVAL, None, error))
        return Event.PENDING

    async def _effects(self, case: Case, budget_ms: int) -> Event:
        """Start the next generation; where writes are possible at all, ask the pinned intermediary what has happened first."""
        await self._acceptance.successor(case.row.tenant, budget_ms / 2000)
        await self._next_generation(case)
        if may_act(case.accepted.mandate.body) and await self._interrupted(case, budget_ms):
            return Event.EFFECTS
        if case.accepted.recovered and case.row.generation > self._limits.max_recoveries:
            raise GnusError("INTERNAL", f"the node ended {case.row.generation - 1} times while this request ran")
        return Event.OK

    async def _interrupted(self, case: Case, budget_ms: int) -> bool:
        """Whether effects have happened in an older generation, which is fenced by asking; if so the request ends with them."""
        report = await ask_effects(self._node, case.accepted, budget_ms)
        found = happened(report.body.effects)
        if not found:
            return False
        case.bag.add([report])
        case.effects = report.body.effects
        why = f": {case.error.code}" if case.error else ""
        case.error = GnusError("PARTIAL_EFFECTS", f"{len(found)} effects happened before the request was interrupted{why}")
        return True

    async def _next_generation(self, case: Case) -> None:
        """Generation + 1; older records no longer count."""
        case.accepted = await self._acceptance.next_generation(case.accepted)
        case.bag = self._bag(case.accepted)

    # -- ending ---------------------------------------------------------------------------------------------------------------

    async def _verify(self, case: Case, budget_ms: int) -> Event:
        """``verify_chain`` before release; then the signed response, stored behind the answer."""
        before = self._node.clock.monotonic()
        verify_chain(case.bag, self._node.trust.state, self._node.clock.wall_ms(), settled=False)
        case.stages["verification"] = (self._node.clock.monotonic() - before) * 1000
        self._node.metrics.observe("verification_ms", case.stages["verification"])
        results = case.bag.of(SynthesisResult)
        synthesis = next((r for r in reversed(results)), None)
        if synthesis is None:
            raise GnusError("CHAIN_BROKEN", "the router ended without a synthesis", link="synthesis")
        if may_act(case.accepted.mandate.body):
            report = await ask_effects(self._node, case.accepted, budget_ms)
            case.bag.add([report])
            case.effects = happened(report.body.effects)
        self._ending.store(case, self._ending.respond(case, synthesis.body.outcome, synthesis, None))
        return Event.OK

    async def _close(self, case: Case, _budget_ms: int) -> Event:
        """Sign a typed error. Records of a chain that does not hold are left out; what did hold stays."""
        await self._settle_effects(case)
        error = case.error or GnusError("INTERNAL", "a request ended without a reason")
        outcome = {"PARTIAL_EFFECTS": Outcome.PARTIAL_EFFECTS, "CANCELLED": Outcome.CANCELLED}.get(error.code, Outcome.FAILED)
        try:
            verify_chain(case.bag, self._node.trust.state, self._node.clock.wall_ms(), settled=False)
        except GnusError:
            case.bag, case.effects = self._bag(case.accepted), ()
        self._ending.store(case, self._ending.respond(case, outcome, None, error))
        return Event.CANCEL if outcome is Outcome.CANCELLED else Event.OK

    async def _settle_effects(self, case: Case) -> None:
        """Before a typed error of a request that may act: fence the generation that failed, and say what it has done.

        Where nothing has happened, the generation that failed stays the one that the terminal tells of. Where nobody can say, it says so.
        """
        if not may_act(case.accepted.mandate.body) or (case.error is not None and case.error.code == "PARTIAL_EFFECTS"):
            return
        accepted, bag, before = case.accepted, case.bag, case.error
        case.effects = ()
        try:
            with trio.fail_after(self._limits.close_ms / 1000):
                await self._next_generation(case)
                if await self._interrupted(case, self._limits.close_ms):
                    return
        except (GnusError, trio.TooSlowError) as unknown:
            code = unknown.code if isinstance(unknown, GnusError) else "DEADLINE"
            why = before.code if before else "INTERNAL"
            case.error = GnusError("EFFECT_INDETERMINATE", f"the request ended ({why}), and its effects are not known ({code})")
        case.accepted, case.bag = accepted, bag

    async def _cancelled(self, case: Case) -> None:
        """The caller left: close as cancelled unless the request has ended, or effects have happened."""
        if case.response is not None:
            return
        case.error = GnusError("CANCELLED", "the caller left")
        await self._run_table(case, State.OWN_CLOSE)
        self._observe(case)

    def _finish(self, case: Case) -> Answered:
        """What the caller gets; a failure that was accepted is an answer too, with its typed error."""
        if case.response is None:
            raise case.error or GnusError("INTERNAL", "a request ended without a response")
        self._observe(case)
        return present(case.bag, case.accepted.vault, case.response, self._ending.latency(case), case.row.created_at_ms)

    def _observe(self, case: Case) -> None:
        latency = self._ending.latency(case)
        spent = Durations(latency["total"], latency["overhead"], latency["inference"], latency["commit_wait"])
        observe_request(self._node.metrics, spent, str(case.outcome))
        self._node.metrics.observe("request_commits", case.accepted.commits)

    async def _status(self, case: Case, state: str) -> None:
        if case.sink is None or not state:
            return
        case.number += 1
        await case.sink(Status(case.row.request_id, case.number, state, state, self._node.clock.wall_ms()))

    # -- recovering -----------------------------------------------------------------------------------------------------------

    async def lookup(self, caller: Caller, request_id: str) -> Answered | None:
        """The terminal of a request of the caller's tenant, None while it runs (``ports.Submit.lookup``)."""
        return await self._archive.lookup(caller.tenant, request_id)

    async def work(self, *beside: Callable[[], Awaitable[None]]) -> None:
        """Recover, then settle, until cancelled; ``beside`` runs along."""
        async with trio.open_nursery() as nursery:
            await self.recover(nursery)
            nursery.start_soon(self._after.run)
            for task in beside:
                nursery.start_soon(task)

    async def recover(self, nursery: trio.Nursery) -> int:
        """Take up every accepted request without a stored terminal as a new generation, and every unsettled one; how many were taken up.

        Requests accepted since the start are in the journal too, and somebody carries them already.
        """
        taken = 0
        async for row, ended in self._archive.open_requests():
            if row.request_id in self._running:
                continue
            if ended:
                self._after.enqueue(row.request_id)
            else:
                nursery.start_soon(self._resume, row)
                taken += 1
        return taken

    async def _resume(self, row: JournalRow) -> None:
        """One recovered request. What fails here costs this request only: the node stays up, and the next start tries again."""
        fault = await supervise(lambda: self._take_up(row), self._node.log, "recovery")
        if fault is not None:
            self._node.log.error("recovery.failed", request_id=row.request_id, code=fault.code)

    async def _take_up(self, row: JournalRow) -> None:
        """Carry it on a fresh deadline of its own wall time, which begins when it gets its turn. One whose texts were erased is closed."""
        with self._under_way(row.request_id):
            async with self._queue.turn(row.tenant, bounded=False):
                mandate, policies = await self._archive.mandate(row)
                erased: GnusError | None = None
                try:
                    vault = await self._archive.vault(row.request_id, [mandate])
                except GnusError as error:
                    if error.code != "ERASED":
                        raise
                    erased = error
                    vault = self._node.vaults.make(row.request_id, self._node.entropy.token(32))
                now = self._node.clock.monotonic()
                accepted = Accepted(row, mandate, policies, vault, now + row.wall_ms / 1000, now, recovered=True)
                case = Case(accepted, self._bag(accepted), error=erased)
                await self._carry(case, State.OWN_EFFECTS if erased is None else State.OWN_CLOSE)
