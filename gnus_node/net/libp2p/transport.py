"""The libp2p adapter of ``ports.Transport``: calls over pooled streams, with the manners of the in-memory transport (DESIGN.md section 5).

A call to this node itself takes the in-memory way, through the same table of services and limits. What comes from a peer is judged here
before a handler sees it; whatever libp2p raises becomes a typed error of the call, and never more than that.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from libp2p.custom_types import TProtocol

from gnus_node.net.boundary import supervise
from gnus_node.net.libp2p.frames import Kind, call_frame, fault, item_frame, last_frame, read_frame
from gnus_node.net.libp2p.line import Line
from gnus_node.net.libp2p.peers import peer_id, transport_key
from gnus_node.net.libp2p.pool import Pool
from gnus_node.net.memory_transport import HOP_MS, MAX_BUDGET_MS, MAX_INCOMING, MemoryTransport, check_frame
from gnus_node.ports.host import Log
from gnus_node.ports.transport import Answer, ServiceHandler
from gnus_node.records.errors import GnusError

SERVER_IDLE_S = 120.0
"""A stream on which nobody calls for longer is closed; callers close theirs well before."""
FIRST_CALL_S = 20.0
"""A new stream on which nobody calls for longer is closed."""
LAST_WORD_S = 5.0
"""Longest the end of a call may be on its way out."""
SILENT_S = 15.0
"""A peer whose call ran out of time, and of whom nothing was heard for longer, is disconnected: the line may be dead without a word."""


class _Incoming:
    """Implements ``IncomingCall``."""

    def __init__(self, peer: bytes, frame: bytes, deadline: float, line: Line) -> None:
        self.peer = peer
        self.frame = frame
        self.deadline = deadline
        self._line = line

    @property
    def budget_ms(self) -> int:
        """What is left now, never negative."""
        return max(0, math.floor((self.deadline - trio.current_time()) * 1000 + 1e-6))

    async def send(self, item: bytes) -> None:
        """Send one item. Raises ``TOO_LARGE``, ``UNREACHABLE``."""
        check_frame(item)
        await self._line.send_soon(item_frame(item))


class _Answer:
    """Implements ``Answer``. ``done`` is set where the call ended in order, so that its line may be used again."""

    def __init__(self, line: Line, deadline: float, service: str) -> None:
        self._line = line
        self._deadline = deadline
        self._service = service
        self._error: GnusError | None = None
        self.done = False
        self.late = False

    async def receive(self) -> bytes | None:
        """As the port says. After the end it is None again, after an error the error."""
        if self._error:
            raise self._error
        if self.done:
            await trio.lowlevel.checkpoint()
            return None
        with trio.move_on_at(self._deadline):
            try:
                return await self._next()
            except GnusError as error:
                self._error = error
                raise
        self.late = True
        self._error = GnusError("DEADLINE", "the peer did not answer in the time allowed", link=self._service)
        raise self._error

    async def _next(self) -> bytes | None:
        body = await self._line.receive()
        if body is None:
            raise GnusError("UNREACHABLE", "the peer went away during the call", link=self._service)
        kind, parts = read_frame(body)
        if kind is Kind.ITEM:
            item: bytes = parts[0]
            return item
        if kind is Kind.CALL:
            raise fault("a call where an answer is due")
        self.done = True
        if kind is Kind.ERROR:
            raise GnusError.from_plain(parts[0])
        return None


class _Opening:
    """A stream that is being opened for a caller."""

    def __init__(self) -> None:
        self.ready = trio.Event()
        self.line: Line | None = None
        self.error: GnusError | None = None
        self.abandoned = False


class Libp2pTransport:
    """Implements ``ports.Transport`` over a running host. ``reach`` connects to a peer that is not connected, or raises ``UNREACHABLE``."""

    def __init__(self, host: Any, local: MemoryTransport, nursery: trio.Nursery, log: Log, reach: Callable[[bytes], Any]) -> None:
        self._host = host
        self._local = local
        self._nursery = nursery
        self._log = log
        self._reach = reach
        self._pool = Pool(self._open)
        self._watchers: list[Callable[[], None]] = []
        self._heard: dict[bytes, float] = {}
        self._incoming = 0
        self._closed = False
        nursery.start_soon(self._pool.sweep)

    @property
    def local_key(self) -> bytes:
        """This node's transport key."""
        return self._local.local_key

    @property
    def running(self) -> int:
        """Calls being answered now."""
        return self._local.services.running

    def serve(self, service: str, handler: ServiceHandler, *, limit: int) -> None:
        """See the port."""
        self._local.serve(service, handler, limit=limit)

        async def on_stream(stream: Any) -> None:
            await self._serve(service, stream)

        self._host.set_stream_handler(TProtocol(service), on_stream)

    def peers(self) -> tuple[bytes, ...]:
        """Keys of the connected peers and of this node, sorted."""
        if self._closed:
            return ()
        keys = (transport_key(peer) for peer in self._host.get_live_peers())
        return tuple(sorted({self.local_key, *(key for key in keys if key)}))

    def watch(self, changed: Callable[[], None]) -> None:
        """See the port."""
        self._watchers.append(changed)

    def notice(self) -> None:
        """A peer came or went."""
        live = set(self.peers())
        self._heard = {key: at for key, at in self._heard.items() if key in live}
        for changed in self._watchers:
            changed()

    def close(self) -> None:
        """No more calls from here."""
        self._closed = True

    @asynccontextmanager
    async def call(self, peer: bytes, service: str, frame: bytes, *, budget_ms: int) -> AsyncIterator[Answer]:
        """See the port. Entering raises ``TOO_LARGE``, ``DEADLINE``, ``UNREACHABLE``, ``UNKNOWN_SERVICE``, ``BUSY``."""
        if peer == self.local_key and not self._closed:
            async with self._local.call(peer, service, frame, budget_ms=budget_ms) as answer:
                yield answer
            return
        await trio.lowlevel.checkpoint()
        check_frame(frame)
        if budget_ms <= 0:
            raise GnusError("DEADLINE", "no time is left for the call", link=service)
        if self._closed:
            raise GnusError("UNREACHABLE", "this node has left the network", link=service)
        deadline = trio.current_time() + min(budget_ms, MAX_BUDGET_MS) / 1000
        line = await self._within(peer, deadline, service, lambda: self._pool.take((peer, service)))
        mine = _Answer(line, deadline, service)
        try:
            await self._within(peer, deadline, service, lambda: self._ask(line, frame, deadline, service))
            yield mine
        finally:
            await self._pool.give((peer, service), line, good=mine.done)
            if mine.late:
                self._suspect(peer)

    async def _within(self, peer: bytes, deadline: float, service: str, work: Callable[[], Any]) -> Any:
        with trio.move_on_at(deadline):
            return await work()
        self._suspect(peer)
        raise GnusError("DEADLINE", "the peer was not reached in the time allowed", link=service)

    async def _ask(self, line: Line, frame: bytes, deadline: float, service: str) -> None:
        left_ms = math.floor((deadline - trio.current_time()) * 1000)
        if left_ms < 1:
            raise GnusError("DEADLINE", "no time is left for the call", link=service)
        await line.send(call_frame(left_ms, frame))

    async def _open(self, peer: bytes, service: str) -> Line:
        """A new stream to a service, connecting first if need be."""
        if peer not in self.peers():
            await self._reach(peer)
        opening = _Opening()
        self._nursery.start_soon(self._open_stream, peer, service, opening)
        try:
            await opening.ready.wait()
        except trio.Cancelled:
            opening.abandoned = True
            if opening.line:
                await opening.line.end()
            raise
        if opening.line is None:
            raise opening.error or GnusError("UNREACHABLE", "this node is leaving the network", link=service)
        return opening.line

    async def _open_stream(self, peer: bytes, service: str, opening: _Opening) -> None:
        """In a task of its own, for a caller that may give up: libp2p forgets half-opened streams, each for as long as the connection lasts."""
        try:
            stream = await self._host.new_stream(peer_id(peer), [TProtocol(service)])
        except Exception as error:  # noqa: BLE001  supervised boundary: the call, from whatever libp2p raises when a peer is not there
            opening.error = _not_opened(error, service)
        else:
            line = Line(stream, heard=lambda: self._hear(peer))
            if opening.abandoned:
                await line.end()
            else:
                self._nursery.start_soon(line.pump)
                opening.line = line
        finally:
            opening.ready.set()

    def _hear(self, peer: bytes) -> None:
        self._heard[peer] = trio.current_time()

    def _suspect(self, peer: bytes) -> None:
        """A call to the peer ran out of time. Where nothing at all comes from it, its connection goes, so that a new one can be made."""
        heard = self._heard.get(peer)
        if heard is None:
            self._hear(peer)
        elif trio.current_time() - heard > SILENT_S and not self._closed:
            del self._heard[peer]
            self._log.info("net.silent_peer", peer=peer.hex())
            self._nursery.start_soon(self._disconnect, peer)

    async def _disconnect(self, peer: bytes) -> None:
        try:
            await self._host.disconnect(peer_id(peer))
        except Exception as error:  # noqa: BLE001  supervised boundary: the node, from closing what is broken already
            self._log.info("net.disconnect_fault", fault=type(error).__name__)

    async def _serve(self, service: str, stream: Any) -> None:
        """Answer the calls of one stream, one after the other, until it ends."""
        peer = transport_key(stream.muxed_conn.peer_id)
        line = Line(stream, serving=True, heard=None if peer is None else lambda: self._hear(peer))
        try:
            if peer is None or self._closed:
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(line.pump)
                nursery.start_soon(line.flush)
                await self._conversation(service, peer, line)
                await line.end()
                nursery.cancel_scope.cancel()
        finally:
            await line.end()

    async def _conversation(self, service: str, peer: bytes, line: Line) -> None:
        patience = FIRST_CALL_S
        while not line.over:
            body = None
            try:
                with trio.move_on_after(patience):
                    body = await line.receive()
                if body is None:
                    return
                kind, parts = read_frame(body)
                if kind is not Kind.CALL:
                    raise fault("an answer where a call is due")
                if line.waiting:
                    raise fault("a second call before the first was answered")
            except GnusError as error:
                self._log.info("net.peer_fault", peer=peer.hex(), service=service, code=error.code)
                return
            patience = SERVER_IDLE_S
            budget_ms, request = parts
            left_ms = min(max(0, budget_ms - HOP_MS), MAX_BUDGET_MS)
            call = _Incoming(peer, request, trio.current_time() + left_ms / 1000, line)
            if not await self._answer(service, call, line):
                return

    async def _answer(self, service: str, call: _Incoming, line: Line) -> bool:
        """Answer one call; whether the stream may carry another."""
        line.silent = True
        with trio.CancelScope() as scope:
            line.on_over = scope.cancel
            if line.over:
                # Reset before it was begun.
                return False
            error = await supervise(lambda: self._handle(service, call), self._log, service)
        line.on_over = None
        line.silent = False
        if scope.cancelled_caught or line.over:
            return False
        with trio.move_on_after(LAST_WORD_S):
            try:
                await line.send(last_frame(error))
            except GnusError:
                return False
        return not line.over

    async def _handle(self, service: str, call: _Incoming) -> None:
        if self._incoming >= MAX_INCOMING:
            raise GnusError("BUSY", "the node has too many calls under way", link=service)
        if call.budget_ms < 1:
            raise GnusError("DEADLINE", "the call's time was over when it arrived", link=service)
        self._incoming += 1
        try:
            with self._local.services.slot(service) as handler, trio.move_on_at(call.deadline) as scope:
                await handler(call)
        finally:
            self._incoming -= 1
        if scope.cancelled_caught:
            raise GnusError("DEADLINE", "the handler ran out of the call's time", link=service)


def _not_opened(error: Exception, service: str) -> GnusError:
    """A peer that answers that it does not know the protocol is there; anything else is not reaching it."""
    found: BaseException | None = error
    while found is not None:
        if "protocols not supported" in str(found):
            return GnusError("UNKNOWN_SERVICE", link=service)
        found = found.__cause__
    return GnusError("UNREACHABLE", "the peer cannot be reached", link=service)
