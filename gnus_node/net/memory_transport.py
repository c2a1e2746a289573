"""The in-memory transport: a real adapter of ``ports.Transport`` that carries bytes between nodes of one process (DESIGN.md section 5).

It is how a single node's roles reach each other, and how a simulated swarm runs in virtual time: same frames, same limits, same errors as
over a network, nothing but ``bytes`` crosses. It keeps no clock of its own (trio's) and draws no chance; latency and faults are functions
the caller gives, so one seed is one run.

Invariants: a frame over ``MAX_FRAME_BYTES`` is refused before it is carried; a handler never outlives its budget by more than it shields;
every hop takes at least ``HOP_MS`` from the budget, so no cycle of calls is endless; a call ends exactly once: end, error, ``DEADLINE`` or
``UNREACHABLE``; a failing handler costs its own call.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum

import trio

from gnus_node.net.boundary import supervise
from gnus_node.net.memory_gossip import MemoryGossip
from gnus_node.net.serving import ServiceTable
from gnus_node.ports.host import Log
from gnus_node.ports.transport import Answer, ServiceHandler
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.log import NullLog
from gnus_node.wire import cbor
from gnus_node.wire.limits import MAX_FRAME_BYTES

HOP_MS = 1
"""What a hop takes from the budget at least."""
MAX_BUDGET_MS = 60 * 60 * 1000
"""A longer budget is cut to this."""
ITEM_BUFFER = 8
"""Items on their way in one call; a handler that is ahead waits."""
MAX_INCOMING = 1024
"""Calls of one node under way to it, all services together; beyond, ``BUSY``."""


def _never(_source: bytes, _target: bytes) -> bool:
    return False


def _lose_nothing(_source: bytes, _target: bytes, _number: int) -> bool:
    return False


def _no_latency(_source: bytes, _target: bytes, _size: int) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong between two nodes; both functions must be pure, so that a run repeats.

    ``cut(source, target)``: the link is down in that direction. A new call over it fails ``UNREACHABLE``, one under way as soon as a frame
    would cross.
    ``lose(source, target, number)``: this frame is swallowed, and with it, as in any ordered stream, all later ones of its direction in
    that call: the caller hears nothing until its ``DEADLINE``. ``number`` counts the frames of this direction of the link, from 1,
    so that what other pairs do meanwhile changes nothing.
    """

    cut: Callable[[bytes, bytes], bool] = _never
    lose: Callable[[bytes, bytes, int], bool] = _lose_nothing


class _Fate(Enum):
    ARRIVES = 1
    LOST = 2
    CUT = 3


class _Call:
    """One call, shared by both ends. ``terminal`` is (arrival time, encoded error or empty)."""

    def __init__(
        self, bus: MemoryBus, source: MemoryTransport, target: MemoryTransport, service: str, frame: bytes, budget_ms: int
    ) -> None:
        now = trio.current_time()
        self.bus, self.source, self.target, self.service, self.frame = bus, source, target, service, frame
        self.deadline = now + budget_ms / 1000
        self.handler_deadline = now + (budget_ms - HOP_MS) / 1000
        self.arrives_at = now
        self.sender, self.receiver = trio.open_memory_channel[tuple[float, bytes]](ITEM_BUFFER)
        self.scope = trio.CancelScope()
        self.terminal: tuple[float, bytes] | None = None
        self.silent = False
        self.aborted = False

    def back(self, size: int) -> float | None:
        """Send a frame back: its arrival time, or None where it does not arrive. The channel keeps the order, whatever the latencies."""
        if self.silent or self.aborted:
            return None
        fate = self.bus.fate(self.target.local_key, self.source.local_key)
        if fate is _Fate.CUT:
            self.abort()
            return None
        if fate is _Fate.LOST:
            self.silent = True
            return None
        return trio.current_time() + self.bus.delay_s(self.target.local_key, self.source.local_key, size)

    def finish(self, error: GnusError | None) -> None:
        """The handler is done: the last frame goes back."""
        last = cbor.encode(error.to_plain()) if error else b""
        arrival = self.back(len(last))
        if arrival is not None:
            self.terminal = (arrival, last)

    def abort(self) -> None:
        """The connection is gone: the caller sees ``UNREACHABLE`` at once, the handler is cancelled."""
        self.aborted = True
        self.sender.close()
        self.scope.cancel()

    def leave(self) -> None:
        """The caller has left: the word of it travels like any frame."""
        self.receiver.close()
        if self.terminal is None and self.bus.fate(self.source.local_key, self.target.local_key) is _Fate.ARRIVES:
            arrival = trio.current_time() + self.bus.delay_s(self.source.local_key, self.target.local_key, 0)
            self.handler_deadline = self.scope.deadline = min(self.handler_deadline, arrival)


