"""Hashing files of weights: right, bounded, remembered for exactly the state that was read."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from gnus_node.host.measure import MAX_REMEMBERED, measure
from gnus_node.records.errors import GnusError

LIMIT = 1 << 20


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def test_the_digest_is_right_and_remembered(tmp_path: Path) -> None:
    file, memory = tmp_path / "w.gguf", tmp_path / "weights.json"
    file.write_bytes(b"weights")
    digest, identity = measure(file, LIMIT, memory)
    assert digest == sha(b"weights")
    assert (identity.size, identity.inode) == (7, file.stat().st_ino)
    note = json.loads(memory.read_text())
    assert list(note.values()) == [digest.hex()]
    assert memory.stat().st_mode & 0o777 == 0o600
    # What is remembered is used: it is believed, and only for this state of this file.
    memory.write_text(json.dumps(dict.fromkeys(note, "00" * 32)))
    assert measure(file, LIMIT, memory)[0] == bytes(32)


def test_changed_bytes_are_seen_though_size_and_mtime_are_restored(tmp_path: Path) -> None:
    file, memory = tmp_path / "w.gguf", tmp_path / "weights.json"
    file.write_bytes(b"weights")
    before = file.stat()
    measure(file, LIMIT, memory)
    file.write_bytes(b"WEIGHTS")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert measure(file, LIMIT, memory)[0] == sha(b"WEIGHTS")


def test_a_copy_under_the_same_name_is_another_file(tmp_path: Path) -> None:
    file, memory = tmp_path / "w.gguf", tmp_path / "weights.json"
    file.write_bytes(b"weights")
    measure(file, LIMIT, memory)
    other = tmp_path / "other"
    other.write_bytes(b"another")
    other.replace(file)
    assert measure(file, LIMIT, memory)[0] == sha(b"another")


def test_what_is_remembered_is_bounded_and_may_be_lost(tmp_path: Path) -> None:
    file, memory = tmp_path / "w.gguf", tmp_path / "weights.json"
    for number in range(MAX_REMEMBERED + 5):
        file.write_bytes(b"w" * (number + 1))
        measure(file, LIMIT, memory)
    assert len(json.loads(memory.read_text())) == MAX_REMEMBERED
    memory.write_text("not json")
    assert measure(file, LIMIT, memory)[0] == sha(file.read_bytes())
    assert measure(file, LIMIT, tmp_path / "no" / "folder.json")[0] == sha(file.read_bytes())
    assert measure(file, LIMIT, None)[0] == sha(file.read_bytes())


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    big, empty, pipe = tmp_path / "big", tmp_path / "empty", tmp_path / "pipe"
    big.write_bytes(bytes(LIMIT + 1))
    empty.touch()
    os.mkfifo(pipe)
    for wrong in (big, empty, pipe, tmp_path, tmp_path / "missing"):
        with pytest.raises(GnusError) as refused:
            measure(wrong, LIMIT, None)
        assert refused.value.code == "CONFIG"
