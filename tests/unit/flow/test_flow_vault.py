"""Vaults and fences: a text leaves a vault only if it is the committed one, opened with the request's own key, on the node it was sealed to."""

from __future__ import annotations

import nacl.bindings
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.host.entropy import SeededEntropy
from gnus_node.net.context import MAX_FENCED, MAX_VAULTS, Fence, Vaults
from gnus_node.privacy.parcels import Vault, open_key, seal_key
from gnus_node.records.base import Committed
from gnus_node.records.errors import GnusError
from gnus_node.wire.limits import MAX_TEXT_BYTES

REQUEST = "3d0c5f3e-6f0a-4a8e-9b1a-0d1f4c7d2a11"
OTHER = "a1f0c5de-7b44-4a5c-8f0e-6c2b9d3e5f70"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def pair(seed: int) -> tuple[bytes, bytes]:
    """A sealing key pair: (secret, public)."""
    secret = SeededEntropy(seed).token(32)
    return secret, nacl.bindings.crypto_scalarmult_base(secret)


def vaults(seed: int = 1) -> tuple[Vault, Vault]:
    """The ingress's vault, and another node's of the same request."""
    key = SeededEntropy(seed).token(32)
    return Vault(REQUEST, key, SeededEntropy(seed + 1)), Vault(REQUEST, key, SeededEntropy(seed + 2))


def code(call: object, *args: object) -> str:
    with pytest.raises(GnusError) as error:
        call(*args)  # type: ignore[operator]
    return error.value.code


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_travel_and_come_out_as_they_went_in(texts: list[str]) -> None:
    ours, theirs = vaults()
    made = [ours.commit(text) for text in texts]
    assert len({c.commitment for c in made}) == len(made), "equal texts do not show as equal"
    theirs.add(ours.parcels(made))
    assert [theirs.text(c) for c in made] == texts
    assert [c.size for c in made] == [len(text.encode()) for text in texts]
    assert all(text.encode() not in parcel for parcel in ours.all_parcels().values() for text in texts if len(text) > 3)


def test_a_text_that_is_not_there_is_not_found_and_one_too_large_is_refused() -> None:
    ours, theirs = vaults()
    missing = ours.commit("text")
    assert not theirs.holds(missing)
    assert code(theirs.text, missing) == code(theirs.parcels, [missing]) == "NOT_FOUND"
    assert code(ours.commit, "x" * (MAX_TEXT_BYTES + 1)) == "TOO_LARGE"
    assert code(Vault, REQUEST, b"short", SeededEntropy(1)) == "MALFORMED"


@given(st.data(), TEXTS)
def test_any_change_of_a_parcel_is_a_mismatch(data: st.DataObject, text: str) -> None:
    ours, theirs = vaults()
    made = ours.commit(text)
    parcel = ours.parcels([made])[made.commitment]
    at = data.draw(st.integers(0, len(parcel) - 1))
    changed = parcel[:at] + bytes([parcel[at] ^ data.draw(st.integers(1, 255))]) + parcel[at + 1 :]
    theirs.add({made.commitment: data.draw(st.sampled_from([changed, parcel[:at], parcel + b"x"]))})
    assert code(theirs.text, made) == "COMMITMENT_MISMATCH"


def test_a_parcel_under_another_commitment_is_a_mismatch() -> None:
    ours, theirs = vaults()
    asked, other = ours.commit("pay 1"), ours.commit("pay 9")
    theirs.add({asked.commitment: ours.parcels([other])[other.commitment]})
    assert code(theirs.text, asked) == "COMMITMENT_MISMATCH"


def test_another_requests_key_opens_nothing() -> None:
    ours, _ = vaults()
    made = ours.commit("text")
    stranger = Vault(REQUEST, SeededEntropy(99).token(32), SeededEntropy(5))
    stranger.add(ours.parcels([made]))
    assert code(stranger.text, made) == "COMMITMENT_MISMATCH"


def test_a_bad_parcel_is_replaced_by_a_good_one_and_a_good_one_by_nothing() -> None:
    ours, theirs = vaults()
    made = ours.commit("text")
    good = ours.parcels([made])
    theirs.add({made.commitment: b"junk" * 20})
    theirs.add(good)
    assert theirs.text(made) == "text"
    theirs.add({made.commitment: b"junk" * 20})
    assert theirs.text(made) == "text"
    assert theirs.parcels([made]) == good
    unopened = Vault(REQUEST, ours.request_key, SeededEntropy(5))
    unopened.add(good)
    unopened.add({made.commitment: b"junk" * 20})
    assert unopened.parcels([made]) == good


