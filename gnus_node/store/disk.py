"""The directory and the LMDB environment under it: permissions, the one-node lock, opening, checking, applying. Blocking code only.

Everything here runs in an Offload lane, one call at a time (LMDB write transactions must begin and end in one thread). Facts behind the
choices are in the memory reference, section 3: ``sync=True`` is the only mode whose acknowledgements mean anything, ``writemap`` is
avoided, ``map_size`` is set large once, the default 0.9 engine is recorded and never switched.

Invariants: directories are 0700 and files 0600; one process at a time has a directory open; a batch is applied whole or not at all; an
error of the engine becomes a typed error here and nowhere else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import lmdb
from lmdb.verify import verify

from gnus_node.ports import Write
from gnus_node.records.errors import GnusError
from gnus_node.store import tables
from gnus_node.store.batch import Batch, conflicts
from gnus_node.store.sums import summed

LOCK_FILE = "LOCK"
DATA_FILE = "data.mdb"
MAX_DBS = 64
SPARE_READ_TXNS = 4
PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
OTHERS = 0o077
VERIFY_BYTES = 64 << 20
"""A file up to this size is verified whole when it is opened (6 ms a MiB)."""
NO_SPACE_BYTES = 256 << 10
"""A file system with less room than this counts as full."""

START_OVER = "restore store, keys and identity from one backup, or lose what they held: gnus-node run --start-over"

_SCHEMA_KEY = b"store.schema"
_ENGINE_KEY = b"store.lmdb"
_UNSUMMED = b"1"
NO_ROWS = (_SCHEMA_KEY, _ENGINE_KEY)
"""Keys of the table ``meta`` that are this module's own."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def private_directory(path: Path) -> None:
    """Make the directory 0700, or refuse (``CONFIG``) one that other users can enter."""
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY, parents=True)
        path.chmod(PRIVATE_DIRECTORY)
        sync_directory(path.parent)
    except FileExistsError:
        pass
    except OSError as error:
        raise GnusError("CONFIG", f"cannot make {path}: {os.strerror(error.errno or 0)}", fix="choose a directory you own") from error
    refuse_shared(path)


def refuse_shared(path: Path) -> None:
    """Refuse (``CONFIG``) a file or directory that group or others may use."""
    mode = stat.S_IMODE(path.lstat().st_mode)
    if mode & OTHERS:
        raise GnusError("CONFIG", f"{path} is open to other users (mode {mode:o})", fix=f"chmod go-rwx {path}")


def sync_directory(path: Path) -> None:
    """Make the directory's entries durable: a new file's name survives a power cut only after this."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, content: str | bytes) -> None:
    """Make a file, mode 0600, or replace it, whole and durably: a reader and a power cut see the old or the new one. Raises ``OSError``."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)
    sync_directory(path.parent)


def lost(path: Path) -> str:
    """Why the environment in ``path`` cannot be one that was used before, in words; empty where it may be."""
    data = path / DATA_FILE
    try:
        found = data.stat()
    except FileNotFoundError:
        return f"{data} is missing"
    except OSError as error:
        return f"{data} cannot be read: {os.strerror(error.errno or 0)}"
    return "" if stat.S_ISREG(found.st_mode) and found.st_size else f"{data} is empty, or no file"


def require_kept(path: Path) -> None:
    """For a directory that was used before: raise ``STORE_CORRUPT`` where its environment is gone. Nothing is made here."""
    why = lost(path)
    if why:
        raise gone(why)


def gone(why: str) -> GnusError:
    """The refusal of a data directory whose keys were used and whose records are not there."""
    return GnusError("STORE_CORRUPT", f"{why}, but this node ran before", fix=START_OVER)


