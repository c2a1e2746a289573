"""The published tables, as a graph: no state without a way out in time, whatever happens."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.flow.coordinator import MAX_STEPS
from gnus_node.flow.steps import STEPS
from gnus_node.flow.table import COORDINATOR, OWNER, Event, Row, State, advance, deadline_ms, table_text
from gnus_node.records.errors import GnusError

Machine = Mapping[State, Row]
BOTH = pytest.mark.parametrize(("machine", "starts"), [(COORDINATOR, [State.REMEMBER]), (OWNER, [State.OWN_ACCEPT, State.OWN_EFFECTS])])
TURNS = {Event.PROPOSALS, Event.AGAIN}
"""Events whose number the plan bounds: ``max_turns`` mediations, and the one escalation."""


@BOTH
def test_every_state_that_is_not_terminal_has_time_and_knows_how_to_end(machine: Machine, starts: list[State]) -> None:
    for state, row in machine.items():
        assert row.terminal == (row.share == 0)
        if not row.terminal:
            assert 0 < row.share <= 100
            assert {Event.DEADLINE, Event.CANCEL, Event.FENCED, Event.FAILED} <= set(row.on), state
        assert set(row.on.values()) <= set(machine), "a move leads out of the table"


@BOTH
def test_following_the_clock_alone_ends(machine: Machine, starts: list[State]) -> None:
    for state in machine:
        steps = 0
        while not machine[state].terminal:
            state = advance(machine, state, Event.DEADLINE)
            steps += 1
            assert steps <= len(machine)


@BOTH
def test_every_state_is_reachable_and_every_state_can_end(machine: Machine, starts: list[State]) -> None:
    seen, todo = set(starts), list(starts)
    while todo:
        for following in machine[todo.pop()].on.values():
            if following not in seen:
                seen.add(following)
                todo.append(following)
    assert seen == set(machine)


def test_the_coordinator_has_a_step_for_exactly_the_states_that_work() -> None:
    assert set(STEPS) == {state for state, row in COORDINATOR.items() if not row.terminal}


@given(data=st.data(), turns=st.integers(0, 16))
def test_any_generation_within_the_plans_turns_ends_before_the_bound(data: st.DataObject, turns: int) -> None:
    state, escalated = State.REMEMBER, False
    for _ in range(MAX_STEPS):
        row = COORDINATOR[state]
        if row.terminal:
            return
        allowed = sorted(e for e in row.on if not (e is Event.PROPOSALS and turns == 0) and not (e is Event.AGAIN and escalated))
        event = data.draw(st.sampled_from(allowed))
        turns -= event is Event.PROPOSALS
        escalated |= event is Event.AGAIN
        state = advance(COORDINATOR, state, event)
    pytest.fail("a generation outlived its bound")


@given(data=st.data(), generations=st.integers(0, 8))
def test_any_request_within_its_generations_ends(data: st.DataObject, generations: int) -> None:
    state = data.draw(st.sampled_from([State.OWN_ACCEPT, State.OWN_EFFECTS]))
    again = {Event.LOST, Event.FENCED}
    for _ in range(4 * (generations + 2)):
        row = OWNER[state]
        if row.terminal:
            return
        restarts = state is State.OWN_RUN
        event = data.draw(st.sampled_from(sorted(e for e in row.on if not (restarts and e in again and generations == 0))))
        generations -= restarts and event in again
        state = advance(OWNER, state, event)
    pytest.fail("a request outlived its generations")


@BOTH
def test_an_event_that_the_table_does_not_know_is_a_fault(machine: Machine, starts: list[State]) -> None:
    for state, row in machine.items():
        for event in set(Event) - set(row.on):
            with pytest.raises(GnusError) as error:
                advance(machine, state, event)
            assert error.value.code == "INTERNAL"


@given(remaining=st.integers(0, 10**9), state=st.sampled_from(sorted(COORDINATOR)))
def test_a_steps_time_is_a_share_and_never_nothing(remaining: int, state: State) -> None:
    assert 1 <= deadline_ms(COORDINATOR, state, remaining) <= max(1, remaining)


@BOTH
def test_the_page_names_every_state(machine: Machine, starts: list[State]) -> None:
    text = table_text(machine)
    assert all(f"`{state}`" in text for state in machine)
