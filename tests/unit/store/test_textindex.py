"""Full-text search on real SQLite FTS5: finds what holds the words, never runs a term as syntax, and bounds its work."""

from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gnus_node.ports import TextIndex
from gnus_node.records.errors import GnusError
from gnus_node.store import Fts5Index, SearchLimits
from gnus_node.store.textindex import SearchPlan, join_hits, plain_terms, plan_search

PASSAGES = [
    ("fr", "France", "Paris is the capital of France, on the river Seine."),
    ("de", "Germany", "Berlin is the capital of Germany, on the river Spree."),
    ("br", "Brasil", "A capital é Brasília. São Paulo is the largest city."),
    ("gm", "Gambia", "Banjul is the capital; the river Gambia gives the land its name."),
    ("tx", "Paris, Texas", "A town in Texas, named after another town."),
]


def filled() -> Fts5Index:
    index = Fts5Index(None)
    index.put_many(PASSAGES)
    return index


def ids(index: Fts5Index, *terms: str, limit: int = 10) -> list[str]:
    return [hit.doc_id for hit in index.search(terms, limit)]


def test_all_words_first_then_any_best_first() -> None:
    index: TextIndex = filled()
    hits = index.search(["capital", "Seine"], 10)
    assert hits[0].doc_id == "fr"
    assert {hit.doc_id for hit in hits} == {"fr", "de", "gm", "br"}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.score > 0 for hit in hits)
    assert index.search(["capital", "Seine"], 1) == hits[:1]
    assert index.search(["xylophone"], 5) == index.search([], 5) == index.search(["capital"], 0) == []


def test_a_title_counts_more_than_a_body() -> None:
    assert ids(filled(), "paris")[0] == "tx"


def test_case_and_diacritics_do_not_matter() -> None:
    index = filled()
    for term in ("brasilia", "BRASÍLIA", "sao", "SÃO"):
        assert ids(index, term)[:1] == ["br"], term


def test_a_word_nobody_has_does_not_spoil_the_rest() -> None:
    assert ids(filled(), "zzz", "Seine", "qqq", limit=1) == ["fr"]


def test_put_replaces_remove_removes_count_counts() -> None:
    index = filled()
    index.put("fr", "France", "Nothing about a stream.")
    assert index.count() == 5
    assert ids(index, "seine") == []
    assert ids(index, "stream") == ["fr"]
    index.remove("fr")
    index.remove("never there")
    assert index.count() == 4
    assert ids(index, "stream") == []
    index.clear()
    assert (index.count(), ids(index, "capital")) == (0, [])


HOSTILE = [
    '"', '""', "*", "capital*", "NEAR(capital river)", "title:Paris", "capital OR river", "NOT", "AND", "-capital", "^paris", "(", ")",
    "{title}:x", "a\x00b", "\ud800", "'; DROP TABLE passage; --", "\u202ecapital", "capital\u0301", "💥", "{", "+", "NEAR", "capital AND",
]  # fmt: skip


@pytest.mark.parametrize("term", HOSTILE)
def test_hostile_terms_are_text(term: str) -> None:
    index = filled()
    index.search([term], 10)
    index.search([term, "river"], 10)
    assert index.count() == 5
    assert ids(index, term, "Seine", limit=1) in (["fr"], ["tx"], ["de"], ["gm"])


def test_operators_and_columns_are_not_obeyed() -> None:
    index = Fts5Index(None)
    index.put("a", "alpha", "beta")
    index.put("b", "gamma", "delta")
    assert ids(index, "alp*") == []
    assert ids(index, "title:beta") == []
    assert ids(index, 'beta" OR "delta') == ["a", "b"], "three words: beta, or, delta"
    assert ids(index, "NOT") == []


INDEX = filled()


@given(st.lists(st.text(max_size=30), max_size=6))
@example(['"'] * 5)
@example(["\x00", "a\x00"])
def test_any_terms_at_all_give_hits_or_none(terms: list[str]) -> None:
    hits = INDEX.search(terms, 3)
    assert len(hits) <= 3
    assert len({hit.doc_id for hit in hits}) == len(hits)
    assert INDEX.count() == 5


@given(st.lists(st.sampled_from(["paris", "river", "capital", "town", "seine", "name", "is", "xyz"]), max_size=5), st.integers(1, 6))
def test_hits_agree_with_a_plain_reading(terms: list[str], limit: int) -> None:
    texts = {
        doc_id: f"{title} {body}".lower().replace(",", " ").replace(".", " ").replace(";", " ").split() for doc_id, title, body in PASSAGES
    }
    present = [term for term in set(terms) if any(term in words for words in texts.values())]
    holding_all = {doc_id for doc_id, words in texts.items() if present and all(term in words for term in present)}
    holding_any = {doc_id for doc_id, words in texts.items() if any(term in words for term in present)}
    found = [hit.doc_id for hit in INDEX.search(terms, limit)]
    assert len(found) == min(limit, len(holding_any))
    assert set(found) <= holding_any
    assert set(found[: len(holding_all)]) <= holding_all


