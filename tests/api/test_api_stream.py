"""Streams, byte by byte, and what happens when clients leave, dawdle, or come in crowds."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import httpx
import pytest
import trio
from trio.testing import MockClock

from gnus_node.api.app import build_app
from gnus_node.api.settings import ApiSettings
from gnus_node.ports.submit import Answered, Ask, Status, StatusSink

from .world import CREATED_MS, SCRIPTS, ScriptedSubmit, World, answered, body_of, build_world, eventually, read_all, running, status_of

STREAM = {"model": "gnus", "messages": [{"role": "user", "content": "capital of Kenya?"}], "stream": True}
HEAD = '"id":"chatcmpl-r1","object":"chat.completion.chunk","created":1767225600,"model":"gnus"'
GNUS = (
    '"gnus":{"request_id":"r1","audit_id":"audit-r1","outcome":"answered","reason_code":"OK","reason":"","answer_type":"text",'
    '"sources":[{"uri":"docs:kenya","title":"Kenya","source_class":"public","span":[10,17],"fresh_at_ms":1767225600000,"quote":"Nairobi"}],'
    '"route":{"intent":"fact"},"backends":[{"kind":"extractive"}],"agreement":1.0,"latency_ms":{"ground":3.5},"verdict":"proved",'
    '"pending_approvals":[],"effects":[]}'
)


def chunk(choices: str, more: str = "") -> str:
    return "data: {" + HEAD + ',"choices":[' + choices + "]" + more + "}\n\n"


def choice(delta: str, finish: str = "null") -> str:
    return '{"index":0,"delta":' + delta + ',"logprobs":null,"finish_reason":' + finish + "}"


def request(question: str, **more: object) -> bytes:
    return json.dumps({**STREAM, "messages": [{"role": "user", "content": question}], **more}).encode()


async def exchange(world: World, body: bytes, *headers: str) -> bytes:
    async with await world.tcp_stream() as stream:
        await stream.send_all(world.post(body, "connection: close", *headers))
        return await read_all(stream)


async def test_stream_bytes(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        got = await exchange(world, request("capital of Kenya?"))
        head = got.partition(b"\r\n\r\n")[0].lower()
        assert head.startswith(b"http/1.1 200")
        for line in (b"content-type: text/event-stream; charset=utf-8", b"cache-control: no-store", b"x-request-id: r1"):
            assert line in head
        assert body_of(got).decode() == (
            ": gnus.status number=1 stage=ground state=started documents=3\n\n"
            + chunk(choice('{"role":"assistant","content":""}'))
            + chunk(choice('{"content":"Nairobi"}'))
            + chunk(choice("{}", '"stop"'))
            + "data: [DONE]\n\n"
        )


async def test_stream_bytes_with_usage_and_extensions(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        got = await exchange(world, request("capital of Kenya?", stream_options={"include_usage": True}), "X-Gnus-Extensions: 1")
        null = ',"usage":null'
        assert body_of(got).decode() == (
            ": gnus.status number=1 stage=ground state=started documents=3\n\n"
            + chunk(choice('{"role":"assistant","content":""}'), null)
            + chunk(choice('{"content":"Nairobi"}'), null)
            + chunk(choice("{}", '"stop"'), null + "," + GNUS)
            + chunk("", ',"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}')
            + "data: [DONE]\n\n"
        )


async def test_error_after_the_headers(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        got = body_of(await exchange(world, request("late"))).decode()
        comment, event = got.split("\n\n")[:2]
        assert comment == ": gnus.status number=1 stage=draft state=started"
        error = json.loads(event.removeprefix("data: "))["error"]
        assert (error["code"], error["type"], error["gnus"]["request_id"]) == ("DEADLINE", "server_error", "r1")
        assert got.count("data:") == 1
        assert "[DONE]" not in got


async def test_refusal_before_the_headers_is_a_status(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        got = await exchange(world, request("busy"))
        assert status_of(got) == 503
        assert b"retry-after: 1" in got.lower()
        assert json.loads(body_of(got))["error"]["code"] == "BUSY"


@pytest.mark.parametrize("stream", [True, False])
async def test_client_that_leaves_cancels(tmp_path: Path, stream: bool) -> None:
    async with running(tmp_path) as world:
        connection = await world.tcp_stream()
        await connection.send_all(world.post(request("wait", stream=stream)))
        await eventually(lambda: world.submit.waiting == 1)
        await connection.aclose()
        with trio.fail_after(20):
            await world.submit.cancelled.wait()
        await eventually(lambda: any(f.get("status") in (200, 499) for _, e, f in world.log.lines if e == "http"))
        assert status_of(await exchange(world, request("capital of Kenya?"))) == 200


async def test_keep_alive_comments_in_virtual_time(tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same app without a socket, on trio's virtual clock."""

    async def slow(_s: ScriptedSubmit, _a: Ask, sink: StatusSink | None) -> Answered:
        await trio.sleep(25)
        assert sink is not None
        await sink(Status("r1", 1, "draft", "started", CREATED_MS, {"expert": "two words", "n": 2}))
        await trio.sleep(9)
        return answered("Nairobi")

    monkeypatch.setitem(SCRIPTS, "slow", slow)
    world = build_world(tmp_path)
    transport = httpx.ASGITransport(app=build_app(world.deps))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        got = await client.post("/v1/chat/completions", content=request("slow"), headers=_headers(world))
    alive = ": gnus.keep-alive"
    status = ": gnus.status number=1 stage=draft state=started n=2"  # what is not of ordinary form is left out
    assert [c for c in got.text.split("\n\n") if c.startswith(":")] == [alive, alive, alive, status]
    assert got.headers["x-request-id"].startswith("http-")
    assert got.text.endswith("data: [DONE]\n\n")


