"""The store's pure decisions against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.ports import Row, Write
from gnus_node.records.errors import GnusError
from gnus_node.store import tables
from gnus_node.store.batch import Batch, Overlay, StoreLimits, check_writes, conflicts, group_length, merge

KEYS = st.sampled_from([b"a", b"ab", b"abc", b"b", b"ba", b"c"])
VALUES = st.one_of(st.none(), st.binary(max_size=3))
WRITES = st.lists(st.builds(Write, st.sampled_from(["meta", "fence"]), KEYS, VALUES, st.booleans()), max_size=6)


@given(
    st.dictionaries(KEYS, st.binary(max_size=3)), st.lists(WRITES, max_size=8), st.integers(0, 8), st.sampled_from([b"", b"a", b"ab"]), KEYS
)
def test_readers_see_the_stored_rows_overlaid_in_order(
    stored: dict[bytes, bytes], batches: list[list[Write]], dropped: int, prefix: bytes, after: bytes
) -> None:
    overlay = Overlay()
    disk = {"meta": dict(stored), "fence": {}}
    model = {"meta": dict(stored), "fence": {}}
    for number, writes in enumerate(batches):
        overlay.add(Batch(number, tuple(writes), 0, True))
        for write in writes:
            for place in [model] + ([disk] if number < dropped else []):
                if write.value is None:
                    place[write.table].pop(write.key, None)
                else:
                    place[write.table][write.key] = write.value
    overlay.drop_through(dropped - 1)
    for table in model:
        for key in (b"a", b"ab", b"abc", b"b", b"ba", b"c"):
            found = overlay.find(table, key)
            assert (found[0] if found is not None else disk[table].get(key)) == model[table].get(key)
        for limit in (0, 1, 2, 100):
            inside = [(k, v) for k, v in sorted(disk[table].items()) if k.startswith(prefix) and k > after]
            expected = [Row(k, v) for k, v in sorted(model[table].items()) if k.startswith(prefix) and k > after]
            assert merge(inside, overlay.range(table, prefix, after), limit) == expected[:limit]


def test_the_overlay_is_empty_when_all_is_stored() -> None:
    overlay = Overlay()
    for number in range(5):
        overlay.add(Batch(number, (Write("meta", b"k", b"%d" % number), Write("meta", b"k", None)), 0, True))
    overlay.drop_through(3)
    assert overlay.find("meta", b"k") == (None,)
    overlay.drop_through(4)
    assert overlay.find("meta", b"k") is None
    assert overlay.range("meta", b"", b"") == []


def test_a_foreseen_refusal_is_not_shown() -> None:
    overlay = Overlay()
    overlay.add(Batch(1, (Write("meta", b"k", b"v"),), 0, False))
    assert overlay.find("meta", b"k") is None


@given(st.sets(KEYS), WRITES)
def test_conflicts_agree_with_applying_one_by_one(there: set[bytes], writes: list[Write]) -> None:
    state = {("meta", key) for key in there}
    clash = False
    for write in writes:
        place = (write.table, write.key)
        clash = clash or (write.if_absent and place in state)
        if write.value is None:
            state.discard(place)
        else:
            state.add(place)
    assert conflicts(writes, lambda table, key: table == "meta" and key in there) == clash


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9))
def test_a_group_takes_what_fits_and_always_one(sizes: list[tuple[int, int]]) -> None:
    limits = StoreLimits(group_rows=12, group_bytes=15)
    count = group_length(sizes, limits)
    assert 1 <= count <= len(sizes)
    fits = [sum(r for r, _ in sizes[:n]) <= 12 and sum(b for _, b in sizes[:n]) <= 15 for n in range(1, len(sizes) + 1)]
    assert count == 1 or fits[count - 1]
    assert count == len(sizes) or not fits[count]


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (Write("nonsense", b"k", b"v"), "INTERNAL"),
        (Write("meta", b"", b"v"), "MALFORMED"),
        (Write("meta", b"k" * 512, b"v"), "TOO_LARGE"),
        (Write("fence", b"k", b"v" * 65), "TOO_LARGE"),
    ],
)
def test_a_batch_that_breaks_a_bound_is_refused_before_it_queues(write: Write, code: str) -> None:
    with pytest.raises(GnusError) as caught:
        check_writes([write], StoreLimits())
    assert caught.value.code == code


def test_batches_are_bounded_in_rows_and_bytes() -> None:
    limits = StoreLimits(batch_rows=3, batch_bytes=1000)
    rows = [Write("meta", b"%d" % n, b"v") for n in range(4)]
    assert check_writes(rows[:3], limits)[0] == tuple(rows[:3])
    for bad in (rows, [Write("meta", b"k", b"v" * 1000)]):
        with pytest.raises(GnusError, match="TOO_LARGE"):
            check_writes(bad, limits)


def test_tables_are_all_bounded_and_explained() -> None:
    for name, table in tables.TABLES.items():
        assert name == table.name
        assert table.max_rows > 0
        assert 0 < table.max_value_bytes <= StoreLimits().batch_bytes
        assert table.purpose
        assert table.end_of_life
    with pytest.raises(GnusError, match="INTERNAL"):
        tables.table("nope")


def test_sequence_keys_are_in_number_order() -> None:
    owner = tables.request("6f1c2a9e-0000-4000-8000-000000000001")
    keys = [tables.sequenced(owner, n) for n in (0, 1, 255, 256, 2**40)]
    assert keys == sorted(keys)
    for bad in ("", "x" * 129, "é"):
        with pytest.raises(GnusError, match="MALFORMED"):
            tables.request(bad)
