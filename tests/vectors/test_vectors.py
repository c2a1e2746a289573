"""Golden vectors: every kind's bytes stay as they are, and are what an encoder of our own says they should be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gnus_node.records.catalog import BODIES, COMPACT
from gnus_node.records.envelope import Header
from gnus_node.records.errors import GnusError
from gnus_node.records.memory import MemoryEvent
from gnus_node.wire.kinds import KINDS
from gnus_node.wire.memory_event import FIELDS, open_event, seal_event
from gnus_node.wire.signed import decode_part, encode_part, open_record, seal, signing_bytes
from tests.vectors.support import Key, from_json, oracle, plain_of

HERE = Path(__file__).parent
FORMS = ("full", "least")


def load(kind: str) -> dict[str, Any]:
    found = json.loads((HERE / f"{kind}.json").read_text())
    assert isinstance(found, dict)
    return found


def test_there_is_a_vector_of_every_kind() -> None:
    files = {path.stem for path in HERE.glob("*.json")}
    assert files == {body.KIND for body in (*BODIES, *COMPACT)}
    assert {row.body for row in KINDS.values()} == set(BODIES), "the catalog and the table of kinds differ"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_a_record_encodes_to_the_very_bytes(kind: str, form: str) -> None:
    vector = load(kind)[form]
    row = KINDS[(kind, 1)]
    head = Header.model_validate(from_json(vector["header"]))
    body = row.body.model_validate(from_json(vector["body"]))
    key, others = Key(vector["seed_byte"]), [Key(b) for b in vector["cosigner_seed_bytes"]]
    signed = seal(head, body, key.sign, cosign=[(k.public, k.sign(signing_bytes(head, body))) for k in others])
    assert signed.raw.hex() == vector["raw"]
    assert signed.id.hex() == vector["id"]
    # by an encoder that shares nothing with the node's
    head_bytes, body_bytes = oracle(plain_of(head)), oracle(plain_of(body))
    assert (encode_part(head), encode_part(body)) == (head_bytes, body_bytes)
    assert hashlib.sha256(b"gnus/record/1\x00" + head_bytes + body_bytes).hexdigest() == vector["id"]
    envelope: list[Any] = [head_bytes, body_bytes, key.sign(b"gnus/record/1\x00" + head_bytes + body_bytes)]
    if others:
        envelope.append(sorted([k.public, k.sign(b"gnus/record/1\x00" + head_bytes + body_bytes)] for k in others))
    assert oracle(envelope).hex() == vector["raw"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_a_vector_opens(kind: str, form: str) -> None:
    vector = load(kind)[form]
    signed = open_record(bytes.fromhex(vector["raw"]))
    assert signed.id.hex() == vector["id"]
    assert signed.header == Header.model_validate(from_json(vector["header"]))
    assert signed.body == KINDS[(kind, 1)].body.model_validate(from_json(vector["body"]))
    assert decode_part(type(signed.body), encode_part(signed.body)) == signed.body


@pytest.mark.parametrize("form", FORMS)
def test_the_memory_event_encodes_to_the_very_bytes_and_opens(form: str) -> None:
    vector = load("memory_event")[form]
    event = MemoryEvent.model_validate(from_json(vector["body"]))
    key = Key(vector["seed_byte"])
    signed = seal_event(event, key.sign)
    assert signed.raw.hex() == vector["raw"]
    assert signed.id.hex() == vector["id"]
    plain = plain_of(event)
    body = oracle({1: 1, **{FIELDS.index(name): value for name, value in plain.items()}})
    assert hashlib.sha256(b"gnus/mem/ev/1\x00" + body).hexdigest() == vector["id"]
    assert oracle([body, key.sign(b"gnus/mem/ev/1\x00" + body)]).hex() == vector["raw"]
    opened = open_event(bytes.fromhex(vector["raw"]))
    assert (opened.body, opened.id.hex()) == (event, vector["id"])


def test_the_numbers_of_the_memory_event_are_frozen() -> None:
    assert FIELDS.index("network_id") == 2
    assert FIELDS.index("policy_hash") == 15
    assert FIELDS.index("content_hash") == 16
    assert (FIELDS[-1], len(FIELDS)) == ("content_key", 26)
    assert set(FIELDS[2:]) == set(MemoryEvent.model_fields)


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_every_flipped_byte_of_an_envelope_is_refused(kind: str) -> None:
    raw = bytes.fromhex(load(kind)["least"]["raw"])
    for place in range(len(raw)):
        flipped = bytearray(raw)
        flipped[place] ^= 1 << (place % 8)
        with pytest.raises(GnusError):
            open_record(bytes(flipped))


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_of_one_envelope_and_one_event_is_refused(bit: int) -> None:
    for raw, opener in ((load("trust_head")["least"]["raw"], open_record), (load("memory_event")["least"]["raw"], open_event)):
        whole = bytes.fromhex(raw)
        for place in range(len(whole)):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            with pytest.raises(GnusError):
                opener(bytes(flipped))


@pytest.mark.parametrize("kind", ["trust_head", "memory_event", "dispatch"])
def test_every_cut_and_every_tail_is_refused(kind: str) -> None:
    raw = bytes.fromhex(load(kind)["full"]["raw"])
    opener = open_event if kind == "memory_event" else open_record
    for end in range(len(raw)):
        with pytest.raises(GnusError):
            opener(raw[:end])
    for tail in (b"\x00", b"\xf6", raw):
        with pytest.raises(GnusError):
            opener(raw + tail)
