"""A further node joins: it asks with public keys only, the authority grants once, and every number it signs under is new."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gnus_node.evidence.bundle import import_charter, import_trust, trust_of
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.identity import load_identity
from gnus_node.init import make_data_dir
from gnus_node.membership import grant_node, join_swarm, make_member, read_request
from gnus_node.net.trust_rules import contradictions
from gnus_node.records.enums import RoleName, Tier
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import DirectoryLock
from gnus_node.trust.head import require_covered
from gnus_node.wire.signed import open_record

BACK = (RoleName.ELM_WORKER, RoleName.GROUNDING)


@pytest.fixture
async def founder(tmp_path: Path) -> Path:
    """Inside trio, where a clock is."""
    make_data_dir(tmp_path / "first", SystemEntropy(), SystemClock())
    return tmp_path / "first"


def member(tmp_path: Path, name: str = "second") -> str:
    return make_member(tmp_path / name, SystemEntropy(), BACK)


def test_a_request_holds_public_keys_only(tmp_path: Path) -> None:
    text = member(tmp_path)
    for seed in (tmp_path / "second" / "identity").glob("*.seed"):
        assert seed.read_bytes().hex() not in text
    identity = load_identity(tmp_path / "second")
    assert not identity.authority + identity.policy + identity.approver
    assert [role for role, _ in read_request(text).roles] == sorted(BACK)
    with pytest.raises(GnusError, match="USAGE"):
        member(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "gnus-join/2"},
        {"node_id": 7},
        {"transport_key": "00"},
        {"transport_key": "AB" * 32},
        {"roles": {"king": "ab" * 32}},
        {"roles": []},
        {"extra": 1},
    ],
)
def test_other_requests_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    with pytest.raises(GnusError, match="MALFORMED"):
        read_request(json.dumps({**json.loads(member(tmp_path)), **change}))


async def test_grants_follow_each_other_under_new_numbers_and_epochs(tmp_path: Path, founder: Path) -> None:
    heads, names = [], ("second", "third", "fourth")
    for name in names:
        charter, trust = grant_node(founder, read_request(member(tmp_path, name)), SystemClock(), tier=Tier.B)
        join_swarm(tmp_path / name, charter, trust)
        heads += [r for r in map(open_record, import_trust(trust)) if r.header.kind == "trust_head"]
    state = trust_of(import_charter(charter), import_trust(trust))
    require_covered(state)
    assert (len(state.grants), state.epoch) == (4, 4)
    assert [head.body.head_epoch for head in heads] == [2, 3, 4]
    assert contradictions(heads) == []
    numbers = [r.header.seq for r in map(open_record, import_trust(trust))]
    assert len(set(numbers)) == len(numbers)
    assert state.node(load_identity(tmp_path / "third").node_id).tier is Tier.B
    assert (founder / "trust.json").read_text(encoding="utf-8") == trust


async def test_keys_are_granted_to_one_node_only(tmp_path: Path, founder: Path) -> None:
    request = read_request(member(tmp_path))
    grant_node(founder, request, SystemClock())
    grant_node(founder, request, SystemClock(), tier=Tier.C)  # the same node again is a new grant of its own
    twin = read_request(json.dumps({**json.loads((tmp_path / "second" / "join.json").read_text(encoding="utf-8")), "node_id": "node-twin"}))
    with pytest.raises(GnusError, match="DUPLICATE_KEY"):
        grant_node(founder, twin, SystemClock())


async def test_who_may_grant_and_when(tmp_path: Path, founder: Path) -> None:
    request = read_request(member(tmp_path))
    (founder / "store").mkdir(mode=0o700, exist_ok=True)
    lock = DirectoryLock(founder / "store")
    with pytest.raises(GnusError, match="ALREADY_RUNNING"):
        grant_node(founder, request, SystemClock())
    lock.release()
    charter, trust = grant_node(founder, request, SystemClock())
    join_swarm(tmp_path / "second", charter, trust)
    with pytest.raises(GnusError, match="FORBIDDEN"):
        grant_node(tmp_path / "second", request, SystemClock())


async def test_a_log_without_one_s_own_grant_is_not_taken_home(tmp_path: Path, founder: Path) -> None:
    member(tmp_path, "third")
    charter, trust = grant_node(founder, read_request(member(tmp_path)), SystemClock())
    with pytest.raises(GnusError, match="UNKNOWN_KEY"):
        join_swarm(tmp_path / "third", charter, trust)
    assert not (tmp_path / "third" / "trust.json").exists()
