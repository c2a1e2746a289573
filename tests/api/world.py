"""A node's outside for the API tests: a scripted ``Submit`` and ``Admin``, real clock, real entropy, a log in a list, real sockets."""

from __future__ import annotations

import os
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import trio

from gnus_node.api.app import ApiDeps
from gnus_node.api.keys import KeyRing
from gnus_node.api.server import Bound, serve
from gnus_node.api.settings import ApiSettings
from gnus_node.ports.submit import Answered, Ask, Caller, Source, Status, StatusSink
from gnus_node.records.enums import AnswerType, KeyMode, Outcome, Proof, Tier
from gnus_node.records.errors import GnusError

CANARY = "zanzibar-canary-7731"
CREATED_MS = 1_767_225_600_000
OPERATOR = Caller("home", "node", "operator", KeyMode.LIVE, "operator")


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return trio.current_time()


class SystemEntropy:
    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)

    def uuid(self) -> str:
        return str(uuid.uuid4())


@dataclass
class ListLog:
    lines: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.lines.append(("error", event, fields))


def answered(text: str, request_id: str = "r1", **changes: Any) -> Answered:
    whole = Answered(
        request_id=request_id,
        audit_id=f"audit-{request_id}",
        outcome=Outcome.ANSWERED,
        answer=text,
        answer_type=AnswerType.TEXT,
        sources=(Source("docs:kenya", "Kenya", "public", (10, 17), CREATED_MS, "Nairobi"),),
        route={"intent": "fact"},
        backends=({"kind": "extractive"},),
        agreement=1.0,
        latency_ms={"ground": 3.5},
        usage={"prompt_tokens": 9, "completion_tokens": 1},
        verdict=Proof.PROVED,
        created_at_ms=CREATED_MS,
    )
    return replace(whole, **changes)


Script = Callable[["ScriptedSubmit", Ask, StatusSink | None], Awaitable[Answered]]


async def _tell(sink: StatusSink | None, number: int, stage: str, state: str, **facts: str | int) -> None:
    if sink is not None:
        await sink(Status("r1", number, stage, state, CREATED_MS, facts))


async def _capital(_s: ScriptedSubmit, _a: Ask, sink: StatusSink | None) -> Answered:
    await _tell(sink, 1, "ground", "started", documents=3)
    return answered("Nairobi")


async def _forever(s: ScriptedSubmit, _a: Ask, sink: StatusSink | None) -> Answered:
    await _tell(sink, 1, "draft", "started")
    s.waiting += 1
    try:
        await trio.sleep_forever()
        raise AssertionError("unreachable")
    finally:
        s.waiting -= 1
        s.cancelled.set()


async def _hold(s: ScriptedSubmit, _a: Ask, sink: StatusSink | None) -> Answered:
    await _tell(sink, 1, "draft", "started")
    s.waiting += 1
    await s.release.wait()
    return answered("let go")


async def _late(_s: ScriptedSubmit, _a: Ask, sink: StatusSink | None) -> Answered:
    await _tell(sink, 1, "draft", "started")
    raise GnusError("DEADLINE", "the time allowed ran out")


async def _fault(_s: ScriptedSubmit, ask: Ask, _sink: StatusSink | None) -> Answered:
    raise RuntimeError(f"a role broke on {ask.question}")


async def _late_fault(s: ScriptedSubmit, ask: Ask, sink: StatusSink | None) -> Answered:
    await _tell(sink, 1, "draft", "started")
    return await _fault(s, ask, sink)


def _say(**changes: Any) -> Script:
    async def script(_s: ScriptedSubmit, _a: Ask, _sink: StatusSink | None) -> Answered:
        return answered(changes.get("answer", ""), **{k: v for k, v in changes.items() if k != "answer"})

    return script


def _refuse(code: str) -> Script:
    async def script(_s: ScriptedSubmit, _a: Ask, _sink: StatusSink | None) -> Answered:
        raise GnusError(code)

    return script


SCRIPTS: dict[str, Script] = {
    "capital of Kenya?": _capital,
    "wait": _forever,
    "hold": _hold,
    "late": _late,
    "fault": _fault,
    "late fault": _late_fault,
    "abstain": _say(outcome=Outcome.ABSTAINED, reason_code="NO_EVIDENCE", reason="nothing at hand supports an answer", sources=()),
    "pending": _say(outcome=Outcome.PENDING_APPROVAL, reason="a person must approve first", pending_approvals=({"approval_id": "a1"},)),
    "partial": _say(outcome=Outcome.PARTIAL_EFFECTS, reason_code="BUSY", reason="stopped", effects=({"state": "done"},)),
    "failed": _say(outcome=Outcome.FAILED, reason_code="BACKEND_FAILED", reason="an expert's backend failed"),
    "busy": _refuse("BUSY"),
    "mismatch": _refuse("IDEMPOTENCY_MISMATCH"),
    "huge": _say(answer="0123456789abcde " * 1_000_000),
}


