"""Asking one place after another for work that may be done twice: retrieval, drafts, verification (DESIGN.md section 3).

Effects never come this way: their intermediary is pinned. A place that fails is followed by the next, as long as the node's retry budget and the
step's time allow; one that is busy is asked again a little later. Time is kept for whoever comes after.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import trio

from gnus_node.flow.run import Run
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError

NO_BYPASS = frozenset({"PLAN_EXCEEDS_MANDATE", "MANDATE_EXCEEDS_POLICY", "CHAIN_BROKEN", "LEASE_EXPIRED", "FENCED"})
"""Refusals that speak against this router: the generation ends at once instead of going on elsewhere or without."""
FIRST_SHARE = 60
"""Percent of the time left that a place gets while another stands behind it."""
BUSY_PAUSE_S = 0.025
"""Before busy places are asked again; doubled each time."""
MIN_LEFT_MS = 1
NOT_THERE = frozenset({"UNREACHABLE", "BUSY"})
THERE_PAUSE_S = 0.1
MAX_PAUSE_S = 1.0
"""Before the only place is asked again."""

P = TypeVar("P")


async def first_answer(
    run: Run, step: str, places: Sequence[P], budget_ms: int, ask: Callable[[P, int], Awaitable[list[Signed[Any]]]]
) -> list[Signed[Any]]:
    """What the first place that answers gives. Raises the last failure, ``DEADLINE``, ``UNREACHABLE`` where there is no place, and at once
    what is in ``NO_BYPASS``."""
    end = trio.current_time() + max(MIN_LEFT_MS, budget_ms) / 1000
    failure = GnusError("UNREACHABLE", "nobody is assigned", link=step)
    waiting, pause, asked = list(places), BUSY_PAUSE_S, False
    while waiting:
        busy: list[P] = []
        for number, place in enumerate(waiting, 1):
            left_ms = int((end - trio.current_time()) * 1000)
            if asked and (left_ms < MIN_LEFT_MS or not run.context.node.directory.health.may_retry()):
                raise failure
            share_ms = max(MIN_LEFT_MS, left_ms if number == len(waiting) else left_ms * FIRST_SHARE // 100)
            asked = True
            try:
                with trio.fail_after(share_ms / 1000):
                    return await ask(place, share_ms)
            except trio.TooSlowError:
                failure = GnusError("DEADLINE", "no answer in the time allowed", link=step)
            except GnusError as error:
                if error.code in NO_BYPASS:
                    raise
                failure = error
                if error.code == "BUSY":
                    busy.append(place)
            note(run, step, failure)
        waiting = busy
        if waiting:
            await trio.sleep(min(pause, max(0.0, end - trio.current_time())))
            pause *= 2
    raise failure


async def until_there(run: Run, step: str, budget_ms: int, ask: Callable[[int], Awaitable[list[Signed[Any]]]]) -> list[Signed[Any]]:
    """What the one place there is gives, asked again while it is not there, for half of the time at most. Raises what it raises."""
    now = trio.current_time()
    end, patience, pause = now + budget_ms / 1000, now + budget_ms / 2000, THERE_PAUSE_S
    while True:
        try:
            return await ask(max(MIN_LEFT_MS, int((end - trio.current_time()) * 1000)))
        except GnusError as error:
            if error.code not in NOT_THERE or trio.current_time() + pause > patience:
                raise
            note(run, step, error)
        await trio.sleep(pause)
        pause = min(MAX_PAUSE_S, pause * 2)


def note(run: Run, step: str, error: GnusError) -> None:
    """A peer failed, and the run goes on."""
    run.context.node.metrics.count("errors", code=error.code)
    run.context.node.log.warning("step.failed", request_id=run.mandate.body.request_id, step=step, code=error.code, link=error.link)
