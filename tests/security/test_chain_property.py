"""Whatever set of records is put together, it is the whole true chain or a refusal with a code: never another exception, never a yes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnus_node.evidence.bag import Bag
from gnus_node.evidence.bundle import verify_bundle, write_bundle
from gnus_node.evidence.chain import judge, verify_chain
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from tests.security.chain_kit import GLOBEX, NOW_MS, REQUEST, Cast, Chain, Key, make_swarm, sign
from tests.security.lies import BASE, CAST
from tests.vectors.strategies import bodies

NOW = NOW_MS + 5_000
OWN = tuple(BASE.records.values())
FOREIGN = tuple(
    {
        record.id: record
        for chain in (
            Chain(CAST, generation=2),
            Chain(CAST, request="33333333-2222-4333-8444-555555555555"),
            Chain(CAST, calls=2),
            Chain(CAST, client=True),
            Chain(CAST, fails=True),
            Chain(Cast(CAST.swarm, CAST.trust, CAST.keys, CAST.charter, CAST.log, tenant=GLOBEX)),
            Chain(make_swarm(2)),
        )
        for record in chain.records.values()
        if record not in OWN
    }.values()
)
WHOLE = frozenset(r.id for r in OWN)
EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def named(error: GnusError) -> bool:
    """False, of a refusal that names its link."""
    assert error.link
    return False


def verdict_of(records: list[Signed[Any]]) -> bool:
    """Whether these records are taken for an ended and settled request; a refusal names its link."""
    try:
        return verify_chain(Bag(records), CAST.trust, NOW, settled=True, ended=True).ok
    except GnusError as error:
        return named(error)


def test_the_whole_chain_is_taken() -> None:
    assert verdict_of(list(OWN))
    assert verdict_of(list(OWN[::-1]))
    assert len(FOREIGN) > 100


@EXAMPLES
@given(st.sets(st.sampled_from(range(len(OWN))), min_size=1), st.randoms(use_true_random=False))
def test_no_part_of_a_chain_is_taken_for_the_whole(gone: set[int], shuffle: Any) -> None:
    left = [record for place, record in enumerate(OWN) if place not in gone]
    shuffle.shuffle(left)
    assert not verdict_of(left)


@EXAMPLES
@given(st.sets(st.sampled_from(FOREIGN), min_size=1, max_size=6), st.sets(st.sampled_from(range(len(OWN))), max_size=6))
def test_no_foreign_record_finds_a_place(foreign: set[Signed[Any]], gone: set[int]) -> None:
    assert not verdict_of([*(r for place, r in enumerate(OWN) if place not in gone), *foreign])


@EXAMPLES
@given(st.dictionaries(st.sampled_from(range(len(OWN))), st.sampled_from(FOREIGN), min_size=1, max_size=4))
def test_no_record_is_taken_for_another(swaps: dict[int, Signed[Any]]) -> None:
    assert not verdict_of([swaps.get(place, record) for place, record in enumerate(OWN)])


def _signer(record: Signed[Any]) -> Key:
    return next(key for key in CAST.keys.values() if key.public == record.header.signer)


@st.composite
def forged(draw: st.DrawFn) -> tuple[str, Signed[Any]]:
    """Any body of the kind, properly signed by the key that signed the true record, as of this very request where it can be."""
    name = draw(st.sampled_from(sorted(BASE.records)))
    record = BASE[name]
    made = draw(bodies(type(record.body)))
    values = {field: getattr(made, field) for field in type(made).model_fields}
    for field in type(made).model_fields:
        if draw(st.booleans()):
            values[field] = getattr(record.body, field)
    if "request_id" in values:
        values["request_id"] = REQUEST
    body = type(made).model_validate({k: v for k, v in values.items() if v is not None})
    at_ms = record.header.issued_at_ms
    return name, sign(body, _signer(record), CAST.swarm, seq=record.header.seq, at_ms=at_ms, refs=record.header.refs)


@settings(EXAMPLES, max_examples=120)
@given(forged())
def test_an_arbitrary_body_is_refused_and_nothing_breaks(lie: tuple[str, Signed[Any]]) -> None:
    name, record = lie
    records = [record if other == name else true for other, true in BASE.records.items()]
    assert verdict_of(records) == (record.body == BASE[name].body)


@settings(EXAMPLES, max_examples=100)
@given(forged(), st.booleans())
def test_an_arbitrary_body_with_a_consistent_rest_breaks_nothing(lie: tuple[str, Signed[Any]], live: bool) -> None:
    """Everything after the forged record is made anew from it; some such chains are true ones."""
    name, record = lie
    try:
        chain = Chain(CAST, given={name: record})
    except (GnusError, ValueError, KeyError, IndexError):
        return  # the kit itself cannot go on from there
    try:
        verify_chain(chain.bag(), CAST.trust, NOW, live=live)
    except GnusError as error:
        named(error)


@EXAMPLES
@given(st.lists(st.sampled_from(OWN + FOREIGN), max_size=60))
def test_a_bundle_of_anything_is_judged(records: list[Signed[Any]]) -> None:
    data = write_bundle(CAST.charter, CAST.log, [r.raw for r in records], {})
    verdict = verify_bundle(data, CAST.charter, NOW)
    assert verdict.ok is ({r.id for r in records} >= WHOLE and len({r.id for r in records}) == len(WHOLE))
    assert verdict.ok or (verdict.error is not None and verdict.error.link)


@EXAMPLES
@given(st.binary(max_size=400) | st.binary(max_size=60).map(lambda junk: BASE.bundle()[:200] + junk))
def test_bytes_of_any_kind_are_judged(data: bytes) -> None:
    verdict = verify_bundle(data, CAST.charter, NOW)
    assert not verdict.ok
    assert verdict.error is not None
    assert verdict.error.link


def test_judge_gives_a_refusal_as_a_verdict() -> None:
    verdict = judge(Bag(OWN[1:]), CAST.trust, NOW)
    assert not verdict.ok
    assert verdict.error is not None
    assert (verdict.error.link, verdict.trust_head) == ("policy", 1)
    assert judge(Bag(OWN), CAST.trust, NOW).ok
    with pytest.raises(GnusError):
        verify_chain(Bag(), CAST.trust, NOW)
