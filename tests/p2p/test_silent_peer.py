"""A peer that stops without a word (frozen, unplugged) is let go, and taken back when it moves again."""

from __future__ import annotations

import os
import signal

import pytest
import trio

from gnus_node.net.libp2p import transport
from gnus_node.records.errors import GnusError
from tests.p2p.test_hostile_peers import echoed, victim
from tests.p2p.world import opened, until


@pytest.mark.slow
async def test_a_frozen_peer_is_disconnected_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SILENT_S", 0.5)
    async with victim() as target, opened(bootstrap=(target.address,)) as net:
        await until(lambda: target.key in net.transport.peers())
        assert await echoed(net, target.key)
        os.kill(target.process.pid, signal.SIGSTOP)
        codes: set[str] = set()
        try:
            with trio.fail_after(20):
                while target.key in net.transport.peers():
                    try:
                        async with net.transport.call(target.key, "/gnus/echo/1", b"x", budget_ms=300) as answer:
                            await answer.receive()
                    except GnusError as error:
                        codes.add(error.code)
        finally:
            os.kill(target.process.pid, signal.SIGCONT)
        assert codes <= {"DEADLINE", "UNREACHABLE"}
        assert "DEADLINE" in codes
        await until(lambda: target.key in net.transport.peers())
        with trio.fail_after(20):
            while not await echoed(net, target.key):
                await trio.lowlevel.checkpoint()
