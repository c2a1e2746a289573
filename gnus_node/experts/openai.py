"""An OpenAI-compatible HTTP server as an expert: any model the operator runs, at a URL the operator configured (DESIGN.md section 9).

Always streaming, since only a streamed generation can be cancelled (closing the connection frees the server's slot); usage exactly once,
marked ``counted`` where the server gave none; what the server supports is probed at ``open`` and stands in ``info.supports``.

The server is not trusted: redirects and compression are refused, every line, event and stream is bounded, proxies of the environment are
ignored. The API key comes from a file or an environment variable, goes into one header, and never into a log, an error or a repr.
This is the one file of the room that opens HTTP.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import trio

from gnus_node.experts.backend import (
    BackendInfo,
    Done,
    FinishReason,
    Generation,
    GenEvent,
    GenRequest,
    Health,
    Meter,
    Passage,
    Token,
    ToolCall,
    ToolSpec,
    Usage,
    abstain,
    estimate_tokens,
    running,
)
from gnus_node.experts.prompting import (
    chunk_delta,
    clean,
    completion_prompt,
    fenced_calls,
    instructions,
    proposal,
    shown,
    to_draft,
    tool_names,
    user_part,
)
from gnus_node.experts.sse import SseDecoder
from gnus_node.ports.host import Offload
from gnus_node.records.base import MAX_INT
from gnus_node.records.enums import BackendKind, UsageSource
from gnus_node.records.errors import GnusError
from gnus_node.wire.jsontext import read_free

FEATURES = ("usage", "seed", "json_schema", "tools")
MAX_KEY_BYTES = 4096
MAX_TOOL_CALLS = 16
MAX_ARGUMENT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class OpenAiOptions:
    """Where the server is and how to speak to it. Times in seconds."""

    base_url: str
    """Up to and including the version, e.g. ``http://127.0.0.1:8080/v1``."""
    api_key_file: str = ""
    api_key_env: str = ""
    api_key: str = field(default="", repr=False)
    """A key that the program itself made; settings name a file or a variable."""
    socket_path: str = ""
    """A unix socket to speak through instead of the network."""
    connect_s: float = 5.0
    idle_s: float = 60.0
    """Longest silence within a stream."""
    probe_s: float = 20.0
    """Time for each probe at ``open``."""
    probe: bool = True
    assume: frozenset[str] = frozenset()
    """Features taken as given when ``probe`` is off."""
    max_line_bytes: int = 256 * 1024
    max_response_bytes: int = 8 * 1024 * 1024


@dataclass(slots=True)
class _Call:
    """A tool call as its deltas arrive."""

    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _Reply:
    """One streamed reply, folded."""

    text: list[str] = field(default_factory=list)
    calls: dict[int, _Call] = field(default_factory=dict)
    finish: str | None = None
    usage: Usage | None = None
    complete: bool = False

    def add_call(self, delta: Mapping[str, Any]) -> None:
        """Fold one tool-call delta, bounded."""
        index, function = delta.get("index", 0), delta.get("function")
        if not isinstance(index, int) or not 0 <= index < MAX_TOOL_CALLS or not isinstance(function, dict):
            raise GnusError("BACKEND_FAILED", "the server sent a tool call of another form")
        call = self.calls.setdefault(index, _Call())
        name, arguments = function.get("name"), function.get("arguments")
        call.name += name if isinstance(name, str) else ""
        call.arguments += arguments if isinstance(arguments, str) else ""
        if len(call.name) > 256 or len(call.arguments) > MAX_ARGUMENT_BYTES:
            raise GnusError("BACKEND_FAILED", "the server sent a tool call over its bound")

    def take(self, payload: str, meter: Meter) -> str:
        """Fold one event's payload; returns its text."""
        if payload.strip() == "[DONE]":
            self.complete = True
            return ""
        try:
            value = read_free(payload)
        except GnusError:
            raise GnusError("BACKEND_FAILED", "the server sent an event that is not JSON") from None
        if isinstance(value, dict) and value.get("error"):
            raise GnusError("BACKEND_FAILED", "the server reported an error within the stream")
        text, calls, finish = chunk_delta(value)
        for delta in calls:
            self.add_call(delta)
        self.finish = finish or self.finish
        self.usage = _reported(value.get("usage"), meter) or self.usage
        return text