class DirectoryLock:
    """Holds a directory for one opener. ``flock`` belongs to the open file, so a second open in the same process is refused too; the
    kernel lets go when the process dies, so a killed node leaves no stale lock."""

    def __init__(self, directory: Path) -> None:
        try:
            self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        except OSError as error:
            raise GnusError(
                "CONFIG", f"cannot write in {directory}: {os.strerror(error.errno or 0)}", fix="check its owner and disk"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            who = f" (process {holder})" if holder.isdigit() else ""
            raise GnusError("ALREADY_RUNNING", f"{directory} is open in another node{who}") from error
        os.truncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let go; the file stays, so that no two openers ever lock different files of one name."""
        os.close(self._fd)


def storage_error(error: lmdb.Error, path: Path | None = None) -> GnusError:
    """The typed error of an engine error: ``STORE_FULL`` for map, disk or quota, ``STORE_CORRUPT`` for everything else."""
    if is_full(error, path):
        return GnusError("STORE_FULL")
    return GnusError(
        "STORE_CORRUPT", f"the storage engine failed: {type(error).__name__} {error.code}", fix="check the disk, then restart the node"
    )


def is_full(error: lmdb.Error, path: Path | None = None) -> bool:
    """Whether the engine ran out of map, disk or quota: the transaction is undone and the environment stays usable.

    LMDB reports a write cut short by a full disk as EIO; with ``path`` that is told apart from a broken disk by the space left. It is
    undone as safely: the meta page that would make the transaction count is written last, and an error there ends the environment."""
    if isinstance(error, lmdb.MapFullError | lmdb.DiskError) or error.code in _FULL:
        return True
    if error.code != errno.EIO or path is None:
        return False
    space = os.statvfs(path)
    return space.f_bavail * space.f_frsize < NO_SPACE_BYTES


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Turn an engine error into its typed error."""
    try:
        yield
    except lmdb.Error as error:
        raise storage_error(error) from error


def open_lmdb(path: Path, map_size_bytes: int) -> lmdb.Environment:
    """Open or create the environment of a locked private directory. Raises ``STORE_CORRUPT``, ``STORE_FULL``."""
    data = path / DATA_FILE
    fresh = not data.exists()
    try:
        env = lmdb.open(
            str(path), map_size=map_size_bytes, max_dbs=MAX_DBS, mode=PRIVATE_FILE, sync=True, metasync=True, max_spare_txns=SPARE_READ_TXNS
        )
    except lmdb.Error as error:
        if is_full(error):
            raise GnusError("STORE_FULL") from error
        raise _unreadable(path, type(error).__name__) from error
    try:
        if fresh:
            sync_directory(path)
        env.reader_check()
        # A file cut short, or with a broken tree, would kill the process on the first touch of a bad page. Some healthy files are short
        # too (pages taken and freed in one transaction are never written), so only the verifier, which never maps the file, can tell.
        size = 0 if fresh else data.stat().st_size
        short = size < (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        if not fresh and (short or size <= VERIFY_BYTES) and verify(str(path)):  # type: ignore[no-untyped-call]
            raise _unreadable(path, "the file is cut short" if short else "its pages do not fit together")
    except (GnusError, lmdb.Error, OSError):
        env.close()
        raise
    return env


def _unreadable(path: Path, why: str) -> GnusError:
    return GnusError("STORE_CORRUPT", f"{path / DATA_FILE} cannot be read: {why}", fix=START_OVER)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store: the lock it holds, the environment, and each table's handle."""

    lock: DirectoryLock
    env: lmdb.Environment
    handles: Mapping[str, lmdb._Database]

    def close(self) -> None:
        """Close the environment, then let the directory go."""
        try:
            self.env.close()
        finally:
            self.lock.release()


def open_tables(path: Path, map_size_bytes: int, expected: bool = False) -> Opened:
    """Lock and open the store's directory with every declared table. Where it was used before (``expected``), an empty one is refused.

    Raises ``ALREADY_RUNNING``, ``CONFIG``, ``STORE_*``."""
    if expected:
        require_kept(path)
    private_directory(path)
    lock = DirectoryLock(path)
    try:
        env = open_lmdb(path, map_size_bytes)
        try:
            with mapped_errors():
                return Opened(lock, env, _open_handles(env, path, expected))
        except GnusError:
            env.close()
            raise
    except (GnusError, lmdb.Error, OSError):
        lock.release()
        raise


def _open_handles(env: lmdb.Environment, path: Path, expected: bool) -> dict[str, lmdb._Database]:
    """Open every table in one transaction, after checking that schema and engine are the ones that wrote the directory."""
    engine = ".".join(map(str, env.lib_version())).encode()
    schema = str(tables.SCHEMA_VERSION).encode()
    with env.begin(write=True) as txn:
        fresh = txn.stat()["entries"] == 0
        if fresh and expected:
            raise gone(f"{path / DATA_FILE} holds nothing")
        meta = env.open_db(b"meta", txn=txn)
        if fresh:
            txn.put(_SCHEMA_KEY, schema, db=meta)
            txn.put(_ENGINE_KEY, engine, db=meta)
        found = (txn.get(_SCHEMA_KEY, db=meta), txn.get(_ENGINE_KEY, db=meta))
        if found[0] == _UNSUMMED and _engine_line(found[1]) == _engine_line(engine):
            _add_sums(env, txn)
            txn.put(_SCHEMA_KEY, schema, db=meta)
        elif found[0] != schema:
            raise GnusError(
                "STORE_CORRUPT",
                f"the data directory has schema {_shown(found[0])}, this program reads {schema.decode()}",
                fix="run the version of gnus-node that wrote it, or restore a backup of this version",
            )
        if _engine_line(found[1]) != _engine_line(engine):
            raise GnusError(
                "STORE_CORRUPT",
                f"the data directory was written by LMDB {_shown(found[1])}, this program has {engine.decode()}",
                fix="install the lmdb release that pyproject.toml pins",
            )
        return {name: meta if name == "meta" else env.open_db(name.encode(), txn=txn) for name in tables.TABLES}


def _add_sums(env: lmdb.Environment, txn: lmdb.Transaction[bytes]) -> None:
    """Bring a directory of schema 1, whose rows had no checksums, to this one, in the transaction that says so."""
    for name in tables.TABLES:
        handle = env.open_db(name.encode(), txn=txn)
        with txn.cursor(db=handle) as cursor:
            for key, value in cursor:
                if key not in NO_ROWS or name != "meta":
                    cursor.put(key, summed(name, key, value))


def _engine_line(version: bytes | None) -> bytes | None:
    """Major and minor: the on-disk format changes with these only (0.9 against 1.0)."""
    return None if version is None else b".".join(version.split(b".")[:2])


def _shown(value: bytes | None) -> str:
    return "none" if value is None else value[:20].decode("ascii", "replace")


@dataclass(slots=True)
class GroupResult:
    """What became of a group: transactions synced, the number of the last batch whose outcome is known, the refused batches by number,
    and the error that ends all writing, if any; it is the outcome of every later batch."""

    transactions: int = 0
    known_through: int = -1
    refused: dict[int, GnusError] = field(default_factory=dict)
    fatal: GnusError | None = None


def apply_group(opened: Opened, group: Sequence[Batch]) -> GroupResult:
    """Apply the batches in order in one durable transaction. When it does not fit, each batch is tried in a transaction of its own, so
    that one too large does not take the others with it. After any other engine error nothing may be believed: ``fatal``."""
    try:
        return _apply(opened, group)
    except lmdb.Error as error:
        path = Path(opened.env.path())
        if not is_full(error, path):
            return GroupResult(fatal=storage_error(error, path))
        if len(group) == 1:
            number = group[0].number
            return GroupResult(known_through=number, refused={number: storage_error(error, path)})
    total = GroupResult()
    for batch in group:
        one = apply_group(opened, (batch,))
        total.transactions += one.transactions
        total.refused.update(one.refused)
        total.fatal = one.fatal
        if one.fatal is not None:
            break
        total.known_through = one.known_through
    return total


def _apply(opened: Opened, group: Sequence[Batch]) -> GroupResult:
    result = GroupResult()
    changed = False
    with opened.env.begin(write=True, buffers=True) as txn:
        for batch in group:
            error = _refusal(txn, opened.handles, batch.writes)
            if error is not None:
                result.refused[batch.number] = error
                continue
            for write in batch.writes:
                handle = opened.handles[write.table]
                if write.value is None:
                    changed = txn.delete(write.key, db=handle) or changed
                else:
                    changed = txn.put(write.key, summed(write.table, write.key, write.value), db=handle) or changed
    result.transactions = int(changed)
    result.known_through = group[-1].number
    return result


def _refusal(txn: lmdb.Transaction[memoryview], handles: Mapping[str, lmdb._Database], writes: Sequence[Write]) -> GnusError | None:
    """Why the batch may not be applied to the transaction's state, or None."""

    def exists(table: str, key: bytes) -> bool:
        return txn.get(key, db=handles[table]) is not None

    if conflicts(writes, exists):
        return GnusError("REPLAYED", "a row of the batch exists already")
    final = {(write.table, write.key): write.value is not None for write in writes}
    growth: Counter[str] = Counter()
    for (table, key), present in final.items():
        growth[table] += int(present) - int(exists(table, key))
    for table, rows in growth.items():
        if rows > 0 and txn.stat(handles[table])["entries"] + rows > tables.table(table).max_rows:
            return GnusError("STORE_FULL", f"table {table} is at its bound of rows", fix="settle or expire old requests")
    return None
