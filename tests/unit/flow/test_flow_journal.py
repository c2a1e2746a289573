"""Rows that a node has written and reads again: they come back equal, or as STORE_CORRUPT, and as nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.flow.journal import AnswerRow, JournalRow, Phase, decode_answer, decode_row
from gnus_node.records.enums import KeyMode, Outcome
from gnus_node.records.errors import GnusError
from gnus_node.wire import cbor

IDS = st.binary(min_size=32, max_size=32)
NAMES = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=20)
ROWS = st.builds(
    JournalRow,
    st.uuids(version=4).map(str),
    st.sampled_from(Phase),
    st.integers(1, 100),
    NAMES,
    NAMES,
    NAMES,
    st.sampled_from(KeyMode),
    st.integers(0, 2**53),
    st.integers(0, 2**31),
    IDS,
)
ANSWERS = st.builds(
    lambda outcome, first, rest, latency: AnswerRow(outcome, first, (first, *rest), latency),
    st.sampled_from(Outcome),
    IDS,
    st.lists(IDS, max_size=5),
    st.dictionaries(st.sampled_from(["total", "inference", "draft"]), st.integers(0, 2**40)),
)


@given(ROWS)
def test_a_journal_row_comes_back(row: JournalRow) -> None:
    assert decode_row(row.encode()) == row


@given(ANSWERS)
def test_an_answer_row_comes_back(row: AnswerRow) -> None:
    assert decode_answer(row.encode()) == row


@given(ROWS, st.data())
def test_a_damaged_journal_row_is_corrupt_or_another_row(row: JournalRow, data: st.DataObject) -> None:
    damaged = _damage(row.encode(), data)
    try:
        read = decode_row(damaged)
    except GnusError as error:
        assert error.code == "STORE_CORRUPT"  # noqa: PT017 - one of two outcomes
    else:
        assert read.encode() == damaged


@given(ANSWERS, st.data())
def test_a_damaged_answer_row_is_corrupt_or_another_row(row: AnswerRow, data: st.DataObject) -> None:
    damaged = _damage(row.encode(), data)
    try:
        read = decode_answer(damaged)
    except GnusError as error:
        assert error.code == "STORE_CORRUPT"  # noqa: PT017 - one of two outcomes
    else:
        assert read.encode() == damaged


def _damage(raw: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(raw) - 1))
    return data.draw(st.sampled_from([raw[:at], raw[:at] + bytes([raw[at] ^ data.draw(st.integers(1, 255))]) + raw[at + 1 :], raw[at:]]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(ROWS, st.sampled_from(JournalRow.__slots__), VALUES)
def test_a_field_of_the_wrong_kind_is_corrupt(row: JournalRow, name: str, value: object) -> None:
    plain = {**cbor.decode(row.encode()), name: value}
    try:
        read = decode_row(cbor.encode(plain))
    except GnusError as error:
        assert error.code == "STORE_CORRUPT"  # noqa: PT017 - one of two outcomes
    else:
        assert type(getattr(read, name)) is type(getattr(row, name))


@pytest.mark.parametrize("raw", [b"", b"\xff", cbor.encode([1, 2]), cbor.encode({}), cbor.encode("row")])
def test_what_is_no_row_is_corrupt(raw: bytes) -> None:
    for decode in (decode_row, decode_answer):
        with pytest.raises(GnusError) as error:
            decode(raw)
        assert error.value.code == "STORE_CORRUPT"


@given(ROWS, ANSWERS)
def test_a_missing_or_further_field_is_corrupt(row: JournalRow, answer: AnswerRow) -> None:
    for raw, decode in ((row.encode(), decode_row), (answer.encode(), decode_answer)):
        plain = cbor.decode(raw)
        for changed in ({**plain, "more": 1}, *({k: v for k, v in plain.items() if k != name} for name in plain)):
            with pytest.raises(GnusError) as error:
                decode(cbor.encode(changed))
            assert error.value.code == "STORE_CORRUPT"


@given(ANSWERS, IDS)
def test_a_terminal_names_its_own_response_among_its_records(row: AnswerRow, other: bytes) -> None:
    if other not in row.records:
        with pytest.raises(GnusError):
            decode_answer(replace(row, response=other).encode())


@given(ROWS, st.sampled_from(Phase), st.integers(1, 9), IDS)
def test_moving_on_changes_what_is_said_and_nothing_else(row: JournalRow, phase: Phase, generation: int, mandate: bytes) -> None:
    assert row.at(phase, generation, mandate) == replace(row, phase=phase, generation=generation, mandate=mandate)
    assert row.at(phase) == replace(row, phase=phase)
