"""What hostile peers send, to a node in a process of its own: it lives, serves others, and lets go of what the attack held."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from libp2p import new_host
from libp2p.crypto.secp256k1 import create_new_key_pair as secp256k1
from libp2p.crypto.x25519 import create_new_key_pair as x25519
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo, info_from_p2p_addr
from libp2p.pubsub.pb import rpc_pb2
from libp2p.security.insecure.transport import PLAINTEXT_PROTOCOL_ID, InsecureTransport
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as NoiseTransport
from multiaddr import Multiaddr

from gnus_node.net.libp2p import hardening
from gnus_node.net.libp2p.frames import call_frame, uvarint
from gnus_node.net.libp2p.host import HostOptions, make_host
from gnus_node.net.libp2p.network import Network
from gnus_node.net.libp2p.peers import parse_peer
from gnus_node.records.errors import GnusError
from gnus_node.wire import cbor
from tests.p2p.world import ANY, opened, until

ROOT = Path(__file__).resolve().parents[2]
PSK = "ab" * 32


@dataclass
class Victim:
    """The attacked process and where it listens."""

    process: trio.Process
    address: str

    @property
    def key(self) -> bytes:
        return parse_peer(self.address.rpartition("/p2p/")[2])

    @property
    def port(self) -> int:
        return int(self.address.split("/")[4])

    @property
    def info(self) -> PeerInfo:
        return info_from_p2p_addr(Multiaddr(self.address))


@asynccontextmanager
async def victim(psk: str = "") -> AsyncIterator[Victim]:
    command = [sys.executable, "-m", "tests.p2p.victim", *([psk] if psk else [])]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        with trio.fail_after(30):
            line = b""
            while not line.endswith(b"\n"):
                line += await process.stdout.receive_some()
        yield Victim(process, json.loads(line)[0])
        assert process.returncode is None, "the victim died"
    finally:
        if process.stdin is not None:
            await process.stdin.aclose()
        with trio.move_on_after(15) as scope:
            scope.shield = True
            await process.wait()
        if process.returncode is None:
            process.kill()


async def echoed(net: Network, key: bytes, data: bytes = b"alive") -> bool:
    try:
        async with net.transport.call(key, "/gnus/echo/1", data, budget_ms=10_000) as answer:
            return await answer.receive() == data
    except GnusError:
        return False


async def asserted_alive(net: Network, target: Victim) -> None:
    """An honest peer is served, by call and by gossip."""
    with trio.fail_after(30):
        while not await echoed(net, target.key):
            await trio.lowlevel.checkpoint()
    heard = trio.Event()

    async def handler(_author: bytes, data: bytes) -> None:
        heard.set()

    await net.gossip.subscribe("gnus/heard/1", lambda author, data: True, handler)
    number = 0
    with trio.fail_after(30):
        while not heard.is_set():
            number += 1
            await net.gossip.publish("gnus/test/1", b"alive %d" % number)
            await trio.sleep(0.1)


@asynccontextmanager
async def attacker(target: Victim, pair: Any = None) -> AsyncIterator[Any]:
    """A host that speaks libp2p with the victim, and nothing of what this program adds."""
    hardening.install()
    host = make_host(os.urandom(32), os.urandom(32), HostOptions((ANY,)))
    async with host.run([Multiaddr(ANY)]):
        await host.connect(target.info)
        yield host
        await host.close()


async def quietly(work: Callable[[], Awaitable[Any]], seconds: float = 5) -> None:
    """Whatever the attack's own end meets."""
    with trio.move_on_after(seconds):
        try:
            await work()
        except Exception:
            return


async def socket_junk(target: Victim) -> None:
    blobs = [
        os.urandom(4096),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x13/multistream/1.0.0\n\x07/nope/\n" * 5,
        b"\xff" * 64,
        b"\xff\xff\xff\xff\x0f",
    ]
    for blob in blobs * 10:

        async def send(blob: bytes = blob) -> None:
            async with await trio.open_tcp_stream("127.0.0.1", target.port) as stream:
                await stream.send_all(blob)
                await stream.receive_some(1)

        await quietly(send, 0.5)