@given(TEXTS, st.integers(0, 500))
def test_a_size_that_lies_is_a_mismatch(text: str, size: int) -> None:
    ours, _ = vaults()
    made = ours.commit(text)
    lie = Committed(commitment=made.commitment, size=size)
    if size != made.size:
        assert code(ours.text, lie) == "COMMITMENT_MISMATCH"
    assert ours.text(made) == text


@given(st.binary(min_size=32, max_size=32), st.integers(0, 2**32))
def test_a_key_box_opens_on_its_node_for_its_request_only(key: bytes, seed: int) -> None:
    (mine, public), (stranger, _) = pair(seed), pair(seed + 1)
    box = seal_key(key, public, REQUEST, SeededEntropy(seed + 2))
    assert key not in box
    assert open_key(box, mine, REQUEST) == key
    assert code(open_key, box, stranger, REQUEST) == "COMMITMENT_MISMATCH"
    assert code(open_key, box, mine, OTHER) == "COMMITMENT_MISMATCH"
    assert code(open_key, box[:-1] + bytes([box[-1] ^ 1]), mine, REQUEST) == "COMMITMENT_MISMATCH"
    assert code(open_key, box[:79], mine, REQUEST) == "MALFORMED"


def test_effect_keys_are_equal_on_every_node_of_a_request_and_on_no_other() -> None:
    ours, theirs = vaults()
    assert ours.effect_secret() == theirs.effect_secret() != ours.request_key
    assert Vault(OTHER, SeededEntropy(99).token(32), SeededEntropy(1)).effect_secret() != ours.effect_secret()


def test_open_vaults_are_shared_and_bounded() -> None:
    secret, public = pair(1)
    open_ones = Vaults(SeededEntropy(2), secret)
    ours = open_ones.make(REQUEST, SeededEntropy(3).token(32))
    assert open_ones.receive(REQUEST, b"") is ours, "an open vault needs no box"
    assert open_ones.make(REQUEST, ours.request_key) is ours
    assert open_ones.make(REQUEST, SeededEntropy(4).token(32)) is not ours, "another key is another vault"
    box = seal_key(ours.request_key, public, OTHER, SeededEntropy(5))
    assert open_ones.receive(OTHER, box).request_key == ours.request_key
    for number in range(MAX_VAULTS):
        open_ones.make(f"request-{number}", ours.request_key)
    assert len(open_ones._open) == MAX_VAULTS
    assert code(open_ones.receive, REQUEST, b"") == "MALFORMED", "the oldest was closed; now a box is needed"
    open_ones.forget("request-1")
    open_ones.forget("request-1")


def test_a_fence_refuses_lower_generations_and_twins() -> None:
    fence = Fence()
    one, two, twin = b"1" * 32, b"2" * 32, b"t" * 32
    assert fence.current(REQUEST) == 0
    fence.check(REQUEST, 1, one)
    fence.check(REQUEST, 1, one)
    assert code(fence.check, REQUEST, 1, twin) == "FENCED"
    fence.check(REQUEST, 3, two)
    assert code(fence.check, REQUEST, 1, one) == code(fence.check, REQUEST, 2, twin) == code(fence.check, REQUEST, 3, twin) == "FENCED"
    fence.check(OTHER, 1, twin)
    assert (fence.current(REQUEST), fence.current(OTHER)) == (3, 1)


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([b"a" * 32, b"b" * 32])), max_size=30))
def test_one_mandate_at_most_is_admitted_of_each_generation_and_they_only_rise(calls: list[tuple[int, bytes]]) -> None:
    fence, admitted = Fence(), []
    for generation, mandate in calls:
        try:
            fence.check(REQUEST, generation, mandate)
        except GnusError as error:
            assert error.code == "FENCED"  # noqa: PT017 - one of two outcomes
        else:
            admitted.append((generation, mandate))
    assert admitted == sorted(admitted, key=lambda call: call[0])
    assert len({generation for generation, _ in admitted}) == len(set(admitted))


def test_a_fence_is_bounded() -> None:
    fence = Fence()
    for number in range(MAX_FENCED + 10):
        fence.check(str(number), 1, b"m" * 32)
    assert len(fence._seen) == MAX_FENCED
