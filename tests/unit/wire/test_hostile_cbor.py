"""Hostile bytes: every case of a lax CBOR reader is refused with a typed error, in envelopes, events, frames and bare structures."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.enums import SignerRole
from gnus_node.records.errors import GnusError
from gnus_node.records.memory import MemoryEvent
from gnus_node.records.settlement import LearningEvent
from gnus_node.records.tools import StripReport
from gnus_node.wire import cbor
from gnus_node.wire.kinds import KINDS
from gnus_node.wire.limits import MAX_DEPTH, MAX_FRAME_BYTES, MAX_RECORD_BYTES
from gnus_node.wire.memory_event import FIELDS, open_event, seal_event
from gnus_node.wire.message import Message, decode_message
from gnus_node.wire.signed import decode_part, encode_part, open_record, peek
from tests.vectors.support import KEYS, Key, header, oracle, plain_of, sample

MALFORMED, NON_CANONICAL, TOO_LARGE, RANGE = "MALFORMED", "NON_CANONICAL", "TOO_LARGE", "NUMBER_RANGE"

# One item of CBOR each, standing where a value of a map may stand. (name, bytes, codes that may answer)
VALUES: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("non-minimal int, 1 byte", b"\x18\x05", (NON_CANONICAL,)),
    ("non-minimal int, 2 bytes", b"\x19\x00\x05", (NON_CANONICAL,)),
    ("non-minimal int, 4 bytes", b"\x1a\x00\x00\x00\x05", (NON_CANONICAL,)),
    ("non-minimal int, 8 bytes", b"\x1b" + bytes(7) + b"\x05", (NON_CANONICAL,)),
    ("non-minimal text length", b"\x78\x01a", (NON_CANONICAL,)),
    ("non-minimal bytes length", b"\x58\x01a", (NON_CANONICAL,)),
    ("non-minimal array length", b"\x98\x01\x00", (NON_CANONICAL,)),
    ("non-minimal map length", b"\xb8\x01\x61a\x00", (NON_CANONICAL,)),
    ("non-minimal negative int", b"\x38\x05", (NON_CANONICAL,)),
    ("indefinite bytes", b"\x5f\x41a\xff", (MALFORMED,)),
    ("indefinite text", b"\x7f\x61a\xff", (MALFORMED,)),
    ("indefinite array", b"\x9f\x00\xff", (MALFORMED,)),
    ("indefinite map", b"\xbf\x61a\x00\xff", (MALFORMED,)),
    ("bare break", b"\xff", (MALFORMED,)),
    ("unsorted keys", b"\xa2\x61b\x00\x61a\x00", (NON_CANONICAL,)),
    ("keys sorted by text, not by length", b"\xa2\x62aa\x00\x61b\x00", (NON_CANONICAL,)),
    ("duplicate text keys", b"\xa2\x61a\x00\x61a\x01", (MALFORMED,)),
    ("duplicate int keys", b"\xa2\x01\x00\x01\x01", (MALFORMED,)),
    ("duplicate keys in two spellings", b"\xa2\x01\x00\x18\x01\x01", (MALFORMED,)),
    ("half float", b"\xf9\x3c\x00", (MALFORMED,)),
    ("single float", b"\xfa" + struct.pack(">f", 1.5), (MALFORMED,)),
    ("double float", b"\xfb" + struct.pack(">d", 1.1), (MALFORMED,)),
    ("negative zero", b"\xf9\x80\x00", (MALFORMED,)),
    ("half NaN", b"\xf9\x7e\x00", (MALFORMED,)),
    ("double NaN", b"\xfb\x7f\xf8" + bytes(6), (MALFORMED,)),
    ("infinity", b"\xf9\x7c\x00", (MALFORMED,)),
    ("null", b"\xf6", (MALFORMED,)),
    ("undefined", b"\xf7", (MALFORMED,)),
    ("simple value 0", b"\xe0", (MALFORMED,)),
    ("simple value 19", b"\xf3", (MALFORMED,)),
    ("simple value 32", b"\xf8\x20", (MALFORMED,)),
    ("simple value 255", b"\xf8\xff", (MALFORMED,)),
    ("a boolean in two bytes", b"\xf8\x15", (MALFORMED,)),
    ("reserved length 28", b"\x1c", (MALFORMED,)),
    ("reserved length 30", b"\x7e", (MALFORMED,)),
    ("tag 0, date text", b"\xc0\x74" + b"2026-01-01T00:00:00Z", (MALFORMED,)),
    ("tag 1, epoch date", b"\xc1\x00", (MALFORMED,)),
    ("tag 2, bignum", b"\xc2\x49" + b"\x01" * 9, (MALFORMED,)),
    ("tag 3, negative bignum", b"\xc3\x49" + b"\x01" * 9, (MALFORMED,)),
    ("tag 4, decimal with a huge exponent", b"\xc4\x82\x1a\x3b\x9a\xca\x00\x01", (MALFORMED,)),
    ("tag 5, bigfloat", b"\xc5\x82\x01\x01", (MALFORMED,)),
    ("tag 25, string reference", b"\xd8\x19\x00", (MALFORMED,)),
    ("tag 28, shared value", b"\xd8\x1c\x80", (MALFORMED,)),
    ("tag 28 and 29, a cyclic list", b"\xd8\x1c\x81\xd8\x1d\x00", (MALFORMED,)),
    ("tag 30, rational", b"\xd8\x1e\x82\x01\x02", (MALFORMED,)),
    ("tag 35, regex", b"\xd8\x23\x67(a+)+$b", (MALFORMED,)),
    ("tag 36, MIME", b"\xd8\x24\x61a", (MALFORMED,)),
    ("tag 37, UUID", b"\xd8\x25\x50" + bytes(16), (MALFORMED,)),
    ("tag 100, date", b"\xd8\x64\x00", (MALFORMED,)),
    ("tag 256, string references", b"\xd9\x01\x00\x61a", (MALFORMED,)),
    ("tag 258, set", b"\xd9\x01\x02\x81\x01", (MALFORMED,)),
    ("tag 260, address", b"\xd9\x01\x04\x44" + bytes(4), (MALFORMED,)),
    ("tag 261, network", b"\xd9\x01\x05\xa1\x44" + bytes(4) + b"\x08", (MALFORMED,)),
    ("tag 1004, date text", b"\xd9\x03\xec\x6a2026-01-01", (MALFORMED,)),
    ("tag 43000, complex", b"\xd9\xa7\xf8\x82\x01\x02", (MALFORMED,)),
    ("tag 55799, self-described", b"\xd9\xd9\xf7\x00", (MALFORMED,)),
    ("an unassigned tag", b"\xda\x12\x34\x56\x78\x00", (MALFORMED,)),
    ("a tag in eight bytes", b"\xdb" + bytes(7) + b"\x01\x00", (MALFORMED,)),
    ("deep arrays", b"\x81" * 40 + b"\x00", (MALFORMED,)),
    ("deep maps", b"\xa1\x61a" * 40 + b"\x00", (MALFORMED,)),
    ("a bytes length of 2^62", b"\x5b\x40" + bytes(7), (MALFORMED,)),
    ("a text length of 2^62", b"\x7b\x40" + bytes(7), (MALFORMED,)),
    ("an array length of 2^62", b"\x9b\x40" + bytes(7), (MALFORMED,)),
    ("a map length of 2^62", b"\xbb\x40" + bytes(7), (MALFORMED,)),
    ("an array length of 2^32 - 1", b"\x9a\xff\xff\xff\xff", (MALFORMED,)),
    ("mixed keys", b"\xa2\x01\x00\x61a\x00", (MALFORMED,)),
    ("a negative key", b"\xa1\x20\x00", (MALFORMED,)),
    ("negative among good keys", b"\xa2\x01\x00\x20\x00", (MALFORMED,)),
    ("a bytes key", b"\xa1\x41a\x00", (MALFORMED,)),
    ("a boolean key", b"\xa1\xf5\x00", (MALFORMED,)),
    ("a boolean beside its integer twin", b"\xa2\x01\x00\xf5\x00", (MALFORMED,)),
    ("a float key", b"\xa1\xf9\x3c\x00\x00", (MALFORMED,)),
    ("an array key", b"\xa1\x81\x00\x00", (MALFORMED,)),
    ("a map key", b"\xa1\xa0\x00", (MALFORMED,)),
    ("a null key", b"\xa1\xf6\x00", (MALFORMED,)),
    ("invalid UTF-8", b"\x62\xc3\x28", (MALFORMED,)),
    ("overlong UTF-8", b"\x62\xc0\x80", (MALFORMED,)),
    ("a lone surrogate", b"\x63\xed\xa0\x80", (MALFORMED,)),
    ("a surrogate pair in six bytes", b"\x66\xed\xa0\xbd\xed\xb8\x80", (MALFORMED,)),
    ("invalid UTF-8 in a key", b"\xa1\x62\xc3\x28\x00", (MALFORMED,)),
    ("an integer of 2^64 - 1", b"\x1b" + b"\xff" * 8, (RANGE,)),
    ("an integer of -2^64", b"\x3b" + b"\xff" * 8, (RANGE,)),
]
IDS = [name for name, _, _ in VALUES]


def refused(work: Any, data: bytes, codes: tuple[str, ...]) -> None:
    with pytest.raises(GnusError) as error:
        work(data)
    assert error.value.code in codes, error.value


@pytest.mark.parametrize(("name", "data", "codes"), VALUES, ids=IDS)
def test_bare(name: str, data: bytes, codes: tuple[str, ...]) -> None:
    refused(cbor.decode, data, codes)
    refused(cbor.decode, b"\x81" + data, codes)
    refused(cbor.decode, b"\xa1\x61a" + data, codes)
    refused(cbor.decode, b"\xa1\x01" + data, codes)


@pytest.mark.parametrize(("name", "data", "codes"), VALUES, ids=IDS)
def test_in_a_record(name: str, data: bytes, codes: tuple[str, ...]) -> None:
    """In the place of a body's field, of a header's field, of a part of the envelope: signed properly, and refused all the same."""
    key = KEYS[SignerRole.SETTLEMENT]
    head = encode_part(header("learning_event", SignerRole.SETTLEMENT))
    fields = plain_of(sample(LearningEvent))
    codes = (*codes, MALFORMED)  # a strict model may be the first to refuse
    for place in ("score", "queue", "task"):
        body = splice(fields, place, data)
        refused(open_record, oracle([head, body, key.sign(b"gnus/record/1\x00" + head + body)]), codes)
    odd = splice(plain_of(header("learning_event", SignerRole.SETTLEMENT)), "epoch", data)
    body = oracle(fields)
    refused(open_record, oracle([odd, body, key.sign(b"gnus/record/1\x00" + odd + body)]), codes)
    refused(peek, oracle([odd, body, bytes(64)]), codes)
    signature = oracle(key.sign(b"gnus/record/1\x00" + head + body))
    for parts in ([data, oracle(body), signature], [oracle(head), data, signature], [oracle(head), oracle(body), data]):
        refused(open_record, b"\x83" + b"".join(parts), codes)


@pytest.mark.parametrize(("name", "data", "codes"), VALUES, ids=IDS)
def test_in_a_memory_event(name: str, data: bytes, codes: tuple[str, ...]) -> None:
    key = Key(9)
    event = MemoryEvent.model_validate({**vars(sample(MemoryEvent)), "author": key.public})
    plain = {1: 1, **{FIELDS.index(k): v for k, v in plain_of(event).items()}}
    codes = (*codes, MALFORMED)
    for place in (FIELDS.index("author_seq"), FIELDS.index("kind"), FIELDS.index("prev"), 1):
        body = splice(plain, place, data)
        refused(open_event, oracle([body, key.sign(b"gnus/mem/ev/1\x00" + body)]), (*codes, "UNKNOWN_KIND"))
    refused(open_event, b"\x82" + data + oracle(bytes(64)), codes)


@pytest.mark.parametrize(("name", "data", "codes"), VALUES, ids=IDS)
def test_in_a_frame(name: str, data: bytes, codes: tuple[str, ...]) -> None:
    plain = {"v": 1, "r": [b"r"], "p": [[bytes(32), b"c"]], "k": b"", "a": {"n": 1}}
    assert decode_message(oracle(plain)).args == {"n": 1}
    for place in plain:
        refused(decode_message, splice(plain, place, data), (*codes, MALFORMED, "UNKNOWN_KIND"))
    frame = oracle({**plain, "a": {"n": 0}})
    spliced = frame.replace(oracle({"n": 0}), b"\xa1\x61n" + data)
    assert spliced != frame
    refused(decode_message, spliced, codes)


def splice(plain: dict[Any, Any], place: Any, data: bytes) -> bytes:
    """The canonical map with one value's bytes replaced."""
    pairs = sorted((oracle(k), data if k == place else oracle(v)) for k, v in plain.items())
    return bytes([0xA0 | len(pairs)] if len(pairs) < 24 else [0xB8, len(pairs)]) + b"".join(k + v for k, v in pairs)


