"""HTTP/1.1 to a node's unix socket (docs/protocol/http.md), with the standard library and no thread.

Invariants: the socket must be a socket of the caller's own user or of root, so that nobody's listener in a shared folder poses as the
node; a response has a bound; every failure is a ``GnusError``, ``NOT_RUNNING`` where no node listens.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnus_node.records.errors import GnusError

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
MAX_SOCKET_PATH = 107
"""Longest path the kernel takes for a unix socket (108 bytes with the final NUL)."""
CALL_S = 10.0
"""Time for a call that only reads the node's state."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket file; a path too long for the kernel goes by way of an open folder."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        if len(os.fsencode(self._path)) <= MAX_SOCKET_PATH:
            self.sock.connect(str(self._path))
            return
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


class Node:
    """A running node's local door. One connection per call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, target: str, *, timeout_s: float = CALL_S) -> Any:
        """GET a JSON value."""
        return _json(self.call("GET", target, timeout_s=timeout_s))

    def post(self, target: str, body: Mapping[str, Any], *, timeout_s: float = CALL_S) -> Any:
        """POST a JSON object, get a JSON value."""
        return _json(self.call("POST", target, json.dumps(body).encode(), timeout_s=timeout_s))

    def call(self, method: str, target: str, body: bytes | None = None, *, timeout_s: float = CALL_S) -> bytes:
        """The body of a successful response. Raises the node's error, ``NOT_RUNNING``, ``FORBIDDEN``, ``DEADLINE``, ``PROTOCOL``."""
        self._own_socket()
        headers = {"Accept": "application/json, application/octet-stream"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = _UnixConnection(self.path, timeout_s)
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            data = response.read(MAX_RESPONSE_BYTES + 1)
        except (FileNotFoundError, ConnectionRefusedError):
            raise self._not_running() from None
        except PermissionError:
            raise GnusError("FORBIDDEN", "the node's socket belongs to another user", fix="run the command as the node's user") from None
        except TimeoutError:
            raise GnusError("DEADLINE", f"the node did not answer within {timeout_s:g} s", fix="see gnus-node status") from None
        except (OSError, http.client.HTTPException) as error:
            raise GnusError("PROTOCOL", f"the node broke off the answer ({type(error).__name__})", fix="see the node's log") from None
        finally:
            connection.close()
        if len(data) > MAX_RESPONSE_BYTES:
            raise GnusError("TOO_LARGE", f"the answer is larger than {MAX_RESPONSE_BYTES} bytes")
        if response.status >= 400:
            raise error_of(response.status, data)
        return data

    def _own_socket(self) -> None:
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise self._not_running() from None
        except PermissionError:
            raise GnusError("FORBIDDEN", "the data directory belongs to another user", fix="run the command as the node's user") from None
        except OSError as error:
            raise GnusError("NOT_RUNNING", f"no socket at {self.path}: {error.strerror}") from None
        if not stat.S_ISSOCK(found.st_mode):
            raise GnusError("NOT_RUNNING", f"{self.path} is not a socket", fix="gnus-node run, or give the right --socket")
        if os.geteuid() != 0 and found.st_uid not in (0, os.geteuid()):
            raise GnusError("FORBIDDEN", "the socket belongs to another user", fix="run the command as the node's user")

    def _not_running(self) -> GnusError:
        return GnusError("NOT_RUNNING", f"no node listens at {self.path}", fix="start one with gnus-node run, or name it with --config")


def error_of(status: int, data: bytes) -> GnusError:
    """The error in a response, of the form docs/protocol/http.md gives; anything else is ``PROTOCOL``."""
    try:
        error = json.loads(data)["error"]
        plain = {**error["gnus"], "what": error["message"]}
        if error.get("param"):
            # The node speaks of a field of its HTTP interface; who called a command looks into that one's help.
            plain |= {"what": f"{error['param']}: {error['message']}", "fix": "see the command's --help"}
        return GnusError.from_plain(plain)
    except (ValueError, KeyError, TypeError, RecursionError):
        return GnusError("PROTOCOL", f"the node answered {status} without a typed error")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise GnusError("PROTOCOL", "the node's answer is not JSON") from None
