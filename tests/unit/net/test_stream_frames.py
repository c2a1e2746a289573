"""The bytes of a service's stream: whatever comes in however cut, frames come out or the peer's fault, and never more than the limit is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.net.libp2p.frames import MAX_WIRE_BYTES, Kind, Splitter, call_frame, item_frame, last_frame, read_frame, uvarint
from gnus_node.records.enums import Whose
from gnus_node.records.errors import GnusError
from gnus_node.wire import cbor
from gnus_node.wire.limits import MAX_FRAME_BYTES

T = TypeVar("T")
bodies = st.lists(st.binary(min_size=1, max_size=300), max_size=8)


def outcome(work: Callable[[], T]) -> tuple[T | None, tuple[str, Whose] | None]:
    """What the work gives, or code and owner of its error."""
    try:
        return work(), None
    except GnusError as error:
        return None, (error.code, error.whose)


def leb128(value: int) -> bytes:
    """The textbook's form, for comparison."""
    groups = []
    while True:
        groups.append(value % 128)
        value //= 128
        if not value:
            break
    return bytes([group + 128 for group in groups[:-1]] + [groups[-1]])


@given(st.integers(0, 2**32))
def test_lengths_are_unsigned_leb128(value: int) -> None:
    assert uvarint(value) == leb128(value)


@given(bodies, st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_out_whole_however_the_input_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(uvarint(len(part)) + part for part in parts)
    splitter, out, place, turn = Splitter(), [], 0, 0
    while place < len(data):
        step = cuts[turn % len(cuts)]
        out += splitter.feed(data[place : place + step])
        place, turn = place + step, turn + 1
    assert out == parts
    assert not splitter.partial


@given(st.binary(max_size=2000), st.integers(1, 500))
def test_junk_is_the_peer_s_fault_and_is_not_kept(data: bytes, limit: int) -> None:
    frames, fault = outcome(lambda: Splitter(limit).feed(data))
    assert fault in (None, ("PROTOCOL", Whose.REMOTE))
    assert all(len(frame) <= limit for frame in frames or ())


@pytest.mark.parametrize("data", [uvarint(MAX_WIRE_BYTES + 1), b"\x00", b"\x81\x00", b"\x80\x80\x80\x80\x01", b"\xff" * 5])
def test_a_length_is_judged_before_its_body(data: bytes) -> None:
    with pytest.raises(GnusError, match="PROTOCOL"):
        Splitter().feed(data)


@given(st.integers(0, 2**40), st.binary(max_size=500))
def test_calls_and_items_are_read_as_they_were_written(budget: int, data: bytes) -> None:
    for frame, expected in (
        (call_frame(budget, data), (Kind.CALL, (budget, data))),
        (item_frame(data), (Kind.ITEM, (data,))),
        (last_frame(None), (Kind.END, ())),
    ):
        (body,) = Splitter().feed(frame)
        assert read_frame(body) == expected


def test_errors_and_the_largest_frame_fit() -> None:
    error = GnusError("FENCED", "w" * 500, fix="f" * 500, link="l" * 500)
    (body,) = Splitter().feed(last_frame(error))
    assert read_frame(body) == (Kind.ERROR, (error.to_plain(),))
    (body,) = Splitter().feed(call_frame(2**62, b"x" * MAX_FRAME_BYTES))
    assert len(body) <= MAX_WIRE_BYTES


@given(st.binary(max_size=200))
def test_a_body_that_is_no_frame_is_the_peer_s_fault(body: bytes) -> None:
    found, fault = outcome(lambda: read_frame(body))
    assert fault in (None, ("PROTOCOL", Whose.REMOTE))
    if found is not None:
        assert cbor.encode([int(found[0]), *found[1]]) == body, "one frame has one encoding"


@pytest.mark.parametrize(
    "plain",
    [
        b"\x80",
        b"\x81\x04",
        b"\x81\x00",
        b"\x82\x00\x01",
        b"\x83\x00\x41x\x01",
        b"\x82\x01\x61x",
        b"\x82\x02\x01",
        b"\x82\x03\x41x",
        b"\x81\xf5",
    ],
)
def test_wrong_kinds_and_parts(plain: bytes) -> None:
    with pytest.raises(GnusError, match="PROTOCOL"):
        read_frame(plain)