@pytest.mark.parametrize("data", [b"\x1b\x00", b"\x18", b"\x58\x05a", b"\x62a", b"\x82\x00", b"\xa1\x61a", b"\xc2"])
def test_a_cut_item_is_refused(data: bytes) -> None:
    refused(cbor.decode, data, (MALFORMED,))
    refused(open_record, data, (MALFORMED,))


def test_a_trailing_byte_is_refused_everywhere() -> None:
    key = KEYS[SignerRole.SETTLEMENT]
    head, body = encode_part(header("learning_event", SignerRole.SETTLEMENT)), encode_part(sample(LearningEvent))
    for h, b in ((head + b"\x00", body), (head, body + b"\x00"), (head, body + b"\xf6")):
        refused(open_record, oracle([h, b, key.sign(b"gnus/record/1\x00" + h + b)]), (NON_CANONICAL, MALFORMED))
    refused(cbor.decode, b"\x00\x00", (NON_CANONICAL, MALFORMED))


def test_the_empty_and_the_wrong_shape() -> None:
    for data in (b"", b"\x80", b"\xa0", b"\x00", b"\x82\x41a\x41b", b"\x84\x41a\x41b\x58\x40" + bytes(64) + b"\x80", b"\x63abc"):
        refused(open_record, data, (MALFORMED,))
        refused(open_event, data, (MALFORMED,))
        refused(decode_message, data, (MALFORMED,))


