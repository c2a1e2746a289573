"""API keys: who a request is from. Keys are 256 random bits; only their hashes are kept, in one 0600 JSON file.

Because a key is high-entropy, a fast hash is enough. The lookup goes by hash: its timing tells about a hash the caller cannot steer,
and the final comparison is constant-time. The file is read again when it changes, so that disabling a key works at once.

Invariants: a file that is malformed, too large, owned by another user, or readable by others serves nobody (``CONFIG``, fail closed);
a file is replaced as a whole, never edited in place; a plaintext key exists only in the value ``create`` returns.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import stat
from base64 import b32encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gnus_node.api.settings import MAX_KEYS
from gnus_node.ports.host import Clock, Entropy
from gnus_node.ports.submit import Caller
from gnus_node.records.base import Millis, Name
from gnus_node.records.enums import KeyMode
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import replace_file
from gnus_node.wire.jsontext import read_free

KEY_BYTES = 32
MAX_FILE_BYTES = 4 * 1024 * 1024
SCOPES = frozenset({"ask"})
"""Scopes a key may have."""
_KEY = re.compile(r"gnus_(?:live|test)_[a-z2-7]{52}")
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]+) *")
_HASH_PERSON = b"gnus-api-key/1"


class KeyRow(BaseModel):
    """One key as the file holds it. Times are milliseconds since the Unix epoch."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_id: Name
    hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    tenant: Name
    project: Name
    principal: Name
    mode: KeyMode
    scopes: tuple[str, ...] = Field(max_length=16)
    created_at_ms: Millis
    expires_at_ms: Millis | None = None
    disabled: bool = False


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(ge=1, le=1)
    keys: tuple[KeyRow, ...] = Field(max_length=MAX_KEYS)


def hash_key(key: str) -> str:
    """The kept form of a key: BLAKE2b-256, hex."""
    return hashlib.blake2b(key.encode("ascii"), digest_size=32, person=_HASH_PERSON).hexdigest()


def bearer(header: str | None) -> str:
    """The key of an ``Authorization`` header. Raises ``UNAUTHENTICATED``."""
    found = _BEARER.fullmatch(header or "")
    if found is None or _KEY.fullmatch(found[1]) is None:
        raise GnusError("UNAUTHENTICATED")
    return found[1]


def usable(row: KeyRow, now_ms: int) -> bool:
    """Whether the key may be used at ``now_ms``."""
    return not row.disabled and (row.expires_at_ms is None or now_ms < row.expires_at_ms)


Signature = tuple[int, int, int, int]
"""What tells two states of the file apart. The change time also moves when only the mode or the owner does."""
_UNREAD: Signature = (-1, -1, -1, -1)


def _signature(info: os.stat_result) -> Signature:
    return info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino


def _refuse(path: Path, why: str, fix: str) -> GnusError:
    return GnusError("CONFIG", f"the API key file {path} {why}", fix=fix)