async def half_open(target: Victim) -> None:
    streams = []
    for _ in range(300):

        async def connect() -> None:
            stream = await trio.open_tcp_stream("127.0.0.1", target.port)
            streams.append(stream)
            await stream.send_all(b"\x13/multi")

        await quietly(connect, 1)
    for stream in streams:
        await stream.aclose()


async def raising_handler(target: Victim) -> None:
    async with attacker(target) as host:
        for _ in range(10):
            await quietly(lambda: host.new_stream(target.info.peer_id, ["/raw/broken/1"]))


async def gossip_frames(target: Victim) -> None:
    def message(**fields: Any) -> bytes:
        rpc = rpc_pb2.RPC()
        rpc.publish.append(rpc_pb2.Message(**{"data": b"x", "topicIDs": ["gnus/test/1"], "seqno": b"1", **fields}))
        return rpc.SerializeToString()

    record = rpc_pb2.RPC()
    record.senderRecord = os.urandom(64)
    control = rpc_pb2.RPC()
    control.control.ihave.add(topicID="gnus/test/1", messageIDs=[b"zz", b"\x00", b"f" * 5000])
    control.control.iwant.add(messageIDs=[b"not hex", b""])
    control.control.graft.add(topicID="nobody's")
    control.control.prune.add(topicID="gnus/test/1", backoff=2**63)
    subscriptions = rpc_pb2.RPC()
    for number in range(20_000):
        subscriptions.subscriptions.add(subscribe=True, topicid=f"t{number}")
    bodies = [
        os.urandom(200),
        b"\xff" * 50,
        message(from_id=b"junk", key=b"junk", signature=b"junk"),
        message(from_id=b"", signature=b"x"),
        message(from_id=target.info.peer_id.to_bytes(), signature=b"x" * 64),
        message(topicIDs=["gnus/test/1", "gnus/test/1"], from_id=os.urandom(38), signature=os.urandom(64)),
        record.SerializeToString(),
        control.SerializeToString(),
        subscriptions.SerializeToString(),
    ]
    frames = [uvarint(len(body)) + body for body in bodies] + [uvarint(2 * 1024 * 1024), b"\xff" * 12]
    async with attacker(target) as host:
        for frame in frames:
            for _ in range(3):

                async def send(frame: bytes = frame) -> None:
                    stream = await host.new_stream(target.info.peer_id, ["/meshsub/1.1.0"])
                    await stream.write(frame)
                    await stream.read(1)

                await quietly(send, 0.3)


async def failing_check(target: Victim) -> None:
    async with opened(bootstrap=(target.address,)) as net:
        await until(lambda: target.key in net.transport.peers())
        for _ in range(20):
            await net.gossip.publish("gnus/test/1", b"boom")
        await until(lambda: target.key in net.transport.peers())


async def muxer_frames(target: Victim) -> None:
    frames = [
        struct.pack("!BBHII", 9, 0, 0, 1, 0),
        struct.pack("!BBHII", 0, 77, 0, 1, 0),
        struct.pack("!BBHII", 0, 0, 0, 999_999, 10) + b"x" * 10,
        struct.pack("!BBHII", 0, 1, 0, 999_999, 2**32 - 1),
        struct.pack("!BBHII", 0, 0, 1, 101, 2**31),
        struct.pack("!BBHII", 0, 1, 15, 103, 5),
        struct.pack("!BBHII", 0, 3, 0, 0, 77),
        struct.pack("!BBHII", 0, 0, 1, 105, 400_000) + b"x" * 400_000,
        b"\x00" * 7,
    ]
    for frame in frames:
        async with attacker(target) as host:
            for conn in host.get_network().get_connections(target.info.peer_id):
                await quietly(lambda conn=conn, frame=frame: conn.muxed_conn.secured_conn.write(frame), 1)  # type: ignore[misc]
            await trio.lowlevel.checkpoint()


async def many_streams(target: Victim) -> None:
    async with attacker(target) as host:
        for conn in host.get_network().get_connections(target.info.peer_id):

            async def flood(conn: Any = conn) -> None:
                for number in range(5_000):
                    await conn.muxed_conn.secured_conn.write(struct.pack("!BBHII", 0, 1, 1, 1001 + 2 * number, 0))

            await quietly(flood, 20)