class _Incoming:
    """Implements ``IncomingCall``."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    @property
    def peer(self) -> bytes:
        """Transport key of the caller."""
        return self._call.source.local_key

    @property
    def frame(self) -> bytes:
        """The request frame."""
        return self._call.frame

    @property
    def budget_ms(self) -> int:
        """What is left now, never negative."""
        return max(0, math.floor((self._call.handler_deadline - trio.current_time()) * 1000 + 1e-6))

    async def send(self, item: bytes) -> None:
        """Send one item; waits while ``ITEM_BUFFER`` are on their way. Raises ``TOO_LARGE``, ``CANCELLED`` (the caller has left)."""
        check_frame(item)
        arrival = self._call.back(len(item))
        if arrival is None:
            await trio.lowlevel.checkpoint()
            if self._call.aborted:
                raise GnusError("UNREACHABLE", "the caller's node is gone")
            return
        try:
            try:
                # Without yielding where there is room: a handler that ends with its answer then ends in the same step.
                self._call.sender.send_nowait((arrival, item))
            except trio.WouldBlock:
                await self._call.sender.send((arrival, item))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise GnusError("CANCELLED", "the caller has left the call") from None


async def _until(arrival: float) -> None:
    """Wait for a frame that is on its way; nothing at all for one that is there, which is every frame of a bus without latency."""
    if arrival > trio.current_time():
        await trio.sleep_until(arrival)


class _Answer:
    """Implements ``Answer``."""

    def __init__(self, call: _Call) -> None:
        self._call = call
        self._next: tuple[float, bytes] | None = None
        self._ended = False
        self._error: GnusError | None = None

    async def receive(self) -> bytes | None:
        """As the port says. After the end it is None again, after an error the error."""
        if self._error:
            raise self._error
        if self._ended:
            await trio.lowlevel.checkpoint()
            return None
        try:
            if self._arrived():
                return await self._wait()
            with trio.move_on_at(self._call.deadline):
                return await self._wait()
        except GnusError as error:
            self._error = error
            raise
        self._error = GnusError("DEADLINE", "the peer did not answer in the time allowed", link=self._call.service)
        raise self._error

    def _arrived(self) -> bool:
        """Whether the next item, the end or a break is there, in time: then nothing is waited for."""
        call, now = self._call, trio.current_time()
        if now >= call.deadline:
            return False
        if self._next is None:
            try:
                self._next = call.receiver.receive_nowait()
            except trio.WouldBlock:
                return False
            except (trio.EndOfChannel, trio.ClosedResourceError):
                return call.aborted or (not call.silent and call.terminal is not None and call.terminal[0] <= now)
        return self._next[0] <= now

    async def _wait(self) -> bytes | None:
        call = self._call
        try:
            if self._next is None:
                self._next = await call.receiver.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            if call.silent and not call.aborted:
                await trio.sleep_forever()
            if call.aborted or call.terminal is None:
                raise GnusError("UNREACHABLE", "the peer went away during the call", link=call.service) from None
            arrival, last = call.terminal
            await _until(arrival)
            if last:
                raise GnusError.from_plain(cbor.decode(last)) from None
            self._ended = True
            return None
        if call.aborted:
            raise GnusError("UNREACHABLE", "the connection broke during the call", link=call.service)
        await _until(self._next[0])
        item, self._next = self._next[1], None
        return item


class MemoryTransport:
    """Implements ``ports.Transport`` for one node of a ``MemoryBus``; made by ``MemoryBus.attach``."""

    def __init__(self, bus: MemoryBus, key: bytes, nursery: trio.Nursery, log: Log) -> None:
        self._bus = bus
        self._key = key
        self._nursery = nursery
        self._log = log
        self._context = contextvars.copy_context()
        self.services = ServiceTable()
        self.gossip = MemoryGossip(key, bus.spread, nursery, log)
        self._watchers: list[Callable[[], None]] = []
        self._incoming: dict[_Call, None] = {}
        self._outgoing: dict[_Call, None] = {}

    @property
    def local_key(self) -> bytes:
        """This node's transport key."""
        return self._key

    def serve(self, service: str, handler: ServiceHandler, *, limit: int) -> None:
        """Answer a protocol id. Raises ``INTERNAL`` where it is served already, or the limit is no limit."""
        self.services.add(service, handler, limit)

    @asynccontextmanager
    async def call(self, peer: bytes, service: str, frame: bytes, *, budget_ms: int) -> AsyncIterator[Answer]:
        """Call a peer, or this node itself: the path is the same. Entering raises ``TOO_LARGE``, ``DEADLINE``, ``UNREACHABLE``."""
        await trio.lowlevel.checkpoint_if_cancelled()
        check_frame(frame)
        if budget_ms <= 0:
            raise GnusError("DEADLINE", "no time is left for the call", link=service)
        target = self._bus.find(self, peer)
        call = _Call(self._bus, self, target, service, frame, min(budget_ms, MAX_BUDGET_MS))
        fate = self._bus.fate(self._key, peer)
        if fate is _Fate.CUT:
            raise GnusError("UNREACHABLE", "the peer cannot be reached", link=service)
        call.silent = fate is _Fate.LOST
        call.arrives_at += self._bus.delay_s(self._key, peer, len(frame))
        self._outgoing[call] = None
        try:
            if not call.silent:
                target._accept(call)
            yield _Answer(call)
        finally:
            self._outgoing.pop(call, None)
            call.leave()

    def peers(self) -> tuple[bytes, ...]:
        """Keys of the nodes attached and not cut off, sorted, this node's own included."""
        return self._bus.reachable(self)

    def watch(self, changed: Callable[[], None]) -> None:
        """As the port says; a link that is cut or mended by ``faults`` is not noticed before something else changes."""
        self._watchers.append(changed)

    def notice(self) -> None:
        """The bus has more or fewer nodes now."""
        for changed in self._watchers:
            changed()

    def detach(self) -> None:
        """Leave the bus: new calls from and to this node fail ``UNREACHABLE``; those under way go on."""
        self._bus.remove(self)

    def kill(self) -> None:
        """The power is cut: leaves the bus, and every call from or to this node fails ``UNREACHABLE`` at once, its handlers cancelled."""
        self._bus.remove(self)
        for call in (*self._incoming, *self._outgoing):
            call.abort()
        self.gossip.close()

    def _accept(self, call: _Call) -> None:
        """Start answering a call, in the context of this node and not of the caller's."""
        if len(self._incoming) >= MAX_INCOMING:
            call.finish(GnusError("BUSY", "the node has too many calls under way", link=call.service))
            call.sender.close()
            return
        self._incoming[call] = None
        self._context.copy().run(self._nursery.start_soon, self._answer, call)

    async def _answer(self, call: _Call) -> None:
        try:
            error = await supervise(lambda: self._handle(call), self._log, call.service)
            call.finish(error)
        finally:
            self._incoming.pop(call, None)
            call.sender.close()

    async def _handle(self, call: _Call) -> None:
        with call.scope:
            await _until(call.arrives_at)
            with self.services.slot(call.service) as handler:
                incoming = _Incoming(call)
                if incoming.budget_ms < 1:
                    raise GnusError("DEADLINE", "the call's time was over when it arrived", link=call.service)
                call.scope.deadline = call.handler_deadline
                await handler(incoming)
        if call.scope.cancelled_caught:
            raise GnusError("DEADLINE", "the handler ran out of the call's time", link=call.service)


