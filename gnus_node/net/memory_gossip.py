"""Gossip between the nodes of one process: a real adapter of ``ports.Gossip`` over the ``MemoryBus``.

A message goes from its author to every node it reaches, with the bus's latency and faults, in one hop: nodes of one process are all
neighbours. Size, rate, checks and repeats are judged as over a network (``net.inbox``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from gnus_node.net.inbox import MAX_TOPICS, Inbox, check_size
from gnus_node.ports.host import Log
from gnus_node.ports.transport import GossipCheck, GossipHandler
from gnus_node.records.errors import GnusError

Spread = Callable[[bytes, str, bytes], None]
MAX_FLYING = 4096
"""Messages on their way to one node; beyond, they are lost."""


class MemoryGossip:
    """Implements ``ports.Gossip``; ``spread`` carries a message of this node to the others."""

    def __init__(self, key: bytes, spread: Spread, nursery: trio.Nursery, log: Log) -> None:
        self._key = key
        self._spread = spread
        self._nursery = nursery
        self._log = log
        self._inboxes: dict[str, Inbox] = {}
        self._flying = 0
        self._scopes: set[trio.CancelScope] = set()
        self._closed = False

    async def subscribe(self, topic: str, check: GossipCheck, handler: GossipHandler) -> None:
        """See the port."""
        await trio.lowlevel.checkpoint()
        if topic in self._inboxes or len(self._inboxes) >= MAX_TOPICS:
            raise GnusError("INTERNAL", "a topic is listened to once", link=topic)
        self._inboxes[topic] = inbox = Inbox(topic, check, handler, self._log)
        self._nursery.start_soon(self._until_closed, inbox.run)

    async def publish(self, topic: str, data: bytes) -> None:
        """See the port."""
        await trio.lowlevel.checkpoint()
        check_size(data)
        self._spread(self._key, topic, data)

    def arrive(self, author: bytes, topic: str, data: bytes, at: float) -> None:
        """A message of another node gets here at ``at``."""
        if topic in self._inboxes and self._flying < MAX_FLYING:
            self._flying += 1
            self._nursery.start_soon(self._until_closed, self._land, author, topic, data, at)

    def close(self) -> None:
        """The node is off: nothing more arrives or is handed on."""
        self._closed = True
        for scope in tuple(self._scopes):
            scope.cancel()

    async def _until_closed(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        if self._closed:
            return
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await work(*args)
            finally:
                self._scopes.discard(scope)

    async def _land(self, author: bytes, topic: str, data: bytes, at: float) -> None:
        try:
            await trio.sleep_until(at)
        finally:
            self._flying -= 1
        inbox = self._inboxes[topic]
        if inbox.judge(author, data):
            inbox.take(author, data)
