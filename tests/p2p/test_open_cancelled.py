"""A node that is told to stop while it joins the network stops, at whatever moment that is."""

from __future__ import annotations

import pytest
import trio

from tests.p2p.world import opened


@pytest.mark.parametrize("turns", [0, 1, 3, 10, 30, 100])
async def test_joining_can_be_cancelled_at_any_turn(turns: int) -> None:
    with trio.fail_after(20), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            nursery.start_soon(cancel)
            async with opened():
                await trio.sleep_forever()
    assert scope.cancelled_caught
