"""The fold of the trust log: any order, any repeats, and nothing that the charter's authority did not sign."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from gnus_node.records.authority import RoleKey
from gnus_node.records.enums import RoleName, SignerRole, Tier
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.trust.state import TrustState, authorised, fold, log_digest, open_charter
from gnus_node.trust.tiers import ROLE_TIERS, effective_tier
from gnus_node.wire.digests import swarm_id
from gnus_node.wire.signed import encode_part
from tests.unit.trust.world import (
    A1,
    A2,
    A3,
    CHARTER,
    HEAD,
    STRANGER,
    charter_body,
    grant_body,
    head_body,
    log,
    revocation_body,
    role_key,
    signed,
    tenant_body,
)
from tests.vectors.support import Key


def view(state: TrustState) -> Any:
    """Everything a state says, comparable."""
    grants = {node: grant.id for node, grant in state.grants.items()}
    tenants = {name: grant.id for name, grant in state.tenants.items()}
    head = state.head.id if state.head else None
    return state.swarm, dict(state.keys), state.duplicates, grants, tenants, dict(state.revoked), head, state.log_ids


def test_the_order_of_the_log_does_not_matter() -> None:
    records = log()
    wanted = view(fold(CHARTER, records))
    for order in itertools.islice(itertools.permutations(records), 0, 40_320, 97):
        assert view(fold(CHARTER, order)) == wanted


def test_repeats_do_not_matter() -> None:
    records = log()
    wanted = view(fold(CHARTER, records))
    chance = random.Random(1)
    for _ in range(50):
        more = [*records, *chance.choices(records, k=10), CHARTER]
        chance.shuffle(more)
        assert view(fold(CHARTER, more)) == wanted


def test_what_the_log_says() -> None:
    state = fold(CHARTER, log())
    assert state.epoch == 3, "the newest head, whoever of the two may issue it signed it"
    assert state.node("node-1").tier is Tier.C, "the later grant replaces the earlier"
    assert state.role_key("node-0", RoleName.ROUTER) == role_key(RoleName.ROUTER, 0).public
    assert state.role_key("node-0", RoleName.INGRESS) is None
    assert state.role_key("node-9", RoleName.ROUTER) is None
    assert state.by_transport(Key(100).public) == "node-0"
    assert state.by_transport(role_key(RoleName.ROUTER, 0).public) is None
    assert state.revoked == {role_key(RoleName.VERIFIER, 0).public: 4}, "the smallest cut"
    assert state.keys[Key(120).public].role is SignerRole.POLICY
    assert state.keys[Key(121).public].role is SignerRole.APPROVER
    assert state.keys[Key(122).public].role is SignerRole.CLIENT
    assert state.keys[Key(122).public].tenants == ("acme",)
    with pytest.raises(GnusError, match="UNKNOWN_KEY"):
        state.node("node-9")


def test_a_replaced_grant_takes_its_old_keys_away() -> None:
    fresh = Key(200)
    newer = grant_body(0, grant_epoch=2, roles=(RoleKey(role=RoleName.ROUTER, key=fresh.public),))
    state = fold(CHARTER, [signed(newer, A1, A2), signed(grant_body(0), A1, A2)])
    assert fresh.public in state.keys
    assert role_key(RoleName.ROUTER, 0).public not in state.keys
    assert role_key(RoleName.VERIFIER, 0).public not in state.keys


UNAUTHORISED: list[tuple[str, Signed[Any]]] = [
    ("one of two signatures", signed(grant_body(5), A1)),
    ("one signature twice", signed(grant_body(5), A1, A1)),
    ("a stranger", signed(grant_body(5), STRANGER)),
    ("an authority key and a stranger", signed(grant_body(5), A1, STRANGER)),
    ("a stranger first, one authority key second", signed(grant_body(5), STRANGER, A1)),
    ("another role in the header", signed(grant_body(5), A1, A2, role=SignerRole.HEAD)),
    ("another swarm", signed(grant_body(5), A1, A2, swarm=bytes(16))),
    ("the head key for a grant", signed(grant_body(5), HEAD, role=SignerRole.HEAD)),
    ("a revocation by one", signed(revocation_body(role_key(RoleName.ROUTER, 0), 1), A1)),
    ("a tenant by a stranger", signed(tenant_body("evil", 200), STRANGER)),
    ("a head by a stranger", signed(head_body(99), STRANGER, role=SignerRole.HEAD)),
    ("a head by one authority key", signed(head_body(99), A1)),
    ("a head by an authority key as head", signed(head_body(99), A1, role=SignerRole.HEAD)),
    ("a head of another swarm", signed(head_body(99), HEAD, role=SignerRole.HEAD, swarm=bytes(16))),
]


@pytest.mark.parametrize(("name", "record"), UNAUTHORISED, ids=[u[0] for u in UNAUTHORISED])
def test_what_the_authority_did_not_sign_changes_nothing(name: str, record: Signed[Any]) -> None:
    wanted = view(fold(CHARTER, log()))
    assert view(fold(CHARTER, [record, *log()])) == wanted
    assert view(fold(CHARTER, [*log(), record])) == wanted


def test_any_k_of_the_n_keys_suffice_and_fewer_do_not() -> None:
    for threshold in (1, 2, 3):
        charter = charter_body(threshold)
        for size in (1, 2, 3):
            for group in itertools.permutations((A1, A2, A3), size):
                record = signed(grant_body(0), *group)
                assert authorised(charter, record) is (size >= threshold)
    assert not authorised(charter_body(2), signed(grant_body(0), A1, A1, STRANGER))


def test_a_charter_holds_only_by_its_own_authority() -> None:
    assert open_charter(CHARTER) == (charter_body(), CHARTER.header.swarm)
    other = charter_body(keys=(STRANGER,), threshold=1)
    three = charter_body(3)
    four = charter_body().model_validate(vars(charter_body()) | {"threshold": 4})
    bad = [
        signed(charter_body(), A1),
        signed(charter_body(), STRANGER, A1),
        signed(charter_body(), A1, A2, role=SignerRole.HEAD),
        signed(charter_body(), A1, A2, swarm=bytes(16)),
        signed(other, STRANGER),
        signed(three, A1, A2, swarm=swarm_id(encode_part(three))),
        signed(four, A1, A2, A3, swarm=swarm_id(encode_part(four))),
        signed(grant_body(0), A1, A2),
    ]
    for record in bad:
        with pytest.raises(GnusError, match="CHAIN_BROKEN"):
            open_charter(record)
        with pytest.raises(GnusError, match="CHAIN_BROKEN"):
            fold(record, log())
    assert open_charter(signed(other, STRANGER, swarm=swarm_id(encode_part(other))))


ROUTER_0 = role_key(RoleName.ROUTER, 0).public
GRANT_0 = signed(grant_body(0), A1, A2)
TWICE = tuple(RoleKey(role=role, key=ROUTER_0) for role in list(RoleName)[:2])


@pytest.mark.parametrize(
    "records",
    [
        [GRANT_0, signed(grant_body(1, transport_key=ROUTER_0), A1, A2)],
        [signed(grant_body(0, roles=TWICE), A1, A2)],
        [GRANT_0, signed(tenant_body(policy_keys=(ROUTER_0,)), A1, A2)],
        [GRANT_0, signed(tenant_body(), A1, A2), signed(tenant_body("other", 130, client_keys=(ROUTER_0,)), A1, A2)],
    ],
    ids=["two nodes", "two roles of a node", "a role and a tenant's purpose", "two tenants and a node"],
)
def test_a_key_in_two_places_speaks_for_nobody(records: list[Signed[Any]]) -> None:
    key = role_key(RoleName.ROUTER, 0).public
    for order in itertools.permutations(records):
        state = fold(CHARTER, order)
        assert key in state.duplicates
        assert key not in state.keys
        assert state.by_transport(key) is None


def test_a_key_in_three_places_is_still_refused() -> None:
    key = role_key(RoleName.ROUTER, 0).public
    records = [signed(grant_body(0), A1, A2)] + [signed(grant_body(n, transport_key=key), A1, A2) for n in (1, 2)]
    assert key in fold(CHARTER, records).duplicates
    assert key not in fold(CHARTER, records).keys


def test_an_authority_key_granted_to_a_node_speaks_for_nobody() -> None:
    state = fold(CHARTER, [signed(grant_body(0, transport_key=A1.public), A1, A2)])
    assert A1.public in state.duplicates
    assert A1.public not in state.keys


def test_the_log_digest_is_of_a_set() -> None:
    ids = [r.id for r in log()]
    assert log_digest(ids) == log_digest(reversed(ids))
    assert log_digest(ids) != log_digest(ids[1:])
    assert log_digest([]) != log_digest([bytes(32)])


def test_a_tie_of_two_grants_is_broken_the_same_way_everywhere() -> None:
    one, two = signed(grant_body(0, tier=Tier.A), A1, A2), signed(grant_body(0, tier=Tier.D), A1, A2)
    assert fold(CHARTER, [one, two]).grants["node-0"].id == fold(CHARTER, [two, one]).grants["node-0"].id == max(one.id, two.id)


def test_the_effective_tier_is_the_weakest() -> None:
    state = fold(CHARTER, [signed(grant_body(0), A1, A2), signed(grant_body(1, tier=Tier.D), A1, A2)])
    router = state.keys[role_key(RoleName.ROUTER, 0).public]
    assert effective_tier(router) is Tier.B, "the role's"
    assert effective_tier(state.keys[role_key(RoleName.ROUTER, 1).public]) is Tier.D, "the grant's"
    assert effective_tier(router, {RoleName.ROUTER: Tier.C}) is Tier.C, "the profile's"
    assert effective_tier(router, {RoleName.VERIFIER: Tier.D}) is Tier.B, "another role's cap"
    assert effective_tier(router, {RoleName.ROUTER: Tier.A}) is Tier.B, "a cap never lifts"
    assert effective_tier(state.keys[Key(100).public]) is Tier.D, "a transport key has no role to be trusted in"
    assert {SignerRole(r.value) for r in RoleName} == set(ROLE_TIERS)
    assert A3.public in state.keys
