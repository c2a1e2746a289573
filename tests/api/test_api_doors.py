"""The two doors: who gets in where, what is reachable, and how they open and close."""

from __future__ import annotations

import json
import os
import re
import socket
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from gnus_node.api import server
from gnus_node.api.app import build_app, build_local_app
from gnus_node.api.connection import Connection
from gnus_node.api.server import serve
from gnus_node.api.settings import ApiSettings
from gnus_node.api.sockets import open_tcp, open_unix
from gnus_node.records.errors import GnusError

from .world import CANARY, World, body_of, build_world, eventually, mode_of, read_all, running, status_of

GOOD = {"model": "gnus", "messages": [{"role": "user", "content": "capital of Kenya?"}]}
DOC = Path(__file__).resolve().parents[2] / "docs" / "protocol" / "http.md"


def local(world: World) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(world.unix)), base_url="http://node")


async def test_unix_socket_is_private(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        async with running(tmp_path) as world:
            assert mode_of(world.unix) == 0o600
            umask = os.umask(0o000)
            assert umask == 0o000
    finally:
        os.umask(before)
    assert not (tmp_path / "node.sock").exists()


async def test_admin_is_at_the_local_door_only(tmp_path: Path) -> None:
    async with running(tmp_path) as world, local(world) as inside, httpx.AsyncClient(base_url=world.url) as outside:
        assert (await inside.get("/admin/status")).json()["roles"] == {"ingress": "up"}
        paths = re.findall(r"`(GET|POST) (/admin/[^`]+)`", DOC.read_text())
        assert len(paths) == 8
        for method, path in paths:
            for headers in ({}, {"authorization": f"Bearer {world.key}"}, {"x-forwarded-for": "127.0.0.1", "host": "localhost"}):
                got = await outside.request(method, path.replace("{id}", "r1"), headers=headers)
                assert got.status_code == 404
                assert got.json()["error"]["gnus"]["code"] == "NOT_FOUND"
        for trick in ("//admin/status", "/v1/../admin/status", "/%61dmin/status", "/v1/models/../../admin/status", "/admin/status/"):
            async with await world.tcp_stream() as stream:
                await stream.send_all(f"GET {trick} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
                assert status_of(await read_all(stream)) in (401, 404)


async def test_admin_endpoints(tmp_path: Path) -> None:
    async with running(tmp_path) as world, local(world) as client:
        asked = await client.post("/admin/ask", json={"question": "capital of Kenya?", "max_tokens": 5, "privacy_mode": "restricted"})
        answer = asked.json()
        assert (answer["object"], answer["answer"], answer["request_id"], answer["agreement"]) == ("gnus.answer", "Nairobi", "r1", 1.0)
        assert world.admin.calls[-1] == ("ask", "capital of Kenya?", {"max_tokens": 5, "privacy_mode": "restricted"})
        failed = await client.post("/admin/ask", json={"question": "failed"})
        assert (failed.status_code, failed.json()["outcome"]) == (200, "failed")
        assert (await client.post("/admin/plan", json={"question": "why?"})).json() == {"stages": ["ground", "draft"], "size": 4}
        assert (await client.get("/admin/audit/r1")).content == b"bundle"
        assert (await client.get("/admin/audit/r1?payloads=1")).content == b"bundle+texts"
        assert (await client.get("/admin/audit/r9")).status_code == 404
        assert (await client.get("/admin/audit/r1?payloads=yes")).status_code == 400
        found = await client.post("/admin/memory/search", json={"query": "x", "limit": 3})
        assert found.json() == {"object": "list", "data": [{"event": "e1"}]}
        assert world.admin.calls[-1] == ("search", "x", 3)
        assert (await client.post("/admin/memory", json={"content": "x", "memory_class": "fact"})).json()["memory_class"] == "fact"
        assert (await client.post("/admin/memory", json={"content": "x", "memory_class": "rumour"})).status_code == 400
        assert (await client.get("/admin/tools")).json()["data"] == [{"tool": "files.read"}]
        assert (await client.get("/admin/doctor")).json()["data"] == [{"code": "OK"}]
        assert (await client.post("/admin/ask", json={"question": "x", "tenant": "other"})).json()["error"]["param"] == "tenant"


async def test_the_operator_s_question_takes_a_form_and_nulls_are_absent(tmp_path: Path) -> None:
    async with running(tmp_path) as world, local(world) as client:

        async def answer(**body: object) -> dict[str, Any]:
            got = await client.post("/admin/ask", json={"question": "capital of Kenya?", **body})
            assert got.status_code == 200, got.text
            return dict(got.json())

        assert (await answer(context=None, stop=None, max_tokens=None, answer_type=None))["answer"] == "Nairobi"
        assert (await answer(stop=["ro"]))["answer"] == "Nai"
        formed = await answer(answer_type="json", stop=["bi"])
        assert (formed["answer_type"], json.loads(formed["answer"])["answer"]) == ("json", "Nairo")
        # Whatever the outcome: a failure is an object too.
        failed = json.loads((await answer(question="failed", answer_type="json"))["answer"])
        assert (failed["answer"], failed["outcome"], failed["reason"]) == (None, "failed", "an expert's backend failed")
        refused = await client.post("/admin/ask", json={"question": "q", "answer_type": "xml"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "answer_type")


async def test_leaving_cancels_an_admin_question(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        stream = await trio.open_unix_socket(str(world.unix))
        await stream.send_all(world.post(b'{"question": "wait"}', path="/admin/ask"))
        await eventually(lambda: world.submit.waiting == 1)
        await stream.aclose()
        with trio.fail_after(20):
            await world.submit.cancelled.wait()


async def test_callers_at_the_local_door(tmp_path: Path) -> None:
    async with running(tmp_path) as world, local(world) as client:
        assert (await client.post("/v1/chat/completions", json=GOOD)).status_code == 200
        assert world.submit.asked[-1][0].principal == "operator"
        await client.post("/v1/chat/completions", json=GOOD, headers={"authorization": f"Bearer {world.key}"})
        assert world.submit.asked[-1][0].principal == "alice"
        assert (await client.post("/v1/chat/completions", json=GOOD, headers={"authorization": "Bearer x"})).status_code == 401


async def test_public_endpoints(tmp_path: Path) -> None:
    async with running(tmp_path) as world, httpx.AsyncClient(base_url=world.url) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        world.problems.append("role verifier is not up")
        not_ready = await client.get("/readyz")
        assert (not_ready.status_code, not_ready.json()["problems"]) == (503, ["role verifier is not up"])
        metrics = await client.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert b"gnus_up 1" in metrics.content
        for path in ("/v1/models", "/v1/models/gnus", "/v1/requests/r1"):
            got = await client.get(path)
            assert got.status_code == 401
            assert got.headers["www-authenticate"] == "Bearer"


async def test_every_response_has_the_common_headers(tmp_path: Path) -> None:
    async with running(tmp_path) as world, httpx.AsyncClient(base_url=world.url) as client:
        seen = set()
        for method, path in (
            ("GET", "/healthz"),
            ("HEAD", "/healthz"),
            ("GET", "/nowhere"),
            ("DELETE", "/v1/models"),
            ("POST", "/v1/models"),
        ):
            got = await client.request(method, path)
            assert got.headers["cache-control"] == "no-store"
            assert got.headers["x-content-type-options"] == "nosniff"
            assert "server" not in got.headers
            seen.add(got.headers["x-request-id"])
        assert len(seen) == 5
        refused = await client.put("/v1/chat/completions")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert refused.json()["error"]["gnus"]["code"] == "UNSUPPORTED"
        assert (await client.get("/v1/models/", headers={"authorization": f"Bearer {world.key}"})).status_code == 404


async def test_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        headers = {"authorization": f"Bearer {world.key}"}
        async with httpx.AsyncClient(base_url=world.url, headers=headers) as client:
            done = (await client.get("/v1/requests/r1")).json()
            assert (done["object"], done["status"], done["answer"], done["error"]) == ("gnus.request", "completed", "Nairobi", None)
            assert done["gnus"]["audit_id"] == "audit-r1"
            assert (await client.get("/v1/requests/running")).json()["status"] == "in_progress"
            failed = (await client.get("/v1/requests/r2")).json()
            assert (failed["status"], failed["answer"], failed["error"]["code"]) == ("failed", None, "NO_EXPERT")
            for path in ("/v1/requests/r9", "/v1/requests/%00", "/v1/requests/" + "x" * 200):
                assert (await client.get(path)).status_code == 404


async def test_scope_is_needed(tmp_path: Path) -> None:
    async with running(tmp_path) as world, httpx.AsyncClient(base_url=world.url) as client:
        key, _ = world.deps.keys.create(
            world.deps.entropy, tenant="acme", project="demo", principal="bob", mode=world.deps.operator.key_mode, scopes=()
        )
        headers = {"authorization": f"Bearer {key}"}
        assert (await client.get("/v1/models", headers=headers)).status_code == 200
        for got in (
            await client.post("/v1/chat/completions", json=GOOD, headers=headers),
            await client.get("/v1/requests/r1", headers=headers),
        ):
            assert (got.status_code, got.json()["error"]["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 200), ("LOCALHOST:80", 200), ("[::1]:9", 200), ("evil.example", 403), ("localhost.evil.example:80", 403), ("x:y", 403)],
)
async def test_foreign_host_is_refused(tmp_path: Path, host: str, status: int) -> None:
    async with running(tmp_path) as world, httpx.AsyncClient(base_url=world.url) as client:
        assert (await client.get("/metrics", headers={"host": host})).status_code == status


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\n\r\n", 400),
        (b"POST /v1/models HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
    ],
)
async def test_what_is_not_http_gets_our_form(tmp_path: Path, raw: bytes, status: int) -> None:
    async with running(tmp_path) as world:
        async with await world.tcp_stream() as stream:
            await stream.send_all(raw)
            got = await read_all(stream)
            assert status_of(got) == status
            assert json.loads(body_of(got))["error"]["type"] == "invalid_request_error"
        async with httpx.AsyncClient(base_url=world.url) as client:
            assert (await client.get("/healthz")).status_code == 200


async def test_upgrades_are_ignored_or_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        async with await world.tcp_stream() as stream:
            await stream.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert status_of(await read_all(stream)) == 404
        for upgrade, status in (("h2c", 200), ("websocket", 403)):
            async with await world.tcp_stream() as stream:
                lines = ["GET /healthz HTTP/1.1", "host: localhost", f"upgrade: {upgrade}", "http2-settings: AAAA"]
                lines += ["sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="]
                lines += ["connection: upgrade" if upgrade == "websocket" else "connection: close, upgrade, http2-settings", "", ""]
                await stream.send_all("\r\n".join(lines).encode())
                assert status_of(await read_all(stream)) == status


HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


async def hold(world: World) -> trio.SocketStream:
    """A connection whose request is under way: its body does not come."""
    stream = await world.tcp_stream()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {world.key}\r\n"
    await stream.send_all(f"{head}content-type: application/json\r\ncontent-length: 99\r\nexpect: 100-continue\r\n\r\n".encode())
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 100")
    return stream


async def test_connections_are_bounded_and_health_has_a_place_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, ApiSettings(max_connections=3, reserved_connections=1)) as world:
        held = [await hold(world) for _ in range(3)]
        async with await world.tcp_stream() as extra:
            await extra.send_all(HEALTH)
            assert status_of(await read_all(extra)) == 200
        async with await world.tcp_stream() as extra:
            await extra.send_all(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n")
            got = await read_all(extra)
            assert status_of(got) == 503
            assert json.loads(body_of(got))["error"]["code"] == "BUSY"
        async with local(world) as client:
            assert (await client.get("/admin/status")).status_code == 200  # the operator's door has its own count
        for stream in held:
            await stream.aclose()

        async def again() -> bool:
            async with await world.tcp_stream() as stream:
                await stream.send_all(b"GET /v1/none HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                return status_of(await read_all(stream)) == 404

        with trio.fail_after(20):
            while not await again():
                await trio.lowlevel.checkpoint()


async def test_beyond_the_reserve_a_connection_is_told_so(tmp_path: Path) -> None:
    settings = ApiSettings(max_connections=1, reserved_connections=0)
    async with running(tmp_path, settings) as world, await hold(world), await world.tcp_stream() as extra:
        got = await read_all(extra)
        assert status_of(got) == 503
        assert json.loads(body_of(got))["error"]["code"] == "BUSY"


@pytest.mark.parametrize("start", [b"", b"GET /healthz HTT"])
async def test_idle_and_half_open_connections_lock_nobody_out(tmp_path: Path, start: bytes) -> None:
    """Twice as many as there is room for: each new one takes the place of the one that was idle longest; requests under way keep theirs."""
    async with running(tmp_path, ApiSettings(max_connections=32)) as world:
        held = await hold(world)
        idle = []
        for _ in range(80):
            stream = await world.tcp_stream()
            idle.append(stream)
            if start:
                await stream.send_all(start)
        for _ in range(5):
            async with await world.tcp_stream() as honest:
                await honest.send_all(HEALTH)
                assert status_of(await read_all(honest)) == 200
        await held.send_all(b" " * 99)
        assert status_of(await held.receive_some()) == 400
        for stream in (*idle, held):
            await stream.aclose()


async def test_faults_below_the_door_cost_one_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app without a door that breaks, and a connection that breaks: others are served, and the log has names only."""

    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/break":
            raise RuntimeError(CANARY)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def get(world: World, path: str) -> bytes:
        async with await world.tcp_stream() as stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
            return await read_all(stream)

    async def serve_data(self: Connection) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(server, "build_app", lambda _deps: breaks)
    async with running(tmp_path) as world:
        assert status_of(await get(world, "/break")) == 500
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "_read_data", serve_data)
            assert await get(world, "/") == b""
        assert status_of(await get(world, "/")) == 204
        faults = [(event, fields) for level, event, fields in world.log.lines if level == "error"]
        assert faults == [("http.server", {"error": "RuntimeError"}), ("http.connection", {"error": "ExceptionGroup"})]


async def test_keep_alive(tmp_path: Path) -> None:
    async with running(tmp_path) as world, await world.tcp_stream() as stream:
        for _ in range(3):
            await stream.send_all(world.post(json.dumps(GOOD).encode()))
            got = b""
            with trio.fail_after(20):
                while not got.endswith(b'"effects":[]}}'):
                    got += await stream.receive_some()
            assert got.startswith(b"HTTP/1.1 200")
            assert b"connection: close" not in got.lower()
        assert len(world.submit.asked) == 3


async def test_shutdown_lets_the_answer_out(tmp_path: Path) -> None:
    world = build_world(tmp_path, ApiSettings(grace_s=60))
    path = tmp_path / "node.sock"
    got: list[bytes] = []

    async def client(port: int) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(world.post(json.dumps({**GOOD, "messages": [{"role": "user", "content": "hold"}]}).encode()))
            got.append(await read_all(stream))

    async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve, world.deps, unix_path=path, tcp=("127.0.0.1", 0)))
        idle = await trio.open_tcp_stream("127.0.0.1", bound.tcp[1])
        outer.start_soon(client, bound.tcp[1])
        await eventually(lambda: world.submit.waiting == 1)
        nursery.cancel_scope.cancel()

        async def refused() -> None:
            with trio.CancelScope(shield=True):
                await eventually(lambda: not path.exists())
                with pytest.raises(OSError):
                    await trio.open_tcp_stream("127.0.0.1", bound.tcp[1])
                assert await read_all(idle) == b""
                world.submit.release.set()

        await refused()
    assert status_of(got[0]) == 200
    assert json.loads(body_of(got[0]))["choices"][0]["message"]["content"] == "let go"


async def test_shutdown_cuts_what_does_not_end(tmp_path: Path) -> None:
    world = build_world(tmp_path, ApiSettings(grace_s=0.05))
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            bound = await nursery.start(partial(serve, world.deps, unix_path=None, tcp=("127.0.0.1", 0)))
            stuck = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await stuck.connect(("127.0.0.1", bound.tcp[1]))
            reader = trio.SocketStream(stuck)
            body = json.dumps({**GOOD, "stream": True, "messages": [{"role": "user", "content": "huge"}]}).encode()
            await reader.send_all(world.post(body))
            waiting = await trio.open_tcp_stream("127.0.0.1", bound.tcp[1])
            await waiting.send_all(world.post(json.dumps({**GOOD, "messages": [{"role": "user", "content": "wait"}]}).encode()))
            await eventually(lambda: world.submit.waiting == 1 and len(world.submit.asked) == 2)
            nursery.cancel_scope.cancel()
    assert world.submit.cancelled.is_set()
    await reader.aclose()
    await waiting.aclose()


async def test_a_dead_socket_file_is_replaced_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "node.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    async with running(tmp_path) as world:
        assert world.unix == path
        with pytest.raises(GnusError) as caught:
            open_unix(path)
        assert caught.value.code == "ALREADY_RUNNING"
        async with local(world) as client:
            assert (await client.get("/healthz")).status_code == 200


def test_other_files_are_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "node.sock"
    path.write_text("precious")
    link = tmp_path / "link.sock"
    link.symlink_to(path)
    for place in (path, link):
        with pytest.raises(GnusError) as caught:
            open_unix(place)
        assert caught.value.code == "CONFIG"
    assert path.read_text() == "precious"
    assert link.is_symlink()


@pytest.mark.parametrize("path", ["x" * 200, "missing/node.sock"])
def test_bad_socket_paths(tmp_path: Path, path: str) -> None:
    with pytest.raises(GnusError) as caught:
        open_unix(tmp_path / path)
    assert caught.value.code == "CONFIG"


def test_network_door_is_loopback_only() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "localhost"):
        with pytest.raises(GnusError) as caught:
            open_tcp(host, 0)
        assert caught.value.code == "CONFIG"


async def test_port_in_use(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        with pytest.raises(GnusError) as caught:
            await serve(build_world(tmp_path).deps, unix_path=None, tcp=("127.0.0.1", world.port))
        assert (caught.value.code, "EADDRINUSE" in caught.value.what) == ("CONFIG", True)


async def test_the_page_names_every_route(tmp_path: Path) -> None:
    world = build_world(tmp_path)
    documented = {path for _, path in re.findall(r"^\| `(GET|POST) ([^`]+)` \|", DOC.read_text(), re.M)}

    def paths(routes: object) -> set[str]:
        names = {getattr(r, "path") for r in routes}  # type: ignore[attr-defined]  # noqa: B009
        return {p.replace(":path", "").replace("{request_id}", "{id}") for p in names}

    assert paths(build_local_app(world.deps).routes) == documented
    assert paths(build_app(world.deps).routes) == {p for p in documented if not p.startswith("/admin")}


async def test_the_local_door_asks_the_kernel_who_calls(tmp_path: Path) -> None:
    """The mode keeps others out; the peer's user is checked too, for a socket that somebody opened up."""
    world = build_world(tmp_path)
    for uids, served in ((frozenset({os.geteuid()}), True), (frozenset({os.geteuid() + 1}), False)):
        path = tmp_path / f"{served}.sock"
        door = server._Server(build_local_app(world.deps), world.deps, uids=uids)
        async with trio.open_nursery() as nursery:
            await nursery.start(door.run, open_unix(path))
            async with await trio.open_unix_socket(str(path)) as stream:
                await stream.send_all(b"GET /admin/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                assert (await read_all(stream)).startswith(b"HTTP/1.1 200") is served
            nursery.cancel_scope.cancel()
