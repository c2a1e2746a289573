"""Bodies of all kinds: what is refused, how, and that nothing a client sends is a fault of the node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.api.app import build_app
from gnus_node.api.chat import Message, context_of, read_chat
from gnus_node.api.parameters import ONLY, UNSUPPORTED
from gnus_node.api.settings import ApiSettings
from gnus_node.records.errors import GnusError

from .world import CANARY, World, body_of, build_world, eventually, read_all, running, status_of

LIMIT = 64 * 1024
GOOD = {"model": "gnus", "messages": [{"role": "user", "content": "capital of Kenya?"}]}


def with_message(message: Any) -> bytes:
    return json.dumps({"model": "gnus", "messages": [message]}).encode()


def with_text(raw: bytes) -> bytes:
    return b'{"model":"gnus","messages":[{"role":"user","content":"' + raw + b'"}]}'


MALFORMED: dict[str, tuple[bytes, str | None, str]] = {
    "empty": (b"", None, "MALFORMED"),
    "not json": (b"model=gnus", None, "MALFORMED"),
    "cut": (b'{"model":"gnus","mess', None, "MALFORMED"),
    "two values": (b"{}{}", None, "MALFORMED"),
    "array": (b"[]", None, "MALFORMED"),
    "text": (b'"gnus"', None, "MALFORMED"),
    "null": (b"null", None, "MALFORMED"),
    "no fields": (b"{}", "model", "MALFORMED"),
    "byte-order mark": (b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), None, "MALFORMED"),
    "utf-16": (json.dumps(GOOD).encode("utf-16"), None, "MALFORMED"),
    "not utf-8": (with_text(b"\xff\xfe"), None, "MALFORMED"),
    "overlong utf-8": (with_text(b"\xc0\xaf"), None, "MALFORMED"),
    "surrogate in utf-8": (with_text(b"\xed\xa0\x80"), None, "MALFORMED"),
    "lone surrogate": (with_text(rb"\ud800"), None, "MALFORMED"),
    "raw control": (with_text(b"\x00"), None, "MALFORMED"),
    "duplicate key": (b'{"model":"gnus","model":"gnus","messages":[]}', None, "MALFORMED"),
    "duplicate key within": (b'{"model":"gnus","messages":[{"role":"user","role":"user","content":"x"}]}', None, "MALFORMED"),
    "NaN": (b'{"model":"gnus","temperature":NaN,"messages":[]}', None, "MALFORMED"),
    "infinity": (b'{"model":"gnus","temperature":-Infinity,"messages":[]}', None, "MALFORMED"),
    "too great": (b'{"model":"gnus","temperature":1e999,"messages":[]}', None, "NUMBER_RANGE"),
    "long integer": (b'{"model":"gnus","max_tokens":' + b"9" * 5000 + b',"messages":[]}', None, "NUMBER_RANGE"),
    "deep": (b'{"model":' + b"[" * 100 + b"]" * 100 + b"}", None, "MALFORMED"),
    "very deep": (b"[" * 30_000, None, "MALFORMED"),
    "model is a number": (b'{"model":1,"messages":[{"role":"user","content":"x"}]}', "model", "MALFORMED"),
    "no messages": (b'{"model":"gnus","messages":[]}', "messages", "MALFORMED"),
    "messages is text": (b'{"model":"gnus","messages":"x"}', "messages", "MALFORMED"),
    "message is text": (with_message("x"), "messages[0]", "MALFORMED"),
    "too many messages": (
        json.dumps({"model": "gnus", "messages": [{"role": "user", "content": "x"}] * 257}).encode(),
        "messages",
        "MALFORMED",
    ),
    "unknown role": (with_message({"role": "root", "content": "x"}), "messages[0].role", "MALFORMED"),
    "tool role": (with_message({"role": "tool", "content": "x"}), "messages[0].role", "UNSUPPORTED"),
    "no content": (with_message({"role": "user"}), "messages[0].content", "MALFORMED"),
    "content is null": (with_message({"role": "user", "content": None}), "messages[0].content", "MALFORMED"),
    "content is a number": (with_message({"role": "user", "content": 1}), "messages[0].content", "MALFORMED"),
    "image": (
        with_message({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
        "messages[0].content[0]",
        "UNSUPPORTED",
    ),
    "blank question": (with_message({"role": "user", "content": " \n"}), "messages[0].content", "MALFORMED"),
    "last is the assistant's": (with_message({"role": "assistant", "content": "x"}), "messages", "UNSUPPORTED"),
    "name": (with_message({"role": "user", "content": "x", "name": "bob"}), "messages[0].name", "UNSUPPORTED"),
    "tool calls": (with_message({"role": "assistant", "content": "x", "tool_calls": [1]}), "messages[0].tool_calls", "UNSUPPORTED"),
    "stream is text": (json.dumps({**GOOD, "stream": "true"}).encode(), "stream", "MALFORMED"),
    "max_tokens is true": (json.dumps({**GOOD, "max_tokens": True}).encode(), "max_tokens", "MALFORMED"),
    "empty stop": (json.dumps({**GOOD, "stop": ""}).encode(), "stop", "MALFORMED"),
    "metadata of numbers": (json.dumps({**GOOD, "metadata": {"a": 1}}).encode(), "metadata", "MALFORMED"),
    "gnus is text": (json.dumps({**GOOD, "gnus": "x"}).encode(), "gnus", "MALFORMED"),
    "hostile name": (json.dumps({**GOOD, "a b\r\nset-cookie: x": 1}).encode(), None, "UNSUPPORTED"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_bodies(name: str) -> None:
    body, param, code = MALFORMED[name]
    with pytest.raises(GnusError) as caught:
        read_chat(body, LIMIT)
    assert (getattr(caught.value, "param", None), caught.value.code) == (param, code)


async def test_malformed_bodies_over_http_leave_the_node_alive(tmp_path: Path) -> None:
    async with running(tmp_path, ApiSettings(rate_burst=1000)) as world, httpx.AsyncClient(base_url=world.url) as client:
        headers = {"authorization": f"Bearer {world.key}", "content-type": "application/json"}
        for name, (body, param, code) in MALFORMED.items():
            got = await client.post("/v1/chat/completions", content=body, headers=headers)
            assert got.status_code == 400, name
            error = got.json()["error"]
            assert (error["param"], error["gnus"]["code"], error["type"]) == (param, code, "invalid_request_error"), name
        assert (await client.post("/v1/chat/completions", json=GOOD, headers=headers)).status_code == 200
        assert not [line for line in world.log.lines if line[0] == "error"]


@pytest.mark.parametrize("name", sorted(ONLY))
def test_defaults_are_the_same_as_absent(name: str) -> None:
    for value in (*ONLY[name], None):
        read_chat(json.dumps({**GOOD, name: value}).encode(), LIMIT)


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_unsupported_parameters_are_named(name: str) -> None:
    read_chat(json.dumps({**GOOD, name: None}).encode(), LIMIT)
    for value in (0, [], {}, "x", False):
        with pytest.raises(GnusError) as caught:
            read_chat(json.dumps({**GOOD, name: value}).encode(), LIMIT)
        assert getattr(caught.value, "param", None) == name


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = [*sorted(ONLY), *sorted(UNSUPPORTED), "stream", "stream_options", "max_tokens", "stop", "user", "metadata", "gnus", "x"]
odd_bodies = st.builds(
    lambda extra, messages: {**GOOD, **extra, **({} if messages is None else {"messages": messages})},
    st.dictionaries(st.sampled_from(NAMES), json_values, max_size=3),
    st.none()
    | json_values
    | st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "x"]), "content": json_values})),
)
bodies = (odd_bodies | json_values).map(lambda v: json.dumps(v).encode()) | st.binary(max_size=64)


@given(bodies)
def test_any_body_is_read_or_refused_with_a_clients_error(body: bytes) -> None:
    try:
        chat = read_chat(body, LIMIT)
    except GnusError as error:
        status = error.row.http
    else:
        status = 200 if chat.ask.question.strip() else 0
    assert status in (200, 400, 413)


@settings(max_examples=30)
@given(st.lists(bodies, min_size=1, max_size=8))
def test_any_body_over_http_is_never_the_nodes_fault(tmp_path_factory: pytest.TempPathFactory, several: list[bytes]) -> None:
    async def main(world: World) -> None:
        transport = httpx.ASGITransport(app=build_app(world.deps))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for body in several:
                headers = {"authorization": f"Bearer {world.key}", "content-type": "application/json"}
                got = await client.post("/v1/chat/completions", content=body, headers=headers)
                assert got.status_code in (200, 400)

    world = trio.run(_build, tmp_path_factory.mktemp("fuzz"))
    trio.run(main, world)


async def _build(folder: Path) -> World:
    return build_world(folder, ApiSettings(rate_burst=1000))


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text()), max_size=6))
def test_no_text_can_pose_as_a_turn(turns: list[tuple[str, str]]) -> None:
    messages = [Message(role=role, content=text) for role, text in turns]  # type: ignore[arg-type]
    lines = context_of(messages).splitlines() if messages else []
    assert [line.split(":")[0] for line in lines if not line.startswith("  ")] == [role for role, _ in turns]


@pytest.mark.parametrize("declared", [True, False])
async def test_oversized_body(tmp_path: Path, declared: bool) -> None:
    """413 whether the length was declared or not, and the client that sends on still reads its answer."""
    async with running(tmp_path, ApiSettings(max_body_bytes=10_000)) as world:
        head = world.post(b"").replace(b"content-length: 0", b"content-length: 200000" if declared else b"transfer-encoding: chunked")
        async with await world.tcp_stream() as stream:
            await stream.send_all(head)
            for _ in range(20):
                await stream.send_all(b"x" * 10_000 if declared else b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            if not declared:
                await stream.send_all(b"0\r\n\r\n")
            got = await _one_response(stream)
        assert status_of(got) == 413
        assert json.loads(body_of(got))["error"]["code"] == "TOO_LARGE"
        assert world.submit.asked == []
        await _alive(world)


async def _one_response(stream: trio.SocketStream) -> bytes:
    data = b""
    with trio.fail_after(20):
        while b'"request_id"' not in data:
            more = await stream.receive_some()
            if not more:
                break
            data += more
    return data


async def _alive(world: World) -> None:
    async with httpx.AsyncClient(base_url=world.url) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}


async def test_endless_body_is_cut(tmp_path: Path) -> None:
    """A body without end, to an endpoint that does not want one: the answer comes and the connection goes."""
    async with running(tmp_path, ApiSettings(linger_bytes=100_000)) as world, await world.tcp_stream() as stream:
        await stream.send_all(b"POST /v1/models HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        with trio.fail_after(20), pytest.raises(trio.BrokenResourceError):
            await _send_for_ever(stream)
        await _alive(world)


async def _send_for_ever(stream: trio.SocketStream) -> None:
    while True:
        await stream.send_all(b"2710\r\n" + b"x" * 10_000 + b"\r\n")


async def test_slow_body(tmp_path: Path) -> None:
    async with running(tmp_path, ApiSettings(body_deadline_s=0.1, linger_s=0.1)) as world, await world.tcp_stream() as stream:
        await stream.send_all(world.post(b'{"model"').replace(b"content-length: 8", b"content-length: 80"))
        got = await read_all(stream)
        assert status_of(got) == 408
        assert b"connection: close" in got.lower()


async def test_slow_headers(tmp_path: Path) -> None:
    async with running(tmp_path, ApiSettings(header_deadline_s=0.1)) as world, await world.tcp_stream() as stream:
        await stream.send_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ")
        assert await read_all(stream) == b""


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["content-type: text/plain"], 415),
        (["content-type: application/json; charset=latin-1"], 415),
        (["content-type: application/json", "content-encoding: gzip"], 415),
        (["content-type: application/json;charset=UTF-8"], 200),
        ([], 415),
    ],
)
async def test_content_type(tmp_path: Path, headers: list[str], status: int) -> None:
    async with running(tmp_path) as world, await world.tcp_stream() as stream:
        raw = world.post(json.dumps(GOOD).encode(), "connection: close", *headers).replace(b"content-type: application/json\r\n", b"", 1)
        await stream.send_all(raw)
        assert status_of(await read_all(stream)) == status


@pytest.mark.parametrize("key", ["", "x" * 129, "caf\u00e9"])
async def test_bad_idempotency_key(tmp_path: Path, key: str) -> None:
    async with running(tmp_path) as world, httpx.AsyncClient(base_url=world.url) as client:
        headers = {"authorization": f"Bearer {world.key}".encode(), "idempotency-key": key.encode()}
        got = await client.post("/v1/chat/completions", json=GOOD, headers=headers)
        assert got.status_code == 400
        assert got.json()["error"]["param"] == "Idempotency-Key"


async def test_no_user_text_in_log_or_errors(tmp_path: Path) -> None:
    async with running(tmp_path) as world, httpx.AsyncClient(base_url=world.url) as client:
        headers = {"authorization": f"Bearer {world.key}", "x-canary": CANARY}
        texts: list[str] = []
        for content in (CANARY, "fault", "wait"[:3] + CANARY):
            body = {**GOOD, "messages": [{"role": "user", "content": content}], "user": CANARY, "metadata": {CANARY: CANARY}}
            await client.post("/v1/chat/completions", json=body, headers=headers)
            for bad in ({"temperature": CANARY}, {"metadata": {CANARY: 1}}, {"stop": [CANARY, 1]}, {"model": CANARY}):
                texts.append((await client.post("/v1/chat/completions", json={**body, **bad}, headers=headers)).text)
        texts.append((await client.get(f"/{CANARY}?q={CANARY}", headers=headers)).text)
        texts.append((await client.get("/v1/models", headers={"authorization": f"Bearer {CANARY}"})).text)
        await eventually(lambda: sum(1 for _, e, _ in world.log.lines if e == "http") == 17)
        assert CANARY not in "".join(texts)
        assert CANARY not in repr(world.log.lines)
        assert world.key not in repr(world.log.lines)
