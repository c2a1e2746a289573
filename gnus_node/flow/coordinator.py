"""The coordinator: runs one generation of a request at the router, state by state, as ``flow.table`` says.

The router is soft state under a lease: it keeps nothing that the ingress could not start anew elsewhere. Everything it makes is signed, sent
back as it goes, and judged by others.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from gnus_node.evidence.authority import check_mandate
from gnus_node.evidence.bag import Bag
from gnus_node.flow.run import Run
from gnus_node.flow.steps import STEPS
from gnus_node.flow.table import COORDINATOR, Event, State, advance, deadline_ms
from gnus_node.net.context import RoleContext
from gnus_node.net.rpc import Request
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.spans import Span, StageTimer
from gnus_node.wire.message import Message

MAX_STEPS = 128
"""Most steps of one generation: turns are bounded by the plan, this bounds the table itself."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a generation ended: the terminal state, and the error that led there."""

    state: State
    error: GnusError | None


async def route(context: RoleContext, request: Request) -> Message:
    """Service ``router.route``: take a mandate from its ingress and run it to a terminal state.

    Each state is reported on the way where the argument ``watched`` asks for it. The answer carries every record made and every text; its
    ``args`` say the terminal state and, if it failed, the error.
    """
    run = open_run(context, request)
    ended = await carry(run, request if request.message.args.get("watched") is True else None)
    spent = run.timer.durations(context.node.clock.monotonic())
    args: dict[str, object] = {
        "state": str(ended.state),
        "stages": {str(span): round(ms * 1000) for span, ms in spent.stages.items() if span is not Span.COMPUTE},
        "inference_us": round(spent.inference_ms * 1000),
        "commits": run.commits,
    }
    if ended.error is not None:
        args["error"] = ended.error.to_plain()
    return Message(run.bag.raws(), run.vault.all_parcels(), b"", args)


def open_run(context: RoleContext, request: Request) -> Run:
    """Check the mandate and that this router is the one it names. Raises what ``evidence.check_mandate`` raises, ``WRONG_PEER``, ``FENCED``."""
    node = context.node
    trust = node.trust.state
    bag = Bag.read(request.message.records, node.opener.open)
    allowed = check_mandate(bag, trust, node.clock.wall_ms(), live=True)
    mandate = allowed.mandate.body
    if mandate.router != context.signer.key:
        raise GnusError("WRONG_PEER", "the mandate names another router", link="mandate")
    if trust.by_transport(request.peer) != mandate.ingress_node:
        raise GnusError("WRONG_PEER", "a mandate from another node than its ingress", link="mandate")
    if mandate.tenant not in trust.node(node.node_id).tenants:
        raise GnusError("FORBIDDEN", "this node is not granted the tenant", link="mandate")
    context.fence.check(mandate.request_id, mandate.generation, allowed.mandate.id)
    vault = node.vaults.receive(mandate.request_id, request.message.key_box)
    vault.add(request.message.parcels)
    lease_ms = min(mandate.not_after_ms - node.clock.wall_ms(), mandate.ceilings.max_wall_ms, request.budget_ms)
    now = node.clock.monotonic()
    return Run(context, allowed.mandate, allowed.policies, bag, vault, now + max(1, lease_ms) / 1000, timer=StageTimer(now))


async def carry(run: Run, request: Request | None) -> Ended:
    """Run the table from REMEMBER to a terminal state."""
    state = State.REMEMBER
    error: GnusError | None = None
    for _ in range(MAX_STEPS):
        if COORDINATOR[state].terminal:
            return Ended(state, error)
        facts: dict[str, str | int] = {
            "request_id": run.mandate.body.request_id,
            "generation": run.mandate.body.generation,
            "turn": run.turn,
        }
        run.context.node.probe.point(f"router.{state}", **facts)
        if request is not None:
            await request.progress(Message(args={"state": str(state), "turn": run.turn}))
        event, failure = await _step(run, state)
        error = failure or error
        state = advance(COORDINATOR, state, event)
        if state not in (State.FAILED, State.FENCED, State.CANCELLED) and event is not Event.DEADLINE:
            error = None if failure is None else error
    return Ended(State.FAILED, GnusError("INTERNAL", "a generation took too many steps"))


async def _step(run: Run, state: State) -> tuple[Event, GnusError | None]:
    """One state's work under its deadline; its failure becomes an event."""
    budget = deadline_ms(COORDINATOR, state, run.remaining_ms())
    error = GnusError("INTERNAL")
    try:
        with trio.fail_after(budget / 1000):
            try:
                return await STEPS[state](run, budget), None
            except* GnusError as group:
                error = _first(group)
    except trio.TooSlowError:
        return Event.DEADLINE, GnusError("DEADLINE", f"no time left in {state}", link=str(state))
    if error.code in ("FENCED", "LEASE_EXPIRED"):
        return Event.FENCED, error
    return Event.FAILED, error


def _first(group: BaseExceptionGroup[GnusError]) -> GnusError:
    """The first error of a group, however deep."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
