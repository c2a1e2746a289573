"""Files that the nodes of one user on one machine share: a private folder, locks, and notes that name where something listens.

Anybody may write to a machine's folder for temporary files, so nothing here is believed by its name: a folder, lock or note counts only
if it is a plain one, ours alone and closed to others. What a killed process left behind is told by its lock, which the kernel let go.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnus_node.records.errors import GnusError

MAX_NOTE_BYTES = 64 * 1024
MAX_FOLDER_BYTES = 72
"""A unix socket's path has at most 107 bytes, and the names in the folder take up to 35."""


def runtime_folder(chosen: Path | None) -> Path:
    """The folder, made with mode 0700: the operator's choice, else the user's runtime directory, else one in ``/tmp``. Raises ``CONFIG``
    where it is not ours alone."""
    own = Path(f"/run/user/{os.geteuid()}")
    path = chosen or (own / "gnus-node" if _private(own) else Path(f"/tmp/gnus-node-{os.geteuid()}"))
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise GnusError("CONFIG", f"the runtime folder cannot be made: {type(error).__name__}", fix="set node.runtime_dir") from None
    if not _private(path):
        raise GnusError("CONFIG", "the runtime folder is not this user's alone", fix="set node.runtime_dir to a folder of mode 0700")
    if len(os.fsencode(path)) > MAX_FOLDER_BYTES:
        raise GnusError(
            "CONFIG", f"the runtime folder's path has more than {MAX_FOLDER_BYTES} bytes", fix="set node.runtime_dir to a shorter one"
        )
    return path


def _private(path: Path) -> bool:
    """Whether it is a folder, no link, ours, closed to everybody else."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _own_file(fd: int) -> bool:
    found = os.fstat(fd)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


class Lock:
    """A lock among processes and among users of it within one; the kernel lets go of it when its process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    @property
    def held(self) -> bool:
        """Whether it is held here."""
        return self._fd >= 0

    def take(self) -> bool:
        """Take it if nobody else holds it; whether it is held now. Raises ``CONFIG`` where the file is not ours."""
        if self._fd >= 0:
            return True
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except OSError as error:
            raise GnusError("CONFIG", f"a lock cannot be opened in the runtime folder: {type(error).__name__}") from None
        try:
            if not _own_file(fd):
                raise GnusError("CONFIG", "a lock in the runtime folder is not this user's alone", fix="remove it")
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except (OSError, GnusError):
            os.close(fd)
            raise
        self._fd = fd
        return True

    def release(self) -> None:
        """Let go; nothing where it is not held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def write_note(path: Path, value: Mapping[str, Any]) -> None:
    """Put a note in place whole, mode 0600. Raises ``OSError``."""
    made = path.with_name(f"{path.name}.new")
    made.unlink(missing_ok=True)
    fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(value, file)
    made.replace(path)


def read_note(path: Path) -> dict[str, Any] | None:
    """A note of ours, or None where there is none, or none that can be believed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        raw = os.read(fd, MAX_NOTE_BYTES + 1) if _own_file(fd) else b""
    except OSError:
        raw = b""
    finally:
        os.close(fd)
    if not raw or len(raw) > MAX_NOTE_BYTES:
        return None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
