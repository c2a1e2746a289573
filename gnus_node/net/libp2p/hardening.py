"""What py-libp2p 0.8.1 needs before hostile peers may talk to it: ten small patches, installed once in a process.

Unpatched, one bad frame of any connected peer ends the whole process, and one cancelled write breaks every other stream of its connection.
Each patch touches private names, so the version is pinned, and ``tests/p2p/test_hardening.py`` has a test for each that fails when upstream
renames or mends what is patched here.

``BaseException`` is never caught: ``trio.Cancelled`` passes through every guard.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import Any

import libp2p
import libp2p.host.basic_host as basic_host
import libp2p.io.trio as trio_stream
import libp2p.network.stream.net_stream as net_stream
import libp2p.network.swarm as swarm
import libp2p.pubsub.pubsub as pubsub
import libp2p.pubsub.rpc_queue as rpc_queue
import libp2p.stream_muxer.yamux.yamux as yamux
import libp2p.transport.tcp.tcp as tcp
import trio
from libp2p.network.connection.exceptions import RawConnError

from gnus_node.records.errors import GnusError

PINNED = "0.8.1"
QUEUE = 4096
"""Gossip messages that may wait for a subscriber or a peer; upstream's 32 drops silently in any burst."""
MAX_STREAMS_PER_PEER = 256
"""Streams one peer may have open here; upstream bounds only all of them together, at ten thousand."""
WINDOW_BYTES = 1280 * 1024
"""Most a stream's peer may send ahead of its reader: the largest frame, and some. With the bound on streams it bounds what one peer can
have kept here; upstream's windows grow to 16 MiB each."""
WRITE_S = 5.0
"""Longest a frame may be on its way into the socket; then the connection is closed, for it is in the middle of a frame."""
_MARK = "_gnus_hardened"


def install() -> None:
    """Patch libp2p, once. Raises ``MISSING_DEPENDENCY`` for another version than the pinned one."""
    found: str = libp2p.__version__
    if found != PINNED:
        raise GnusError("MISSING_DEPENDENCY", f"libp2p {found} is installed, {PINNED} is needed", fix=f"pip install libp2p=={PINNED}")
    if getattr(swarm, _MARK, False):
        return
    no_dial_delay()
    long_queues()
    batched_window_updates()
    bounded_windows()
    quick_locks()
    guard_stream_handlers()
    guard_messages()
    whole_frames()
    exclusive_ports()
    inbound_slots()
    silence()
    setattr(swarm, _MARK, True)


def no_dial_delay() -> None:
    """A dial returns when it has connected, not a quarter of a second later."""
    _need(swarm, "_HAPPY_EYEBALLS_DELAY")
    swarm._HAPPY_EYEBALLS_DELAY = 0.0


def long_queues() -> None:
    """A burst of gossip is queued rather than dropped."""
    _need(pubsub, "SUBSCRIPTION_CHANNEL_SIZE")
    pubsub.SUBSCRIPTION_CHANNEL_SIZE = QUEUE
    rpc_queue.RpcQueue.__init__.__defaults__ = (QUEUE, rpc_queue.DefaultMaxMessageSize)


def batched_window_updates() -> None:
    """Read credit goes back when half a window is used up, as other implementations do it, not with every second small read."""
    stock = _need(yamux.YamuxStream, "_auto_tune_and_send_window_update")

    @functools.wraps(stock)
    async def batched(self: Any, *, bytes_read: int = 0) -> None:
        buffered = len(self.conn.stream_buffers.get(self.stream_id, b""))
        if self.target_recv_window - self.recv_window - buffered >= self._grow_threshold():
            await stock(self, bytes_read=bytes_read)

    yamux.YamuxStream._auto_tune_and_send_window_update = batched


def bounded_windows() -> None:
    """No stream's window grows beyond ``WINDOW_BYTES``."""
    _need(yamux, "MAX_WINDOW_SIZE")
    yamux.MAX_WINDOW_SIZE = WINDOW_BYTES


async def widen(stream: Any) -> None:
    """Grant the peer the whole window at once: upstream's writer sleeps ten milliseconds at a time where it has none."""
    muxed = getattr(stream, "muxed_stream", None)
    if isinstance(muxed, yamux.YamuxStream) and muxed.target_recv_window < WINDOW_BYTES:
        grant = WINDOW_BYTES - muxed.target_recv_window
        muxed.target_recv_window += grant
        muxed.recv_window += grant
        await muxed.send_window_update(grant)


class QuickLock:
    """A lock that is taken without giving up the turn when nobody holds it. Every sixteenth time it does: a flood of frames must not keep
    everybody else from theirs."""

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._times = 0

    async def __aenter__(self) -> None:
        self._times = (self._times + 1) % 16
        if self._times and not self._lock.locked():
            self._lock.acquire_nowait()
        else:
            await self._lock.acquire()

    async def __aexit__(self, *_error: object) -> None:
        self._lock.release()

    def write_lock(self) -> QuickLock:
        """Itself: what yamux asks of its read-write lock, which it uses for writing only."""
        return self


def quick_locks() -> None:
    """Upstream takes some twenty locks for a small call, nearly always free ones, and each costs a pass of the scheduler."""
    for owner, names in (
        (yamux.YamuxStream, ("window_lock", "rw_lock", "close_lock")),
        (yamux.Yamux, ("streams_lock", "_write_lock")),
        (net_stream.NetStream, ("_state_lock",)),
        (trio_stream.TrioTCPStream, ("read_lock", "write_lock")),
    ):
        _lock_quickly(owner, names)


