"""What the tests of this room share: an inline Offload, a scripted backend, a model server on a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, Unpack

import trio

from gnus_node.experts.backend import BackendInfo, Generation, GenEvent, GenRequest, Health, Meter, Passage, running
from gnus_node.records.enums import BackendKind

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Inline:
    """Offload that works at once, as in a virtual run."""

    async def run(self, work: Callable[[Unpack[Ts]], T], *args: *Ts, lane: str = "default") -> T:
        await trio.lowlevel.checkpoint()
        return work(*args)


def passage(number: int, title: str, text: str, **more: Any) -> Passage:
    """A passage with the id ``eN``."""
    return Passage(f"e{number}", title, text, **more)


def info(backend_id: str = "scripted", **more: Any) -> BackendInfo:
    """A plain BackendInfo."""
    return BackendInfo(backend_id, BackendKind.SYMBOLIC, "rules", "test", "1", "MIT", **more)


Script = Callable[[GenRequest, Meter], AsyncGenerator[GenEvent, None]]


class Scripted:
    """A backend whose events a test writes."""

    def __init__(self, script: Script | Sequence[GenEvent], backend_info: BackendInfo | None = None) -> None:
        self._script = script
        self._info = backend_info or info()
        self.closed = trio.Event()

    @property
    def info(self) -> BackendInfo:
        return self._info

    async def open(self) -> None: ...

    async def aclose(self) -> None: ...

    async def health(self) -> Health:
        return Health.OK

    def generate(self, req: GenRequest) -> AbstractAsyncContextManager[Generation]:
        meter = Meter()
        return running(self._events(req, meter), meter)

    async def _events(self, req: GenRequest, meter: Meter) -> AsyncGenerator[GenEvent, None]:
        try:
            if isinstance(self._script, Sequence):
                for event in self._script:
                    await trio.lowlevel.checkpoint()
                    yield event
            else:
                async for event in self._script(req, meter):
                    yield event
        finally:
            self.closed.set()


@dataclass
class Received:
    """One request as the server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


Answering = Callable[[trio.SocketStream, Received], Awaitable[None]]


@dataclass
class ModelServer:
    """A small HTTP/1.1 server: each connection carries one request, answered by ``answer``."""

    answer: Answering
    url: str = ""
    received: list[Received] = field(default_factory=list)
    hung_up: trio.Event = field(default_factory=trio.Event)

    async def serve(self, stream: trio.SocketStream) -> None:
        try:
            request = await _read(stream)
            if request is None:
                return
            self.received.append(request)
            await self.answer(stream, request)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.hung_up.set()
        finally:
            await trio.aclose_forcefully(stream)

    async def until_hung_up(self, stream: trio.SocketStream) -> None:
        """Wait until the client closes the connection."""
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        self.hung_up.set()


async def _read(stream: trio.SocketStream) -> Received | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some()
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive_some()
    method, path, _ = first.split(" ")
    return Received(method, path, headers, json.loads(body) if body else None)


@asynccontextmanager
async def model_server(answer: Answering) -> AsyncIterator[ModelServer]:
    """Run a server on a free port of the loopback."""
    server = ModelServer(answer)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1"))
        server.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1"
        yield server
        nursery.cancel_scope.cancel()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def event(value: Any) -> bytes:
    """One SSE event."""
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def chat(text: str | None = None, finish: str | None = None, **delta: Any) -> bytes:
    """One chat chunk."""
    body: dict[str, Any] = {"content": text} if text is not None else {}
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": body | delta, "finish_reason": finish}]})


def usage(prompt: int, completion: int, cached: int = 0) -> bytes:
    """The usage chunk."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": {"cached_tokens": cached}}
    return event({"id": "c", "choices": [], "usage": counts})


DONE = event(b"[DONE]")