class MemoryBus:
    """What the nodes of one process are attached to. ``latency_ms(source, target, size)`` delays each frame; ``faults`` may be replaced
    while calls run."""

    def __init__(self, *, latency_ms: Callable[[bytes, bytes, int], float] = _no_latency, faults: Faults = Faults()) -> None:
        self._latency_ms = latency_ms
        self.faults = faults
        self._nodes: dict[bytes, MemoryTransport] = {}
        self._frames: dict[tuple[bytes, bytes], int] = {}

    @asynccontextmanager
    async def attach(self, key: bytes, *, log: Log | None = None) -> AsyncIterator[MemoryTransport]:
        """A node's transport for the length of the block; leaving it is ``kill``. Raises ``ALREADY_RUNNING`` for a key in use.

        What the block raises comes out in an exception group, as from any nursery.
        """
        if key in self._nodes:
            raise GnusError("ALREADY_RUNNING", "a node with this transport key is on the bus")
        async with trio.open_nursery() as nursery:
            transport = MemoryTransport(self, key, nursery, log or NullLog())
            self._nodes[key] = transport
            self._notice()
            try:
                yield transport
            finally:
                transport.kill()

    def find(self, source: MemoryTransport, peer: bytes) -> MemoryTransport:
        """The attached node with this key. Raises ``UNREACHABLE`` where either end is not on the bus."""
        target = self._nodes.get(peer)
        if target is None or self._nodes.get(source.local_key) is not source:
            raise GnusError("UNREACHABLE", "the peer cannot be reached")
        return target

    def reachable(self, source: MemoryTransport) -> tuple[bytes, ...]:
        """Keys ``source`` can call, sorted."""
        if self._nodes.get(source.local_key) is not source:
            return ()
        return tuple(sorted(key for key in self._nodes if not self.faults.cut(source.local_key, key)))

    def remove(self, transport: MemoryTransport) -> None:
        """Take a node off; not one that has its key by now."""
        if self._nodes.get(transport.local_key) is transport:
            del self._nodes[transport.local_key]
            self._notice()

    def _notice(self) -> None:
        for node in self._nodes.values():
            node.notice()

    def spread(self, source: bytes, topic: str, data: bytes) -> None:
        """Carry a gossip message to every node ``source`` reaches."""
        if source not in self._nodes:
            return
        for key, node in sorted(self._nodes.items()):
            if key != source and self.fate(source, key) is _Fate.ARRIVES:
                node.gossip.arrive(source, topic, data, trio.current_time() + self.delay_s(source, key, len(data)))

    def fate(self, source: bytes, target: bytes) -> _Fate:
        """What becomes of the next frame."""
        number = self._frames[source, target] = self._frames.get((source, target), 0) + 1
        if self.faults.cut(source, target):
            return _Fate.CUT
        return _Fate.LOST if self.faults.lose(source, target, number) else _Fate.ARRIVES

    def delay_s(self, source: bytes, target: bytes, size: int) -> float:
        """Seconds a frame is on its way."""
        return max(0.0, self._latency_ms(source, target, size) / 1000)


def check_frame(frame: bytes) -> None:
    """Only bytes of bounded size cross. Raises ``TOO_LARGE``, ``INTERNAL`` (not bytes)."""
    if type(frame) is not bytes:
        raise GnusError("INTERNAL", "a frame is a byte string")
    if len(frame) > MAX_FRAME_BYTES:
        raise GnusError("TOO_LARGE", f"a frame of {len(frame)} bytes, at most {MAX_FRAME_BYTES}")
