"""Data keys: one for each (subject, purpose), made once, wrapped by the node's master key, gone for good when destroyed.

Why: payloads are encrypted under keys that live only here, in an environment of their own that is never replicated or backed up with the
data. Destroying a subject's key erases everything sealed under it, wherever the ciphertext went (DESIGN.md section 4).

Invariants: a key is durable before anybody gets it; the same (subject, purpose) always gets the same key, or ``ERASED``; after
``destroy`` returns, no call returns the key; neither subjects nor keys stand in the file in clear.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path

import trio

from gnus_node.ports import Entropy, Offload
from gnus_node.records.errors import GnusError
from gnus_node.store.keyfile import ERASED, LIVE, MASTER_BYTES, KeyFile, KeyLimits, derive
from gnus_node.store.seal import KEY_BYTES, aead_open, aead_seal

LANE = "keys"
"""Offload lane of the key environment."""
MAX_NAME_BYTES = 1024
"""Longest subject or purpose, as UTF-8."""


class KeyStore:
    """The Keys port. Made by ``open_keys`` only."""

    def __init__(self, file: KeyFile, entropy: Entropy, offload: Offload, limits: KeyLimits) -> None:
        self._file = file
        self._entropy = entropy
        self._offload = offload
        self._limits = limits
        self._id_key = derive(file.master, b"gnus/keys/id/1")
        self._wrap_key = derive(file.master, b"gnus/keys/wrap/1")
        self._cache: OrderedDict[bytes, bytes] = OrderedDict()
        self._turn = trio.Lock()
        self._closed = False
        self.damage: GnusError | None = None
        """The first key found that is not what was written."""

    async def key_for(self, subject: str, purpose: str) -> bytes:
        """The 32-byte key of a subject for a purpose, made durable at first use.

        Raises ``ERASED`` where it was destroyed, ``STORE_FULL``, ``STORE_CORRUPT``, ``NOT_RUNNING``."""
        key_id = self._id(subject, purpose)
        await trio.lowlevel.checkpoint_if_cancelled()
        cached = self._cache.get(key_id)
        if cached is not None:
            self._cache.move_to_end(key_id)
            return cached
        async with self._turn:
            self._check_open()
            row = await self._offload.run(self._file.load, key_id, lane=LANE)
            if row is None:
                key = self._entropy.token(KEY_BYTES)
                wrapped = aead_seal(self._wrap_key, key, key_id, self._entropy)
                await self._offload.run(self._file.create, key_id, wrapped, lane=LANE)
            else:
                key = self._unwrap(key_id, row)
            self._remember(key_id, key)
            return key

    async def destroy(self, subject: str, purpose: str) -> bool:
        """Destroy the key for good: durable, shredded from the file, and remembered. False where there was none.

        Raises ``STORE_FULL`` where it is destroyed but the disk has no room to shred the file; call again."""
        key_id = self._id(subject, purpose)
        async with self._turn:
            self._check_open()
            self._cache.pop(key_id, None)
            return await self._offload.run(self._file.erase, key_id, lane=LANE)

    def _id(self, subject: str, purpose: str) -> bytes:
        try:
            names = [subject.encode(), purpose.encode()]
        except UnicodeEncodeError as error:
            raise GnusError("MALFORMED", "a key's subject or purpose is not valid text") from error
        if any(len(name) > MAX_NAME_BYTES for name in names):
            raise GnusError("TOO_LARGE", f"a key's subject or purpose is over {MAX_NAME_BYTES} bytes")
        framed = b"".join(len(name).to_bytes(4, "big") + name for name in names)
        return blake2b(framed, key=self._id_key, digest_size=32).digest()

    def _unwrap(self, key_id: bytes, row: bytes) -> bytes:
        if row == ERASED:
            raise GnusError("ERASED")
        try:
            if row[:1] == LIVE:
                return aead_open(self._wrap_key, row[1:], key_id)
            cause = None
        except GnusError as error:
            cause = error
        damage = GnusError("STORE_CORRUPT", "a wrapped data key does not open", fix="restore the key directory")
        self.damage = self.damage or damage
        raise damage from cause

    def _remember(self, key_id: bytes, key: bytes) -> None:
        self._cache[key_id] = key
        if len(self._cache) > self._limits.cached_keys:
            self._cache.popitem(last=False)

    def _check_open(self) -> None:
        if self._closed:
            raise GnusError("NOT_RUNNING", "the key store is closed")

    async def _close(self) -> None:
        self._closed = True
        self._cache.clear()
        async with self._turn:
            await self._offload.run(self._file.close, lane=LANE)


@asynccontextmanager
async def open_keys(
    path: Path, entropy: Entropy, offload: Offload, *, limits: KeyLimits | None = None, expected: bool = False
) -> AsyncIterator[KeyStore]:
    """Open the key store in ``path`` (made 0700 if missing, with a new master key if it never held one). Where it is ``expected`` to
    be there, because the node ran before, nothing is made.

    Raises ``ALREADY_RUNNING``, ``CONFIG`` (permissions too wide, wrong owner), ``STORE_CORRUPT`` (master key missing or another's)."""
    limits = limits or KeyLimits()
    # Drawn here and not in the lane: Entropy belongs to the loop. Drawn always, so that a run repeats whether the key exists or not.
    master = entropy.token(MASTER_BYTES)
    file = await offload.run(KeyFile, path, limits, lambda: master, expected, lane=LANE)
    keys = KeyStore(file, entropy, offload, limits)
    try:
        yield keys
    finally:
        with trio.CancelScope(shield=True):
            await keys._close()
