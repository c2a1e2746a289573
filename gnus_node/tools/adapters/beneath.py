"""Opening files below a directory handle, resolved by the kernel: ``openat2`` (DESIGN.md section 6; reference: mediation, SSRF and files).

Why not ``realpath`` and ``open``: between the two somebody swaps a link. Here the kernel walks the path itself, from a handle, and fails
the walk that would leave it, whatever changes meanwhile.

Invariants: a file that is read lies beneath its root at the moment of opening, is a regular file, has one name (unless allowed
otherwise), and is at most ``limit`` bytes long. A file is looked at first through a path-only handle, so that a FIFO or a device is
refused without waking its writer or reaching its driver; what is then opened is checked again by its own handle. Where the kernel or
a filter withholds ``openat2`` the answer is ``ISOLATION_UNAVAILABLE``; there is no weaker mode. Errors never hold a path.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import sys

from gnus_node.records.errors import GnusError
from gnus_node.tools.paths import Target

_SYS_OPENAT2 = 437
_MACHINES = frozenset({"x86_64", "aarch64"})
"""Where the number of ``openat2`` and the passing of its arguments are known."""
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
_LOOK = os.O_PATH | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_RACES = 16
"""How often a walk that was disturbed by a change is tried again."""
_CHUNK = 256 * 1024
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_ESCAPES = frozenset({errno.EXDEV, errno.ELOOP, errno.EACCES, errno.EPERM})
_UNAVAILABLE = frozenset({errno.ENOSYS, errno.EINVAL, errno.E2BIG})


class _OpenHow(ctypes.Structure):
    """``struct open_how`` of linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _Absent(Exception):
    """Nothing of that name below this root."""


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)


def openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """One ``openat2`` call; returns a file descriptor. Raises ``OSError``, and ``ISOLATION_UNAVAILABLE`` where there is no such call."""
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        raise _unavailable()
    if b"\0" in path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    how = _OpenHow(flags, 0, resolve)
    for _ in range(_RACES):
        fd = int(_syscall(_SYS_OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how)))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code in _UNAVAILABLE:
            raise _unavailable()
        if code not in {errno.EAGAIN, errno.EINTR}:
            raise OSError(code, os.strerror(code))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def probe() -> None:
    """Exercise the call once, for the start and ``doctor``. Raises ``ISOLATION_UNAVAILABLE`` where the kernel or a filter refuses it."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(openat2(root, b".", _LOOK | os.O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS))
    except OSError:
        raise _unavailable() from None
    finally:
        os.close(root)


def read_first(targets: tuple[Target, ...], limit: int, *, hard_links: bool) -> bytes:
    """The whole content of the first target that exists; blocking, bounded by ``limit`` bytes.

    Raises ``PATH_DENIED`` (leaves its root, is no regular file, has further names), ``TOO_LARGE``, ``NOT_FOUND``, ``TOOL_FAILED`` (unreadable, or
    it kept changing), ``ISOLATION_UNAVAILABLE``. A denied target ends the search: a later root does not make up for it.
    """
    for target in targets:
        try:
            return _read(target, limit, hard_links)
        except _Absent:
            continue
        except OSError as error:
            raise _refusal(error) from None
    raise GnusError("NOT_FOUND", "no such file below the allowed roots")


def _read(target: Target, limit: int, hard_links: bool) -> bytes:
    root = _open_root(target)
    try:
        path = os.fsencode(target.relative)
        _check(_stat_beneath(root, path), limit, hard_links)
        fd = _open_beneath(root, path, _READ)
    finally:
        os.close(root)
    try:
        _check(os.fstat(fd), limit, hard_links)
        data = _read_all(fd, limit)
        _check(os.fstat(fd), limit, hard_links)
        return data
    finally:
        os.close(fd)


def _open_root(target: Target) -> int:
    """A handle of the root: the base as the operator named it, then down without following any link."""
    try:
        base = os.open(target.root.base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _ABSENT:
            raise _Absent from None
        raise
    if not target.root.below:
        return base
    try:
        return _open_beneath(base, os.fsencode(target.root.below), _LOOK | os.O_DIRECTORY, RESOLVE_NO_SYMLINKS)
    finally:
        os.close(base)


def _stat_beneath(root: int, path: bytes) -> os.stat_result:
    look = _open_beneath(root, path, _LOOK)
    try:
        return os.fstat(look)
    finally:
        os.close(look)


def _open_beneath(directory: int, path: bytes, flags: int, resolve: int = 0) -> int:
    try:
        return openat2(directory, path, flags, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve)
    except OSError as error:
        if error.errno in _ABSENT:
            raise _Absent from None
        raise


def _check(found: os.stat_result, limit: int, hard_links: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise GnusError("PATH_DENIED", "the path does not name a regular file")
    if found.st_nlink != 1 and not hard_links:
        raise GnusError("PATH_DENIED", "the file has further names, or none any more; it may belong elsewhere")
    if found.st_size > limit:
        raise GnusError("TOO_LARGE", f"the file is larger than {limit} bytes")


def _read_all(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit + 1
    while left > 0 and (part := os.read(fd, min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise GnusError("TOO_LARGE", f"the file is larger than {limit} bytes")
    return b"".join(parts)


def _refusal(error: OSError) -> GnusError:
    if error.errno in _ESCAPES:
        return GnusError("PATH_DENIED", "the path leaves its allowed root, or may not be read")
    return GnusError("TOOL_FAILED", f"the file could not be read ({errno.errorcode.get(error.errno or 0, 'unknown error')})")


def _unavailable() -> GnusError:
    return GnusError(
        "ISOLATION_UNAVAILABLE", "this kernel does not offer openat2", fix="run on Linux 5.6 or later, without a filter on openat2"
    )
