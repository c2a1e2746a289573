"""The libp2p transport against the suite that every transport passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

from tests.p2p.world import connected, enter, opened
from tests.unit.net.transport_conformance import *  # noqa: F403
from tests.unit.net.transport_conformance import Two


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    async with trio.open_nursery() as nursery:
        a = await enter(nursery, opened)
        b = await enter(nursery, partial(opened, bootstrap=a.net.addresses))
        await connected(a.net, b.net)
        yield Two(a.net.transport, b.net.transport, a.net.gossip, b.net.gossip, b.leave)
        nursery.cancel_scope.cancel()
