"""The directory: granted, announced, unrevoked, alive, for this tenant, or not there at all."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.net.directory import ALIVE_S, FORGET_S, MAX_ENTRIES_PER_KEY, MAX_REFUSALS_UNKNOWN, Directory
from gnus_node.net.directory_rules import MAX_ANNOUNCEMENT_AGE_MS, find_peer
from gnus_node.records.enums import RoleName, SignerRole, Tier
from tests.unit.net.swarm import DAY_MS, NOW_MS, FakeClock, Swarm, public, sign

ROUTER, WORKER, VERIFIER = RoleName.ROUTER, RoleName.ELM_WORKER, RoleName.VERIFIER


@dataclass
class Scene:
    """Two granted nodes, and a directory on a third clockwork."""

    swarm: Swarm
    clock: FakeClock
    directory: Directory

    def names(self, role: RoleName, tenant: str = "acme") -> list[str]:
        return [p.node_id for p in self.directory.hosts(role, tenant)]

    def refresh(self) -> None:
        self.directory.set_trust(self.swarm.trust())


@pytest.fixture
def scene() -> Scene:
    swarm = Swarm()
    swarm.grant("n1", ROUTER, WORKER)
    swarm.grant("n2", WORKER, tenants=("acme", "beta"), tier=Tier.C)
    clock = FakeClock()
    return Scene(swarm, clock, Directory(swarm.trust(), clock))


def offer(scene: Scene, node_id: str, *, expert_id: str = "calc", seq: int = 1) -> None:
    """Manifest, entry and announcement of one expert, all taken."""
    manifest = scene.swarm.manifest(node_id, module=expert_id)
    entry = scene.swarm.entry(node_id, manifest.id, expert_id=expert_id)
    announcement = scene.swarm.announce(node_id, WORKER, experts=(entry.id,), seq=seq)
    for record in (manifest, entry, announcement):
        assert scene.directory.add(record) is None


def test_a_host_is_granted_announced_and_for_the_tenant(scene: Scene) -> None:
    assert scene.names(WORKER) == [], "a grant alone does not say a node is there"
    assert scene.directory.add(scene.swarm.announce("n2", WORKER)) is None
    assert scene.directory.add(scene.swarm.announce("n1", ROUTER)) is None
    assert scene.names(WORKER) == ["n2"]
    assert scene.names(ROUTER) == ["n1"]
    assert scene.names(WORKER, "beta") == ["n2"]
    assert scene.names(ROUTER, "beta") == [], "the grant does not list this tenant"
    (peer,) = scene.directory.hosts(WORKER, "acme")
    assert (peer.transport_key, peer.role_key, peer.tier, peer.role) == (public("n2/transport"), public("n2/elm_worker"), Tier.C, WORKER)
    assert peer.sealing_key == scene.swarm.trust().node("n2").sealing_key
    (peer,) = scene.directory.hosts(ROUTER, "acme")
    assert peer.tier is Tier.B, "the weakest of role and grant"


def test_profile_caps_lower_the_tier(scene: Scene) -> None:
    directory = Directory(scene.swarm.trust(), scene.clock, caps={ROUTER: Tier.D})
    directory.add(scene.swarm.announce("n1", ROUTER))
    assert directory.hosts(ROUTER, "acme")[0].tier is Tier.D


def refusal_cases() -> dict[str, tuple[str, object]]:
    return {
        "ungranted": ("UNKNOWN_KEY", lambda s: s.announce("stranger", WORKER)),
        "role not granted": ("WRONG_ROLE", lambda s: s.announce("n2", ROUTER, WORKER)),
        "another node's name": ("WRONG_PEER", lambda s: s.announce("n2", WORKER, claims="n1")),
        "another node's key": (
            "WRONG_PEER",
            lambda s: s.announce("n2", WORKER, transport="n1/transport"),
        ),
        "too old": ("EXPIRED", lambda s: s.announce("n2", WORKER, at_ms=NOW_MS - MAX_ANNOUNCEMENT_AGE_MS - 1)),
        "past its end": ("EXPIRED", lambda s: s.announce("n2", WORKER, expires_at_ms=NOW_MS - 1)),
        "from the future": ("NOT_YET_VALID", lambda s: s.announce("n2", WORKER, at_ms=NOW_MS + 600_000)),
        "signed with a role key": (
            "WRONG_ROLE",
            lambda s: sign(s.swarm, "n2/elm_worker", SignerRole.ELM_WORKER, s.announce("n2", WORKER).body),
        ),
        "a role key posing as transport": (
            "WRONG_ROLE",
            lambda s: sign(s.swarm, "n2/elm_worker", SignerRole.TRANSPORT, s.announce("n2", WORKER).body),
        ),
        "another swarm": ("WRONG_SWARM", lambda s: sign(b"x" * 16, "n2/transport", SignerRole.TRANSPORT, s.announce("n2", WORKER).body)),
        "entry for another node": ("WRONG_PEER", lambda s: s.entry("n2", b"m" * 32, claims="n1")),
        "entry of a stranger": ("UNKNOWN_KEY", lambda s: s.entry("stranger", b"m" * 32)),
        "manifest of a stranger": ("UNKNOWN_KEY", lambda s: s.manifest("stranger")),
        "a kind that does not belong here": ("UNKNOWN_KIND", lambda s: s.charter),
    }


@pytest.mark.parametrize("case", refusal_cases())
def test_what_does_not_count_is_refused_with_its_reason(scene: Scene, case: str) -> None:
    code, make = refusal_cases()[case]
    refused = scene.directory.add(make(scene.swarm))  # type: ignore[operator]
    assert refused is not None
    assert refused.code == code
    assert scene.directory.refusals() == (refused,)
    assert scene.names(WORKER) == []
    assert scene.names(ROUTER) == []


def test_a_reason_is_shown_on_the_node_s_row(scene: Scene) -> None:
    scene.directory.add(scene.swarm.announce("n2", ROUTER))
    scene.directory.add(scene.swarm.announce("n2", ROUTER, seq=2))
    rows = {row.node_id: row for row in scene.directory.rows()}
    assert rows["n2"].refused.startswith("WRONG_ROLE: ")
    assert rows["n1"].refused == ""
    assert not rows["n1"].alive
    assert rows["n1"].silent_s is None
    assert scene.directory.refusals()[0].times == 2


def test_strangers_cannot_push_out_what_is_known_of_members(scene: Scene) -> None:
    scene.directory.add(scene.swarm.announce("n2", ROUTER))
    for number in range(MAX_REFUSALS_UNKNOWN + 20):
        scene.directory.add(scene.swarm.announce(f"s{number}", WORKER))
    refused = scene.directory.refusals()
    assert len(refused) == MAX_REFUSALS_UNKNOWN + 1
    assert refused[0].node_id == "n2"


def test_a_revocation_works_at_once(scene: Scene) -> None:
    scene.directory.add(scene.swarm.announce("n1", ROUTER, WORKER))
    assert scene.names(ROUTER) == ["n1"]
    scene.swarm.revoke("n1/router")
    scene.refresh()
    assert scene.names(ROUTER) == []
    assert scene.names(WORKER) == ["n1"], "one purpose key does not take the others with it"
    scene.swarm.revoke("n1/transport")
    scene.refresh()
    assert scene.names(WORKER) == []


def test_a_grant_ends_by_itself_and_a_narrower_one_narrows(scene: Scene) -> None:
    scene.directory.add(scene.swarm.announce("n1", ROUTER, WORKER))
    scene.swarm.grant("n1", WORKER, tenants=("beta",), epoch=2)
    scene.refresh()
    assert scene.names(ROUTER, "beta") == []
    assert scene.names(WORKER) == []
    again = scene.swarm.announce("n1", WORKER, seq=2, epoch=2)
    assert scene.directory.add(again) is None
    assert scene.names(WORKER, "beta") == ["n1"]
    scene.clock.wall += 6 * DAY_MS
    assert scene.names(WORKER, "beta") == []


def test_a_key_in_two_grants_speaks_for_nobody(scene: Scene) -> None:
    scene.directory.add(scene.swarm.announce("n2", WORKER))
    scene.swarm.grant("n3", WORKER, key_name="n2")
    scene.refresh()
    assert scene.names(WORKER) == []
    refused = scene.directory.add(scene.swarm.announce("n2", WORKER, seq=9))
    assert refused is not None
    assert refused.code == "DUPLICATE_KEY"


def test_the_newest_announcement_counts_whatever_the_order(scene: Scene) -> None:
    scene.directory.add(scene.swarm.announce("n1", WORKER, seq=5))
    old = scene.directory.add(scene.swarm.announce("n1", ROUTER, WORKER, seq=4))
    assert old is not None
    assert old.code == "REPLAYED"
    assert scene.names(ROUTER) == []
    assert scene.directory.add(scene.swarm.announce("n1", ROUTER, seq=6)) is None
    assert scene.names(WORKER) == []


def test_an_equivocating_node_is_out_until_it_has_a_new_grant(scene: Scene) -> None:
    scene.directory.add(scene.swarm.announce("n1", ROUTER, seq=5))
    refused = scene.directory.add(scene.swarm.announce("n1", ROUTER, seq=5, software="other"))
    assert refused is not None
    assert refused.code == "EQUIVOCATED"
    assert scene.names(ROUTER) == []
    later = scene.directory.add(scene.swarm.announce("n1", ROUTER, seq=6))
    assert later is not None
    assert later.code == "EQUIVOCATED"
    scene.refresh()
    assert scene.directory.add(scene.swarm.announce("n1", ROUTER, seq=7)) is not None, "the same grant again changes nothing"
    scene.swarm.grant("n1", ROUTER, epoch=2, key_name="n1-fresh")
    scene.refresh()
    assert scene.directory.add(scene.swarm.announce("n1", ROUTER, key_name="n1-fresh", epoch=2)) is None
    assert scene.names(ROUTER) == ["n1"]


def test_liveness_is_time_since_receipt_and_replays_do_not_count(scene: Scene) -> None:
    record = scene.swarm.announce("n2", WORKER)
    scene.directory.add(record)
    scene.clock.mono += ALIVE_S
    assert scene.names(WORKER) == ["n2"]
    assert scene.directory.add(record) is None
    scene.clock.mono += 0.001
    assert scene.names(WORKER) == [], "the repeated announcement was no sign of life"
    assert scene.directory.expire(scene.clock.mono) == ("n2",)
    assert scene.directory.expire(scene.clock.mono) == ()
    assert scene.directory.seen("n2", scene.clock.mono)
    assert scene.names(WORKER) == ["n2"], "a heartbeat brings it back without a new announcement"
    assert not scene.directory.seen("stranger", scene.clock.mono)
    assert scene.directory.seen("n2", scene.clock.mono - 50)
    assert scene.directory.rows()[1].silent_s == 0.0, "an older sign takes nothing back"


def test_the_long_silent_are_forgotten_and_the_node_itself_never(scene: Scene) -> None:
    directory = Directory(scene.swarm.trust(), scene.clock, local_node="n1")
    directory.add(scene.swarm.announce("n1", ROUTER))
    directory.add(scene.swarm.announce("n2", WORKER))
    scene.clock.mono += FORGET_S + 1
    assert directory.expire(scene.clock.mono) == ("n2",)
    assert [p.node_id for p in directory.hosts(ROUTER, "acme")] == ["n1"]
    directory.seen("n2", scene.clock.mono)
    assert directory.hosts(WORKER, "acme") == ()


def test_an_offer_needs_entry_manifest_and_announcement(scene: Scene) -> None:
    manifest = scene.swarm.manifest("n2")
    entry = scene.swarm.entry("n2", manifest.id)
    scene.directory.add(entry)
    scene.directory.add(scene.swarm.announce("n2", WORKER, experts=(entry.id,)))
    assert scene.directory.experts("acme") == (), "no manifest, no offer"
    scene.directory.add(manifest)
    (found,) = scene.directory.experts("acme")
    assert (found.entry, found.manifest, found.peer.node_id) == (entry, manifest, "n2")
    assert scene.directory.manifest(manifest.id) == manifest
    assert scene.directory.experts("gamma") == ()
    assert scene.directory.rows()[1].experts == ("calc",)
    scene.directory.add(scene.swarm.announce("n2", WORKER, seq=2))
    assert scene.directory.experts("acme") == (), "withdrawn by the next announcement"


@pytest.mark.parametrize("breach", ["revoked worker", "dead node", "role not announced", "expired entry", "no tenant"])
def test_an_offer_ends_with_what_it_rests_on(scene: Scene, breach: str) -> None:
    manifest = scene.swarm.manifest("n2")
    entry = scene.swarm.entry("n2", manifest.id, expires_at_ms=NOW_MS + 1000)
    scene.swarm.grant("n2", WORKER, VERIFIER, epoch=2)
    scene.refresh()
    for record in (manifest, entry, scene.swarm.announce("n2", WORKER, experts=(entry.id,), epoch=2)):
        scene.directory.add(record)
    # Entry and manifest are of epoch 1, before the key's present grant.
    assert scene.directory.experts("acme") == ()
    manifest = scene.swarm.manifest("n2", epoch=2)
    entry = scene.swarm.entry("n2", manifest.id, expires_at_ms=NOW_MS + 1000, epoch=2, seq=2)
    for record in (manifest, entry, scene.swarm.announce("n2", WORKER, experts=(entry.id,), epoch=2, seq=2)):
        assert scene.directory.add(record) is None
    assert len(scene.directory.experts("acme")) == 1
    if breach == "revoked worker":
        scene.swarm.revoke("n2/elm_worker")
        scene.refresh()
    elif breach == "dead node":
        scene.clock.mono += ALIVE_S + 1
    elif breach == "role not announced":
        scene.directory.add(scene.swarm.announce("n2", VERIFIER, experts=(entry.id,), epoch=2, seq=3))
    elif breach == "expired entry":
        scene.clock.wall += 1001
    else:
        scene.swarm.grant("n2", WORKER, tenants=("beta",), epoch=3)
        scene.refresh()
    assert scene.directory.experts("acme") == ()


def test_a_signer_s_records_are_bounded_and_unused_ones_go_first(scene: Scene) -> None:
    manifest = scene.swarm.manifest("n2")
    scene.directory.add(manifest)
    entries = [scene.swarm.entry("n2", manifest.id, expert_id=f"e{n}", seq=n + 1) for n in range(MAX_ENTRIES_PER_KEY)]
    for entry in entries:
        assert scene.directory.add(entry) is None
    named = tuple(e.id for e in entries[1:])
    scene.directory.add(scene.swarm.announce("n2", WORKER, experts=named))
    assert scene.directory.add(scene.swarm.entry("n2", manifest.id, expert_id="more", seq=900)) is None, "takes the place of e0"
    full = scene.swarm.announce("n2", WORKER, experts=tuple(e.id for e in entries[1:]), seq=2)
    scene.directory.add(full)
    assert len(scene.directory.experts("acme")) == MAX_ENTRIES_PER_KEY - 1
    for n in range(3):
        scene.directory.add(scene.swarm.entry("n2", manifest.id, expert_id=f"again{n}", seq=901 + n))
    assert len(scene.directory.experts("acme")) == MAX_ENTRIES_PER_KEY - 1, "what is announced stays"


def test_manifests_of_one_signer_are_bounded(scene: Scene) -> None:
    offer(scene, "n2")
    for n in range(MAX_ENTRIES_PER_KEY + 5):
        assert scene.directory.add(scene.swarm.manifest("n2", module=f"m{n}", seq=n + 2)) is None
    assert len(scene.directory.experts("acme")) == 1, "the manifest in use is not the one to go"
    assert scene.directory.manifest(scene.swarm.manifest("n2", module="m0", seq=2).id) is None


def test_a_manifest_of_another_worker_serves_while_that_one_is_in_good_standing(scene: Scene) -> None:
    manifest = scene.swarm.manifest("n1")
    entry = scene.swarm.entry("n2", manifest.id)
    for record in (manifest, entry, scene.swarm.announce("n2", WORKER, experts=(entry.id,))):
        assert scene.directory.add(record) is None
    assert len(scene.directory.experts("acme")) == 1
    scene.swarm.revoke("n1/elm_worker")
    scene.refresh()
    assert scene.directory.experts("acme") == ()


def test_a_peer_is_found_only_while_its_grant_is_in_force(scene: Scene) -> None:
    trust = scene.swarm.trust()
    for at_ms, there in ((NOW_MS, True), (NOW_MS - 2 * DAY_MS, False), (NOW_MS + 6 * DAY_MS, False)):
        assert (find_peer(trust, "n2", WORKER, "acme", at_ms) is not None) is there
    assert find_peer(trust, "n2", ROUTER, "acme", NOW_MS) is None
    assert find_peer(trust, "stranger", WORKER, "acme", NOW_MS) is None


def test_offers_are_sorted(scene: Scene) -> None:
    offer(scene, "n2")
    offer(scene, "n1")
    assert [(o.entry.body.expert_id, o.peer.node_id) for o in scene.directory.experts("acme")] == [("calc", "n1"), ("calc", "n2")]


@settings(deadline=None, max_examples=25)
@given(st.permutations(range(6)))
def test_the_order_of_arrival_does_not_change_what_is_known(order: list[int]) -> None:
    """Without equivocation, any order of the same records gives the same answers."""
    swarm = Swarm()
    swarm.grant("n1", ROUTER, WORKER)
    manifest = swarm.manifest("n1")
    old = swarm.entry("n1", manifest.id, seq=1)
    new = swarm.entry("n1", manifest.id, seq=2, slots=4)
    records = [
        manifest,
        old,
        new,
        swarm.announce("n1", WORKER, experts=(old.id,), seq=1),
        swarm.announce("n1", WORKER, ROUTER, experts=(new.id,), seq=3),
        swarm.announce("n1", WORKER, seq=2),
    ]
    directory = Directory(swarm.trust(), FakeClock())
    for index in order:
        directory.add(records[index])
    assert [o.entry for o in directory.experts("acme")] == [new]
    assert [p.node_id for p in directory.hosts(ROUTER, "acme")] == ["n1"]
