"""Whether a record counts: each refusal once, and the order in which they are found."""

from __future__ import annotations

from typing import Any

import pytest

from gnus_node.records.authority import Absence, Policy
from gnus_node.records.enums import RoleName, SignerRole, Tier
from gnus_node.records.envelope import Header, Signed
from gnus_node.records.errors import GnusError
from gnus_node.trust.check import MAX_SKEW_MS, check_role_record, check_signer, head_fresh, require_fresh
from gnus_node.trust.state import fold
from gnus_node.wire.signed import open_record, seal
from tests.unit.trust.world import (
    A1,
    A2,
    CHARTER,
    END,
    HEAD,
    NOW,
    STRANGER,
    grant_body,
    head_body,
    log,
    revocation_body,
    role_key,
    signed,
    tenant_body,
)
from tests.vectors.support import Key, sample

ROUTER = role_key(RoleName.ROUTER, 0)
STATE = fold(CHARTER, [signed(grant_body(0), A1, A2), signed(grant_body(1, grant_epoch=5), A1, A2), signed(tenant_body(), A1, A2)])


def absence(by: Key = ROUTER, role: SignerRole = SignerRole.ROUTER, **change: Any) -> Signed[Any]:
    return signed(sample(Absence), by, role=role, **change)


def test_a_good_record_has_its_holder() -> None:
    holder = check_signer(STATE, absence(), NOW, live=True)
    assert (holder.node_id, holder.role, holder.tier, holder.tenants) == ("node-0", SignerRole.ROUTER, Tier.A, ("acme",))
    assert check_role_record(STATE, absence(), NOW, SignerRole.ROUTER, live=True) == holder
    assert check_signer(STATE, signed(grant_body(7), A1, A2), NOW, live=True).role is SignerRole.AUTHORITY
    policy = signed(sample(Policy), Key(120), role=SignerRole.POLICY)
    assert check_signer(STATE, policy, NOW, live=True).tenants == ("acme",)


def odd(kind_role: SignerRole, by: Key) -> Signed[Any]:
    """A well-signed record whose kind its role may not sign."""
    body = sample(Policy)
    head = Header.model_validate({**vars(absence().header), "kind": body.KIND, "role": kind_role, "signer": by.public})
    return open_record(seal(head, body, by.sign).raw)


REFUSED: list[tuple[str, Signed[Any], int, bool, str]] = [
    ("another swarm", absence(swarm=bytes(16)), NOW, False, "WRONG_SWARM"),
    ("a kind this role does not sign", odd(SignerRole.ROUTER, ROUTER), NOW, False, "WRONG_ROLE"),
    ("a key without a grant", absence(STRANGER), NOW, False, "UNKNOWN_KEY"),
    ("another role's key, an allowed role claimed", absence(role_key(RoleName.VERIFIER, 0)), NOW, False, "WRONG_ROLE"),
    ("a worker's claim with a router's key", absence(role=SignerRole.ELM_WORKER), NOW, False, "WRONG_ROLE"),
    ("a transport key", absence(Key(100)), NOW, False, "WRONG_ROLE"),
    ("a grant by one authority key of the two it takes", signed(grant_body(7), A1), NOW, False, "WRONG_ROLE"),
    ("an epoch before the grant", absence(role_key(RoleName.ROUTER, 1), epoch=4), NOW, False, "NOT_YET_VALID"),
    ("issued before the grant", absence(issued_at_ms=NOW - 1001), NOW, False, "NOT_YET_VALID"),
    ("issued after the grant", absence(issued_at_ms=END + 1), END + 1, False, "EXPIRED"),
    ("dated in the future", absence(issued_at_ms=NOW + MAX_SKEW_MS + 1), NOW, False, "NOT_YET_VALID"),
    ("past its own end", absence(expires_at_ms=NOW + 5), NOW + 6, True, "EXPIRED"),
]


@pytest.mark.parametrize(("name", "record", "now", "live", "code"), REFUSED, ids=[r[0] for r in REFUSED])
def test_each_refusal(name: str, record: Signed[Any], now: int, live: bool, code: str) -> None:
    with pytest.raises(GnusError) as error:
        check_signer(STATE, record, now, live=live)
    assert error.value.code == code
    assert error.value.link == record.header.kind


def test_the_borders_are_allowed() -> None:
    check_signer(STATE, absence(role_key(RoleName.ROUTER, 1), epoch=5), NOW, live=True)
    check_signer(STATE, absence(issued_at_ms=NOW - 1000), NOW, live=True)
    check_signer(STATE, absence(issued_at_ms=END), END, live=True)
    check_signer(STATE, absence(issued_at_ms=NOW + MAX_SKEW_MS), NOW, live=True)
    check_signer(STATE, absence(expires_at_ms=NOW + 5), NOW + 5, live=True)


def test_an_audit_reads_what_has_expired() -> None:
    record = absence(expires_at_ms=NOW + 5)
    assert check_signer(STATE, record, NOW + 10**9, live=False)


def test_a_duplicate_key() -> None:
    state = fold(CHARTER, [signed(grant_body(0), A1, A2), signed(grant_body(1, transport_key=ROUTER.public), A1, A2)])
    with pytest.raises(GnusError, match="DUPLICATE_KEY"):
        check_signer(state, absence(), NOW, live=False)


def test_a_revoked_key_is_refused_whatever_epoch_it_claims() -> None:
    state = fold(CHARTER, [signed(grant_body(0), A1, A2), signed(revocation_body(ROUTER, 9), A1, A2)])
    for epoch in (1, 8, 9, 10):
        with pytest.raises(GnusError, match="REVOKED"):
            check_signer(state, absence(epoch=epoch), NOW, live=False)


def test_the_expected_role() -> None:
    with pytest.raises(GnusError, match="WRONG_ROLE"):
        check_role_record(STATE, absence(), NOW, SignerRole.VERIFIER, live=False)


def test_a_stale_head_refuses_writes() -> None:
    age = 600_000
    assert not head_fresh(STATE, NOW), "none at all"
    state = fold(CHARTER, log())
    for now, fine in ((NOW, True), (NOW + age, True), (NOW + age + 1, False), (NOW - MAX_SKEW_MS, True), (NOW - MAX_SKEW_MS - 1, False)):
        assert head_fresh(state, now) is fine
        if fine:
            require_fresh(state, now)
        else:
            with pytest.raises(GnusError, match="TRUST_STALE"):
                require_fresh(state, now)
    ending = fold(CHARTER, [signed(head_body(1), HEAD, role=SignerRole.HEAD, expires_at_ms=NOW + 10)])
    assert head_fresh(ending, NOW + 10)
    assert not head_fresh(ending, NOW + 11)
    with pytest.raises(GnusError, match="TRUST_STALE"):
        require_fresh(STATE, NOW)
