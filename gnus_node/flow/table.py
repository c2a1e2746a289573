"""The request state machines as published pure tables (DESIGN.md section 3). Everything that can happen to a request stands here.

Two machines: the *owner* at the ingress holds a request from acceptance to its terminal answer, across generations; the *coordinator*
at the router carries one generation through its stages. Shells run a step for the present state under the state's deadline and feed the
outcome back as an event; they decide nothing else about order.

Invariants, property-tested: every state that is not terminal has a deadline and knows DEADLINE and CANCEL; following DEADLINE alone ends
in a terminal state; every state is reachable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gnus_node.records.errors import GnusError


class Event(StrEnum):
    """What a step reports."""

    OK = "ok"
    SKIP = "skip"
    EMPTY = "empty"
    PROPOSALS = "proposals"
    AGAIN = "again"
    PENDING = "pending"
    LOST = "lost"
    ABSTAINED = "abstained"
    EFFECTS = "effects"
    FAILED = "failed"
    DEADLINE = "deadline"
    CANCEL = "cancel"
    FENCED = "fenced"


class State(StrEnum):
    """States of both machines; the owner's begin with ``own_``."""

    REMEMBER = "remember"
    PLAN = "plan"
    GROUND = "ground"
    DRAFT = "draft"
    ESCALATE = "escalate"
    ADJUDICATE = "adjudicate"
    TOOL = "tool"
    SYNTHESIZE = "synthesize"
    DONE = "done"
    PARKED = "parked"
    FAILED = "failed"
    CANCELLED = "cancelled"
    FENCED = "fenced"
    OWN_ACCEPT = "own_accept"
    OWN_EFFECTS = "own_effects"
    OWN_RUN = "own_run"
    OWN_VERIFY = "own_verify"
    OWN_CLOSE = "own_close"
    OWN_ANSWERED = "own_answered"
    OWN_PARKED = "own_parked"


@dataclass(frozen=True, slots=True)
class Row:
    """One state: its share of the remaining time in percent (0 for terminal states), and where each event leads."""

    share: int
    on: Mapping[Event, State]
    why: str

    @property
    def terminal(self) -> bool:
        """Whether nothing follows."""
        return not self.on


def _row(share: int, why: str, **on: State) -> Row:
    events = {Event(name.lower()): state for name, state in on.items()}
    events.setdefault(Event.CANCEL, State.CANCELLED)
    events.setdefault(Event.FENCED, State.FENCED)
    return Row(share, events, why)


def _end(why: str) -> Row:
    return Row(0, {}, why)


S = State

COORDINATOR: Mapping[State, Row] = {
    S.REMEMBER: _row(10, "governed context from memory; a plan can do without", OK=S.PLAN, FAILED=S.PLAN, DEADLINE=S.PLAN),
    S.PLAN: _row(10, "classify, choose, sign", OK=S.GROUND, SKIP=S.DRAFT, FAILED=S.FAILED, DEADLINE=S.FAILED),
    S.GROUND: _row(30, "evidence for the drafts; experts abstain without", OK=S.DRAFT, FAILED=S.DRAFT, DEADLINE=S.DRAFT),
    S.DRAFT: _row(60, "experts draft in parallel", OK=S.ADJUDICATE, EMPTY=S.ESCALATE, FAILED=S.ESCALATE, DEADLINE=S.ESCALATE),
    S.ESCALATE: _row(60, "fallback experts step in, once", OK=S.ADJUDICATE, EMPTY=S.SYNTHESIZE, FAILED=S.SYNTHESIZE, DEADLINE=S.SYNTHESIZE),
    S.ADJUDICATE: _row(
        10, "merge proposals, select the draft", PROPOSALS=S.TOOL, OK=S.SYNTHESIZE, FAILED=S.SYNTHESIZE, DEADLINE=S.SYNTHESIZE
    ),
    S.TOOL: _row(60, "mediation; a refusal is an outcome too", OK=S.DRAFT, PENDING=S.PARKED, FAILED=S.DRAFT, DEADLINE=S.SYNTHESIZE),
    S.SYNTHESIZE: _row(70, "verify and compose", OK=S.DONE, AGAIN=S.ESCALATE, FAILED=S.FAILED, DEADLINE=S.FAILED),
    S.DONE: _end("the signed synthesis is at hand"),
    S.PARKED: _end("waits for a person; resuming is a new generation"),
    S.FAILED: _end("a typed error"),
    S.CANCELLED: _end("the caller left; drafts and reads stopped"),
    S.FENCED: _end("a newer generation goes on"),
}
"""One generation at the router, from REMEMBER."""

OWNER: Mapping[State, Row] = {
    S.OWN_ACCEPT: _row(20, "durable before anything else happens", OK=S.OWN_RUN, FAILED=S.FAILED, DEADLINE=S.FAILED, FENCED=S.FAILED),
    S.OWN_EFFECTS: _row(
        50,
        "a successor asks the pinned intermediary first, and waits for it and for a router",
        OK=S.OWN_RUN,
        EFFECTS=S.OWN_CLOSE,
        FAILED=S.OWN_CLOSE,
        DEADLINE=S.OWN_CLOSE,
        FENCED=S.OWN_CLOSE,
    ),
    S.OWN_RUN: _row(
        90,
        "a router carries one generation",
        OK=S.OWN_VERIFY,
        PENDING=S.OWN_PARKED,
        LOST=S.OWN_EFFECTS,
        FENCED=S.OWN_EFFECTS,
        FAILED=S.OWN_CLOSE,
        DEADLINE=S.OWN_CLOSE,
        CANCEL=S.OWN_CLOSE,
    ),
    S.OWN_VERIFY: _row(
        100,
        "verify_chain before release",
        OK=S.OWN_ANSWERED,
        FAILED=S.OWN_CLOSE,
        DEADLINE=S.OWN_CLOSE,
        CANCEL=S.OWN_CLOSE,
        FENCED=S.OWN_CLOSE,
    ),
    S.OWN_CLOSE: _row(
        100, "sign a typed error, listing effects", OK=S.FAILED, FAILED=S.FAILED, DEADLINE=S.FAILED, CANCEL=S.CANCELLED, FENCED=S.FAILED
    ),
    S.OWN_ANSWERED: _end("answer or abstention, signed"),
    S.OWN_PARKED: _end("waits for a person"),
    S.FAILED: _end("a typed error, signed where the request was accepted"),
    S.CANCELLED: _end("the caller left"),
}
"""A request at its ingress, from OWN_ACCEPT; a restart enters at OWN_EFFECTS with generation + 1."""


def advance(machine: Mapping[State, Row], state: State, event: Event) -> State:
    """The next state. An event the table does not know is a fault of this program: ``INTERNAL``."""
    following = machine[state].on.get(event)
    if following is None:
        raise GnusError("INTERNAL", f"state {state} does not know event {event}")
    return following


def deadline_ms(machine: Mapping[State, Row], state: State, remaining_ms: int) -> int:
    """Time for a step: the state's share of what remains, never less than a millisecond."""
    return max(1, remaining_ms * machine[state].share // 100)


def table_text(machine: Mapping[State, Row]) -> str:
    """The table as Markdown, for docs/protocol/flow.md."""
    lines = ["| state | share | what | events |", "|---|---|---|---|"]
    for state, row in machine.items():
        events = ", ".join(f"{e} -> {s}" for e, s in row.on.items()) or "terminal"
        lines.append(f"| `{state}` | {row.share or '-'} % | {row.why} | {events} |")
    return "\n".join(lines)
