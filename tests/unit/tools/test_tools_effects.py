"""The effect table: what can happen to an effect, and that nothing else can."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.enums import EffectClass, EffectState
from gnus_node.records.errors import GnusError
from gnus_node.tools.effects import (
    EVENT_MEANINGS,
    TERMINAL,
    TRANSITIONS,
    EffectEvent,
    IllegalMove,
    advance,
    after_restart,
    blocks_dependents,
    durable_before,
    effects_table,
    event_for_failure,
    may_replan,
)

# The arrows of DESIGN.md section 6, written down a second time, by name.
ARROWS = """
proposed -> dry_run refused
dry_run -> dry_run awaiting_approval authorised refused
awaiting_approval -> authorised refused
authorised -> executing dry_run refused
executing -> done failed_definite indeterminate
done ->
failed_definite ->
indeterminate ->
refused ->
"""
GRAPH = {line.split(" ->")[0]: set(line.split("->")[1].split()) for line in ARROWS.strip().splitlines()}


def reachable(start: EffectState) -> set[EffectState]:
    found: set[EffectState] = set()
    open_states = [start]
    while open_states:
        state = open_states.pop()
        for (source, _), after in TRANSITIONS.items():
            if source is state and after not in found:
                found.add(after)
                open_states.append(after)
    return found


def test_the_table_is_the_published_graph() -> None:
    drawn: dict[str, set[str]] = {str(state): set() for state in EffectState}
    for (source, _), after in TRANSITIONS.items():
        drawn[str(source)].add(str(after))
    assert drawn == GRAPH


@pytest.mark.parametrize("state", list(EffectState))
def test_every_state_ends(state: EffectState) -> None:
    if state in TERMINAL:
        assert not reachable(state)
    else:
        assert any((source is state and after in TERMINAL) for (source, _), after in TRANSITIONS.items()), "no direct way to end"
        assert reachable(state) & TERMINAL


def test_an_effect_runs_from_authorised_only_and_never_again() -> None:
    assert {source for (source, _), after in TRANSITIONS.items() if after is EffectState.EXECUTING} == {EffectState.AUTHORISED}
    assert reachable(EffectState.EXECUTING) == {EffectState.DONE, EffectState.FAILED_DEFINITE, EffectState.INDETERMINATE}
    assert EffectState.INDETERMINATE in TERMINAL


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(list(EffectEvent)), max_size=60))
def test_no_sequence_of_events_starts_an_effect_twice(events: list[EffectEvent]) -> None:
    state, starts = EffectState.PROPOSED, 0
    for event in events:
        before = state
        try:
            state = advance(state, event)
        except IllegalMove:
            continue
        starts += event is EffectEvent.START
        if state is EffectState.EXECUTING:
            assert before is EffectState.AUTHORISED
    assert starts <= 1


@pytest.mark.parametrize(("state", "event"), [pair for pair in product(EffectState, EffectEvent) if pair not in TRANSITIONS])
def test_every_other_move_is_refused(state: EffectState, event: EffectEvent) -> None:
    with pytest.raises(IllegalMove) as refused:
        advance(state, event)
    assert isinstance(refused.value, GnusError)
    assert (refused.value.state, refused.value.event) == (state, event)


@pytest.mark.parametrize("state", list(EffectState))
@pytest.mark.parametrize("resumable", [True, False])
def test_a_restart_changes_executing_only(state: EffectState, resumable: bool) -> None:
    after = after_restart(state, resumable=resumable)
    if state is EffectState.EXECUTING and not resumable:
        assert after is EffectState.INDETERMINATE
    else:
        assert after is state


def test_durable_points() -> None:
    waits = {(str(state), str(effect)) for state, effect in product(EffectState, EffectClass) if durable_before(state, effect)}
    assert waits == set(product(("executing", "done", "failed_definite", "indeterminate"), ("write", "egress")))


def test_dependents_wait_for_a_known_outcome() -> None:
    assert {str(s) for s in EffectState if not blocks_dependents(s)} == {"done", "failed_definite", "refused"}


@pytest.mark.parametrize(("state", "effect"), list(product(EffectState, EffectClass)))
def test_nobody_replans_over_something_that_may_have_happened(state: EffectState, effect: EffectClass) -> None:
    happened = effect is not EffectClass.READ and str(state) in {"executing", "done", "indeterminate"}
    assert may_replan([(state, effect)]) is not happened
    assert may_replan([(EffectState.REFUSED, EffectClass.WRITE), (state, effect)]) is not happened
    assert may_replan([])


def test_failures_map_by_definiteness() -> None:
    assert advance(EffectState.EXECUTING, event_for_failure(definite=True)) is EffectState.FAILED_DEFINITE
    assert advance(EffectState.EXECUTING, event_for_failure(definite=False)) is EffectState.INDETERMINATE


def test_the_rendered_table_shows_every_move_and_state() -> None:
    text = effects_table()
    for (state, event), after in TRANSITIONS.items():
        assert f"| `{state}` | `{event}` | `{after}` |" in text
    assert all(f"| `{state}` | " in text for state in EffectState)
    assert set(EVENT_MEANINGS) == set(EffectEvent)
