"""Calls between nodes: one request frame, then ``item* then end | error`` (DESIGN.md section 5).

The budget is what remains of the request's time; each hop gets less. Cancelling a call reaches the other side. A handler that fails
costs its own call only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Answer(Protocol):
    """The caller's side of a call under way."""

    async def receive(self) -> bytes | None:
        """The next item, or None at the end. Raises the peer's ``GnusError``, or ``DEADLINE``, ``UNREACHABLE``, ``PROTOCOL``."""


class IncomingCall(Protocol):
    """The handler's side of a call."""

    @property
    def peer(self) -> bytes:
        """Transport key of the calling node, as the transport proved it."""

    @property
    def frame(self) -> bytes:
        """The request frame."""

    @property
    def budget_ms(self) -> int:
        """Time left for this call; the transport cancels the handler when it is over."""

    async def send(self, item: bytes) -> None:
        """Send one item."""


ServiceHandler = Callable[[IncomingCall], Awaitable[None]]
"""Answers one call; returning ends it, a ``GnusError`` becomes its error, any other exception ``INTERNAL``."""


class Transport(Protocol):
    """A node's place on the network."""

    @property
    def local_key(self) -> bytes:
        """This node's transport key."""

    def serve(self, service: str, handler: ServiceHandler, *, limit: int) -> None:
        """Answer ``/gnus/<service>/<version>``; beyond ``limit`` calls at a time the answer is ``BUSY``."""

    def call(self, peer: bytes, service: str, frame: bytes, *, budget_ms: int) -> AbstractAsyncContextManager[Answer]:
        """Call a peer by transport key. Leaving the block cancels what still runs."""

    def peers(self) -> tuple[bytes, ...]:
        """Transport keys reachable now, this node's own included."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Have ``changed`` called, at once and without waiting, whenever ``peers()`` may be another than before."""


GossipCheck = Callable[[bytes, bytes], bool]
"""``(author's transport key, data) -> keep``: whether a message is taken and passed on. Quick, pure, and it does not raise."""

GossipHandler = Callable[[bytes, bytes], Awaitable[None]]
"""``(author's transport key, data)``: takes one message; one at a time for each topic."""


class Gossip(Protocol):
    """Small public messages to everybody who listens. Delivery is likely, not certain, and at most once for one content."""

    async def subscribe(self, topic: str, check: GossipCheck, handler: GossipHandler) -> None:
        """Listen to a topic, once. Raises ``INTERNAL`` for a second time."""

    async def publish(self, topic: str, data: bytes) -> None:
        """Tell the others; not this node itself. Raises ``TOO_LARGE``."""
