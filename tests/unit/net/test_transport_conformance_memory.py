"""The in-memory transport against the suite that every transport passes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from gnus_node.net.memory_transport import MemoryBus
from tests.unit.net.transport_conformance import *  # noqa: F403
from tests.unit.net.transport_conformance import Two

A, B = b"a" * 32, b"b" * 32


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    bus = MemoryBus()
    async with bus.attach(A) as a, bus.attach(B) as b:

        async def drop_b() -> None:
            await trio.lowlevel.checkpoint()
            b.kill()

        yield Two(a, b, a.gossip, b.gossip, drop_b)
