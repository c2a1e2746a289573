"""The key file and the ring over it: real files, real modes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gnus_node.api.keys import KeyRing, hash_key
from gnus_node.records.enums import KeyMode
from gnus_node.records.errors import GnusError

from .world import SystemEntropy, mode_of


class HandClock:
    def __init__(self) -> None:
        self.now = 1_000

    def wall_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def make(ring: KeyRing, **changes: object) -> tuple[str, str]:
    fields = {"tenant": "acme", "project": "demo", "principal": "alice", "mode": KeyMode.LIVE, **changes}
    key, row = ring.create(SystemEntropy(), **fields)  # type: ignore[arg-type]
    return key, row.key_id


def refused(ring: KeyRing, header: str | None, code: str = "UNAUTHENTICATED") -> bool:
    with pytest.raises(GnusError) as caught:
        ring.authenticate(header)
    return caught.value.code == code


def test_a_key_works_and_is_kept_only_as_a_hash(tmp_path: Path, clock: HandClock) -> None:
    path = tmp_path / "keys.json"
    ring = KeyRing.load(path, clock)
    live, live_id = make(ring)
    test, _ = make(ring, mode=KeyMode.TEST, tenant="other")
    assert live.startswith("gnus_live_")
    assert test.startswith("gnus_test_")
    caller = ring.authenticate(f"Bearer {live}")
    assert (caller.tenant, caller.principal, caller.key_mode, caller.key_id, caller.scopes) == ("acme", "alice", "live", live_id, {"ask"})
    assert ring.authenticate(f"bearer {test}").tenant == "other"
    text = path.read_text()
    assert live not in text
    assert live.removeprefix("gnus_live_") not in text
    assert hash_key(live) in text
    assert mode_of(path) == 0o600
    assert {mode_of(p) for p in tmp_path.iterdir()} == {0o600}


def test_what_is_not_a_key(tmp_path: Path, clock: HandClock) -> None:
    ring = KeyRing.load(tmp_path / "keys.json", clock)
    key, _ = make(ring)
    other_mode = key.replace("gnus_live_", "gnus_test_")
    for header in (None, "", key, f"Basic {key}", f"Bearer {key}x", f"Bearer {key[:-1]}", f"Bearer {other_mode}", f"Bearer {key} {key}"):
        assert refused(ring, header)
    assert refused(ring, "Bearer caf\u00e9")


def test_expiry_and_disabling(tmp_path: Path, clock: HandClock) -> None:
    ring = KeyRing.load(tmp_path / "keys.json", clock)
    brief, _ = make(ring, expires_at_ms=2_000)
    lasting, key_id = make(ring)
    clock.now = 1_999
    ring.authenticate(f"Bearer {brief}")
    clock.now = 2_000
    assert refused(ring, f"Bearer {brief}")
    ring.disable(key_id)
    assert refused(ring, f"Bearer {lasting}")
    with pytest.raises(GnusError):
        ring.disable("key_none")


def test_another_process_changes_the_file(tmp_path: Path, clock: HandClock) -> None:
    path = tmp_path / "keys.json"
    ring, command_line = KeyRing.load(path, clock), KeyRing.load(path, clock)
    key, key_id = make(command_line)
    assert ring.authenticate(f"Bearer {key}").key_id == key_id
    command_line.disable(key_id)
    assert refused(ring, f"Bearer {key}")
    path.unlink()
    assert refused(ring, f"Bearer {key}")


def test_a_file_that_must_not_be_used_serves_nobody(tmp_path: Path, clock: HandClock) -> None:
    path = tmp_path / "keys.json"
    ring = KeyRing.load(path, clock)
    key, _ = make(ring)
    good = path.read_text()
    row = json.loads(good)["keys"][0]

    def broken(text: str) -> None:
        path.write_text(text)
        assert refused(ring, f"Bearer {key}", "CONFIG")
        assert refused(ring, f"Bearer {key}", "CONFIG")
        with pytest.raises(GnusError):
            KeyRing.load(path, clock)

    broken(good[:-20])
    broken("[]")
    broken(json.dumps({"version": 2, "keys": [row]}))
    broken(json.dumps({"version": 1, "keys": [row, row]}))
    broken(json.dumps({"version": 1, "keys": [{**row, "admin": True}]}))
    broken(json.dumps({"version": 1, "keys": [{**row, "mode": "prod"}]}))
    path.write_text(good)
    ring.authenticate(f"Bearer {key}")
    os.chmod(path, 0o640)
    assert refused(ring, f"Bearer {key}", "CONFIG")
    os.chmod(path, 0o600)
    ring.authenticate(f"Bearer {key}")
    real = tmp_path / "real.json"
    path.rename(real)
    path.symlink_to(real)
    assert refused(ring, f"Bearer {key}", "CONFIG")


def test_a_bad_file_is_an_error_of_the_node_not_of_the_client() -> None:
    from gnus_node.api.errors import status_of

    assert status_of(GnusError("CONFIG")) == 500


def test_what_cannot_be_made(tmp_path: Path, clock: HandClock) -> None:
    ring = KeyRing.load(tmp_path / "keys.json", clock)
    for changes in ({"tenant": "two words"}, {"principal": ""}, {"scopes": ("admin",)}):
        with pytest.raises(GnusError) as caught:
            make(ring, **changes)
        assert caught.value.code == "USAGE"
    with pytest.raises(GnusError) as nowhere:
        make(KeyRing.load(tmp_path / "missing" / "keys.json", clock))
    assert nowhere.value.code == "CONFIG"
