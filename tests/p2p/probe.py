"""One fault of stock py-libp2p a case: ``python -m tests.p2p.probe CASE stock|patched`` exits 0 where it behaves well, 3 where it does not.

Run in processes of their own, since patches are installed for good, and some of the faults end the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import libp2p.network.swarm as swarm
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import RpcQueue
from libp2p.stream_muxer.yamux.yamux import Yamux, YamuxStream
from multiaddr import Multiaddr

from gnus_node.net.libp2p import hardening
from gnus_node.net.libp2p.gossip import make_pubsub, make_router
from gnus_node.net.libp2p.host import HostOptions, make_host

ANY = "/ip4/127.0.0.1/tcp/0"
TOPIC = "gnus/probe/1"
GOOD, BAD = 0, 3
PATCHED = False


def host() -> Any:
    return make_host(os.urandom(32), os.urandom(32), HostOptions((ANY,)))


class Wire:
    """What a muxer writes to, in two halves, as a full socket buffer would take it."""

    is_initiator = True

    def __init__(self) -> None:
        self.data = b""
        self.writes = 0
        self.half = trio.Event()
        self.go = trio.Event()
        self.go.set()

    async def write(self, data: bytes) -> None:
        self.writes += 1
        middle = len(data) // 2
        self.data += data[:middle]
        self.half.set()
        await self.go.wait()
        self.data += data[middle:]


async def dial_delay() -> bool:
    return bool(swarm._HAPPY_EYEBALLS_DELAY == 0)


async def queues() -> bool:
    queue = RpcQueue()
    queued = [queue._queue.push(rpc_pb2.RPC()) for _ in range(500)]
    one = make_pubsub(host(), make_router())

    async def nobody(*_args: Any, **_kwargs: Any) -> None:
        return None

    one.message_all_peers = nobody
    one.router.join = nobody
    await one.subscribe(TOPIC)
    sender = one.subscribed_topics_send[TOPIC]
    sent = 0
    try:
        while sent < 500:
            sender.send_nowait(rpc_pb2.Message())
            sent += 1
    except trio.WouldBlock:
        pass
    return all(queued) and sent == 500


async def window_updates() -> bool:
    wire = Wire()
    muxer = Yamux(wire, ID(b"x"), is_initiator=True)
    stream = YamuxStream(1, muxer, True)
    muxer.streams[1], muxer.stream_events[1] = stream, trio.Event()
    for _ in range(100):
        muxer.stream_buffers[1] = bytearray(100)
        stream.recv_window -= 100
        await stream.read(100)
    return wire.writes == 0


async def windows() -> bool:
    """Whether a stream whose reader keeps up, and then stops, is granted no more than the bound."""
    muxer = Yamux(Wire(), ID(b"x"), is_initiator=True)
    stream = YamuxStream(1, muxer, True)
    muxer.streams[1], muxer.stream_events[1] = stream, trio.Event()
    for _ in range(100):
        size, stream.recv_window = stream.recv_window, 0
        muxer.stream_buffers[1] = bytearray(size)
        while muxer.stream_buffers[1]:
            await stream.read(size)
    return stream.recv_window <= hardening.WINDOW_BYTES


async def locks() -> bool:
    """Whether free locks are taken without giving up the turn."""
    muxer = Yamux(Wire(), ID(b"x"), is_initiator=True)
    turns = 0

    async def other() -> None:
        nonlocal turns
        turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for lock in (muxer.streams_lock, muxer._write_lock, YamuxStream(1, muxer, True).window_lock) * 4:
            async with lock:
                pass
        good = turns == 0
    return good


async def whole_frames() -> bool:
    wire = Wire()
    wire.go = trio.Event()
    muxer = Yamux(wire, ID(b"x"), is_initiator=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(muxer._write_frame, b"0123456789ab")
        await wire.half.wait()
        nursery.cancel_scope.cancel()
        for _ in range(10):
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
        wire.go.set()
    return wire.data == b"0123456789ab"


async def stream_handler() -> bool:
    a, b = host(), host()

    async def broken(_stream: Any) -> None:
        raise RuntimeError("a handler that fails")

    async with a.run([Multiaddr(ANY)]), b.run([Multiaddr(ANY)]):
        b.set_stream_handler("/probe/1", broken)
        await a.connect(PeerInfo(b.get_id(), b.get_transport_addrs()))
        for _ in range(3):
            with trio.move_on_after(5):
                try:
                    stream = await a.new_stream(b.get_id(), ["/probe/1"])
                    await stream.read(1)
                except Exception:
                    # A reset, early or late: what matters is that the host lives.
                    continue
        good = bool(b.is_peer_connected(a.get_id()))
        await a.close()
        await b.close()
    return good


async def inbound() -> bool:
    """Whether a connection that has gone still takes a slot."""
    target = host()
    async with target.run([Multiaddr(ANY)]):
        for _ in range(3):
            caller = host()
            async with caller.run([Multiaddr(ANY)]):
                await caller.connect(PeerInfo(target.get_id(), target.get_transport_addrs()))
                await caller.close()
        limiter = target.get_network()._inbound_limiter
        with trio.move_on_after(5):
            while limiter.borrowed_tokens:  # noqa: ASYNC110  what it polls has no event
                await trio.sleep(0.01)
        good = limiter.borrowed_tokens == 0
        await target.close()
    return good


async def junk_message() -> bool:
    one = make_pubsub(host(), make_router())
    await one.push_msg(ID(b"x"), rpc_pb2.Message(from_id=b"junk", data=b"x", seqno=b"1", topicIDs=[TOPIC], signature=b"junk", key=b"junk"))
    return True


async def raising_validator() -> bool:
    one = make_pubsub(host(), make_router())

    def raising(_forwarder: Any, _message: Any) -> bool:
        raise RuntimeError("a validator that fails")

    one.set_topic_validator(TOPIC, raising, False)
    await one.publish(TOPIC, b"x")
    return True


async def junk_frame() -> bool:
    """A gossip frame that is no protobuf."""
    one = make_pubsub(host(), make_router())

    class Junk:
        protocol_id = "/meshsub/1.2.0"
        metric_send_channel = None
        muxed_conn = type("Conn", (), {"peer_id": ID(b"x")})
        data = b"\x05\xff\xff\xff\xff\xff"
        was_reset = False

        async def read(self, n: int) -> bytes:
            found, self.data = self.data[:n], self.data[n:]
            return found

        async def reset(self) -> None:
            self.was_reset = True

    one._manager = type("Manager", (), {"is_running": True})
    target = one.host

    async def negotiated(*_args: Any) -> Any:
        return "/meshsub/1.2.0", one.stream_handler

    target.multiselect.negotiate = negotiated
    stream = Junk()
    stream.set_protocol = lambda _name: None  # type: ignore[attr-defined]
    await target._swarm_stream_handler(stream)
    return stream.was_reset


async def one_port() -> bool:
    """Whether a second listener on a port is refused."""
    import libp2p.transport.tcp.tcp as tcp

    first = (await tcp._open_reuseport_listeners("127.0.0.1", 0))[0]
    port = first.socket.getsockname()[1]
    try:
        second = (await tcp._open_reuseport_listeners("127.0.0.1", port))[0]
    except OSError:
        return True
    else:
        await second.aclose()
        return False
    finally:
        await first.aclose()


async def plaintext() -> bool:
    """Whether a host can be had by a dialer that offers no encryption. Stock here is upstream's default host."""
    from libp2p.security.insecure.transport import PLAINTEXT_PROTOCOL_ID, InsecureTransport

    target = host() if PATCHED else new_host(listen_addrs=[Multiaddr(ANY)])
    pair = create_new_key_pair(os.urandom(32))
    naked = new_host(key_pair=pair, sec_opt={PLAINTEXT_PROTOCOL_ID: InsecureTransport(pair)}, listen_addrs=[Multiaddr(ANY)])
    async with target.run([Multiaddr(ANY)]), naked.run([Multiaddr(ANY)]):
        refused = False
        try:
            with trio.fail_after(10):
                await naked.connect(PeerInfo(target.get_id(), target.get_transport_addrs()))
        except Exception:
            refused = True
        await naked.close()
        await target.close()
    return refused


CASES: dict[str, Callable[[], Awaitable[bool]]] = {
    "no_dial_delay": dial_delay,
    "long_queues": queues,
    "batched_window_updates": window_updates,
    "guard_stream_handlers": stream_handler,
    "guard_stream_handlers/junk_frame": junk_frame,
    "guard_messages": junk_message,
    "guard_messages/validator": raising_validator,
    "bounded_windows": windows,
    "quick_locks": locks,
    "whole_frames": whole_frames,
    "exclusive_ports": one_port,
    "inbound_slots": inbound,
    "explicit_security": plaintext,
}


def run(case: str, patched: bool) -> int:
    if patched:
        hardening.install()
    global PATCHED
    PATCHED = patched
    return GOOD if trio.run(partial(CASES[case])) else BAD


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2] == "patched"))