def test_no_prefix_of_a_huge_length_is_allocated() -> None:
    """Lengths are claims: a short frame that claims 2^40 items is refused before anything is reserved for them."""
    for head in (b"\x9b", b"\xbb", b"\x5b", b"\x7b"):
        for claim in (2**28, 2**31, 2**32, 2**40, 2**63 - 1, 2**64 - 1):
            refused(cbor.decode, head + claim.to_bytes(8, "big") + b"\x00" * 8, (MALFORMED,))


def test_depth_is_bounded_at_its_very_limit() -> None:
    def nest(levels: int) -> Any:
        return 0 if levels == 0 else [nest(levels - 1)]

    assert cbor.decode(oracle(nest(8)))
    refused(cbor.decode, oracle(nest(9)), (MALFORMED,))
    refused(cbor.decode, b"\x81" * 8_000 + b"\x00", (MALFORMED,))
    refused(cbor.decode, b"\x81" * 60_000 + b"\x00", (TOO_LARGE,))
    refused(decode_message, b"\x81" * 1_000_000 + b"\x00", (TOO_LARGE,))


def test_a_frame_of_colliding_keys_is_refused_by_its_size_before_it_is_read() -> None:
    modulus = 2**61 - 1
    # keys up to 2^64 - 1 give eight multiples; text keys cannot be made to collide, for their hash is salted
    small = oracle({k * modulus: 0 for k in range(1, 5)})
    assert cbor.decode(small) == {k * modulus: 0 for k in range(1, 5)}
    body = b"\xb9\x4e\x20" + b"".join(b"\x1b" + ((k * modulus) % 2**64).to_bytes(8, "big") + b"\x00" for k in range(20_000))
    assert len(body) > MAX_RECORD_BYTES
    refused(cbor.decode, body, (TOO_LARGE,))
    refused(open_record, body, (TOO_LARGE,))
    refused(open_event, body, (TOO_LARGE,))
    # in a frame, which may be larger, integer keys and their number are refused too
    refused(decode_message, body, (MALFORMED, TOO_LARGE))


