"""Bits that flip on the disk are noticed, wherever they are, and show in ``status``, ``doctor`` and ``/readyz``; never believed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import lmdb
import pytest

from gnus_node.host.offload import ThreadOffload
from gnus_node.ports import Write
from gnus_node.records.errors import GnusError
from gnus_node.store import tables
from gnus_node.store.disk import NO_ROWS
from gnus_node.store.engine import open_store
from gnus_node.store.sums import checked
from tests.start.world import eventually, flip, running, said

Capture = pytest.CaptureFixture[str]


def raw_row(folder: Path, table: str, which: int = 0) -> tuple[bytes, bytes]:
    """A row as it lies in the file."""
    env = lmdb.open(str(folder), max_dbs=64, readonly=True, lock=False)
    try:
        with env.begin() as txn:
            rows = list(txn.cursor(db=env.open_db(table.encode(), txn=txn, create=False)))
        return rows[which]
    finally:
        env.close()


def flip_in(folder: Path, value: bytes, offset: int) -> None:
    """Flip one bit of a value, wherever it lies in the file: pages that were copied keep old ones of it."""
    file = folder / "data.mdb"
    whole = file.read_bytes()
    places = [found.start() for found in re.finditer(re.escape(value), whole, re.DOTALL)]
    assert places
    for place in places:
        flip(file, place + offset)


def test_a_flipped_bit_shows_in_status_doctor_and_readyz(ran: Path, capsys: Capture):
    store = ran / "data" / "store"
    _, value = raw_row(store, "journal")
    flip_in(store, value, len(value) // 2)
    at = ["--config", str(ran / "node.toml")]
    with running(ran / "node.toml"):
        status = eventually(lambda: json.loads(said(capsys, ["status", "--json", *at]).out), lambda s: s["problems"])
        assert status["problems"] == ["STORE_CORRUPT: a row of the table journal is damaged"]
        doctor = said(capsys, ["doctor", "--json", *at])
        assert doctor.code == 1
        (found,) = [c for c in json.loads(doctor.out)["checks"] if c["name"] == "STORE_CORRUPT"]
        assert found["state"] == "problem"
        assert "journal" in found["what"]
        ready = get(ran / "data" / "node.sock", "/readyz")
        assert ready[0] == 503
        assert "STORE_CORRUPT" in ready[1]
        assert get(ran / "data" / "node.sock", "/healthz")[0] == 200
        # It still answers: one damaged row costs what stood in it.
        assert "132" in said(capsys, ["ask", "what is twelve times eleven?", *at]).out


def get(sock: Path, path: str) -> tuple[int, str]:
    from gnus_node.cli.client import _UnixConnection

    connection = _UnixConnection(sock, 10)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def test_a_damaged_policy_row_is_no_start(ran: Path, capsys: Capture):
    store = ran / "data" / "store"
    for place in range(200):
        try:
            _, value = raw_row(store, "record", place)
        except IndexError:
            break
        if b"template-default" in value:
            flip_in(store, value, value.index(b"template-default"))
    found = said(capsys, ["run", "--config", str(ran / "node.toml")])
    assert (found.code, found.error["code"]) == (1, "STORE_CORRUPT")


async def test_every_bit_of_a_value_is_covered(tmp_path: Path):
    async with open_store(tmp_path / "s", ThreadOffload()) as store:
        await store.commit([Write("fence", b"request-1", b"seven bytes or so")])
    _, stored = raw_row(tmp_path / "s", "fence")
    whole = (tmp_path / "s" / "data.mdb").read_bytes()
    assert whole.count(stored) == 1
    start = whole.index(stored)
    for bit in range(len(stored) * 8):
        changed = bytearray(stored)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(GnusError, match="STORE_CORRUPT"):
            checked("fence", b"request-1", bytes(changed))
        if bit % 40 == 0:  # and through the engine
            (tmp_path / "s" / "data.mdb").write_bytes(whole[:start] + changed + whole[start + len(stored) :])
            async with open_store(tmp_path / "s", ThreadOffload()) as store:
                with pytest.raises(GnusError, match="STORE_CORRUPT"):
                    await store.get("fence", b"request-1")
                assert store.damage is not None


async def test_scrubbing_finds_what_nobody_reads_and_reads_on(tmp_path: Path):
    async with open_store(tmp_path / "s", ThreadOffload()) as store:
        await store.commit([Write("task", b"%04d" % n, b"value %04d" % n) for n in range(1000)])
    flip_in(tmp_path / "s", b"value 0777", 2)
    async with open_store(tmp_path / "s", ThreadOffload()) as store:
        assert store.damage is None
        await store.scrub()
        assert store.damage is not None
        assert "task" in store.damage.what
        rows = await store.scan("task", limit=1000, lenient=True)
        assert [row.key for row in rows if not row.value] == [b"0777"]
        with pytest.raises(GnusError, match="STORE_CORRUPT"):
            await store.scan("task", limit=1000)


async def test_a_store_without_checksums_gets_them(tmp_path: Path):
    """A directory that the version before wrote, many pages of it."""
    rows = {b"%05d" % n: b"x" * (n % 900) for n in range(4000)}
    async with open_store(tmp_path / "s", ThreadOffload()):
        pass
    env = lmdb.open(str(tmp_path / "s"), max_dbs=64, map_size=1 << 30)
    with env.begin(write=True) as txn:
        meta = env.open_db(b"meta", txn=txn)
        txn.put(NO_ROWS[0], b"1", db=meta)
        txn.put(b"cursor", b"old", db=meta)
        for key, value in rows.items():
            txn.put(key, value, db=env.open_db(b"record", txn=txn))
    env.close()
    for _ in range(2):
        async with open_store(tmp_path / "s", ThreadOffload()) as store:
            assert {key: await store.get("record", key) for key in rows} == rows
            assert [(r.key, r.value) for r in await store.scan("meta")] == [(b"cursor", b"old")]
            await store.scrub()
            assert store.damage is None
    assert tables.SCHEMA_VERSION == 2


async def test_a_damaged_data_key_is_noted(tmp_path: Path):
    from gnus_node.host.entropy import SystemEntropy
    from gnus_node.store.keys import open_keys

    async with open_keys(tmp_path / "k", SystemEntropy(), ThreadOffload()) as keys:
        await keys.key_for("somebody", "payload")
    _, row = raw_row(tmp_path / "k", "keys")
    for offset in (0, 40):  # the state, and the wrapped key
        flip_in(tmp_path / "k", row, offset)
        async with open_keys(tmp_path / "k", SystemEntropy(), ThreadOffload()) as keys:
            with pytest.raises(GnusError, match="STORE_CORRUPT"):
                await keys.key_for("somebody", "payload")
            assert keys.damage is not None
        _, now = raw_row(tmp_path / "k", "keys")
        flip_in(tmp_path / "k", now, offset)
    async with open_keys(tmp_path / "k", SystemEntropy(), ThreadOffload()) as keys:
        await keys.key_for("somebody", "payload")
