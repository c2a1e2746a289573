"""The door: what every HTTP exchange passes through, outermost of each app.

One ``Exchange`` per request owns the receiving side: a pump reads it from start to end, so that the body is bounded before anything parses
it, a client that leaves is seen at once and cancels the work, and the server underneath is never blocked by a body nobody reads.

Invariants: every exchange ends in a response or a closed connection; an exception of any kind costs its own exchange only; headers that
every response has are added here; the log gets route name, status, code, times and ids, never a path, a query or a body.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import trio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gnus_node.api.errors import ApiError, error_headers, error_object, status_of
from gnus_node.api.render import encode
from gnus_node.api.settings import ApiSettings
from gnus_node.ports.host import Clock, Entropy, Log
from gnus_node.records.errors import GnusError

STATE_KEY = "gnus.exchange"
CLIENT_LEFT = 499


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(encode(value), status, headers, media_type="application/json")


class Exchange:
    """One request and its response. ``stack`` holds what must be given back when the response is out."""

    def __init__(self, exchange_id: str, scope: Scope, receive: Receive, send: Send, settings: ApiSettings) -> None:
        self.request_id = exchange_id
        self.exchange_id = exchange_id
        self.headers = Headers(scope=scope)
        self.key_id = "-"
        self.code = "OK"
        self.idempotent = False
        self.facts: dict[str, Any] = {}
        self.status = 0
        self.stack = ExitStack()
        self._receive = receive
        self._send = send
        self._settings = settings
        self._body = bytearray()
        self._received = 0
        self._complete = False
        self._finishing = False
        self._ready = trio.Event()
        self._drained = trio.Event()

    @property
    def started(self) -> bool:
        """Whether the response's headers went out."""
        return self.status != 0

    async def pump(self, work: trio.CancelScope) -> None:
        """Read until the client leaves; then cancel ``work``, unless the response is all but out."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                if not self._finishing:
                    work.cancel()
                return
            self._take(message.get("body", b""), more=message.get("more_body", False))

    def _take(self, data: bytes, *, more: bool) -> None:
        limit = self._settings.max_body_bytes
        self._received += len(data)
        if self._received <= limit:
            self._body += data
        else:
            self._body.clear()
            self._ready.set()
        if not more:
            self._complete = True
            self._ready.set()
        if not more or self._received > limit + self._settings.linger_bytes:
            self._drained.set()

    async def body(self) -> bytes:
        """The whole body. Raises ``TOO_LARGE`` (413), and 408 when it does not arrive in time."""
        limit = self._settings.max_body_bytes
        too_large = ApiError("TOO_LARGE", f"the body is over {limit} bytes")
        length = self.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > limit):
            raise too_large
        with trio.move_on_after(self._settings.body_deadline_s):
            await self._ready.wait()
        if self._received > limit:
            raise too_large
        if not self._complete:
            raise ApiError("DEADLINE", "the body did not arrive in time", status=408)
        body = bytes(self._body)
        self._body.clear()
        return body

    async def send(self, message: Message) -> None:
        """The response's way out."""
        if message["type"] == "http.response.start":
            await self._settle()
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", []), *self._common_headers()]}
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._finishing = True
        await self._send(message)

    async def _settle(self) -> None:
        """Read away a bounded rest of the body: closing on a client that still sends would reset the connection, and lose our answer."""
        if not self._complete:
            with trio.move_on_after(self._settings.linger_s):
                await self._drained.wait()

    def _common_headers(self) -> list[tuple[bytes, bytes]]:
        common = [
            (b"x-request-id", self.request_id.encode("latin-1", "replace")),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        return common if self._complete else [*common, (b"connection", b"close")]


def exchange_of(scope: Scope) -> Exchange:
    """The exchange of a request inside the door."""
    found: Exchange = scope[STATE_KEY]
    return found


class Door:
    """ASGI middleware. ``hosts`` are the names a ``Host`` header may have; None is any (the unix socket)."""

    def __init__(
        self, app: ASGIApp, *, settings: ApiSettings, clock: Clock, entropy: Entropy, log: Log, hosts: frozenset[str] | None
    ) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._log = log
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock.monotonic()
        exchange = Exchange(f"http-{self._entropy.uuid()}", scope, receive, send, self._settings)
        scope[STATE_KEY] = exchange
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(exchange.pump, nursery.cancel_scope)
                with exchange.stack:
                    await self._answer(scope, exchange)
                nursery.cancel_scope.cancel()
        finally:
            self._log.info(
                "http",
                route=getattr(scope.get("endpoint"), "__name__", "-"),
                status=exchange.status or CLIENT_LEFT,
                code=exchange.code,
                key_id=exchange.key_id,
                request_id=exchange.request_id,
                exchange_id=exchange.exchange_id,
                ms=round((self._clock.monotonic() - began) * 1000, 3),
            )

    async def _answer(self, scope: Scope, exchange: Exchange) -> None:
        try:
            self._check_headers(exchange)
            await self._app(scope, _nothing_to_receive, exchange.send)
        except GnusError as error:
            await self.fail(scope, exchange, error)
        except Exception as error:  # noqa: BLE001 - supervised boundary: one exchange's fault stays its own
            self._log.error("http.fault", error=type(error).__name__, exchange_id=exchange.exchange_id, request_id=exchange.request_id)
            await self.fail(scope, exchange, GnusError("INTERNAL"))

    async def fail(self, scope: Scope, exchange: Exchange, error: GnusError) -> None:
        """Send an error response; once a response has begun, ending the exchange closes the connection."""
        exchange.code = error.code
        if exchange.started:
            return
        value = {"error": error_object(error, exchange.request_id, **exchange.facts)}
        response = json_response(value, status_of(error), error_headers(error, idempotent=exchange.idempotent))
        await response(scope, _nothing_to_receive, exchange.send)

    def _check_headers(self, exchange: Exchange) -> None:
        """The bound on headers (h11's own is for incomplete ones only), and the name the client thinks it talks to."""
        if sum(len(name) + len(value) for name, value in exchange.headers.raw) > self._settings.max_header_bytes:
            raise ApiError("TOO_LARGE", "the headers are over their bound", status=431, headers={"connection": "close"})
        host = exchange.headers.get("host")
        if self._hosts is None or host is None:
            return
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdigit():
            name = host
        if name.lower() not in self._hosts:
            raise ApiError("FORBIDDEN", "this Host is not served here", fix="use 127.0.0.1 or localhost")


async def _nothing_to_receive() -> Message:
    """Inside the door only the pump receives."""
    await trio.sleep_forever()
    raise AssertionError("sleep_forever returned")