async def service_frames(target: Victim) -> None:
    call = call_frame(60_000, b"x")
    frames = [
        os.urandom(500),
        b"\xff" * 20,
        uvarint(2**27),
        b"\x81\x00x",
        b"\x00",
        uvarint(3) + b"\xff\xff\xff",
        uvarint(200_001) + b"\x80" * 200_001,
        *(uvarint(len(body)) + body for body in map(cbor.encode, ([0], [0, 1], [0, "x", b""], [0, 1, b"", 1], [9], [1, b"x"], [2], {}, 7))),
        call_frame(0, b"x"),
        call_frame(2**62, b"x"),
        call * 20,
        call[:3],
    ]
    async with attacker(target) as host:
        for service in ("/gnus/echo/1", "/gnus/held/1"):
            for frame in frames:

                async def send(frame: bytes = frame, service: str = service) -> None:
                    stream = await host.new_stream(target.info.peer_id, [service])
                    await stream.write(frame)
                    await stream.read(1)

                await quietly(send, 0.3)
        for _ in range(100):

            async def cancel() -> None:
                stream = await host.new_stream(target.info.peer_id, ["/gnus/held/1"])
                await stream.write(call)
                await stream.reset()

            await quietly(cancel)


ATTACKS = (socket_junk, half_open, raising_handler, gossip_frames, failing_check, muxer_frames, many_streams, service_frames)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
async def test_the_node_survives(attack: Callable[[Victim], Awaitable[None]]) -> None:
    async with victim() as target:
        async with opened(bootstrap=(target.address,)) as honest:
            await until(lambda: target.key in honest.transport.peers())
            await attack(target)
            await asserted_alive(honest, target)
            assert target.process.returncode is None
            with trio.fail_after(20):
                while True:
                    async with honest.transport.call(target.key, "/gnus/running/1", b"", budget_ms=10_000) as answer:
                        if await answer.receive() == b"1":
                            break
                    await trio.sleep(0.05)
        async with opened(bootstrap=(target.address,)) as newcomer:
            await until(lambda: target.key in newcomer.transport.peers())
            assert await echoed(newcomer, target.key)


async def refused(host: Any, target: Victim) -> bool:
    """Whether a host gets no service."""
    async with host.run([Multiaddr(ANY)]):
        served = False
        try:
            with trio.fail_after(10):
                await host.connect(target.info)
                stream = await host.new_stream(target.info.peer_id, ["/gnus/echo/1"])
                await stream.write(call_frame(5_000, b"x"))
                served = bool(await stream.read(1))
        except Exception:
            served = False
        await host.close()
    return not served


async def test_unproven_and_foreign_peers_get_nothing() -> None:
    hardening.install()
    async with victim() as target:
        pair = secp256k1()
        foreign = new_host(
            key_pair=pair, sec_opt={NOISE: NoiseTransport(pair, noise_privkey=x25519().private_key)}, listen_addrs=[Multiaddr(ANY)]
        )
        assert await refused(foreign, target), "a key that is not ed25519"
        pair = secp256k1()
        naked = new_host(key_pair=pair, sec_opt={PLAINTEXT_PROTOCOL_ID: InsecureTransport(pair)}, listen_addrs=[Multiaddr(ANY)])
        assert await refused(naked, target), "no encryption"
        wrong = make_host(os.urandom(32), os.urandom(32), HostOptions((ANY,)))
        other = ID(target.info.peer_id.to_bytes()[:-1] + b"\x01")
        async with wrong.run([Multiaddr(ANY)]):
            with pytest.raises(Exception, match="unable to connect"):
                await wrong.connect(PeerInfo(other, target.info.addrs))
            await wrong.close()


@pytest.mark.slow
async def test_a_private_network_keeps_outsiders_out() -> None:
    async with victim(PSK) as target:
        async with opened(psk=PSK, bootstrap=(target.address,)) as member:
            await until(lambda: target.key in member.transport.peers())
            assert await echoed(member, target.key)
        for psk in ("", "cd" * 32):
            assert await refused(make_host(os.urandom(32), os.urandom(32), HostOptions((ANY,), psk=psk)), target)
        async with opened(psk=PSK, bootstrap=(target.address,)) as member:
            await until(lambda: target.key in member.transport.peers())
