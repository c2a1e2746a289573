"""One gossip topic as one node hears it: what is let in, once, at what rate, and handed on one after the other (DESIGN.md section 5).

Shared by every adapter of ``ports.Gossip``. The network's own limits are not relied on: a message counts when its size, its author's rate
and the subscriber's check allow it. A check or handler that fails costs its own message and nothing else.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import trio

from gnus_node.net.boundary import supervise
from gnus_node.ports.host import Log
from gnus_node.ports.transport import GossipCheck, GossipHandler
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.redact import fault_fields

MAX_GOSSIP_BYTES = 64 * 1024
"""Largest message; what is larger is fetched by a call."""
MAX_TOPICS = 16
MAX_WAITING = 1024
"""Messages of a topic taken and not handled yet; beyond, they are dropped and counted."""
MAX_REMEMBERED = 8192
"""Contents remembered for a topic, so that each is handed on once."""
MAX_AUTHORS = 1024
"""Authors whose rate is remembered; the one heard longest ago goes first."""
RATE_PER_S = 2.0
"""Messages an author may send on a topic in the long run."""
BURST = 64.0
"""Messages an author may send at once."""


def content_id(topic: str, data: bytes) -> bytes:
    """Id of a message: the same content is the same message, whoever sends it and however often."""
    name = topic.encode()
    return hashlib.sha256(b"gnus/gossip/1\0" + len(name).to_bytes(2, "big") + name + data).digest()


def check_size(data: bytes) -> None:
    """Raises ``TOO_LARGE``, ``INTERNAL`` (not bytes)."""
    if type(data) is not bytes:
        raise GnusError("INTERNAL", "a gossip message is a byte string")
    if len(data) > MAX_GOSSIP_BYTES:
        raise GnusError("TOO_LARGE", f"a gossip message of {len(data)} bytes, at most {MAX_GOSSIP_BYTES}")


class Rates:
    """A token bucket for each author: ``BURST`` at once, ``RATE_PER_S`` in the long run."""

    def __init__(self, rate_per_s: float = RATE_PER_S, burst: float = BURST) -> None:
        self._rate = rate_per_s
        self._burst = burst
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def take(self, author: bytes, now: float) -> bool:
        """Whether one more message of an author fits at monotonic ``now``."""
        left, at = self._left.pop(author, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._rate)
        allowed = left >= 1.0
        self._left[author] = (left - 1.0 if allowed else left, now)
        if len(self._left) > MAX_AUTHORS:
            self._left.popitem(last=False)
        return allowed


class Inbox:
    """A subscription: ``judge`` may run in the network's own task, ``run`` hands on."""

    def __init__(self, topic: str, check: GossipCheck, handler: GossipHandler, log: Log) -> None:
        self.topic = topic
        self.dropped = 0
        self._check = check
        self._handler = handler
        self._log = log
        self._rates = Rates()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._in, self._out = trio.open_memory_channel[tuple[bytes, bytes]](MAX_WAITING)

    def judge(self, author: bytes, data: bytes) -> bool:
        """Whether a message counts at all. Never raises: the network's service would die of it."""
        try:
            check_size(data)
            if content_id(self.topic, data) in self._seen:
                return True
            return self._rates.take(author, trio.current_time()) and self._check(author, data) is True
        except Exception as fault:  # noqa: BLE001  supervised boundary: the gossip service, from a check that fails on a peer's bytes
            self._log.error("gossip.check_fault", topic=self.topic, **fault_fields(fault))
            return False

    def take(self, author: bytes, data: bytes) -> None:
        """Queue a message that ``judge`` allowed, unless its content came before."""
        place = content_id(self.topic, data)
        if place in self._seen:
            return
        self._seen[place] = None
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)
        try:
            self._in.send_nowait((author, data))
        except trio.WouldBlock:
            self.dropped += 1
            # Forgotten, so that a repeat may be taken later.
            del self._seen[place]

    async def run(self) -> None:
        """Hand on, one at a time, until cancelled."""
        async for author, data in self._out:
            error = await supervise(lambda author=author, data=data: self._handler(author, data), self._log, self.topic)  # type: ignore[misc]
            if error is not None and error.code != "INTERNAL":
                self._log.info("gossip.refused", topic=self.topic, code=error.code)
