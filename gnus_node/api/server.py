"""Serving both doors inside the node's nursery: hypercorn's HTTP/1.1 on trio, no signal handlers, no process of its own.

Two servers, each with its own app, connection count and gate: which door a request came through is decided by the socket and by nothing it
says. A door that is full closes the connection that has been idle longest, and keeps a few places where only health checks are served:
half-open connections cannot make a node look dead. When cancelled, a server stops accepting, lets the responses under way end within
``grace_s``, then cuts what is left.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.worker_context import WorkerContext
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from gnus_node.api.app import ApiDeps, build_app, build_local_app
from gnus_node.api.connection import Connection, plain_error, server_config
from gnus_node.api.door import json_response
from gnus_node.api.errors import error_object
from gnus_node.api.settings import RETRY_AFTER_S
from gnus_node.api.sockets import close_unix, open_tcp, open_unix, peer_uid
from gnus_node.records.errors import GnusError

HEALTH_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


@dataclass(frozen=True, slots=True)
class Bound:
    """Where the doors are, once they are open."""

    unix_path: Path | None
    tcp: tuple[str, int] | None


@dataclass(slots=True)
class _Drain:
    """The scopes of the connections of one server, and the time by which they must be over."""

    scopes: set[trio.CancelScope] = field(default_factory=set)
    deadline: float | None = None

    def begin(self, deadline: float) -> None:
        self.deadline = deadline
        for scope in self.scopes:
            scope.deadline = deadline


class _Server:
    """One door."""

    def __init__(
        self, app: Starlette, deps: ApiDeps, *, uids: frozenset[int] | None = None, closed: Callable[[], None] = lambda: None
    ) -> None:
        settings, log = deps.settings, deps.log
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]
        self._health = ASGIWrapper(only_health(app))  # type: ignore[arg-type]
        self._open: dict[trio.CancelScope, Connection] = {}
        self._settings = settings
        self._log = log
        self._uids = uids
        self._closed = closed
        self._config = server_config(settings, log)
        self._context = WorkerContext(None)
        self._drain = _Drain()

    async def run(self, sock: socket.socket, *, task_status: trio.TaskStatus[None]) -> None:
        """Accept until cancelled, then drain."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        async with trio.open_nursery() as connections:
            try:
                task_status.started()
                await trio.serve_listeners(self._connection, [listener], handler_nursery=connections)
            finally:
                self._closed()
                await self._context.terminated.set()  # ends idle connections; passes no checkpoint, so it happens also when cancelled
                self._drain.begin(trio.current_time() + self._settings.grace_s)

    async def _connection(self, stream: trio.SocketStream) -> None:
        """One client and the boundary around it: a fault of one connection ends that connection."""
        try:
            await self._shielded(stream)
        except Exception as error:  # noqa: BLE001 - supervised boundary: one client's fault stays its own
            self._log.error("http.connection", error=type(error).__name__)

    async def _shielded(self, stream: trio.SocketStream) -> None:
        """Serve, shielded from the server's own cancellation until the drain's deadline."""
        with trio.CancelScope(shield=True) as scope:
            if self._drain.deadline is not None:
                scope.deadline = self._drain.deadline
            self._drain.scopes.add(scope)
            try:
                app = await self._admitted(stream)
                if app is not None:
                    connection = Connection(app, self._config, self._context, stream, self._settings)
                    self._open[scope] = connection
                    await connection.run()
            finally:
                self._open.pop(scope, None)
                self._drain.scopes.discard(scope)
                stream.socket.close()

    async def _admitted(self, stream: trio.SocketStream) -> ASGIWrapper | None:
        """What the connection is served by; None where it is refused."""
        if self._uids is not None and peer_uid(stream.socket) not in self._uids:
            return None
        bound, count = self._settings.max_connections, len(self._drain.scopes)
        if count <= bound or self._shed():
            return self._app
        if count <= bound + self._settings.reserved_connections:
            return self._health
        self._log.warning("http.full", connections=count)
        with trio.move_on_after(1):
            try:
                await stream.send_all(plain_error(_full(), 503, b"Service Unavailable"))
                await stream.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
        return None

    def _shed(self) -> bool:
        """Close the connection that has been idle longest; whether there was one."""
        idle = {scope: c.idle_since for scope, c in self._open.items() if c.idle_since is not None}
        if not idle:
            return False
        oldest = min(idle, key=lambda scope: idle[scope])
        del self._open[oldest]  # chosen once: it goes at its next turn
        oldest.cancel()
        return True


def _full() -> GnusError:
    return GnusError("BUSY", "too many connections to this node")


def only_health(app: Starlette) -> ASGIApp:
    """The app of the reserve: health checks and metrics go through, everything else is ``BUSY``."""

    async def reserve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await app(scope, receive, send)
            return
        headers = {"retry-after": str(RETRY_AFTER_S), "connection": "close", "cache-control": "no-store", "x-request-id": "http-none"}
        await json_response({"error": error_object(_full(), "http-none")}, 503, headers)(scope, receive, send)

    return reserve


async def serve(
    deps: ApiDeps,
    *,
    unix_path: Path | None,
    tcp: tuple[str, int] | None,
    task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled. ``nursery.start`` returns ``Bound`` once both doors accept. Raises ``CONFIG``, ``ALREADY_RUNNING``.

    Must be cancelled before what ``deps`` stands on, so that the responses under way can end.
    """
    tcp_sock = None if tcp is None else open_tcp(*tcp)
    try:
        unix_sock = None if unix_path is None else open_unix(unix_path)
    except GnusError:
        if tcp_sock is not None:
            tcp_sock.close()
        raise
    try:
        async with trio.open_nursery() as nursery:
            if unix_path is not None and unix_sock is not None:
                leave = partial(close_unix, unix_path, os.lstat(unix_path).st_ino)
                owners = frozenset({os.geteuid(), 0})
                await nursery.start(_Server(build_local_app(deps), deps, uids=owners, closed=leave).run, unix_sock)
            if tcp_sock is not None:
                await nursery.start(_Server(build_app(deps), deps).run, tcp_sock)
            task_status.started(Bound(unix_path, None if tcp_sock is None else tcp_sock.getsockname()[:2]))
            await trio.sleep_forever()
    finally:
        for sock in (tcp_sock, unix_sock):
            if sock is not None:
                sock.close()