class ScriptedSubmit:
    """A real ``Submit``: what it answers is a function of the question; anything unknown is echoed."""

    def __init__(self) -> None:
        self.asked: list[tuple[Caller, Ask]] = []
        self.cancelled = trio.Event()
        self.release = trio.Event()
        self.waiting = 0

    async def ask(self, caller: Caller, ask: Ask, *, on_status: StatusSink | None = None) -> Answered:
        self.asked.append((caller, ask))
        script = SCRIPTS.get(ask.question)
        if script is not None:
            return await script(self, ask, on_status)
        await trio.lowlevel.checkpoint()
        return answered(ask.question)

    async def lookup(self, caller: Caller, request_id: str) -> Answered | None:
        if request_id == "running":
            return None
        if request_id == "r1" and caller.tenant == "acme":
            return answered("Nairobi")
        if request_id == "r2":
            return answered("", "r2", outcome=Outcome.FAILED, reason_code="NO_EXPERT", reason="no capable expert is reachable")
        raise GnusError("NOT_FOUND")

    async def models(self) -> list[Mapping[str, Any]]:
        return [{"id": "gnus", "owned_by": "swarm"}, {"id": "symbolic/1", "owned_by": "node", "kind": "symbolic"}]


class ScriptedAdmin:
    """A real ``Admin`` over the same answers."""

    def __init__(self, submit: ScriptedSubmit) -> None:
        self._submit = submit
        self.calls: list[tuple[Any, ...]] = []

    async def status(self) -> dict[str, Any]:
        return {"problems": [], "roles": {"ingress": "up"}}

    async def ask(self, question: str, **options: Any) -> Answered:
        self.calls.append(("ask", question, options))
        return await self._submit.ask(OPERATOR, Ask(question, **options))

    async def plan(self, question: str) -> dict[str, Any]:
        return {"stages": ["ground", "draft"], "size": len(question)}

    async def audit(self, request_id: str, payloads: bool) -> bytes:
        if request_id != "r1":
            raise GnusError("NOT_FOUND")
        return b"bundle+texts" if payloads else b"bundle"

    async def memory_search(self, query: str, limit: int) -> list[dict[str, Any]]:
        self.calls.append(("search", query, limit))
        return [{"event": "e1"}][:limit]

    async def memory_put(self, content: str, memory_class: str) -> dict[str, Any]:
        self.calls.append(("put", content, memory_class))
        return {"event": "e2", "memory_class": memory_class}

    async def grant(self, request: str, operator: str, tier: Tier) -> dict[str, Any]:
        return {"node_id": "node-x", "charter": request, "trust": f"{operator} {tier.name}"}

    async def tools(self) -> list[dict[str, Any]]:
        return [{"tool": "files.read"}]

    async def doctor(self) -> list[dict[str, Any]]:
        return [{"code": "OK"}]


@dataclass
class World:
    """One API with its outside."""

    deps: ApiDeps
    submit: ScriptedSubmit
    admin: ScriptedAdmin
    log: ListLog
    key: str
    key_id: str
    problems: list[str]
    bound: Bound = field(default_factory=lambda: Bound(None, None))

    @property
    def port(self) -> int:
        assert self.bound.tcp is not None
        return self.bound.tcp[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def unix(self) -> Path:
        assert self.bound.unix_path is not None
        return self.bound.unix_path

    async def tcp_stream(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    def post(self, body: bytes, *extra: str, path: str = "/v1/chat/completions", key: str | None = None) -> bytes:
        """The bytes of a POST."""
        lines = [
            f"POST {path} HTTP/1.1",
            "host: 127.0.0.1",
            f"authorization: Bearer {self.key if key is None else key}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            *extra,
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def build_world(folder: Path, settings: ApiSettings | None = None, clock: Any = None) -> World:
    clock = clock or SystemClock()
    ring = KeyRing.load(folder / "api-keys.json", clock)
    key, row = ring.create(SystemEntropy(), tenant="acme", project="demo", principal="alice", mode=KeyMode.LIVE)
    submit, log = ScriptedSubmit(), ListLog()
    admin = ScriptedAdmin(submit)
    problems: list[str] = []
    deps = ApiDeps(
        submit=submit,
        admin=admin,
        keys=ring,
        operator=OPERATOR,
        clock=clock,
        entropy=SystemEntropy(),
        log=log,
        problems=lambda: problems,
        metrics=lambda: b"# TYPE gnus_up gauge\ngnus_up 1\n",
        settings=settings or ApiSettings(),
    )
    return World(deps, submit, admin, log, key, row.key_id, problems)


@asynccontextmanager
async def running(folder: Path, settings: ApiSettings | None = None) -> AsyncIterator[World]:
    """A world whose two doors are open."""
    world = build_world(folder, settings)
    async with trio.open_nursery() as nursery:
        world.bound = await nursery.start(partial(serve, world.deps, unix_path=folder / "node.sock", tcp=("127.0.0.1", 0)))
        yield world
        nursery.cancel_scope.cancel()


async def eventually(condition: Callable[[], bool], deadline_s: float = 20) -> None:
    """Poll until the condition holds."""
    with trio.fail_after(deadline_s):
        while not condition():  # noqa: ASYNC110 - the thing polled is another task's or the kernel's, it has no event
            await trio.sleep(0.005)


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Until the other side closes."""
    data = bytearray()
    with trio.fail_after(20):
        try:
            while chunk := await stream.receive_some(65536):
                data += chunk
        except trio.BrokenResourceError:
            pass
    return bytes(data)


def body_of(response: bytes) -> bytes:
    """The body of one raw HTTP response, unchunked."""
    head, _, rest = response.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            break
        body, rest = body + rest[:length], rest[length + 2 :]
    return body


def status_of(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def mode_of(path: Path) -> int:
    return os.lstat(path).st_mode & 0o7777