class OpenAiBackend:
    """One model behind an OpenAI-compatible server."""

    def __init__(self, info: BackendInfo, options: OpenAiOptions, offload: Offload) -> None:
        if info.prompt_style not in ("chat", "completion"):
            raise GnusError("CONFIG", "prompt_style of an openai backend is chat or completion")
        try:
            url = httpx.URL(options.base_url)
        except httpx.InvalidURL:
            raise GnusError("CONFIG", "base_url is not a URL") from None
        if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query or url.fragment:
            raise GnusError("CONFIG", "base_url is an http or https URL without credentials, query or fragment")
        self._info = replace(info, kind=BackendKind.OPENAI, supports=frozenset({"cancel"}) | options.assume)
        self._options = options
        self._offload = offload
        self._client: httpx.AsyncClient | None = None

    @property
    def info(self) -> BackendInfo:
        """Who this is; ``supports`` is what the probe found."""
        return self._info

    async def open(self) -> None:
        """Connect and probe. Raises ``CONFIG`` (key), ``UNREACHABLE``, ``BACKEND_FAILED``, ``BUSY``, ``DEADLINE``."""
        key = self._options.api_key or await self._offload.run(_read_key, self._options.api_key_file, self._options.api_key_env)
        headers = {"accept": "text/event-stream", "accept-encoding": "identity", "user-agent": "gnus-node"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        options = self._options
        self._client = httpx.AsyncClient(
            base_url=options.base_url.rstrip("/") + "/",
            headers=headers,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(options.idle_s, connect=options.connect_s),
            transport=httpx.AsyncHTTPTransport(
                # A connection of its own for each generation: servers close one after a stream, and a request on it would be lost.
                limits=httpx.Limits(max_connections=self._info.slots + 1, max_keepalive_connections=0),
                uds=options.socket_path or None,
                trust_env=False,
            ),
        )
        if not options.probe:
            return
        probed = False
        try:
            self._info = replace(self._info, supports=await self._probe())
            probed = True
        finally:
            if not probed:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                    await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def health(self) -> Health:
        """Asks the server for its list of models."""
        if self._client is None:
            return Health.CLOSED
        health = Health.UNREACHABLE
        with trio.move_on_after(self._options.connect_s):
            try:
                async with self._client.stream("GET", "models") as response:
                    health = Health.OK if response.status_code < 400 else Health.FAILING
            except (httpx.HTTPError, httpx.StreamError):
                health = Health.UNREACHABLE
        return health

    def generate(self, req: GenRequest) -> AbstractAsyncContextManager[Generation]:
        """One streamed generation; leaving the block closes the connection."""
        meter = Meter()
        return running(self._events(req, meter), meter)

    async def _events(self, req: GenRequest, meter: Meter) -> AsyncGenerator[GenEvent, None]:
        passages = shown(req, self._info.ctx)
        path, body = self.payload(req, passages)
        prompt = body.get("prompt") or "".join(str(m["content"]) for m in body["messages"])
        meter.prompt = estimate_tokens(prompt)
        reply = _Reply()
        async with aclosing(self._stream(path, body)) as payloads:
            async for payload in payloads:
                text = reply.take(payload, meter)
                if text:
                    meter.text_bytes += len(text.encode("utf-8", "replace"))
                    reply.text.append(text)
                    yield Token(text)
                if reply.complete:
                    break
        if not reply.complete and reply.finish is None:
            raise GnusError("BACKEND_FAILED", "the server's stream ended in the middle")
        calls, rest = self._proposals(reply, req)
        for call in calls:
            yield call
        yield abstain("ABSTAINED") if calls and not rest.strip() else to_draft(rest, req, passages)
        yield reply.usage or meter.usage()
        yield Done(FinishReason.LENGTH if reply.finish == "length" else FinishReason.STOP)

    def payload(self, req: GenRequest, passages: tuple[Passage, ...]) -> tuple[str, dict[str, Any]]:
        """Path and JSON body of a generation: pure."""
        supports = self._info.supports
        body: dict[str, Any] = {
            "model": self._info.model_id,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": req.max_tokens,
            "temperature": req.temperature_milli / 1000,
        }
        stop = [clean(s) for s in req.stop[:4]] or (["\nQuestion:"] if self._info.prompt_style == "completion" else [])
        if stop:
            body["stop"] = stop
        if req.seed is not None and "seed" in supports:
            body["seed"] = req.seed
        if self._info.prompt_style == "completion":
            if req.json_schema is not None and "json_schema" in supports:
                body["json_schema"] = dict(req.json_schema)
            return "completions", body | {"prompt": completion_prompt(req, passages)}
        native = "tools" in supports
        if req.tools and native:
            body["tools"] = _tools(req)
        if req.json_schema is not None and "json_schema" in supports:
            schema = {"name": "answer", "strict": True, "schema": dict(req.json_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        body["messages"] = [
            {"role": "system", "content": instructions(req, describe_tools=not native)},
            {"role": "user", "content": user_part(req, passages)},
        ]
        return "chat/completions", body

    @staticmethod
    def _proposals(reply: _Reply, req: GenRequest) -> tuple[list[ToolCall], str]:
        fenced, rest = fenced_calls("".join(reply.text), req)
        native = [proposal(c.name, c.arguments, "", req) for _, c in sorted(reply.calls.items())]
        return ([c for c in native if c is not None] + fenced)[:MAX_TOOL_CALLS], rest

    async def _stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """The payloads of one streamed POST, every failure mapped. Closing it closes the connection."""
        if self._client is None:
            raise GnusError("BACKEND_FAILED", "the backend is not open")
        decoder = SseDecoder(self._options.max_line_bytes, self._options.max_response_bytes)
        try:
            async with self._client.stream("POST", path, json=body) as response:
                _refuse(response)
                async for chunk in response.aiter_raw():
                    for payload in decoder.feed(chunk):
                        yield payload
        except httpx.ConnectError:
            raise GnusError("UNREACHABLE", "the model server cannot be reached", fix="start it, or correct base_url") from None
        except httpx.TimeoutException as error:
            code = "UNREACHABLE" if isinstance(error, httpx.ConnectTimeout) else "BACKEND_FAILED"
            raise GnusError(code, "the model server was silent for too long") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise GnusError("BACKEND_FAILED", f"the connection to the model server failed: {type(error).__name__}") from None

    async def _probe(self) -> frozenset[str]:
        """What the server supports: a plain one-token request, which must work, then one per feature, which may be refused."""
        found = {"cancel"}
        if await self._try({}) == "usage":
            found.add("usage")
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        chat = self._info.prompt_style == "chat"
        features: dict[str, dict[str, Any]] = {"seed": {"seed": 1}}
        if chat:
            function = {"name": "probe", "description": "never call this", "parameters": schema}
            features["tools"] = {"tools": [{"type": "function", "function": function}]}
            wrapped = {"name": "probe", "strict": True, "schema": schema}
            features["json_schema"] = {"response_format": {"type": "json_schema", "json_schema": wrapped}}
        else:
            features["json_schema"] = {"json_schema": schema}
        for name, extra in features.items():
            try:
                await self._try(extra)
            except GnusError as error:
                if error.code in ("UNREACHABLE", "DEADLINE", "BUSY"):
                    raise
                continue
            found.add(name)
        return frozenset(found)

    async def _try(self, extra: Mapping[str, Any]) -> str:
        """One probe; returns ``usage`` where the server reported it."""
        req = GenRequest("probe", "Say yes.", max_tokens=1)
        path, body = self.payload(req, ())
        reply, meter = _Reply(), Meter()
        with trio.move_on_after(self._options.probe_s) as scope:
            async with aclosing(self._stream(path, body | dict(extra))) as payloads:
                async for payload in payloads:
                    reply.take(payload, meter)
        if scope.cancelled_caught:
            raise GnusError("DEADLINE", "the model server did not answer the probe in time")
        if reply.finish is None and not reply.complete:
            raise GnusError("BACKEND_FAILED", "the server's stream ended in the middle")
        return "usage" if reply.usage is not None else ""


def _read_key(path: str, variable: str) -> str:
    """The API key of a file or an environment variable; neither the key nor the file's text reaches an error."""
    try:
        if path:
            with open(path, "rb") as file:
                raw = file.read(MAX_KEY_BYTES + 1)
        else:
            raw = os.environ.get(variable, "").encode() if variable else b""
    except OSError as error:
        raise GnusError("CONFIG", f"api_key_file cannot be read: {type(error).__name__}") from None
    key = raw.strip()
    if (path or variable) and not key:
        raise GnusError("CONFIG", "the configured API key is empty")
    if len(raw) > MAX_KEY_BYTES or any(not 33 <= byte <= 126 for byte in key):
        raise GnusError("CONFIG", "the configured API key is not one line of printable ASCII")
    return key.decode("ascii")


def _refuse(response: httpx.Response) -> None:
    """Raise for every response that is not a plain event stream."""
    status = response.status_code
    if status == 200:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise GnusError("BACKEND_FAILED", "the server compressed a stream that must not be")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise GnusError("BACKEND_FAILED", "the server did not stream")
        return
    if status in (401, 403):
        raise GnusError("BACKEND_FAILED", f"the model server refused the configured API key ({status})", fix="check api_key_file")
    if status in (429, 503):
        raise GnusError("BUSY", f"the model server is busy ({status})")
    if 300 <= status < 400:
        raise GnusError("BACKEND_FAILED", f"the model server redirects ({status}); redirects are not followed", fix="correct base_url")
    raise GnusError("BACKEND_FAILED", f"the model server answered {status}")


def _tools(req: GenRequest) -> list[dict[str, Any]]:
    specs: dict[str, ToolSpec] = {t.name: t for t in req.tools}
    return [
        {"type": "function", "function": {"name": safe, "description": clean(specs[n].description), "parameters": dict(specs[n].schema)}}
        for safe, n in tool_names(req).items()
    ]


def _reported(value: object, meter: Meter) -> Usage | None:
    """The server's usage, where it is one."""
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens", 0)
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens", 0) if isinstance(details, dict) else 0
    numbers = [n for n in (prompt, completion, cached) if isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MAX_INT]
    if len(numbers) != 3:
        return None
    return Usage(numbers[0], numbers[1], numbers[2], meter.wall_ms(), 0, UsageSource.REPORTED)
