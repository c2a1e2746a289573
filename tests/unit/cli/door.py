"""A real HTTP server on a unix socket that answers as docs/protocol/http.md says, from a table of canned values."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

Reply = tuple[int, Any]


class Door:
    """What was asked, and what is answered: ``replies[(method, path)] = (status, JSON value or bytes)``."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.replies: dict[tuple[str, str], Reply] = {}
        self.asked: list[tuple[str, str, Any]] = []


@contextmanager
def open_door(socket: Path) -> Iterator[Door]:
    """Serve until the block is left."""
    door = Door(socket)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            door.asked.append((self.command, self.path, body))
            missing = {"error": {"message": "no such path", "gnus": {"code": "NOT_FOUND", "fix": "check the name"}}}
            status, value = door.replies.get((self.command, self.path), (404, missing))
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

        def address_string(self) -> str:
            return "unix"

    class Server(socketserver.UnixStreamServer):
        def get_request(self) -> tuple[Any, Any]:
            connection, _ = super().get_request()
            return connection, ("unix", 0)

    with Server(str(socket), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield door
        finally:
            server.shutdown()
            thread.join()


ANSWER: dict[str, Any] = {
    "object": "gnus.answer",
    "answer": "Nairobi",
    "request_id": "2b1f6f5e-0f2c-4b9e-9a51-6c1f0a6a7f10",
    "audit_id": "2b1f6f5e-0f2c-4b9e-9a51-6c1f0a6a7f10",
    "outcome": "answered",
    "reason_code": "OK",
    "reason": "",
    "answer_type": "text",
    "sources": [{"uri": "factbook://kenya", "title": "Kenya", "quote": "capital: Nairobi", "span": [10, 17]}],
    "route": {"intent": "fact", "experts": ["core", "reader"]},
    "backends": [{"kind": "extractive", "expert": "core"}],
    "agreement": 1.0,
    "latency_ms": {"ground": 3.51, "total": 4.02},
    "verdict": "proved",
    "pending_approvals": [],
    "effects": [],
}
