"""A bag's index by kind says what a look through all records says, whatever was added and repeated before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.evidence.bag import Bag
from gnus_node.records.authority import Absence, Dispatch
from gnus_node.records.base import Body
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.settlement import TaskAttestation
from gnus_node.wire.kinds import KINDS
from gnus_node.wire.signed import seal
from tests.vectors.support import KEYS, header, sample

KINDS_USED: tuple[type[Body], ...] = (Absence, Dispatch, TaskAttestation)


def record(kind: type[Body], number: int) -> Signed[Any]:
    role = sorted(KINDS[(kind.KIND, 1)].signers)[0]
    return seal(header(kind.KIND, role, seq=number), sample(kind), KEYS[role].sign)


RECORDS = [record(kind, number) for kind in KINDS_USED for number in range(4)]


@settings(max_examples=80, deadline=None)
@given(steps=st.lists(st.sampled_from(RECORDS), max_size=30))
def test_the_index_agrees_with_a_look_through_all(steps: list[Any]) -> None:
    bag, kept = Bag(), list[Signed[Any]]()
    for step in steps:
        bag.add([step])
        kept += [] if step in kept else [step]
        assert list(bag) == kept
        assert bag.raws() == tuple(r.raw for r in kept)
        for kind in KINDS_USED:
            assert bag.of(kind) == tuple(r for r in kept if isinstance(r.body, kind))


def test_one_is_one() -> None:
    bag = Bag([RECORDS[0]])
    assert bag.one(Absence, "absence") is RECORDS[0]
    assert bag.maybe(Dispatch, "dispatch") is None
    bag.add([RECORDS[1]])
    with pytest.raises(GnusError, match="CHAIN_BROKEN"):
        bag.one(Absence, "absence")
    with pytest.raises(GnusError, match="CHAIN_BROKEN"):
        bag.get(RECORDS[0].id, Dispatch, "dispatch")


def test_no_body_of_a_kind_derives_from_another_kind() -> None:
    """The index is by exact class; it stands on this."""
    kinds = {row.body for row in KINDS.values()}
    assert not [k for k in kinds if any(base in kinds for base in k.__mro__[1:])]
