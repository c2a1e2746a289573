"""Payloads: one commit with the journal, nothing in clear on disk, and erasure by destroying the subject's key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from gnus_node.host import SystemEntropy, ThreadOffload
from gnus_node.ports import Write
from gnus_node.records.errors import GnusError
from gnus_node.store import KeyStore, LmdbStore, PayloadStore, StoreLimits, open_keys, open_store, tables
from gnus_node.store.payloads import PURPOSE
from gnus_node.store.seal import aead_open, aead_seal

ONE, TWO = "6f1c2a9e-0000-4000-8000-000000000001", "6f1c2a9e-0000-4000-8000-000000000002"
CANARY = "canary-7f3d"
LIMITS = StoreLimits(map_size_bytes=1 << 30)


@dataclass
class Rooms:
    store: LmdbStore
    keys: KeyStore
    payloads: PayloadStore


@asynccontextmanager
async def rooms(path: Path) -> AsyncIterator[Rooms]:
    entropy, offload = SystemEntropy(), ThreadOffload({})
    async with open_store(path / "store", offload, limits=LIMITS) as store, open_keys(path / "keys", entropy, offload) as keys:
        yield Rooms(store, keys, PayloadStore(store, keys, entropy))


def all_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())


async def test_acceptance_costs_one_commit_and_reads_back_after_a_reopen(tmp_path: Path) -> None:
    entropy = SystemEntropy()
    request_key = entropy.token(32)
    text = f"is {CANARY} found in clear?".encode()
    commitment = sha256(b"salt" + text).digest()
    async with rooms(tmp_path) as r:
        await r.payloads.writes_for_request_key(TWO, f"user {CANARY}", request_key)  # the subject's first request makes its key
        before = r.store.commits
        rows = await r.payloads.writes_for_request_key(ONE, f"user {CANARY}", request_key)
        rows += r.payloads.writes_for_parcels(ONE, {commitment: aead_seal(request_key, text, commitment, entropy)})
        await r.store.commit([Write("journal", tables.request(ONE), b"digests only"), *rows])
        assert r.store.commits == before + 1
    async with rooms(tmp_path) as r:
        assert await r.payloads.request_key(ONE) == request_key
        parcel = await r.payloads.parcel(commitment)
        assert parcel is not None
        assert aead_open(request_key, parcel, commitment) == text
        assert await r.payloads.parcel(bytes(32)) is None
    everything = all_bytes(tmp_path)
    assert len(everything) > 4096
    assert CANARY.encode() not in everything
    assert request_key not in everything


async def test_destroying_a_subjects_key_erases_its_requests_only(tmp_path: Path) -> None:
    async with rooms(tmp_path) as r:
        for request_id, subject in ((ONE, "alice"), (TWO, "bob")):
            await r.store.commit(await r.payloads.writes_for_request_key(request_id, subject, request_id.encode()[-32:]))
        assert await r.keys.destroy("alice", PURPOSE)
        with pytest.raises(GnusError, match="ERASED"):
            await r.payloads.request_key(ONE)
        assert await r.payloads.request_key(TWO) == TWO.encode()[-32:]
        with pytest.raises(GnusError, match="ERASED"):
            await r.payloads.writes_for_request_key(ONE, "alice", bytes(32))


async def test_a_request_keeps_its_first_key(tmp_path: Path) -> None:
    async with rooms(tmp_path) as r:
        await r.store.commit(await r.payloads.writes_for_request_key(ONE, "alice", b"1" * 32))
        again = await r.payloads.writes_for_request_key(ONE, "alice", b"2" * 32)
        with pytest.raises(GnusError, match="REPLAYED"):
            await r.store.commit(again)
        assert await r.payloads.request_key(ONE) == b"1" * 32


async def test_a_key_row_moved_to_another_request_does_not_open(tmp_path: Path) -> None:
    async with rooms(tmp_path) as r:
        (row,) = await r.payloads.writes_for_request_key(ONE, "alice", b"1" * 32)
        await r.store.commit([Write("request_key", tables.request(TWO), row.value)])
        with pytest.raises(GnusError, match="STORE_CORRUPT"):
            await r.payloads.request_key(TWO)


async def test_forgetting_and_bad_input(tmp_path: Path) -> None:
    commitment = sha256(b"x").digest()
    async with rooms(tmp_path) as r:
        rows = await r.payloads.writes_for_request_key(ONE, "alice", b"1" * 32)
        await r.store.commit([*rows, *r.payloads.writes_for_parcels(ONE, {commitment: b"sealed"})])
        await r.store.commit(r.payloads.writes_to_forget(ONE, [commitment]))
        with pytest.raises(GnusError, match="NOT_FOUND"):
            await r.payloads.request_key(ONE)
        assert await r.payloads.parcel(commitment) is None
        with pytest.raises(GnusError, match="INTERNAL"):
            await r.payloads.writes_for_request_key(ONE, "alice", b"short")
        with pytest.raises(GnusError, match="MALFORMED"):
            r.payloads.writes_for_parcels(ONE, {b"short": b""})
        with pytest.raises(GnusError, match="MALFORMED"):
            await r.payloads.parcel(b"short")
        for value in (b"", b"\x07", b"\x01", b"\x01\xff", b"\x01\x00\x05abc"):
            await r.store.commit([Write("request_key", tables.request(TWO), value)])
            with pytest.raises(GnusError, match="STORE_CORRUPT"):
                await r.payloads.request_key(TWO)
        for value in (b"", b"\x07\x00", b"\x01", b"\x01\xffshort"):
            await r.store.commit([Write("payload", commitment, value)])
            with pytest.raises(GnusError, match="STORE_CORRUPT"):
                await r.payloads.parcel(commitment)
