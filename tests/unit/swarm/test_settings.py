"""The file of a local swarm: what is refused, and what each node gets of it; founding, and founding again."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from gnus_node.evidence.bundle import import_charter, import_trust, trust_of
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.net.peer_text import base58, peer_text
from gnus_node.records.enums import RoleName
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import DirectoryLock
from gnus_node.swarm.found import ensure_members
from gnus_node.swarm.keeper import choose_places
from gnus_node.swarm.settings import Place, load_swarm, node_config
from gnus_node.swarm.state import NodeRow, hold, read_places, read_state, running, write_places, write_state
from tests.house.rules import ROOT
from tests.swarms import NINE, write_swarm


@pytest.mark.parametrize("name", ["swarm.toml", "swarm-six.toml"])
def test_the_files_that_ship_are_in_order(name: str) -> None:
    swarm = load_swarm(ROOT / "configs" / name)
    assert {role for node in swarm.nodes.values() for role in node.roles} == set(RoleName)
    assert len(swarm.nodes) == {"swarm.toml": 9, "swarm-six.toml": 6}[name]
    node = tomllib.loads((ROOT / "configs" / "node.toml").read_text())
    shared = tomllib.loads((ROOT / "configs" / name).read_text())
    assert all(shared[section] == node[section] for section in ("limits", "experts", "corpora", "tools", "policy", "api"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('roles = ["router"]', 'roles = ["ingress"]', "exactly one node hosts the role ingress"),
        ('roles = ["ingress"]', 'roles = ["router"]', "exactly one node hosts the role ingress"),
        ('roles = ["settlement"]', 'roles = ["router"]', "no node hosts settlement"),
        ('roles = ["verifier"]', 'roles = ["verifier"]\nexperts = ["nobody"]', "experts that are not set: nobody"),
        ("[nodes.books]", '[nodes."../books"]', "does not have the form"),
        ("base_port = 0", "base_port = 65535", "base_port"),
        ("base_port", "bass_port", "did you mean 'base_port'?"),
        ('listen = "off"', 'listen = "off"\nunix_socket = "x.sock"', "each node's own"),
    ],
)
def test_a_mistake_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = write_swarm(tmp_path, NINE)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(GnusError) as refused:
        load_swarm(path)
    assert refused.value.code == "CONFIG"
    assert said in refused.value.what + refused.value.fix


def test_each_node_gets_its_own_settings_and_each_pair_has_one_that_dials(tmp_path: Path) -> None:
    swarm = load_swarm(write_swarm(tmp_path, NINE, base_port=18590))
    places = {name: Place(f"/ip4/127.0.0.1/tcp/{18590 + i}", peer_text(bytes([i]) * 32)) for i, name in enumerate(NINE)}
    configs = {name: node_config(swarm, name, places) for name in NINE}
    dialled = {(name, peer) for name, config in configs.items() for peer in config.net.bootstrap}
    assert len(dialled) == 9 * 8 // 2
    assert configs["front"].net.bootstrap == ()
    assert [c.node.data_dir.name for c in configs.values()] == list(NINE)
    assert configs["grounding"].corpora
    assert not configs["front"].corpora
    assert all(set(c.node.roles) == set(NINE[name]) for name, c in configs.items())
    with pytest.raises(GnusError, match="CONFIG"):
        swarm.folder("nobody")


async def test_founding_again_keeps_what_is_there_and_grants_what_is_new(tmp_path: Path) -> None:
    path = write_swarm(tmp_path, {name: NINE[name] for name in ("front", "router", "verifier", "books")})
    swarm = load_swarm(path)
    first, key = ensure_members(swarm, SystemEntropy(), SystemClock())
    assert key
    assert set(first["front"].roles) == {RoleName.INGRESS}
    again, none = ensure_members(swarm, SystemEntropy(), SystemClock())
    assert (again, none) == (first, "")
    path.write_text(path.read_text() + '\n[nodes.late]\nroles = ["elm_worker"]\n')
    third, _ = ensure_members(load_swarm(path), SystemEntropy(), SystemClock())
    assert {name: third[name] for name in first} == first
    folder = tmp_path / "s" / "front"
    state = trust_of(import_charter((folder / "charter.json").read_bytes()), import_trust((folder / "trust.json").read_bytes()))
    assert set(state.grants) == {identity.node_id for identity in third.values()}
    assert {tuple(r.role for r in g.body.roles) for g in state.grants.values()} >= {(RoleName.INGRESS,), (RoleName.ELM_WORKER,)}
    path.write_text(path.read_text().replace('roles = ["router"]', 'roles = ["router", "grounding"]'))
    with pytest.raises(GnusError, match="without a key for grounding"):
        ensure_members(load_swarm(path), SystemEntropy(), SystemClock())
    for secret in (tmp_path / "s").rglob("*.seed"):
        assert secret.stat().st_mode & 0o077 == 0


async def test_free_ports_differ_and_places_are_read_back(tmp_path: Path) -> None:
    swarm = load_swarm(write_swarm(tmp_path, NINE))
    identities, _ = ensure_members(swarm, SystemEntropy(), SystemClock())
    places = choose_places(swarm, identities)
    assert len({place.listen for place in places.values()}) == 9
    write_places(tmp_path / "s", places)
    assert read_places(tmp_path / "s") == places
    with pytest.raises(GnusError, match="CONFIG"):
        read_places(tmp_path)


def test_a_stale_state_deceives_nobody(tmp_path: Path) -> None:
    assert not running(tmp_path)
    lock: DirectoryLock = hold(tmp_path)
    write_state(tmp_path, [NodeRow("front", ("ingress",), "x")], ready=True)
    assert read_state(tmp_path)["pid"] == os.getpid()
    with pytest.raises(GnusError, match="ALREADY_RUNNING"):
        hold(tmp_path)
    lock.release()
    with pytest.raises(GnusError, match="NOT_RUNNING"):
        read_state(tmp_path)


def test_a_key_is_written_as_other_programs_write_it() -> None:
    # The vectors of the Base58 specification draft, and the PeerId of the key of zeros as libp2p writes it (tests/p2p compares many).
    assert base58(b"Hello World!") == "2NEpo7TZRRrLZSi2U"
    assert base58(bytes.fromhex("0000287fb4cd")) == "11233QC4"
    assert peer_text(bytes(32)).startswith("12D3KooW")
