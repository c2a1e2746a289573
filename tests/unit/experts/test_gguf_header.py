"""The header of a GGUF file is hostile input: what is well-formed is read, everything else is refused, nothing else happens."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.experts.embedded.child import MAX_ITEMS, Header, RefusedError, facts_of
from tests.embedded.tiny import CONTEXT, TEMPLATE, Value, encode_header, encode_value, header_pairs

ONE = [("a", [1])]


def read(raw: bytes) -> dict[str, str | int | float | bool]:
    return Header(io.BytesIO(raw), len(raw)).read()


def raw_header(*entries: tuple[str, bytes], keys: int | None = None, tensors: int = 1, magic: bytes = b"GGUF", version: int = 3) -> bytes:
    parts = [magic, struct.pack("<IQQ", version, tensors, len(entries) if keys is None else keys)]
    for key, value in entries:
        parts.append(struct.pack("<Q", len(key)) + key.encode() + value)
    return b"".join(parts)


def test_scalars_strings_and_lengths_of_arrays() -> None:
    pairs: list[tuple[str, Value]] = [("n", 7), ("f", 0.5), ("b", True), ("s", "text"), ("a", ["x", "yz"]), ("i", [1, 2, 3])]
    for version in (2, 3):
        assert read(encode_header(pairs, [("t", [1])], version=version)) == {"n": 7, "f": 0.5, "b": True, "s": "text", "a": 2, "i": 3}


def test_the_facts_of_a_model() -> None:
    plain = facts_of(read(encode_header(header_pairs(), [("t", [1])])))
    assert plain == {"architecture": "llama", "context": CONTEXT, "license": "MIT", "chat_template": False}
    assert facts_of(read(encode_header(header_pairs(template=TEMPLATE), [("t", [1])])))["chat_template"] is True
    assert facts_of(read(encode_header(header_pairs(template="  "), [("t", [1])])))["chat_template"] is False
    assert facts_of(read(encode_header(header_pairs(licence="x\x1b[2J"), [("t", [1])])))["license"] == ""


@pytest.mark.parametrize("header", [{}, {"general.architecture": 3}, {"general.architecture": "\x1b"}, {"general.architecture": ""}])
def test_without_an_architecture_it_is_no_model(header: dict[str, str | int | float | bool]) -> None:
    with pytest.raises(RefusedError):
        facts_of(header)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        raw_header(("k", encode_value(1)), magic=b"GGML"),
        raw_header(("k", encode_value(1)), version=1),
        raw_header(("k", encode_value(1)), version=0x03000000),
        raw_header(("k", encode_value(1)), tensors=0),
        raw_header(("k", encode_value(1)), tensors=2**40),
        raw_header(("k", encode_value(1)), keys=0),
        raw_header(("k", encode_value(1)), keys=2**40),
        raw_header(("k", encode_value(1)), ("k", encode_value(2))),
        raw_header(("k", struct.pack("<I", 99))),
        raw_header(("k", struct.pack("<IIQ", 9, 9, 1))),
        raw_header(("k", struct.pack("<IIQ", 9, 4, 2**60))),
        raw_header(("k", struct.pack("<IIQ", 9, 0, MAX_ITEMS + 1))),
        raw_header(("k", struct.pack("<IIQQ", 9, 8, 1, 2**60))),
        raw_header(("k", struct.pack("<IQ", 8, 2**60))),
        raw_header(("x" * 300, encode_value(1))),
    ],
)
def test_what_is_not_well_formed_is_refused(raw: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        read(raw)
    assert refused.value.code == "CONFIG"


GOOD = encode_header(header_pairs(template=TEMPLATE), [("t", [1])])


@given(st.integers(0, 2000))
def test_a_header_that_is_cut_is_refused(size: int) -> None:
    with pytest.raises(RefusedError):
        read(GOOD[:size])


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_header_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    raw = bytearray(GOOD)
    for at, value in changes:
        raw[at] = value
    try:
        facts_of(read(bytes(raw)))
    except RefusedError:
        return
