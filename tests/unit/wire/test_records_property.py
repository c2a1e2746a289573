"""Records of every kind: what is sealed opens the same, one value has one id, and any change of any field breaks the signature."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnus_node.records.base import Body, Part
from gnus_node.records.envelope import Header
from gnus_node.records.errors import GnusError
from gnus_node.records.memory import MemoryEvent
from gnus_node.wire.digests import record_id
from gnus_node.wire.kinds import COSIGNED, KINDS
from gnus_node.wire.memory_event import FIELDS, open_event, seal_event
from gnus_node.wire.signed import Opener, decode_part, encode_part, open_record, peek, seal, signing_bytes
from tests.vectors.strategies import bodies, of_type
from tests.vectors.support import KEYS, Key, header, oracle, plain_of, sample

ROWS = list(KINDS.values())
QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
IDS = [row.body.KIND for row in ROWS]


def sealed(body: Body, head: Header | None = None) -> Any:
    role = sorted(KINDS[(body.KIND, 1)].signers)[0]
    return seal(head or header(body.KIND, role), body, KEYS[role].sign)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
@QUICK
@given(data=st.data())
def test_what_is_sealed_opens_the_same(row: Any, data: st.DataObject) -> None:
    body = data.draw(bodies(row.body))
    signed = sealed(body)
    opened = open_record(signed.raw)
    assert (opened.header, opened.body, opened.id, opened.raw) == (signed.header, body, signed.id, signed.raw)
    assert opened.signature == signed.signature == signed.raw[-64:]
    assert encode_part(body) == oracle(plain_of(body))
    assert peek(signed.raw) == (signed.header, signed.id)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
@QUICK
@given(data=st.data())
def test_two_values_have_two_ids_and_one_has_one(row: Any, data: st.DataObject) -> None:
    one, two = data.draw(bodies(row.body)), data.draw(bodies(row.body))
    assert (sealed(one).id == sealed(two).id) == (one == two)
    assert sealed(one).raw == sealed(row.body.model_validate(plain_of_loose(one))).raw


def plain_of_loose(part: Part) -> dict[str, Any]:
    """The same value built again from plain text, bytes and tuples."""
    return {k: _tuples(v) for k, v in plain_of(part).items()}


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}
    return value


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for key, item in value.items() for p in leaves(item, (*path, key))]
    if isinstance(value, list) and value:
        return [p for index, item in enumerate(value) for p in leaves(item, (*path, index))]
    return [path]


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """A copy of a plain structure with one leaf changed as little as its type allows."""
    if path:
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[path[0]] = changed(value[path[0]], path[1:])
        return copy
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value - 1 if value else 1
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if isinstance(value, str):
        return ("b" if value[:1] == "a" else "a") + value[1:]
    assert value == []
    return [b"x"]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_every_leaf_of_header_and_body_is_covered_by_id_and_signature(row: Any) -> None:
    body = sample(row.body)
    signed = sealed(body)
    head_plain, body_plain = plain_of(signed.header), plain_of(body)
    for where, plain in (("header", head_plain), ("body", body_plain)):
        for path in leaves(plain):
            altered = changed(plain, path)
            head = oracle(altered) if where == "header" else oracle(head_plain)
            content = oracle(altered) if where == "body" else oracle(body_plain)
            assert record_id(head, content) != signed.id
            with pytest.raises(GnusError) as refused:
                open_record(oracle([head, content, signed.signature]))
            model = Header if where == "header" else row.body
            if path not in (("kind",), ("version",)) and _reads(model, oracle(altered)):
                assert refused.value.code == "BAD_SIGNATURE", path
    # a field left out or added is a change too
    for name, info in row.body.model_fields.items():
        if not info.is_required():
            less = oracle({k: v for k, v in body_plain.items() if k != name})
            with pytest.raises(GnusError, match="BAD_SIGNATURE"):
                open_record(oracle([oracle(head_plain), less, signed.signature]))
        else:
            less = oracle({k: v for k, v in body_plain.items() if k != name})
            with pytest.raises(GnusError, match=f"MALFORMED: {row.body.__name__}: {name}: missing"):
                open_record(oracle([oracle(head_plain), less, signed.signature]))


def _reads(model: type[Part], data: bytes) -> bool:
    try:
        decode_part(model, data)
    except GnusError:
        return False
    return True


@pytest.mark.parametrize("row", ROWS, ids=IDS)
@settings(QUICK, max_examples=3)
@given(data=st.data())
def test_another_valid_value_of_any_field_breaks_the_signature(row: Any, data: st.DataObject) -> None:
    body = data.draw(bodies(row.body))
    signed = sealed(body)
    for name in row.body.model_fields:
        hint = typing.get_type_hints(row.body, include_extras=True)[name]
        other = data.draw(of_type(hint))
        if other == getattr(body, name):
            continue
        altered = row.body.model_validate({k: v for k, v in vars(body).items() if v is not None} | {name: other})
        assert sealed(altered).id != signed.id
        with pytest.raises(GnusError, match="BAD_SIGNATURE"):
            open_record(oracle([encode_part(signed.header), encode_part(altered), signed.signature]))


@settings(QUICK, max_examples=60)
@given(event=bodies(MemoryEvent))
def test_memory_events_open_the_same_and_every_field_counts(event: MemoryEvent) -> None:
    key = Key(9)
    event = MemoryEvent.model_validate({k: v for k, v in vars(event).items() if v is not None} | {"author": key.public})
    signed = seal_event(event, key.sign)
    opened = open_event(signed.raw)
    assert (opened.body, opened.id) == (event, signed.id)
    assert open_event(signed.raw).raw == signed.raw


def test_every_leaf_of_a_memory_event_is_covered() -> None:
    key = Key(9)
    event = MemoryEvent.model_validate({**vars(sample(MemoryEvent)), "author": key.public})
    signed = seal_event(event, key.sign)
    plain = {1: 1, **{FIELDS.index(k): v for k, v in plain_of(event).items()}}
    for path in leaves(plain):
        body = oracle(changed(plain, path))
        with pytest.raises(GnusError):
            open_event(oracle([body, signed.raw[-64:]]))


def test_another_signature_key_or_domain_does_not_verify() -> None:
    body = sample(KINDS[("trust_head", 1)].body)
    signed = sealed(body)
    head, content = encode_part(signed.header), encode_part(body)
    stranger = Key(200)
    for signature in (
        stranger.sign(signing_bytes(signed.header, body)),
        KEYS[signed.header.role].sign(head + content),
        KEYS[signed.header.role].sign(b"gnus/mem/ev/1\x00" + head + content),
        bytes(64),
    ):
        with pytest.raises(GnusError, match="BAD_SIGNATURE"):
            open_record(oracle([head, content, signature]))
    # header and body cannot change places or share bytes
    with pytest.raises(GnusError):
        open_record(oracle([content, head, signed.signature]))


def test_small_order_keys_and_malleable_signatures_are_refused() -> None:
    small = bytes.fromhex("0100000000000000000000000000000000000000000000000000000000000000")
    body = sample(KINDS[("trust_head", 1)].body)
    head = header("trust_head", sorted(KINDS[("trust_head", 1)].signers)[0], signer=small)
    with pytest.raises(GnusError, match="BAD_SIGNATURE"):
        open_record(oracle([encode_part(head), encode_part(body), small + bytes(32)]))
    signed = sealed(body)
    order = 2**252 + 27742317777372353535851937790883648493
    scalar = int.from_bytes(signed.signature[32:], "little") + order
    twin = signed.signature[:32] + scalar.to_bytes(32, "little")
    with pytest.raises(GnusError, match="BAD_SIGNATURE"):
        open_record(oracle([encode_part(signed.header), encode_part(body), twin]))


def test_cosignatures_are_checked_sorted_single_and_only_where_allowed() -> None:
    body = sample(KINDS[("revocation", 1)].body)
    head = header("revocation", sorted(KINDS[("revocation", 1)].signers)[0])
    message = signing_bytes(head, body)
    pairs = sorted((key.public, key.sign(message)) for key in (Key(60), Key(61)))
    base = [encode_part(head), encode_part(body), KEYS[head.role].sign(message)]
    good = open_record(oracle([*base, [list(p) for p in pairs]]))
    assert good.cosigners == tuple(key for key, _ in pairs)
    assert good.id == open_record(oracle(base)).id, "co-signing does not change what is signed"
    bad: list[tuple[Any, str]] = [
        ([list(p) for p in reversed(pairs)], "NON_CANONICAL"),
        ([list(pairs[0]), list(pairs[0])], "NON_CANONICAL"),
        ([[pairs[0][0], pairs[1][1]]], "BAD_SIGNATURE"),
        ([[pairs[0][0], bytes(64)]], "BAD_SIGNATURE"),
        ([[pairs[0][0][:31], pairs[0][1]]], "BAD_SIGNATURE"),
        ([[pairs[0][0], pairs[0][1][:63]]], "BAD_SIGNATURE"),
        ([], "MALFORMED"),
        ([[pairs[0][0]]], "MALFORMED"),
        ([["key", pairs[0][1]]], "MALFORMED"),
        (b"", "MALFORMED"),
        ([[bytes([n]) * 32, bytes(64)] for n in range(33)], "MALFORMED"),
    ]
    for cosigned, code in bad:
        with pytest.raises(GnusError, match=code):
            open_record(oracle([*base, cosigned]))
    for kind in sorted({k for k, _ in KINDS} - COSIGNED)[:3]:
        other = sealed(sample(KINDS[(kind, 1)].body))
        parts = [encode_part(other.header), encode_part(other.body), other.signature]
        message = signing_bytes(other.header, other.body)
        with pytest.raises(GnusError, match=r"MALFORMED: a .* takes one signature"):
            open_record(oracle([*parts, [[Key(60).public, Key(60).sign(message)]]]))


def test_a_body_under_another_kind_or_version_is_refused() -> None:
    signed = sealed(sample(KINDS[("trust_head", 1)].body))
    role = signed.header.role
    for change, code in (({"kind": "revocation"}, "MALFORMED"), ({"version": 2}, "UNKNOWN_KIND"), ({"kind": "nothing"}, "UNKNOWN_KIND")):
        head = Header.model_validate(vars(signed.header) | change)
        with pytest.raises(GnusError, match=code):
            open_record(oracle([encode_part(head), encode_part(signed.body), KEYS[role].sign(signing_bytes(head, signed.body))]))


def test_the_opener_remembers_whole_envelopes_only_and_is_bounded() -> None:
    opener = Opener(capacity=2)
    records = [sealed(sample(KINDS[("trust_head", 1)].body, number=n)) for n in range(3)]
    for signed in records:
        assert opener.open(signed.raw) == signed
    assert opener.opened == 3
    assert opener.open(records[2].raw).id == records[2].id
    assert opener.opened == 3
    assert opener.open(records[0].raw).id == records[0].id
    assert opener.opened == 4, "the oldest was forgotten"
    flipped = bytearray(records[2].raw)
    flipped[-1] ^= 1
    for _ in range(2):
        with pytest.raises(GnusError, match="BAD_SIGNATURE"):
            opener.open(bytes(flipped))


def test_what_this_node_signed_is_not_verified_again_but_any_other_bytes_of_it_are() -> None:
    opener = Opener(capacity=2)
    made = [sealed(sample(KINDS[("trust_head", 1)].body, number=n)) for n in range(3)]
    for record in made:
        opener.keep(record)
    assert opener.open(bytes(bytearray(made[2].raw))) is made[2]
    assert opener.opened == 0
    for place in range(len(made[2].raw)):
        changed_raw = bytearray(made[2].raw)
        changed_raw[place] ^= 1
        with pytest.raises(GnusError):
            opener.open(bytes(changed_raw))
    assert opener.open(made[0].raw) == made[0]
    assert opener.opened == 1, "the oldest was forgotten, so it was verified"


def test_a_record_over_the_limit_is_neither_made_nor_read() -> None:
    row = KINDS[("node_announcement", 1)]
    body = row.body.model_validate(vars(sample(row.body)) | {"addresses": tuple("x" * 200 for _ in range(16))})
    raw = sealed(body).raw
    assert open_record(raw).body == body
    with pytest.raises(GnusError, match="TOO_LARGE"):
        open_record(raw + bytes(64 * 1024))
