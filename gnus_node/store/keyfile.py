"""The key environment on disk: the master key file, wrapped data keys, tombstones, and shredding. Blocking code, for one lane.

Layout of the directory: ``master.key`` (32 bytes, 0600, made once), ``data.mdb`` with two tables: ``keys`` (id -> one state byte, then the
wrapped key) and ``info``. Ids are keyed hashes of subject and purpose, so the file names nobody.

Why destroying copies the file: LMDB leaves deleted bytes in freed pages, and the master key could still open them. So after the tombstone
is durable the environment is compacted into a new file that takes the old one's place. A power cut in between leaves the mark
``shred`` behind, and the next open finishes the work. What the disk's own firmware or a backup kept is beyond a program's reach: backups
must not contain this directory.

Invariants: a master key is never made where wrapped keys exist; a key's row is written once and only ever replaced by a tombstone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import lmdb

from gnus_node.records.errors import GnusError
from gnus_node.store.disk import (
    DATA_FILE,
    PRIVATE_FILE,
    DirectoryLock,
    gone,
    mapped_errors,
    open_lmdb,
    private_directory,
    refuse_shared,
    replace_file,
    require_kept,
    sync_directory,
)

MASTER_FILE = "master.key"
MASTER_BYTES = 32
LIVE, ERASED = b"\x01", b"\x00"
"""State byte of a row."""

_CHECK_KEY = b"master"
_SHRED_KEY = b"shred"
_NEW = ".new"


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Bounds of the key environment."""

    map_size_bytes: int = 1 << 30
    max_keys: int = 2_000_000
    """Live keys and tombstones together."""
    cached_keys: int = 4096
    """Data keys held in memory."""


def derive(master: bytes, label: bytes) -> bytes:
    """A 32-byte subkey of the master key, one for each use."""
    return blake2b(label, key=master, digest_size=32).digest()


class KeyFile:
    """The open key environment. Not thread-safe: its owner makes one call at a time."""

    def __init__(self, path: Path, limits: KeyLimits, new_master: Callable[[], bytes], expected: bool = False) -> None:
        """Lock and open; nothing is made anew where it is ``expected`` to be there, because the node ran before.

        Raises ``ALREADY_RUNNING``, ``CONFIG`` (permissions), ``STORE_CORRUPT``, ``STORE_FULL``."""
        if expected:
            require_kept(path)
        self._expected = expected
        private_directory(path)
        self._path = path
        self._limits = limits
        self._lock = DirectoryLock(path)
        self._env: lmdb.Environment | None = None
        try:
            _remove(path / (DATA_FILE + _NEW))
            self._open()
            with mapped_errors():
                self.master = self._master(new_master)
                self._check_master()
                if self._shred_due():
                    self._shred_if_room()
        except (GnusError, lmdb.Error, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Close the environment and let the directory go."""
        if self._env is not None:
            self._env.close()
            self._env = None
        self._lock.release()

    def load(self, key_id: bytes) -> bytes | None:
        """The row of a key: state byte and, if live, the wrapped key; None where there never was one."""
        with mapped_errors(), self._live().begin(db=self._keys) as txn:
            return txn.get(key_id)

    def create(self, key_id: bytes, wrapped: bytes) -> None:
        """Make a new key's row durable. Raises ``STORE_FULL``; ``INTERNAL`` where the id has a row."""
        with mapped_errors(), self._live().begin(db=self._keys, write=True) as txn:
            if txn.stat(self._keys)["entries"] >= self._limits.max_keys:
                raise GnusError("STORE_FULL", "the key store is at its bound of keys")
            if not txn.put(key_id, LIVE + wrapped, overwrite=False):
                raise GnusError("INTERNAL", "a data key would be overwritten")

    def erase(self, key_id: bytes) -> bool:
        """Replace a live key by a tombstone and shred the file; False where there was no live key. Raises ``STORE_FULL`` when the
        tombstone is durable but the disk has no room to shred: the next call or open does it."""
        with mapped_errors():
            with self._live().begin(write=True) as txn:
                row = txn.get(key_id, db=self._keys)
                erased = row is not None and row[:1] == LIVE
                if erased:
                    txn.put(key_id, ERASED, db=self._keys)
                    txn.put(_SHRED_KEY, b"1", db=self._info)
            if self._shred_due():
                self._shred()
        return erased

    # -- inside -----------------------------------------------------------------------------------------------------------------

    def _live(self) -> lmdb.Environment:
        if self._env is None:
            raise GnusError("STORE_CORRUPT", "the key store is not open", fix="restart the node")
        return self._env

    def _open(self) -> None:
        self._env = open_lmdb(self._path, self._limits.map_size_bytes)
        with mapped_errors(), self._env.begin(write=True) as txn:
            self._keys = self._env.open_db(b"keys", txn=txn)
            self._info = self._env.open_db(b"info", txn=txn)

    def _master(self, new_master: Callable[[], bytes]) -> bytes:
        """Read the master key, or make it where no key was ever wrapped."""
        file = self._path / MASTER_FILE
        if not os.path.lexists(file):
            with self._live().begin() as txn:
                if self._expected or txn.get(_CHECK_KEY, db=self._info) is not None:
                    raise GnusError("STORE_CORRUPT", f"{file} is missing but data keys exist", fix=f"restore {MASTER_FILE}")
            replace_file(file, new_master())
        refuse_shared(file)
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
                raise GnusError("CONFIG", f"{file} belongs to another user", fix=f"chown it to the user that runs the node: {file}")
            master = os.read(fd, MASTER_BYTES + 1)
        finally:
            os.close(fd)
        if len(master) != MASTER_BYTES:
            raise GnusError("STORE_CORRUPT", f"{file} has not {MASTER_BYTES} bytes", fix=f"restore {MASTER_FILE}")
        return master

    def _check_master(self) -> None:
        """Bind the environment to its master key at first open; refuse another one afterwards."""
        mine = derive(self.master, b"gnus/keys/check/1")
        with self._live().begin(db=self._info, write=True) as txn:
            found = txn.get(_CHECK_KEY)
            if found is None and self._expected:
                raise gone(f"{self._path / DATA_FILE} holds nothing")
            if found is None:
                txn.put(_CHECK_KEY, mine)
            elif found != mine:
                raise GnusError("STORE_CORRUPT", f"{MASTER_FILE} is not the key of this environment", fix=f"restore {MASTER_FILE}")

    def _shred_due(self) -> bool:
        with self._live().begin(db=self._info) as txn:
            return txn.get(_SHRED_KEY) is not None

    def _shred_if_room(self) -> None:
        try:
            self._shred()
        except GnusError as error:
            if error.code != "STORE_FULL":
                raise  # a full disk must not keep the node from opening; the mark stays

    def _shred(self) -> None:
        """Put a compact copy, which holds live rows only, in the place of the file."""
        env = self._live()
        old, new = self._path / DATA_FILE, self._path / (DATA_FILE + _NEW)
        _remove(new)
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
            try:
                env.copyfd(fd, compact=True)
                os.fsync(fd)
            finally:
                os.close(fd)
        except (lmdb.Error, OSError) as error:
            _remove(new)
            raise GnusError("STORE_FULL", "no room to shred a destroyed key", fix="free space, then erase again") from error
        env.close()
        self._env = None
        try:
            os.replace(new, old)
            sync_directory(self._path)
        except OSError as error:
            raise GnusError("STORE_CORRUPT", "a shredded key file could not take its place", fix="check the disk") from error
        finally:
            self._open()
        with self._live().begin(db=self._info, write=True) as txn:
            txn.delete(_SHRED_KEY)


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
