"""Ownership of a request at its ingress: journal, deadline, generations, the terminal answer (DESIGN.md section 3).

The ingress owns a request from the durable acceptance on. Routers come and go under leases; the owner runs the OWNER table, starts a new
generation where a router is lost, never releases an answer whose chain does not verify, and signs the one terminal response. After a restart
every accepted request that has no stored terminal is taken up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from gnus_node.evidence.bag import Bag
from gnus_node.evidence.chain import verify_chain
from gnus_node.flow import accept
from gnus_node.flow.accept import Accepted, FlowLimits
from gnus_node.flow.after import Aftermath
from gnus_node.flow.archive import Archive
from gnus_node.flow.case import Case
from gnus_node.flow.ending import Ending
from gnus_node.flow.journal import JournalRow, Phase, record_rows
from gnus_node.flow.present import present
from gnus_node.flow.preview import preview_plan
from gnus_node.flow.queue import FairQueue
from gnus_node.flow.table import OWNER, Event, State, advance, deadline_ms
from gnus_node.net import rpc
from gnus_node.net.context import RoleContext
from gnus_node.net.directory import Peer
from gnus_node.ports.submit import Answered, Ask, Caller, Status, StatusSink
from gnus_node.records.authority import Policy
from gnus_node.records.enums import EffectClass, EffectState, Outcome, RoleName
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
_HAPPENED = frozenset({EffectState.EXECUTING, EffectState.DONE, EffectState.INDETERMINATE})


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
        self._payloads = payloads
        self._archive = archive
        self._policies = tuple(policies)
        self._after = aftermath
        self._ending = Ending(context, payloads, aftermath)
        self._limits = limits
        self._secret = idempotency_secret
        self._queue = FairQueue(limits.running, limits.waiting)
        self._running: dict[str, trio.Event] = {}

    # -- asking ---------------------------------------------------------------------------------------------------------------

    async def ask(self, caller: Caller, ask: Ask, *, on_status: StatusSink | None = None) -> Answered:
        """Accept durably, carry to a terminal state, return it (``ports.Submit.ask``)."""
        accept.check_size(ask, self._limits)
        repeated = await self._repeat(caller, ask)
        if repeated is not None:
            return await self._join(caller, repeated)
        started = self._node.clock.monotonic()
        async with self._queue.turn(caller.tenant):
            self._node.metrics.gauge("requests_in_flight", len(self._running) + 1)
            accepted = await self._accept(caller, ask, started)
            case = Case(accepted, self._bag(accepted), on_status)
            return await self._carry(case, State.OWN_RUN)

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

    async def _accept(self, caller: Caller, ask: Ask, started: float) -> Accepted:
        """Policies, mandate, and one durable commit; nothing else has happened before it."""
        node = self._node
        now = node.clock.wall_ms()
        policies = accept.applicable(self._policies, caller, now)
        ceilings = accept.merged(policies, ask)
        router = self._router(caller.tenant, 1)
        settlement, intermediary = self._pinned(caller.tenant)
        request_id = node.entropy.uuid()
        vault = node.vaults.make(request_id, node.entropy.token(32))
        query = vault.commit(ask.question)
        extra = vault.commit(ask.context) if ask.context else None
        idem = accept.idempotency_key(caller, ask.idempotency_key) if ask.idempotency_key is not None else None
        row = JournalRow(
            request_id,
            Phase.ACCEPTED,
            1,
            caller.tenant,
            caller.project,
            caller.principal,
            caller.key_mode,
            now,
            ceilings.max_wall_ms,
            bytes(32),
        )
        mandate = accept.make_mandate(self._context, row, query, extra, policies, ceilings, router, settlement, intermediary, idem)
        row = row.at(Phase.ACCEPTED, mandate=mandate.id)
        writes = await self._payloads.writes_for_request_key(request_id, accept.subject_of(row.tenant, row.principal), vault.request_key)
        writes += self._payloads.writes_for_parcels(request_id, vault.all_parcels())
        writes += [accept.journal_write(row), *record_rows([mandate, *policies])]
        if idem is not None:
            writes.append(accept.idempotency_row(idem, request_id, accept.question_digest(self._secret, ask)))
        node.probe.point("acceptance.commit", request_id=request_id)
        before = node.clock.monotonic()
        await node.store.commit(writes)
        waited = node.clock.monotonic() - before
        node.metrics.observe("commit_wait_ms", waited * 1000)
        node.probe.point("acceptance.committed", request_id=request_id)
        return Accepted(row, mandate, policies, vault, started + ceilings.max_wall_ms / 1000, started, waited)

    def _router(self, tenant: str, generation: int) -> Peer:
        hosts = self._node.directory.hosts(RoleName.ROUTER, tenant)
        if not hosts:
            raise GnusError("UNREACHABLE", "no router is reachable")
        return hosts[(generation - 1) % len(hosts)]

    def _pinned(self, tenant: str) -> tuple[bytes, str | None]:
        """The settlement key and the one intermediary of a request, chosen at acceptance for all its generations."""
        settlement = self._node.directory.hosts(RoleName.SETTLEMENT, tenant)
        if not settlement:
            raise GnusError("UNREACHABLE", "no settlement node is reachable")
        tools = self._node.directory.hosts(RoleName.TOOL_INTERMEDIARY, tenant)
        return settlement[0].role_key, tools[0].node_id if tools else None

    @staticmethod
    def _bag(accepted: Accepted) -> Bag:
        return Bag([accepted.mandate, *accepted.policies])

    def preview(self, caller: Caller, ask: Ask) -> ExecutionPlan:
        """The plan a question would get now, under a mandate that goes nowhere; nothing is stored or sent."""
        accept.check_size(ask, self._limits)
        return preview_plan(self._context, self._policies, caller, ask)

    # -- carrying -------------------------------------------------------------------------------------------------------------

    async def _carry(self, case: Case, state: State) -> Answered:
        """Run the OWNER table to a terminal state; a caller that leaves closes the request."""
        request_id = case.row.request_id
        ended = trio.Event()
        self._running[request_id] = ended
        try:
            try:
                await self._run_table(case, state)
            except trio.Cancelled:
                with trio.CancelScope(shield=True), trio.move_on_after(self._limits.close_ms / 1000):
                    await self._cancelled(case)
                raise
            return self._finish(case)
        finally:
            ended.set()
            del self._running[request_id]
            self._node.metrics.gauge("requests_in_flight", len(self._running))

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
                if state is State.OWN_CLOSE:
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
        )

        async def status(item: Message) -> None:
            await self._status(case, str(item.args.get("state", "")))

        try:
            answer = await rpc.request(
                self._node.transport, router.transport_key, "router.route", message, budget_ms=budget_ms, on_item=status
            )
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
        case.outcome = Outcome.PENDING_APPROVAL
        error = GnusError("APPROVAL_REQUIRED", f"{len(case.effects)} tool calls wait for a person")
        case.response = self._ending.respond(case, case.outcome, None, error)
        self._ending.store(case)
        return Event.PENDING

    async def _effects(self, case: Case, budget_ms: int) -> Event:
        """Start the next generation; where writes are possible at all, ask the pinned intermediary what has happened first."""
        await self._next_generation(case)
        mandate = case.accepted.mandate.body
        acting = [c for c in mandate.ceilings.capabilities if c.startswith("tool.") and not c.endswith(".readonly")]
        if not acting or mandate.intermediary_id is None:
            return Event.OK
        hosts = self._node.directory.hosts(RoleName.TOOL_INTERMEDIARY, case.row.tenant)
        peer = next((h for h in hosts if h.node_id == mandate.intermediary_id), None)
        if peer is None:
            raise GnusError("EFFECT_INDETERMINATE", "the pinned intermediary is not reachable, so its effects are not known")
        message = Message(self._bag(case.accepted).raws(), {}, case.accepted.vault.box_for(peer.sealing_key))
        answer = await rpc.request(self._node.transport, peer.transport_key, "tools.effects", message, budget_ms=budget_ms)
        case.bag.add(self._node.opener.open(raw) for raw in answer.records)
        report = case.bag.one(EffectReport, "effects")
        happened = [e for e in report.body.effects if e.effect_class is not EffectClass.READ and e.state in _HAPPENED]
        if not happened:
            case.bag = self._bag(case.accepted)
            return Event.OK
        case.effects = report.body.effects
        case.error = GnusError("PARTIAL_EFFECTS", f"{len(happened)} effects happened before the request was interrupted")
        return Event.EFFECTS

    async def _next_generation(self, case: Case) -> None:
        """Generation + 1 under a new mandate; older records no longer count."""
        old = case.accepted
        generation = old.row.generation + 1
        router = self._router(old.row.tenant, generation)
        body = old.mandate.body
        row = old.row.at(Phase.ACCEPTED, generation)
        mandate = accept.make_mandate(
            self._context,
            row,
            body.query,
            body.context,
            old.policies,
            body.ceilings,
            router,
            body.settlement,
            body.intermediary_id,
            body.idempotency,
        )
        row = row.at(Phase.ACCEPTED, mandate=mandate.id)
        case.accepted = Accepted(row, mandate, old.policies, old.vault, old.deadline, old.started, old.commit_wait_s, old.recovered)
        case.bag = self._bag(case.accepted)
        self._node.store.write_behind([accept.journal_write(row), *record_rows([mandate])])

    # -- ending ---------------------------------------------------------------------------------------------------------------

    async def _verify(self, case: Case, _budget_ms: int) -> Event:
        """``verify_chain`` before release; then the signed response, stored behind the answer."""
        before = self._node.clock.monotonic()
        verify_chain(case.bag, self._node.trust.state, self._node.clock.wall_ms(), settled=False)
        case.stages["verification"] = (self._node.clock.monotonic() - before) * 1000
        self._node.metrics.observe("verification_ms", case.stages["verification"])
        results = case.bag.of(SynthesisResult)
        synthesis = next((r for r in reversed(results)), None)
        if synthesis is None:
            raise GnusError("CHAIN_BROKEN", "the router ended without a synthesis", link="synthesis")
        body = synthesis.body
        case.outcome = body.outcome
        case.response = self._ending.respond(case, body.outcome, synthesis, None)
        self._ending.store(case)
        return Event.OK

    async def _close(self, case: Case, _budget_ms: int) -> Event:
        """Sign a typed error. Records of a chain that does not hold are left out; what did hold stays."""
        error = case.error or GnusError("INTERNAL", "a request ended without a reason")
        outcome = Outcome.PARTIAL_EFFECTS if error.code == "PARTIAL_EFFECTS" else Outcome.FAILED
        if error.code == "CANCELLED":
            outcome = Outcome.CANCELLED
        try:
            verify_chain(case.bag, self._node.trust.state, self._node.clock.wall_ms(), settled=False)
        except GnusError:
            case.bag, case.effects = self._bag(case.accepted), ()
        case.outcome = outcome
        case.response = self._ending.respond(case, outcome, None, error)
        self._ending.store(case)
        return Event.CANCEL if outcome is Outcome.CANCELLED else Event.OK

    async def _cancelled(self, case: Case) -> None:
        """The caller left: close as cancelled unless the request has ended, or effects have happened."""
        if case.response is not None:
            return
        case.error = GnusError("CANCELLED", "the caller left")
        await self._close(case, self._limits.close_ms)
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
        """Take up every accepted request without a stored terminal as a new generation, and every unsettled one; how many were taken up."""
        taken = 0
        async for row, ended in self._archive.open_requests():
            if ended:
                self._after.enqueue(row.request_id)
            else:
                nursery.start_soon(self._resume, row)
                taken += 1
        return taken

    async def _resume(self, row: JournalRow) -> None:
        """One recovered request, on a fresh deadline of its own wall time."""
        try:
            mandate, policies = await self._archive.mandate(row)
            vault = await self._archive.vault(row.request_id, [mandate])
            now = self._node.clock.monotonic()
            accepted = Accepted(row, mandate, policies, vault, now + row.wall_ms / 1000, now, recovered=True)
            async with self._queue.turn(row.tenant):
                await self._carry(Case(accepted, self._bag(accepted)), State.OWN_EFFECTS)
        except GnusError as error:
            self._node.log.error("recovery.failed", request_id=row.request_id, code=error.code)
