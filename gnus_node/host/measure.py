"""SHA-256 of large files, remembered by what a file's state can be told from.

A file of weights takes a second to hash and seldom changes. A digest is remembered for (path, device, inode, size, mtime, ctime): every
change of the bytes by ordinary means moves one of them. The memory is one private file in the data directory; losing it costs a second.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import astuple
from pathlib import Path

from gnus_node.host.runtime import read_note, write_note
from gnus_node.ports.servers import FileIdentity
from gnus_node.records.errors import GnusError

MAX_REMEMBERED = 64
_BLOCK = 1024 * 1024


def measure(path: Path, max_bytes: int, memory: Path | None) -> tuple[bytes, FileIdentity]:
    """SHA-256 and identity of a regular file of at most ``max_bytes``; blocking. Raises ``CONFIG``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise GnusError("CONFIG", f"the file of weights cannot be opened: {error.strerror or type(error).__name__}") from None
    try:
        before = _identity(path, os.fstat(fd))
        if not stat.S_ISREG(os.fstat(fd).st_mode) or not 0 < before.size <= max_bytes:
            raise GnusError("CONFIG", f"the file of weights is no regular file of 1 to {max_bytes} bytes")
        known = _recall(memory, before)
        if known is not None:
            return known, before
        digest, left = hashlib.sha256(), before.size
        while left > 0 and (block := os.read(fd, min(_BLOCK, left))):
            digest.update(block)
            left -= len(block)
        after = _identity(path, os.fstat(fd))
    except OSError as error:
        raise GnusError("CONFIG", f"the file of weights cannot be read: {error.strerror or type(error).__name__}") from None
    finally:
        os.close(fd)
    if left or after != before:
        raise GnusError("CONFIG", "the file of weights changed while it was read")
    _remember(memory, before, digest.digest())
    return digest.digest(), before


def _identity(path: Path, found: os.stat_result) -> FileIdentity:
    return FileIdentity(str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _name(identity: FileIdentity) -> str:
    return hashlib.sha256(repr(astuple(identity)).encode("utf-8", "surrogateescape")).hexdigest()


def _recall(memory: Path | None, identity: FileIdentity) -> bytes | None:
    note = read_note(memory) if memory is not None else None
    text = note.get(_name(identity)) if note else None
    try:
        digest = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return None
    return digest if len(digest) == 32 else None


def _remember(memory: Path | None, identity: FileIdentity, digest: bytes) -> None:
    """Best effort: a note that cannot be written is made again next time."""
    if memory is None:
        return
    old = list((read_note(memory) or {}).items())[-(MAX_REMEMBERED - 1) :]
    try:
        write_note(memory, dict([*old, (_name(identity), digest.hex())]))
    except OSError:
        return
