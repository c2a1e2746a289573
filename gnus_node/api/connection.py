"""One HTTP/1.1 connection: hypercorn's protocol with the bounds it leaves open.

Hypercorn sends in a shielded scope without a deadline, so a client that does not read would hold its connection, and a shutdown, for
ever; it speaks HTTP/2 to whoever asks in clear text; and an exception in one connection would end the listener's nursery. Here a send
has a deadline and can be cancelled, after either of which the connection is cut (a part of the data may be out); only HTTP/1.1 is
spoken; a fault ends its own connection. Written against hypercorn 0.18.0 (pinned); tests/api/test_api_pure.py fails if it moves.

A client that pipelines a second request is not seen leaving until the first has ended: bounded by the request's own limits.
"""

from __future__ import annotations

import sys
from typing import Any

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.logging import Logger
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from hypercorn.utils import parse_socket_addr

from gnus_node.api.errors import ApiError, error_object
from gnus_node.api.render import encode
from gnus_node.api.settings import RETRY_AFTER_S, ApiSettings
from gnus_node.ports.host import Log
from gnus_node.records.errors import GnusError


class ServerLog(Logger):
    """Hypercorn's logger: faults by the name of their exception, nothing else (its messages may quote requests)."""

    def __init__(self, log: Log) -> None:
        """Without the parent's: it would open handlers of the logging module."""
        self._log = log
        self.access_logger = None
        self.error_logger = None

    async def exception(self, message: str, *args: Any, **kwargs: Any) -> None:
        """A fault: the name of the exception."""
        kind = sys.exc_info()[0]
        self._log.error("http.server", error=kind.__name__ if kind is not None else "-")


def server_config(settings: ApiSettings, log: Log) -> Config:
    """Hypercorn's settings for one door."""
    config = Config()
    config.h11_max_incomplete_size = settings.max_header_bytes
    config.keep_alive_timeout = settings.header_deadline_s
    config.include_server_header = False
    config.logger_class = lambda _config: ServerLog(log)  # type: ignore[assignment]
    return config


def plain_error(error: GnusError, status: int, reason: bytes) -> bytes:
    """A whole HTTP response for where no app is reached yet."""
    body = encode({"error": error_object(error, "http-none")})
    wait = b"retry-after: %d\r\n" % RETRY_AFTER_S if status == 503 else b""
    head = b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % (status, reason, len(body))
    return head + wait + b"x-request-id: http-none\r\ncache-control: no-store\r\nconnection: close\r\n\r\n" + body


class _Http1(H11Protocol):
    """HTTP/1.1 only, with errors in OpenAI's form."""

    async def _check_protocol(self, event: h11.Request) -> None:
        """An offer of HTTP/2 is ignored, as RFC 9110 section 7.8 allows."""

    async def _send_error_response(self, status_code: int) -> None:
        """For requests h11 cannot read: there is no request to hand to the app."""
        if status_code == 431:
            error = ApiError("TOO_LARGE", "the headers are over their bound", status=431)
        else:
            error = ApiError(
                "MALFORMED", "this is not a valid HTTP/1.1 request: its first line, a header or the Host header", status=status_code
            )
        body = encode({"error": error_object(error, "http-none")})
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", b"http-none"),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        ]
        headers += self.config.response_headers("h11")
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())


class Connection(TCPServer):
    """One client. ``stream`` is a ``trio.SocketStream`` of either door."""

    def __init__(self, app: AppWrapper, config: Config, context: WorkerContext, stream: trio.SocketStream, settings: ApiSettings) -> None:
        super().__init__(app, config, context, ConnectionState({}), stream)  # type: ignore[arg-type]
        self._socket = stream.socket
        self._send_deadline_s = settings.send_deadline_s
        self.idle_since: float | None = trio.current_time()
        """Since when it waits for the headers of a request, on trio's clock; None while a request is under way."""

    async def run(self) -> None:
        """Serve the client until either side ends it. What it raises is a fault; the server bounds it to this connection."""
        try:
            await self._serve()
        except OSError:
            pass  # the client is gone
        finally:
            self._socket.close()

    async def _serve(self) -> None:
        family = self._socket.family
        client = parse_socket_addr(family, self._socket.getpeername())
        server = parse_socket_addr(family, self._socket.getsockname())
        async with TaskGroup() as task_group:
            self._task_group = task_group
            self.protocol = _Http1(  # type: ignore[assignment]
                self.app, self.config, self.context, task_group, ConnectionState({}), False, client, server, self.protocol_send
            )
            await self.idle_task.restart(task_group, self._idle_timeout)
            await self._read_data()
            await self.idle_task.stop()
        await self._close()

    async def protocol_send(self, event: Event) -> None:
        """Send within the deadline, or cut the connection."""
        if isinstance(event, Updated):
            self.idle_since = trio.current_time() if event.idle else None
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        async with self.send_lock:
            if not await self._send_all(event.data):
                await self.protocol.handle(Closed())

    async def _send_all(self, data: bytes) -> bool:
        sent = False
        try:
            with trio.move_on_after(self._send_deadline_s) as scope:
                await self.stream.send_all(data)
            sent = not scope.cancelled_caught
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            if not sent:
                self._socket.close()  # also when cancelled: what is out may be half a response
        return sent