def test_a_frame_of_empty_maps_is_refused() -> None:
    for many in (
        b"\x9a" + (1_000_000).to_bytes(4, "big") + b"\xa0" * 1_000_000,
        b"\x9a" + (1_000_000).to_bytes(4, "big") + b"\x80" * 1_000_000,
    ):
        refused(decode_message, many, (TOO_LARGE,))
        refused(open_record, many, (TOO_LARGE,))
    refused(decode_message, bytes(MAX_FRAME_BYTES + 1), (TOO_LARGE,))
    refused(cbor.decode, oracle([{}] * 8192), (TOO_LARGE,))
    assert len(cbor.decode(oracle([{}] * 8191))) == 8191
    inside = oracle({"v": 1, "r": [], "p": [], "k": b"", "a": {"n": [[]] * 500_000}})
    refused(decode_message, inside, (TOO_LARGE,))


def test_crowds_are_counted_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder never sees them; it costs memory and a third of a second for a megabyte."""
    monkeypatch.setattr(cbor.cbor2, "loads", lambda *_a, **_k: pytest.fail("the decoder was called"))
    for data in (b"\x9a\x00\x0f\x00\x00" + b"\xa0" * 0xF0000, b"\x81" * 60_000, b"\xba\x00\x01\x00\x00" + bytes(40_000), b"\xc0" * 60_000):
        refused(cbor.decode, data, (TOO_LARGE,))


def test_a_record_is_not_read_before_its_size_is_known() -> None:
    refused(open_record, bytes(MAX_RECORD_BYTES + 1), (TOO_LARGE,))
    refused(open_event, bytes(MAX_RECORD_BYTES + 1), (TOO_LARGE,))
    big = oracle({"v": 1, "r": [bytes(MAX_RECORD_BYTES + 1)], "p": [], "k": b"", "a": {}})
    refused(decode_message, big, (MALFORMED,))


# ---- what is well-formed CBOR and still no value of a record


def body_with(**change: Any) -> bytes:
    return oracle(plain_of(sample(LearningEvent)) | change)


WRONG = [
    ("null for a field", b"", {}),
    ("bool as int", body_with(score=True), {}),
    ("int as bool", oracle(plain_of(sample(StripReport)) | {"removed_active_content": 1}), {"model": StripReport}),
    ("text for a number", body_with(score="7000"), {}),
    ("number for a text", body_with(policy_scope=5), {}),
    ("a score above one", body_with(score=10_001), {}),
    ("a negative score", body_with(score=-1), {}),
    ("a digest of 31 bytes", body_with(task=bytes(31)), {}),
    ("a digest of 33 bytes", body_with(task=bytes(33)), {}),
    ("a digest as its JSON text", body_with(task="sha256:" + "00" * 32), {}),
    ("bytes for a text", body_with(policy_scope=b"sample"), {}),
    ("an enumeration in other letters", body_with(queue="Router"), {}),
    ("an enumeration with a blank", body_with(queue="router "), {}),
    ("an enumeration by its member's name", body_with(queue="ROUTER"), {}),
    ("an unknown enumeration", body_with(queue="other"), {}),
    ("a UUID in capitals", body_with(event_id="0F1E2D3C-4B5A-4697-8877-665544332211"), {}),
    ("a UUID in braces", body_with(event_id="{0f1e2d3c-4b5a-4697-8877-665544332211}"), {}),
    ("a UUID with a line end", body_with(event_id="0f1e2d3c-4b5a-4697-8877-665544332211\n"), {}),
    ("a name with a blank", body_with(policy_scope="a b"), {}),
    ("a name in another alphabet", body_with(policy_scope="\u0430dmin"), {}),
    ("an empty name", body_with(policy_scope=""), {}),
    ("a name too long", body_with(policy_scope="a" * 129), {}),
    ("an unknown field", body_with(surprise=1), {}),
    ("a missing field", oracle({k: v for k, v in plain_of(sample(LearningEvent)).items() if k != "score"}), {}),
    ("a list for the body", oracle([1]), {}),
    ("integer keys", oracle({1: 1}), {}),
]


@pytest.mark.parametrize(("name", "data", "more"), WRONG[1:], ids=[w[0] for w in WRONG[1:]])
def test_a_wrong_value_is_refused(name: str, data: bytes, more: dict[str, Any]) -> None:
    model = more.get("model", LearningEvent)
    with pytest.raises(GnusError) as error:
        decode_part(model, data)
    assert error.value.code in (MALFORMED, NON_CANONICAL)


def test_an_absent_optional_has_no_second_spelling() -> None:
    """Null, and where a default would be written out, are refused: one value, one encoding."""
    dispatch = KINDS[("dispatch", 1)].body
    least = plain_of(sample(dispatch, full=False))
    assert decode_part(dispatch, oracle(least))
    for name, info in dispatch.model_fields.items():
        if not info.is_required():
            data = oracle(least | {name: "MARK"}).replace(oracle("MARK"), b"\xf6")
            refused(lambda d: decode_part(dispatch, d), data, (MALFORMED,))
            with pytest.raises(GnusError):
                decode_part(dispatch, oracle(least | {name: ""}))


@pytest.mark.parametrize("kind", [k for k, _ in KINDS])
def test_no_kind_has_a_default_but_absence(kind: str) -> None:
    """A default that is a value would let a record be written in two ways."""
    for name, info in KINDS[(kind, 1)].body.model_fields.items():
        assert info.is_required() or info.default is None, name


def test_a_set_out_of_order_or_with_repeats_is_refused() -> None:
    grant = KINDS[("tenant_grant", 1)].body
    plain = plain_of(sample(grant))
    one, two = sorted((bytes([1]) * 32, bytes([2]) * 32))
    assert decode_part(grant, oracle(plain | {"policy_keys": [one, two]}))
    for keys in ([two, one], [one, one], [one, two, one]):
        refused(lambda d: decode_part(grant, d), oracle(plain | {"policy_keys": keys}), (MALFORMED,))
    over = [n.to_bytes(32, "big") for n in range(33)]
    refused(lambda d: decode_part(grant, d), oracle(plain | {"policy_keys": over}), (MALFORMED,))


def test_an_enumerated_tier_is_its_name() -> None:
    grant = KINDS[("role_grant", 1)].body
    plain = plain_of(sample(grant))
    assert decode_part(grant, oracle(plain | {"tier": "A"}))
    for tier in (3, "a", "3", True, "E", b"A"):
        refused(lambda d: decode_part(grant, d), oracle(plain | {"tier": tier}), (MALFORMED,))


def test_an_error_never_tells_the_value() -> None:
    secret = "the user's own words"
    for data in (body_with(policy_scope=secret), body_with(queue=secret), body_with(score=secret), body_with(surprise=secret)):
        with pytest.raises(GnusError) as error:
            decode_part(LearningEvent, data)
        assert secret not in str(error.value) + error.value.fix + error.value.link


# ---- frames


def test_a_frame_says_back_what_it_holds() -> None:
    message = Message((b"one", b"two"), {bytes([2]) * 32: b"b", bytes([1]) * 32: b"a"}, b"box", {"n": 1, "t": "x", "l": (1, 2)})
    found = decode_message(message.encode())
    assert found == Message(message.records, dict(message.parcels), b"box", {"n": 1, "t": "x", "l": (1, 2)})


FRAME: dict[str, Any] = {"v": 1, "r": [], "p": [], "k": b"", "a": {}}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"v": 2}, "UNKNOWN_KIND"),
        ({"v": True}, "UNKNOWN_KIND"),
        ({"x": 1}, MALFORMED),
        ({"r": {}}, MALFORMED),
        ({"r": ["text"]}, MALFORMED),
        ({"r": [[b"a"]]}, MALFORMED),
        ({"r": [b""] * 513}, TOO_LARGE),
        ({"p": [[bytes(32), b"a"], [bytes(32), b"a"]]}, MALFORMED),
        ({"p": [[bytes([2]) * 32, b"a"], [bytes([1]) * 32, b"a"]]}, NON_CANONICAL),
        ({"p": [[bytes(31), b"a"]]}, MALFORMED),
        ({"p": [[bytes(32)]]}, MALFORMED),
        ({"p": [[bytes(32), "a"]]}, MALFORMED),
        ({"p": {}}, MALFORMED),
        ({"p": [[bytes(32), bytes(256 * 1024 + 257)]]}, MALFORMED),
        ({"k": "box"}, MALFORMED),
        ({"k": bytes(257)}, TOO_LARGE),
        ({"a": []}, MALFORMED),
        ({"a": {1: 1}}, MALFORMED),
    ],
)
def test_a_frame_of_the_wrong_shape_is_refused(change: dict[str, Any], code: str) -> None:
    refused(decode_message, oracle(FRAME | change), (code,))


def test_a_frame_without_a_key_is_refused_and_one_too_large_is_not_made() -> None:
    for name in FRAME:
        refused(decode_message, oracle({k: v for k, v in FRAME.items() if k != name}), (MALFORMED,))
    with pytest.raises(GnusError, match=TOO_LARGE):
        Message(tuple(bytes(60_000) for _ in range(20))).encode()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_a_value_or_a_typed_error(data: bytes) -> None:
    for work in (cbor.decode, open_record, open_event, decode_message, peek):
        try:
            value = work(data)
        except GnusError:
            continue
        if work is cbor.decode:
            assert oracle(value) == data


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.one_of(
            st.integers(-(2**63) + 1, 2**63 - 1), st.booleans(), st.binary(max_size=8), st.text(st.characters(codec="utf-8"), max_size=8)
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=3),
            st.dictionaries(st.integers(0, 2**40), inner, max_size=3),
        ),
        max_leaves=8,
    )
)
def test_what_is_allowed_has_the_published_bytes(value: Any) -> None:
    data = oracle(value)
    assert cbor.encode(value) == data
    if _depth(value) <= MAX_DEPTH:
        assert cbor.decode(data) == value
    else:
        refused(cbor.decode, data, (MALFORMED,))


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return 1 + max(map(_depth, inner), default=-1)


def test_an_event_signed_by_another_or_of_another_version_is_refused() -> None:
    key, other = Key(9), Key(10)
    event = MemoryEvent.model_validate({**vars(sample(MemoryEvent)), "author": key.public})
    with pytest.raises(GnusError, match="BAD_SIGNATURE"):
        open_event(seal_event(event, other.sign).raw)
    plain = {FIELDS.index(k): v for k, v in plain_of(event).items()}
    for version in (0, 2, True, "1"):
        body = oracle({1: version, **plain})
        refused(open_event, oracle([body, key.sign(b"gnus/mem/ev/1\x00" + body)]), ("UNKNOWN_KIND",))
    for odd in ({0: 0}, {26: 0}, {2**40: 0}):
        body = oracle({1: 1, **plain, **odd})
        refused(open_event, oracle([body, key.sign(b"gnus/mem/ev/1\x00" + body)]), (MALFORMED,))
    body = oracle({"v": 1})
    refused(open_event, oracle([body, key.sign(b"gnus/mem/ev/1\x00" + body)]), (MALFORMED, "UNKNOWN_KIND"))


_SIZES = st.sampled_from([0, 1, 22, 23, 24, 25, 255, 256, 300])
_MESSAGES = st.builds(
    Message,
    st.lists(st.integers(0, 2**16).map(lambda n: bytes(n % 300)), max_size=30).map(tuple),
    st.dictionaries(st.binary(min_size=32, max_size=32), _SIZES.map(bytes), max_size=26),
    _SIZES.filter(lambda n: n <= 256).map(bytes),
    st.dictionaries(st.text(max_size=3), st.integers(-(2**40), 2**40) | st.text(max_size=30) | st.booleans(), max_size=5),
)


@settings(max_examples=60, deadline=None)
@given(message=_MESSAGES)
def test_a_frame_has_one_encoding(message: Message) -> None:
    frame = message.encode()
    assert frame == oracle(
        {
            "v": 1,
            "r": list(message.records),
            "p": [[k, message.parcels[k]] for k in sorted(message.parcels)],
            "k": message.key_box,
            "a": dict(message.args),
        }
    )
    assert decode_message(frame) == message


@settings(max_examples=200, deadline=None)
@given(message=_MESSAGES, data=st.data())
def test_what_is_read_as_a_frame_is_that_message_s_own_frame(message: Message, data: st.DataObject) -> None:
    """Whatever the change, a frame that is read is the canonical one of what was read."""
    frame = message.encode()
    at = data.draw(st.integers(0, len(frame)))
    cut = data.draw(st.integers(0, 3))
    put = data.draw(
        st.sampled_from([b"", b"\x18", b"\x58", b"\x78", b"\x98", b"\xb8", b"\x59\x00", b"\x00", b"\xa0"]) | st.binary(max_size=3)
    )
    altered = frame[:at] + put + frame[at + cut :]
    try:
        found = decode_message(altered)
    except GnusError:
        return
    assert (
        oracle(
            {
                "v": 1,
                "r": list(found.records),
                "p": [[k, v] for k, v in sorted(found.parcels.items())],
                "k": found.key_box,
                "a": _lists(dict(found.args)),
            }
        )
        == altered
    )


def _lists(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_lists(v) for v in value]
    return {k: _lists(v) for k, v in value.items()} if isinstance(value, dict) else value


def test_every_head_of_a_frame_is_in_its_shortest_form_and_its_keys_in_order() -> None:
    parts = [
        (b"\x61a", b"\xa1\x61n\x01"),
        (b"\x61k", b"\x41b"),
        (b"\x61p", b"\x81\x82\x58\x20" + bytes(32) + b"\x41c"),
        (b"\x61r", b"\x81\x41r"),
    ]
    parts.append((b"\x61v", b"\x01"))
    assert decode_message(b"\xa5" + b"".join(k + v for k, v in parts)).args == {"n": 1}
    longer = {
        b"\x61": b"\x78\x01",
        b"\xa1": b"\xb8\x01",
        b"\x41": b"\x58\x01",
        b"\x81": b"\x98\x01",
        b"\x82": b"\x98\x02",
        b"\x01": b"\x18\x01",
    }
    refused(decode_message, b"\xb8\x05" + b"".join(k + v for k, v in parts), (NON_CANONICAL,))
    frame = b"\xa5" + b"".join(k + v for k, v in parts)
    for short, long in longer.items():
        at = 1
        while (at := frame.find(short, at)) >= 0:
            refused(decode_message, frame[:at] + long + frame[at + 1 :], (NON_CANONICAL, MALFORMED, "UNKNOWN_KIND"))
            at += 1
    for turned in (parts[::-1], [parts[1], parts[0], *parts[2:]], [*parts[:3], parts[4], parts[3]]):
        refused(decode_message, b"\xa5" + b"".join(k + v for k, v in turned), (NON_CANONICAL,))
    unordered = [(b"\x61a", b"\xa2\x61n\x01\x61b\x01"), *parts[1:]]
    refused(decode_message, b"\xa5" + b"".join(k + v for k, v in unordered), (NON_CANONICAL,))
