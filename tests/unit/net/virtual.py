"""Time that passes only on a MockClock: a handler that works for a while, a test that lets a frame travel."""

from __future__ import annotations

import trio
import trio.testing


async def passes(seconds: float) -> None:
    """Let virtual time pass. Refuses a real clock, so no test ever waits for the machine."""
    assert isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    await trio.sleep_until(trio.current_time() + seconds)
