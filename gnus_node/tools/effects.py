"""The states of one tool effect, as a published pure table (DESIGN.md section 6; 18.1.3.8.12, 18.1.6.1.1).

Why a table: at-most-once is a property of the whole graph, so the whole graph is data, tested as data and printed into the docs.

Invariants:

* An effect runs only in ``executing``, which is entered from ``authorised`` alone, and never a second time: no move leads back to it.
* ``indeterminate`` is terminal: it is never run again, it is shown, and it blocks what depends on it.
* Every state that is not terminal can be closed without running anything, and every path can end.
* A restart changes exactly one state: ``executing``, whose owner is gone, becomes ``indeterminate`` unless the adapter can tell
  (an idempotency key, or a status query). States before it have had no effect; states after it are settled.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from gnus_node.records.enums import EffectClass, EffectState, WireEnum
from gnus_node.records.errors import GnusError


class EffectEvent(WireEnum):
    """What may happen to an effect."""

    DRY_RUN = "dry_run"
    APPROVAL_DUE = "approval_due"
    AUTHORISE = "authorise"
    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"
    REFUSE = "refuse"
    START = "start"
    SUCCEED = "succeed"
    FAIL = "fail"
    LOSE = "lose"


_S, _E = EffectState, EffectEvent

TRANSITIONS: MappingProxyType[tuple[EffectState, EffectEvent], EffectState] = MappingProxyType(
    {
        (_S.PROPOSED, _E.DRY_RUN): _S.DRY_RUN,
        (_S.PROPOSED, _E.REFUSE): _S.REFUSED,
        (_S.DRY_RUN, _E.DRY_RUN): _S.DRY_RUN,
        (_S.DRY_RUN, _E.APPROVAL_DUE): _S.AWAITING_APPROVAL,
        (_S.DRY_RUN, _E.AUTHORISE): _S.AUTHORISED,
        (_S.DRY_RUN, _E.REFUSE): _S.REFUSED,
        (_S.AWAITING_APPROVAL, _E.APPROVE): _S.AUTHORISED,
        (_S.AWAITING_APPROVAL, _E.DENY): _S.REFUSED,
        (_S.AWAITING_APPROVAL, _E.EXPIRE): _S.REFUSED,
        (_S.AWAITING_APPROVAL, _E.REFUSE): _S.REFUSED,
        (_S.AUTHORISED, _E.START): _S.EXECUTING,
        (_S.AUTHORISED, _E.DRY_RUN): _S.DRY_RUN,
        (_S.AUTHORISED, _E.EXPIRE): _S.REFUSED,
        (_S.AUTHORISED, _E.REFUSE): _S.REFUSED,
        (_S.EXECUTING, _E.SUCCEED): _S.DONE,
        (_S.EXECUTING, _E.FAIL): _S.FAILED_DEFINITE,
        (_S.EXECUTING, _E.LOSE): _S.INDETERMINATE,
    }
)
"""Every legal move; whatever is not here is refused."""

EVENT_MEANINGS: MappingProxyType[EffectEvent, str] = MappingProxyType(
    {
        _E.DRY_RUN: "the dry run starts, is tried again, or a new generation passes the door anew",
        _E.APPROVAL_DUE: "the checks pass, and a person must decide",
        _E.AUTHORISE: "the checks pass, and no person is needed",
        _E.APPROVE: "an approver allowed it",
        _E.DENY: "an approver denied it",
        _E.EXPIRE: "the approval or the lease ran out before it started",
        _E.REFUSE: "a check refused it, or the request ended first",
        _E.START: "the real run begins",
        _E.SUCCEED: "the adapter reports the outcome",
        _E.FAIL: "the adapter reports that nothing took effect",
        _E.LOSE: "nobody can tell whether it took effect",
    }
)

TERMINAL: frozenset[EffectState] = frozenset({_S.DONE, _S.FAILED_DEFINITE, _S.INDETERMINATE, _S.REFUSED})
"""States without a way out."""

MAY_HAVE_HAPPENED: frozenset[EffectState] = frozenset({_S.EXECUTING, _S.DONE, _S.INDETERMINATE})
"""States in which the world may have changed."""


class IllegalMove(GnusError):
    """A move the table does not have: the caller's fault, never the peer's. Nothing was changed."""

    def __init__(self, state: EffectState, event: EffectEvent) -> None:
        super().__init__("INTERNAL", f"an effect that is {state} cannot take the event {event}", fix="report it with the log")
        self.state = state
        self.event = event


def advance(state: EffectState, event: EffectEvent) -> EffectState:
    """The state after ``event``. Raises ``IllegalMove`` for every pair that is not in ``TRANSITIONS``."""
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise IllegalMove(state, event)
    return following


def after_restart(state: EffectState, *, resumable: bool) -> EffectState:
    """The state of an effect whose owner is gone.

    ``resumable``: the adapter honours an idempotency key, or can be asked for the status of one; then ``executing`` stays, and the next
    owner asks again with the same key. All other states are what they were: nothing had started, or everything was settled.
    """
    if state is _S.EXECUTING and not resumable:
        return _S.INDETERMINATE
    return state


def event_for_failure(*, definite: bool) -> EffectEvent:
    """How a failed run ends. ``definite`` in Maelstrom's sense (``CodeRow.definite``): it certainly took no effect."""
    return _E.FAIL if definite else _E.LOSE


def durable_before(state: EffectState, effect: EffectClass) -> bool:
    """Whether ``state`` must be on disk before anything else happens (DESIGN.md section 3).

    ``executing`` and every outcome of an effect that is not a read; nothing else waits for the disk.
    """
    return effect is not EffectClass.READ and state in {_S.EXECUTING, _S.DONE, _S.FAILED_DEFINITE, _S.INDETERMINATE}


def blocks_dependents(state: EffectState) -> bool:
    """Whether a call that depends on this one must not go ahead: its outcome is not known yet, or never will be."""
    return state not in TERMINAL or state is _S.INDETERMINATE


def may_replan(effects: Iterable[tuple[EffectState, EffectClass]]) -> bool:
    """Whether a successor router may plan the request anew.

    False once any effect that is not a read may have happened: then it works with what is recorded, or closes ``PARTIAL_EFFECTS``.
    """
    return not any(effect is not EffectClass.READ and state in MAY_HAVE_HAPPENED for state, effect in effects)


def effects_table() -> str:
    """The table as Markdown, for the generated docs: the moves, then what each state means for its surroundings."""
    lines = ["| state | event | next state | when |", "|---|---|---|---|"]
    lines += [f"| `{state}` | `{event}` | `{after}` | {EVENT_MEANINGS[event]} |" for (state, event), after in TRANSITIONS.items()]
    lines += [
        "",
        "| state | terminal | on disk first (not for reads) | after a restart | blocks dependents | forbids re-planning (not reads) |",
    ]
    lines += ["|---|---|---|---|---|---|"]
    for state in EffectState:
        restart = after_restart(state, resumable=False)
        kept = after_restart(state, resumable=True)
        cells = [
            f"`{state}`",
            _yes(state in TERMINAL),
            _yes(durable_before(state, EffectClass.WRITE)),
            "unchanged" if restart is state else f"`{restart}`; `{kept}` with an idempotency key or a status query",
            _yes(blocks_dependents(state)),
            _yes(not may_replan([(state, EffectClass.WRITE)])),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