def read_rows(path: Path) -> tuple[tuple[KeyRow, ...], Signature | None]:
    """The rows of a key file and the file's signature; no file is no keys. Raises ``CONFIG``."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return (), None
    except OSError as error:
        raise _refuse(path, f"cannot be opened ({type(error).__name__})", "make it a plain file of the node's user") from None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid not in (os.geteuid(), 0):
            raise _refuse(path, "is not a plain file of the node's user", "chown it to the node's user")
        if info.st_mode & 0o077:
            raise _refuse(path, "can be read or written by others", "chmod 600 it, and replace the keys if others could read it")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(handle)
    try:
        rows = _File.model_validate(read_free(data, limit=MAX_FILE_BYTES)).keys
    except (GnusError, ValidationError):
        raise _refuse(path, "is malformed", "restore it, or remove it and make new keys") from None
    if len({row.hash for row in rows}) != len(rows) or len({row.key_id for row in rows}) != len(rows):
        raise _refuse(path, "names one key twice", "remove one of the rows")
    return rows, _signature(info)


def write_rows(path: Path, rows: Iterable[KeyRow]) -> None:
    """Replace the key file by one with these rows, mode 0600, durable before this returns."""
    text = json.dumps({"version": 1, "keys": [row.model_dump(mode="json", exclude_none=True) for row in rows]}, indent=1)
    replace_file(path, text + "\n")


class KeyRing:
    """The keys of one node. Reading is cheap enough for the loop (one stat a request); ``create`` and ``disable`` write the file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._signature: Signature | None = _UNREAD
        self._by_hash: dict[str, KeyRow] = {}

    @classmethod
    def load(cls, path: Path, clock: Clock) -> KeyRing:
        """The ring of a key file. Raises ``CONFIG`` for a file that must not be used; no file is no keys."""
        ring = cls(path, clock)
        ring._read()
        return ring

    def rows(self) -> tuple[KeyRow, ...]:
        """Every row, in file order. Raises ``CONFIG``."""
        self._refresh()
        return tuple(self._by_hash.values())

    def authenticate(self, header: str | None) -> Caller:
        """The caller an ``Authorization`` header proves. Raises ``UNAUTHENTICATED``, one error for every reason; ``CONFIG``."""
        key = bearer(header)
        self._refresh()
        digest = hash_key(key)
        row = self._by_hash.get(digest)
        if row is None or not hmac.compare_digest(row.hash, digest) or not usable(row, self._clock.wall_ms()):
            raise GnusError("UNAUTHENTICATED")
        return Caller(row.tenant, row.project, row.principal, row.mode, row.key_id, frozenset(row.scopes))

    def create(
        self,
        entropy: Entropy,
        *,
        tenant: str,
        project: str,
        principal: str,
        mode: KeyMode,
        scopes: Iterable[str] = ("ask",),
        expires_at_ms: int | None = None,
    ) -> tuple[str, KeyRow]:
        """Make a key; the plaintext is returned once and kept nowhere. Raises ``CONFIG``, ``TOO_LARGE``, ``USAGE``."""
        asked = sorted(set(scopes))
        if not set(asked) <= SCOPES:
            raise GnusError("USAGE", "an unknown scope for an API key", fix=f"scopes: {', '.join(sorted(SCOPES))}")
        secret = b32encode(entropy.token(KEY_BYTES)).decode("ascii").rstrip("=").lower()
        key = f"gnus_{mode.value}_{secret}"
        fields = {
            "key_id": f"key_{entropy.token(8).hex()}",
            "hash": hash_key(key),
            "tenant": tenant,
            "project": project,
            "principal": principal,
            "mode": mode,
            "scopes": tuple(asked),
            "created_at_ms": self._clock.wall_ms(),
            "expires_at_ms": expires_at_ms,
        }
        try:
            row = KeyRow.model_validate(fields)
        except ValidationError as error:
            raise GnusError("USAGE", f"not a valid {error.errors()[0]['loc'][0]} for an API key") from None
        with self._editing() as rows:
            if len(rows) >= MAX_KEYS:
                raise GnusError("TOO_LARGE", f"the key file holds {MAX_KEYS} keys already", fix="remove old keys")
            write_rows(self._path, [*rows, row])
        return key, row

    def disable(self, key_id: str) -> None:
        """Disable a key at once. Raises ``NOT_FOUND``, ``CONFIG``."""
        with self._editing() as rows:
            if all(row.key_id != key_id for row in rows):
                raise GnusError("NOT_FOUND", "no API key of that id")
            changed = [KeyRow.model_validate({**row.model_dump(), "disabled": row.disabled or row.key_id == key_id}) for row in rows]
            write_rows(self._path, changed)

    @contextmanager
    def _editing(self) -> Iterator[tuple[KeyRow, ...]]:
        """The file's rows, while no other process edits them."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            lock = os.open(self._path.with_name(f".{self._path.name}.lock"), flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield read_rows(self._path)[0]
            finally:
                os.close(lock)
        except OSError as error:
            raise _refuse(self._path, f"cannot be written ({type(error).__name__})", "check the folder's owner and space") from None
        self._read()

    def _refresh(self) -> None:
        try:
            signature: Signature | None = _signature(os.stat(self._path, follow_symlinks=False))
        except FileNotFoundError:
            signature = None
        except OSError:
            signature = _UNREAD
        if signature != self._signature or signature == _UNREAD:
            self._read()

    def _read(self) -> None:
        self._by_hash, self._signature = {}, _UNREAD  # nobody is let in if the next line raises
        rows, self._signature = read_rows(self._path)
        self._by_hash = {row.hash: row for row in rows}
