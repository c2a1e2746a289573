"""Two JSON readers: exact decimals for views, I-JSON for free JSON; both refuse what JSON readers differ about."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.base import Amount, Part, Score
from gnus_node.records.errors import GnusError
from gnus_node.wire.jsontext import canonical, read_free, read_view, write_view
from gnus_node.wire.limits import MAX_JSON_BYTES, MAX_JSON_DEPTH

BOTH: list[tuple[str, str | bytes, str]] = [
    ("duplicate key", '{"a": 1, "a": 2}', "MALFORMED"),
    ("duplicate key deep inside", '[{"b": {"a": 1, "c": 2, "a": 1}}]', "MALFORMED"),
    ("duplicate key in two spellings", r'{"a": 1, "\u0061": 2}', "MALFORMED"),
    ("NaN", "[NaN]", "MALFORMED"),
    ("Infinity", '{"a": Infinity}', "MALFORMED"),
    ("-Infinity", "-Infinity", "MALFORMED"),
    ("1e999", "[1e999]", "NUMBER_RANGE"),
    ("-1e999", "[-1e999]", "NUMBER_RANGE"),
    ("an exponent that would fill the memory", "[1e999999999]", "NUMBER_RANGE"),
    ("lone high surrogate", r'"\ud800"', "MALFORMED"),
    ("lone low surrogate", r'{"a": ["\udc00"]}', "MALFORMED"),
    ("lone surrogate in a key", r'{"\ud800": 1}', "MALFORMED"),
    ("surrogates in the wrong order", r'"\ude00\ud83d"', "MALFORMED"),
    ("raw surrogate in a Python text", '"\ud800"', "MALFORMED"),
    ("invalid UTF-8", b'"\xc3\x28"', "MALFORMED"),
    ("surrogate in UTF-8", b'"\xed\xa0\x80"', "MALFORMED"),
    ("byte order mark", b'\xef\xbb\xbf{"a": 1}', "MALFORMED"),
    ("UTF-16", '{"a": 1}'.encode("utf-16"), "MALFORMED"),
    ("empty", "", "MALFORMED"),
    ("two values", "1 2", "MALFORMED"),
    ("trailing comma", "[1,]", "MALFORMED"),
    ("single quotes", "{'a': 1}", "MALFORMED"),
    ("comment", "[1] // x", "MALFORMED"),
    ("leading zero", "[01]", "MALFORMED"),
    ("plus sign", "[+1]", "MALFORMED"),
    ("bare point", "[.5]", "MALFORMED"),
    ("hexadecimal", "[0x10]", "MALFORMED"),
    ("raw control character", '"\x01"', "MALFORMED"),
    ("a level too deep", "[" * (MAX_JSON_DEPTH + 2) + "]" * (MAX_JSON_DEPTH + 2), "MALFORMED"),
    ("deep arrays", "[" * 100_000, "MALFORMED"),
    ("deep arrays, closed", "[" * 100_000 + "]" * 100_000, "MALFORMED"),
    ("deep objects", '{"a":' * 50_000 + "1" + "}" * 50_000, "MALFORMED"),
    ("a huge integer", "9" * 5000, "NUMBER_RANGE"),
    ("too large", " " * (MAX_JSON_BYTES + 1), "TOO_LARGE"),
]


@pytest.mark.parametrize("read", [read_view, read_free])
@pytest.mark.parametrize(("name", "text", "code"), BOTH, ids=[b[0] for b in BOTH])
def test_refused_by_both(read: Any, name: str, text: str | bytes, code: str) -> None:
    with pytest.raises(GnusError) as error:
        read(text)
    assert error.value.code == code


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**53 + 1, 2**63, 10**40])
def test_free_json_refuses_integers_a_double_does_not_hold(number: int) -> None:
    with pytest.raises(GnusError, match="NUMBER_RANGE"):
        read_free(f'{{"a": {number}}}')
    with pytest.raises(GnusError, match="NUMBER_RANGE"):
        canonical({"a": number})


@pytest.mark.parametrize("number", [0, -1, 2**53 - 1, -(2**53 - 1)])
def test_free_json_keeps_the_integers_a_double_holds(number: int) -> None:
    assert read_free(str(number)) == number
    assert type(read_free(str(number))) is int


def test_the_deepest_allowed_nesting_is_read() -> None:
    for read in (read_view, read_free):
        assert read("[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH) is not None


def test_a_view_keeps_decimals_exactly() -> None:
    assert read_view('{"a": 0.1, "b": 1, "c": 0.10000000000000000000000000001}') == {
        "a": Decimal("0.1"),
        "b": 1,
        "c": Decimal("0.10000000000000000000000000001"),
    }
    assert type(read_view("1")) is int
    assert type(read_view("1.0")) is Decimal


class Money(Part):
    score: Score
    amount: Amount


@pytest.mark.parametrize(
    ("score", "amount", "fine"),
    [
        ("0.7", "0.05", True),
        ("1.0", "9007199254.740991", True),
        ("0.0000", "0.000001", True),
        ("0.12345", "0.05", False),
        ("0.7", "0.0000001", False),
        ("1.0001", "0.05", False),
        ("-0.1", "0.05", False),
        ("0.7", "-0.000001", False),
        ("0.7", "9007199254.740992", False),
        ("0.50000000000000000000000000000000000001", "0.05", False),
        ("0.7", "0.0500000000000000000000000000000000001", False),
        ("1e-4", "1e3", True),
        ("1e-5", "1e3", False),
        ("1e-300", "0.05", False),
        ("0.7", "1e300", False),
    ],
)
def test_scores_and_amounts_take_no_extra_digits(score: str, amount: str, fine: bool) -> None:
    value = read_view(f'{{"score": {score}, "amount": {amount}}}')
    if fine:
        found = Money.model_validate(value)
        assert found.score == int(Decimal(score) * 10**4)
        assert found.amount == int(Decimal(amount) * 10**6)
    else:
        with pytest.raises(ValueError):
            Money.model_validate(value)


@pytest.mark.parametrize("bad", [0.5, True, "0.5", None, b"1", Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), 10_001, -1])
def test_a_score_is_no_float_text_or_boolean(bad: object) -> None:
    with pytest.raises(ValueError):
        Money.model_validate({"score": bad, "amount": 1})


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
VIEWS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**19) + 1, 10**19), DECIMALS, st.text(st.characters(codec="utf-8"), max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


def short(value: Any) -> bool:
    """Whether every number's text fits the reader's bound."""
    if isinstance(value, Decimal):
        return len(str(value)) <= 38
    if isinstance(value, list):
        return all(map(short, value))
    return all(map(short, value.values())) if isinstance(value, dict) else True


@settings(max_examples=200, deadline=None)
@given(value=VIEWS.filter(short), indent=st.sampled_from([None, 2]))
def test_what_is_written_is_read_back_exactly(value: Any, indent: int | None) -> None:
    text = write_view(value, indent=indent)
    found = read_view(text)
    assert found == value
    assert _types(found) == _types(value), "a decimal stays a decimal, an integer an integer"
    json.loads(text)


def _types(value: Any) -> Any:
    if isinstance(value, list):
        return [_types(v) for v in value]
    return {k: _types(v) for k, v in value.items()} if isinstance(value, dict) else type(value)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("0.7000", "0.7"),
        ("1", "1.0"),
        ("100", "100.0"),
        ("0.000001", "0.000001"),
        ("0.1234567890123456789012345678901234567", "0.1234567890123456789012345678901234567"),
        ("1E+20", "100000000000000000000.0"),
        ("1E+300", "1E+300"),
        ("-0.50", "-0.5"),
    ],
)
def test_decimals_are_written_plainly_and_exactly(number: str, text: str) -> None:
    assert write_view(Decimal(number)) == text
    assert read_view(text) == Decimal(number)


@pytest.mark.parametrize("bad", [Decimal("NaN"), Decimal("Infinity"), Decimal("1E+99999"), Decimal("1E-99999"), float("nan"), float("inf")])
def test_what_json_cannot_hold_is_not_written(bad: Any) -> None:
    with pytest.raises(GnusError, match="NUMBER_RANGE"):
        write_view({"a": [bad]})


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_arbitrary_text_gives_a_value_or_a_typed_error(text: str) -> None:
    for read in (read_view, read_free):
        try:
            read(text)
        except GnusError:
            continue


def test_canonical_text_is_rfc_8785_and_refuses_what_it_cannot_hold() -> None:
    assert canonical({"b": [1, 1.5, "\u20ac"], "a": True, "\ufb33": None, "\U0001f600": 1e21}) == (
        '{"a":true,"b":[1,1.5,"€"],"\U0001f600":1e+21,"\ufb33":null}'
    )
    for bad in (
        {1: 2},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": b"x"},
        {"a": Decimal("1")},
        {"a": "\ud800"},
        {"\ud800": 1},
        {"a": {1}},
    ):
        with pytest.raises(GnusError) as error:
            canonical(bad)
        assert error.value.code in ("MALFORMED", "NUMBER_RANGE")
    assert read_free(canonical({"a": [0.1, 10**15]})) == {"a": [0.1, 10**15]}