async def test_nothing_hangs_behind_a_broken_role(tmp_path: Path, autojump_clock: MockClock) -> None:
    world = build_world(tmp_path)
    transport = httpx.ASGITransport(app=build_app(world.deps))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as client:
        got = await client.post("/v1/chat/completions", content=request("wait", stream=False), headers=_headers(world))
    assert got.status_code == 504
    assert got.json()["error"]["code"] == "DEADLINE"
    assert world.submit.cancelled.is_set()


def _headers(world: World) -> dict[str, str]:
    return {"authorization": f"Bearer {world.key}", "content-type": "application/json"}


async def test_flood_of_status_does_not_hold_up_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def chatty(_s: ScriptedSubmit, _a: Ask, sink: StatusSink | None) -> Answered:
        assert sink is not None
        for n in range(10_000):
            await sink(Status("r1", n, "draft", "running", CREATED_MS))
        return answered("Nairobi")

    monkeypatch.setitem(SCRIPTS, "chatty", chatty)
    async with running(tmp_path) as world:
        got = body_of(await exchange(world, request("chatty"))).decode()
        assert got.count("gnus.status") < 10_000
        assert got.endswith("data: [DONE]\n\n")


async def test_client_that_does_not_read_is_cut(tmp_path: Path) -> None:
    async with running(tmp_path, ApiSettings(send_deadline_s=0.2)) as world:
        sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await sock.connect(("127.0.0.1", world.port))
        async with trio.SocketStream(sock) as stream:
            await stream.send_all(world.post(request("huge")))
            await eventually(lambda: any(e == "http" for _, e, _ in world.log.lines))
            got = await read_all(stream)
            assert status_of(got) == 200
            assert b"[DONE]" not in got


async def test_many_streams_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, ApiSettings(rate_per_minute=100_000, rate_burst=1000, max_inflight_per_key=256)) as world:
        done: list[int] = []

        async def one(number: int) -> None:
            got = body_of(await exchange(world, request("hold"))).decode()
            text = "".join(re.findall(r'"content":"([^"]*)"', got))
            assert text == "let go"
            assert got.endswith("data: [DONE]\n\n")
            done.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(one, number)
            await eventually(lambda: world.submit.waiting == 200)
            world.submit.release.set()
        assert len(done) == 200


@pytest.mark.parametrize("settings", [ApiSettings(max_inflight=2), ApiSettings(max_inflight_per_key=2), ApiSettings(max_streams=2)])
async def test_bounds_on_work_under_way(tmp_path: Path, settings: ApiSettings) -> None:
    async with running(tmp_path, settings) as world, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(exchange, world, request("hold"))
        await eventually(lambda: world.submit.waiting == 2)
        refused = await exchange(world, request("capital of Kenya?"))
        assert status_of(refused) == 503
        assert json.loads(body_of(refused))["error"]["code"] == "BUSY"
        assert b"retry-after: 1" in refused.lower()
        world.submit.release.set()
        await eventually(lambda: sum(1 for _, e, _ in world.log.lines if e == "http") == 3)
        assert status_of(await exchange(world, request("capital of Kenya?"))) == 200