@given(st.lists(st.text(max_size=80)))
def test_terms_are_bounded_words(terms: list[str]) -> None:
    limits = SearchLimits(max_terms=5, max_term_chars=10)
    words = plain_terms(terms, limits)
    assert len(words) <= 5
    assert all(0 < len(word) <= 10 and not any(c.isspace() or c == "\0" for c in word) for word in words)


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=12), st.integers(1, 80_000))
def test_a_plan_stays_within_its_budget(counts: list[int], passages: int) -> None:
    limits = SearchLimits()
    frequency = {f"w{n}": count for n, count in enumerate(counts)}
    plan = plan_search(list(frequency.items()), passages, limits)
    bound = max(limits.frequent_rows, passages // limits.frequent_part)
    assert plan.every
    assert plan.any
    assert len(plan.any) <= limits.any_terms
    if len(plan.any) > 1:
        assert sum(frequency[word] for word in plan.any) <= limits.any_rows
    rare = {word for word, count in frequency.items() if 0 < count <= bound}
    assert set(plan.every) == rare or (not rare and len(plan.every) <= 2)


def test_frequent_words_give_way_to_rare_ones() -> None:
    limits = SearchLimits(frequent_rows=10)
    assert plan_search([("the", 90), ("seine", 2), ("river", 9)], 100, limits) == SearchPlan(("seine", "river"), ("seine", "river", "the"))
    assert plan_search([("the", 90), ("of", 80), ("a", 99)], 100, limits).every == ("of", "the")


def test_frequent_words_are_counted_again_when_the_index_has_changed() -> None:
    index = Fts5Index(None, SearchLimits(frequent_rows=3, frequent_part=2))
    index.put_many((f"{n}", "", "common") for n in range(2))
    assert len(ids(index, "common")) == 2
    index.put_many((f"{n}", "", "common rare" if n == 7 else "common") for n in range(40))
    assert ids(index, "common", "rare", limit=1) == ["7"]
    assert len(ids(index, "common", "rare", limit=30)) == 30


def test_scores_of_joined_hits_fall() -> None:
    index = filled()
    every, some = index.search(["seine"], 1), index.search(["capital"], 10)
    joined = join_hits(every, some, 3)
    assert joined[0].doc_id == "fr"
    assert len(joined) == 3
    assert [h.score for h in joined] == sorted((h.score for h in joined), reverse=True)


def test_bounds_and_bad_ids() -> None:
    index = Fts5Index(None, SearchLimits(max_passages=2))
    index.put("a", "", "x")
    for doc_id, title, body, code in (
        ("", "", "", "MALFORMED"),
        ("\ud800", "", "", "MALFORMED"),
        ("b", "t" * 5000, "", "TOO_LARGE"),
        ("b", "", "b" * 300_000, "TOO_LARGE"),
    ):
        with pytest.raises(GnusError, match=code):
            index.put(doc_id, title, body)
    with pytest.raises(GnusError, match="STORE_FULL"):
        index.put_many([("a", "", "changed"), ("b", "", "x"), ("c", "", "x")])
    assert index.count() == 1, "all or none"
    assert ids(index, "changed") == []
    index.put("a", "", "lone \ud800 surrogate and \0 nul")
    assert ids(index, "surrogate") == ids(index, "nul") == ["a"]


def test_a_file_is_private_and_keeps_passages_and_notes(tmp_path: Path) -> None:
    file = tmp_path / "docs.fts"
    index = Fts5Index(file)
    assert index.meta_get("corpus") is None
    index.put_many(PASSAGES)
    index.meta_set("corpus", "sha256:1")
    index.meta_set("corpus", "sha256:2")
    for made in tmp_path.iterdir():
        assert stat.S_IMODE(made.stat().st_mode) == 0o600, made
    index.close()
    with pytest.raises(GnusError, match="NOT_RUNNING"):
        index.search(["paris"], 1)
    index = Fts5Index(file)
    assert (index.count(), index.meta_get("corpus"), ids(index, "banjul")) == (5, "sha256:2", ["gm"])
    index.close()


def test_a_file_of_another_kind_or_version_says_rebuild(tmp_path: Path) -> None:
    garbage, newer = tmp_path / "garbage", tmp_path / "newer"
    garbage.write_bytes(b"not a database at all" * 100)
    db = sqlite3.connect(newer)
    db.execute("PRAGMA user_version = 9")
    db.close()
    for file in (garbage, newer):
        with pytest.raises(GnusError) as caught:
            Fts5Index(file)
        assert caught.value.code == "STORE_CORRUPT"
        assert "rebuilt" in caught.value.fix
    with pytest.raises(GnusError, match="CONFIG"):
        Fts5Index(tmp_path / "missing" / "file")


def test_threads_take_turns() -> None:
    index = filled()
    found: list[list[str]] = []

    def work(number: int) -> None:
        for turn in range(10):
            index.put(f"{number}-{turn}", "", f"thread{number}")
            found.append(ids(index, "seine"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert index.count() == 45
    assert found == [["fr"]] * 40
    assert len(ids(index, "thread2", limit=20)) == 10


def segments(index: Fts5Index) -> int:
    assert index._db is not None
    return int(index._db.execute("SELECT count(DISTINCT segid) FROM passage_text_idx").fetchone()[0])


def test_a_small_index_stays_in_one_segment_and_a_rebuild_ends_in_one() -> None:
    small = Fts5Index(None)
    for number in range(20):
        small.put(f"d{number}", "", f"the heron of build {number}")
        assert segments(small) == 1
    large = Fts5Index(None, SearchLimits(merged_always=4))
    for batch in range(3):
        large.put_many((f"d{batch}-{number}", "", f"a passage about item {number}") for number in range(50))
    assert segments(large) > 1
    before = large.search(["item", "7"], 5)
    large.merge()
    assert segments(large) == 1
    assert large.search(["item", "7"], 5) == before
    large.put("late", "", "one more")
    assert segments(large) == 2, "one passage of many is not worth a merge"
