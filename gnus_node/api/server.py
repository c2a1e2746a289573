"""Serving both doors inside the node's nursery: hypercorn's HTTP/1.1 on trio, no signal handlers, no process of its own.

Two servers, each with its own app, connection count and gate: which door a request came through is decided by the socket and by nothing it
says. When cancelled, a server stops accepting, lets the responses under way end within ``grace_s``, then cuts what is left.
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

from gnus_node.api.app import ApiDeps, build_app, build_local_app
from gnus_node.api.connection import Connection, plain_error, server_config
from gnus_node.api.sockets import close_unix, open_tcp, open_unix, peer_uid
from gnus_node.records.errors import GnusError


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
                if await self._admitted(stream):
                    await Connection(self._app, self._config, self._context, stream, self._settings).run()
            finally:
                self._drain.scopes.discard(scope)
                stream.socket.close()

    async def _admitted(self, stream: trio.SocketStream) -> bool:
        if self._uids is not None and peer_uid(stream.socket) not in self._uids:
            return False
        if len(self._drain.scopes) <= self._settings.max_connections:
            return True
        self._log.warning("http.full", connections=len(self._drain.scopes))
        busy = plain_error(GnusError("BUSY", "too many connections to this node"), 503, b"Service Unavailable")
        with trio.move_on_after(1):
            try:
                await stream.send_all(busy)
                await stream.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
        return False


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
