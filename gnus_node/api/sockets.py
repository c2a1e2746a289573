"""Opening the two doors' sockets.

The unix socket is made with mode 0600 from its first moment, never chmodded later. What stands in its way is removed only if it is a
socket that nobody listens on. The network socket is loopback only: there is no TLS here yet, and API keys must not cross a network in
clear.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from pathlib import Path

import trio

from gnus_node.records.errors import GnusError

MAX_UNIX_PATH = 107
"""Longest path of a unix socket on Linux, in bytes."""
BACKLOG = 128
LOOPBACK = frozenset({"127.0.0.1", "::1"})
PROBE_S = 1.0


def _listens(path: Path) -> bool:
    """Whether somebody listens on the socket at ``path``. In doubt, yes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except FileNotFoundError:
            return False
        except OSError:
            return True
    return True


def _clear(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise GnusError(
            "CONFIG", "something that is not a socket stands at the unix socket's path", fix="move it, or configure another path"
        )
    if _listens(path):
        raise GnusError("ALREADY_RUNNING", "another process listens on the unix socket")
    path.unlink(missing_ok=True)


def open_unix(path: Path) -> socket.socket:
    """A listening unix socket, mode 0600. Raises ``CONFIG``, ``ALREADY_RUNNING``."""
    if len(os.fsencode(path)) > MAX_UNIX_PATH:
        raise GnusError("CONFIG", f"the unix socket's path is over {MAX_UNIX_PATH} bytes", fix="configure a shorter one")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        before = os.umask(0o177)
        try:
            sock.bind(os.fspath(path))
        finally:
            os.umask(before)
        if stat.S_IMODE(os.lstat(path).st_mode) != 0o600:
            path.unlink(missing_ok=True)
            raise GnusError("CONFIG", "this file system does not keep the unix socket private", fix="configure a path on another one")
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise GnusError("CONFIG", f"cannot make the unix socket ({_name(error)})", fix="check its folder") from None
    except GnusError:
        sock.close()
        raise
    return sock


def close_unix(path: Path, inode: int) -> None:
    """Remove the socket file if it is still the one with ``inode``: a successor's is left alone."""
    try:
        if os.lstat(path).st_ino == inode:
            path.unlink(missing_ok=True)
    except OSError:
        pass


def open_tcp(host: str, port: int) -> socket.socket:
    """A listening loopback socket; port 0 is any. Raises ``CONFIG``."""
    if host not in LOOPBACK:
        raise GnusError("CONFIG", "the network door listens on loopback only", fix="listen on 127.0.0.1 or ::1")
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except (OSError, OverflowError) as error:
        sock.close()
        raise GnusError("CONFIG", f"cannot listen on port {port} ({_name(error)})", fix="configure another port") from None
    return sock


def _name(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number, "unknown") if isinstance(number, int) else type(error).__name__


def peer_uid(sock: trio.socket.SocketType) -> int:
    """The user at the other end of a unix socket, as the kernel knows them."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
