"""The key store: a key is durable before it is given out, wrapped at rest, and gone for good when destroyed."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import lmdb
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.host import InlineOffload, SeededEntropy, SystemEntropy, ThreadOffload
from gnus_node.ports import Keys
from gnus_node.records.errors import GnusError
from gnus_node.store import KeyLimits, KeyStore, open_keys
from gnus_node.store.keyfile import derive
from gnus_node.store.seal import OVERHEAD_BYTES, aead_open, aead_seal

from .offloads import GatedOffload, until


def opened(path: Path, limits: KeyLimits | None = None) -> AbstractAsyncContextManager[KeyStore]:
    return open_keys(path / "keys", SystemEntropy(), ThreadOffload({}), limits=limits)


async def refusal(path: Path) -> GnusError:
    with pytest.raises(GnusError) as caught:
        async with opened(path):
            pass
    return caught.value


def file_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((path / "keys").iterdir()))


def rows(path: Path) -> dict[bytes, bytes]:
    """All rows of the keys table as they are on disk now, read from a copy without the code under test."""
    copy = path / f"copy-{len(list(path.iterdir()))}"
    copy.mkdir()
    shutil.copy(path / "keys" / "data.mdb", copy)
    env = lmdb.open(str(copy), max_dbs=4, readonly=True, lock=False)
    with env.begin(db=env.open_db(b"keys", create=False)) as txn:
        found = dict(txn.cursor())
    env.close()
    return found


async def test_one_key_for_each_subject_and_purpose_kept_over_reopen(tmp_path: Path) -> None:
    made: dict[tuple[str, str], bytes] = {}
    pairs = [("alice", "payload"), ("alice", "memory"), ("bob", "payload"), ("alicep", "ayload"), ("", "payload")]
    async with opened(tmp_path) as store:
        keys: Keys = store
        for pair in pairs:
            made[pair] = await keys.key_for(*pair)
    assert len(set(made.values())) == len(pairs)
    assert {len(key) for key in made.values()} == {32}
    async with opened(tmp_path) as store:
        for pair in pairs:
            assert await store.key_for(*pair) == made[pair] == await store.key_for(*pair)


async def test_concurrent_first_uses_agree(tmp_path: Path) -> None:
    found: set[bytes] = set()
    async with opened(tmp_path) as store, trio.open_nursery() as nursery:

        async def use() -> None:
            found.add(await store.key_for("alice", "payload"))

        for _ in range(20):
            nursery.start_soon(use)
    assert len(found) == 1


async def test_neither_key_nor_subject_stands_in_the_files(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        key = await store.key_for("alice@example.org", "payload")
    assert key not in file_bytes(tmp_path)
    assert b"alice" not in file_bytes(tmp_path)


async def test_a_key_is_durable_before_it_is_given_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        key = await store.key_for("alice", "payload")
        (row,) = rows(tmp_path).values()
        assert key not in row
        (key_id,) = rows(tmp_path)
        master = (tmp_path / "keys" / "master.key").read_bytes()
        assert aead_open(derive(master, b"gnus/keys/wrap/1"), row[1:], key_id) == key


async def test_destroyed_means_erased_for_good_and_shredded(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        other = await store.key_for("bob", "payload")
        before = set(rows(tmp_path).values())
        await store.key_for("alice", "payload")
        (wrapped,) = set(rows(tmp_path).values()) - before
        assert wrapped in file_bytes(tmp_path)
        assert await store.destroy("alice", "payload") is True
        assert wrapped[1:33] not in file_bytes(tmp_path), "freed pages hold the wrapped key"
        with pytest.raises(GnusError, match="ERASED"):
            await store.key_for("alice", "payload")
        assert await store.destroy("alice", "payload") is False
        assert await store.destroy("carol", "payload") is False
        assert await store.key_for("carol", "payload")
        assert await store.key_for("bob", "payload") == other
    async with opened(tmp_path) as store:
        with pytest.raises(GnusError, match="ERASED"):
            await store.key_for("alice", "payload")
        assert await store.key_for("bob", "payload") == other


async def test_a_power_cut_before_shredding_is_made_good_at_the_next_open(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.key_for("alice", "payload")
    ((key_id, wrapped),) = rows(tmp_path).items()
    env = lmdb.open(str(tmp_path / "keys"), max_dbs=4)
    with env.begin(write=True) as txn:  # what destroy commits first
        txn.put(key_id, b"\x00", db=env.open_db(b"keys", txn=txn))
        txn.put(b"shred", b"1", db=env.open_db(b"info", txn=txn))
    env.close()
    (tmp_path / "keys" / "data.mdb.new").write_bytes(b"half a copy")
    assert wrapped[1:33] in file_bytes(tmp_path)
    async with opened(tmp_path) as store:
        assert wrapped[1:33] not in file_bytes(tmp_path)
        assert not (tmp_path / "keys" / "data.mdb.new").exists()
        with pytest.raises(GnusError, match="ERASED"):
            await store.key_for("alice", "payload")


async def test_a_key_asked_for_during_destruction_is_not_given_out(tmp_path: Path) -> None:
    offload = GatedOffload()
    async with open_keys(tmp_path / "keys", SystemEntropy(), offload) as store:
        await store.key_for("alice", "payload")
        offload.hold()
        before = offload.arrived
        codes: list[str] = []

        async def ask() -> None:
            try:
                await store.key_for("alice", "payload")
            except GnusError as error:
                codes.append(error.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.destroy, "alice", "payload")
            await until(lambda: offload.arrived > before)
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            offload.gate.set()
        assert codes == ["ERASED"]


async def test_files_are_private_and_the_master_key_is_made_once(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with opened(tmp_path):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    for file in (tmp_path / "keys").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    master = (tmp_path / "keys" / "master.key").read_bytes()
    async with opened(tmp_path):
        pass
    assert (tmp_path / "keys" / "master.key").read_bytes() == master


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
async def test_a_master_key_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    async with opened(tmp_path):
        pass
    (tmp_path / "keys" / "master.key").chmod(mode)
    error = await refusal(tmp_path)
    assert error.code == "CONFIG"
    assert "chmod" in error.fix


async def test_a_linked_missing_cut_or_foreign_master_key_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    file = tmp_path / "keys" / "master.key"
    master = file.read_bytes()
    file.unlink()
    assert (await refusal(tmp_path)).code == "STORE_CORRUPT"
    assert not file.exists(), "no new master key where data keys exist"
    for content in (master[:31], master + b"x", b"", bytes(32)):
        file.write_bytes(content)
        file.chmod(0o600)
        assert (await refusal(tmp_path)).code == "STORE_CORRUPT"
    file.unlink()
    (tmp_path / "elsewhere").write_bytes(master)
    file.symlink_to(tmp_path / "elsewhere")
    assert (await refusal(tmp_path)).code == "CONFIG"
    file.unlink()
    file.write_bytes(master)
    file.chmod(0o600)
    async with opened(tmp_path) as store:
        assert await store.key_for("a", "b")


async def test_a_second_open_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path):
        assert (await refusal(tmp_path)).code == "ALREADY_RUNNING"
    async with opened(tmp_path):
        pass


async def test_names_and_numbers_are_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path, KeyLimits(max_keys=2, cached_keys=1)) as store:
        first = await store.key_for("one", "p")
        await store.key_for("two", "p")
        with pytest.raises(GnusError, match="STORE_FULL"):
            await store.key_for("three", "p")
        assert await store.key_for("one", "p") == first
        with pytest.raises(GnusError, match="TOO_LARGE"):
            await store.key_for("s" * 1025, "p")
        with pytest.raises(GnusError, match="MALFORMED"):
            await store.key_for("\ud800", "p")
    with pytest.raises(GnusError, match="NOT_RUNNING"):
        await store.key_for("one", "p")


async def test_a_swapped_row_does_not_open(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.key_for("alice", "p")
        await store.key_for("bob", "p")
    env = lmdb.open(str(tmp_path / "keys"), max_dbs=4)
    with env.begin(write=True, db=env.open_db(b"keys")) as txn:
        (one, one_row), (two, two_row) = list(txn.cursor())
        txn.put(one, two_row)
        txn.put(two, one_row)
    env.close()
    async with opened(tmp_path) as store:
        for subject in ("alice", "bob"):
            with pytest.raises(GnusError, match="STORE_CORRUPT"):
                await store.key_for(subject, "p")


async def test_a_seeded_run_makes_the_same_keys(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        async with open_keys(tmp_path / name, SeededEntropy(3), InlineOffload()) as store:
            made.append([await store.key_for("a", "p"), await store.key_for("b", "p")])
    assert made[0] == made[1]


@given(st.binary(max_size=64), st.binary(max_size=16), st.integers(0, 2**16), st.integers(0, 7))
def test_a_sealed_value_opens_only_whole_with_its_key_in_its_place(plain: bytes, aad: bytes, where: int, bit: int) -> None:
    entropy = SeededEntropy(plain)
    key = entropy.token(32)
    blob = aead_seal(key, plain, aad, entropy)
    assert len(blob) == len(plain) + OVERHEAD_BYTES
    assert aead_open(key, blob, aad) == plain
    assert aead_seal(key, plain, aad, entropy) != blob
    flipped = bytearray(blob)
    flipped[where % len(blob)] ^= 1 << bit
    for bad_key, bad_blob, bad_aad in (
        (entropy.token(32), blob, aad),
        (key, bytes(flipped), aad),
        (key, blob[: where % len(blob)], aad),
        (key, blob, aad + b"x"),
    ):
        with pytest.raises(GnusError, match="COMMITMENT_MISMATCH"):
            aead_open(bad_key, bad_blob, bad_aad)