def _lock_quickly(owner: Any, names: tuple[str, ...]) -> None:
    stock = owner.__init__

    @functools.wraps(stock)
    def made(self: Any, *args: Any, **options: Any) -> None:
        stock(self, *args, **options)
        for name in names:
            _need(self, name)
            setattr(self, name, QuickLock())

    owner.__init__ = made


def guard_stream_handlers() -> None:
    """A stream handler that raises resets its stream; and a peer with too many streams gets no more."""
    stock = _need(basic_host.BasicHost, "_swarm_stream_handler")

    @functools.wraps(stock)
    async def guarded(self: Any, stream: Any) -> None:
        open_streams: dict[Any, int] = self.__dict__.setdefault("_gnus_streams", {})
        peer = stream.muxed_conn.peer_id
        count = open_streams.get(peer, 0)
        if count >= MAX_STREAMS_PER_PEER:
            await _reset(stream)
            return
        open_streams[peer] = count + 1
        try:
            await stock(self, stream)
        except Exception:  # noqa: BLE001  supervised boundary: host and process, from one stream's handler or negotiation
            await _reset(stream)
        finally:
            forget(stream)
            open_streams[peer] -= 1
            if not open_streams[peer]:
                del open_streams[peer]

    basic_host.BasicHost._swarm_stream_handler = guarded


def guard_messages() -> None:
    """A message that makes upstream raise (a junk key, a failing validator) is dropped."""
    stock = _need(pubsub.Pubsub, "push_msg")

    @functools.wraps(stock)
    async def guarded(self: Any, msg_forwarder: Any, msg: Any) -> None:
        try:
            await stock(self, msg_forwarder, msg)
        except Exception:  # noqa: BLE001  supervised boundary: the gossip service, from one message
            return

    pubsub.Pubsub.push_msg = guarded


def whole_frames() -> None:
    """A frame is written whole or its connection is closed: a write cancelled half way would garble what all other streams send next."""
    stock = _need(yamux.Yamux, "_write_frame")

    @functools.wraps(stock)
    async def guarded(self: Any, data: bytes) -> None:
        async with self._write_lock:
            with trio.CancelScope(deadline=trio.current_time() + WRITE_S, shield=True) as scope:
                await self.secured_conn.write(data)
            if scope.cancelled_caught:
                with trio.CancelScope(shield=True):
                    await self.secured_conn.close()
                raise RawConnError("the peer does not take a frame: the connection is closed")

    yamux.Yamux._write_frame = guarded


def exclusive_ports() -> None:
    """A port that is taken is refused. Upstream shares it (SO_REUSEPORT), and the kernel would deal a node's callers out to two nodes."""
    _need(tcp, "_open_reuseport_listeners")

    async def exclusive(host: str | None, port: int) -> list[trio.SocketListener]:
        return list(await trio.open_tcp_listeners(port, host=host))

    tcp._open_reuseport_listeners = exclusive


def inbound_slots() -> None:
    """An inbound connection gives its slot back when it closes. Upstream keeps slot and task until the host itself closes, so that a node
    takes so many connections in its life and then no more."""
    _need(swarm.Swarm, "_do_handle_inbound_connection")

    async def handled(self: Any, read_write_closer: Any, maddr: Any, _failure_event: Any) -> None:
        raw = swarm.RawConnection(read_write_closer, False)
        try:
            remote = self._build_remote_multiaddr(read_write_closer)
            if remote is None or await self.connection_gate.is_allowed(remote):
                muxed = await self.upgrade_inbound_raw_conn(raw, maddr)
                await muxed.event_closed.wait()
        except Exception:  # noqa: BLE001  supervised boundary: the listener, from one connection
            return
        finally:
            with trio.CancelScope(deadline=trio.current_time() + WRITE_S, shield=True):
                await raw.close()

    swarm.Swarm._do_handle_inbound_connection = handled


def silence() -> None:
    """libp2p reports ordinary churn as errors, some of it to the root logger; the node's own log says what happened instead."""
    logging.getLogger("libp2p").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_libp2p)


def _not_libp2p(record: logging.LogRecord) -> bool:
    return "libp2p" not in record.pathname.replace(os.sep, "/").split("/")


def forget(stream: Any) -> None:
    """Remove what the muxer keeps of a stream that is gone: a reset wakes its reader, which puts a new event where the old one was taken
    away, and nobody else would remove that one for the life of the connection."""
    muxed = getattr(stream, "muxed_stream", None)
    if isinstance(muxed, yamux.YamuxStream) and muxed.stream_id not in muxed.conn.streams:
        muxed.conn.stream_events.pop(muxed.stream_id, None)


async def _reset(stream: Any) -> None:
    with trio.move_on_after(WRITE_S) as scope:
        scope.shield = True
        await stream.reset()


def _need(owner: Any, name: str) -> Any:
    """A private name that a patch rests on. Raises ``MISSING_DEPENDENCY`` where it is gone: then the patch would do nothing."""
    found = getattr(owner, name, None)
    if found is None:
        raise GnusError("MISSING_DEPENDENCY", f"this libp2p has no {name}: it is not the one this program was hardened for")
    return found


PATCHES: tuple[Callable[[], None], ...] = (
    no_dial_delay,
    long_queues,
    batched_window_updates,
    bounded_windows,
    quick_locks,
    guard_stream_handlers,
    guard_messages,
    whole_frames,
    exclusive_ports,
    inbound_slots,
)
"""Every patch, for the tests that hold each against the stock version."""
