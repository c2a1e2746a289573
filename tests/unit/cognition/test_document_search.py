"""Retrieval finds the right place, lets corpora that disagree both speak, and never looks at what a request may not see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.cognition.documents import CorpusConfig, CorpusIndex, CorpusKind, Passage, PassageStore, Retrieved, retrieve
from gnus_node.cognition.documents import index as index_module
from gnus_node.cognition.documents.corpus import make_passage
from gnus_node.cognition.documents.search import diversify, fresh_enough, may_use
from gnus_node.records.enums import SourceClass
from tests.unit.cognition.fts import SmallIndex

DAY = 86_400_000
HOUSE = """# Kettle

The kettle boils water.

## Safety

The lid must be closed. Water boils at 100 degrees.

## Cleaning

Descale the kettle with vinegar every month.

# Toaster

## Cleaning

Empty the crumb tray of the toaster every week.
"""


def folder_corpus(root: Path, name: str, text: str, **settings: object) -> CorpusIndex:
    folder = root / name
    folder.mkdir()
    (folder / "manual.md").write_text(text)
    corpus = CorpusIndex(CorpusConfig(name, CorpusKind.FOLDER, path=folder, **settings), SmallIndex(), PassageStore(None))  # type: ignore[arg-type]
    corpus.build()
    return corpus


def uris(results: list[Retrieved]) -> list[str]:
    return [r.passage.uri for r in results]


def test_the_right_section_of_prose(tmp_path: Path) -> None:
    manual = folder_corpus(tmp_path, "manual", HOUSE)
    assert uris(retrieve("How often is the toaster cleaned?", [manual], limit=3, now_ms=0))[0] == "doc:manual.md#cleaning-1"
    assert uris(retrieve("How do I descale the kettle?", [manual], limit=3, now_ms=0))[0] == "doc:manual.md#cleaning"


def test_nothing_is_found_for_what_nobody_wrote(tmp_path: Path) -> None:
    manual = folder_corpus(tmp_path, "manual", HOUSE)
    assert retrieve("Who won the football cup of 1998?", [manual], limit=3, now_ms=0) == []
    assert retrieve("How is the Atlantis cleaned?", [manual], limit=3, now_ms=0) == []
    assert retrieve("", [manual], limit=3, now_ms=0) == []


def test_corpora_that_disagree_both_surface(tmp_path: Path) -> None:
    one = folder_corpus(
        tmp_path,
        "one",
        "# Mount Example\n\n## Height\n\nMount Example is 4000 m high.\n\n## View\n\nFrom Mount Example the height shows.\n",
    )
    two = folder_corpus(tmp_path, "two", "# Mount Example\n\n## Height\n\nIt is 4321 m.\n")
    found = retrieve("What is the height of Mount Example?", [one, two], limit=2, now_ms=0)
    assert {r.passage.corpus for r in found} == {"one", "two"}
    assert [r.passage.title.split(" > ")[-1] for r in found] == ["Height", "Height"]


def test_tenant_class_and_freshness_come_before_relevance(tmp_path: Path) -> None:
    secret = folder_corpus(tmp_path, "secret", HOUSE, source_class=SourceClass.PRIVATE_TENANT, tenant="acme", fresh_at_ms=10 * DAY)
    ask = "How do I descale the kettle?"
    assert retrieve(ask, [secret], limit=3, now_ms=11 * DAY) == []
    assert retrieve(ask, [secret], limit=3, now_ms=11 * DAY, tenant="other") == []
    assert retrieve(ask, [secret], limit=3, now_ms=11 * DAY, tenant="acme")
    assert retrieve(ask, [secret], limit=3, now_ms=11 * DAY, tenant="acme", source_classes=[SourceClass.PUBLIC]) == []
    assert retrieve(ask, [secret], limit=3, now_ms=11 * DAY, tenant="acme", max_age_ms=2 * DAY)
    assert retrieve(ask, [secret], limit=3, now_ms=20 * DAY, tenant="acme", max_age_ms=2 * DAY) == []
    undated = folder_corpus(tmp_path, "undated", HOUSE)
    assert retrieve(ask, [undated], limit=3, now_ms=20 * DAY, max_age_ms=2 * DAY) == []


class Untouchable:
    """An index that must not be asked."""

    def search(self, *_: object) -> object:
        raise AssertionError("searched a corpus of another tenant")


def test_another_tenants_index_is_not_even_asked(tmp_path: Path) -> None:
    corpus = folder_corpus(tmp_path, "secret", HOUSE, tenant="acme")
    corpus.index = Untouchable()  # type: ignore[assignment]
    assert retrieve("kettle", [corpus], limit=3, now_ms=0, tenant="other") == []


@given(st.none() | st.sampled_from(["a", "b"]), st.none() | st.sampled_from(["a", "b"]))
def test_tenant_rule(owner: str | None, tenant: str | None) -> None:
    config = CorpusConfig("c", CorpusKind.COUNTRYINFO, tenant=owner)
    assert may_use(config, tenant, None) == (owner is None or owner == tenant)


@pytest.mark.parametrize(("fresh", "age", "expected"), [(0, None, True), (0, 5, False), (95, 5, True), (94, 5, False), (101, 5, False)])
def test_freshness_rule(fresh: int, age: int | None, expected: bool) -> None:
    assert fresh_enough(fresh, 100, age) is expected


COUNTRIES = {
    "Guinea": ("Republic of Guinea",),
    "Equatorial Guinea": ("Republic of Equatorial Guinea",),
    "Guinea-Bissau": ("Republic of Guinea-Bissau",),
    "Cabo Verde": ("Republic of Cabo Verde", "Cape Verde"),
    "United Kingdom": ("United Kingdom of Great Britain", "UK"),
}
FIELDS = {
    ("Geography", "Area", "total"): "{n}00 sq km",
    ("Geography", "Area", "land"): "{n}11 sq km",
    ("Geography", "Area - comparative"): "slightly smaller than another place",
    ("Government", "Capital", "name"): "Capital City {n}",
    ("Government", "Capital", "time difference"): "UTC+{n}",
    ("Communications", "Internet country code"): ".c{n}",
    ("People", "Population", "total"): "{n} million",
    ("People", "School life expectancy", "total"): "{n} years",
    ("People", "Life expectancy at birth", "total population"): "6{n} years",
}


@pytest.fixture
def atlas(monkeypatch: pytest.MonkeyPatch) -> CorpusIndex:
    """A small corpus in the shape of the factbook, through the same index."""
    config = CorpusConfig("atlas", CorpusKind.FACTBOOK)

    def passages(_: CorpusConfig) -> Iterator[Passage]:
        for number, (country, others) in enumerate(COUNTRIES.items()):
            for path, value in FIELDS.items():
                place = f"{number}/{'/'.join(path)}".replace(" ", "_").lower()
                yield make_passage(config, place, (country, *path), value.format(n=number), names=(country, *others))

    monkeypatch.setattr(index_module, "load", passages)
    monkeypatch.setattr(index_module, "source_digest", lambda _: b"atlas")
    corpus = CorpusIndex(config, SmallIndex(), PassageStore(None))
    corpus.build()
    return corpus


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What is the total area of Guinea in square kilometres?", "Guinea > Geography > Area > total"),
        ("what is the area of guinea-bissau", "Guinea-Bissau > Geography > Area > total"),
        ("What is the capital of Equatorial Guinea?", "Equatorial Guinea > Government > Capital > name"),
        ("capital city of Cape Verde", "Cabo Verde > Government > Capital > name"),
        ("What is the internet country code top-level domain of Guinea?", "Guinea > Communications > Internet country code"),
        ("Which TLD does the UK use?", "United Kingdom > Communications > Internet country code"),
        ("How many inhabitants has Cabo Verde?", "Cabo Verde > People > Population > total"),
        ("life expectancy in Guinea", "Guinea > People > Life expectancy at birth > total population"),
    ],
)
def test_the_asked_field_of_the_asked_country(atlas: CorpusIndex, question: str, title: str) -> None:
    found = retrieve(question, [atlas], limit=5, now_ms=0)
    assert found[0].passage.title == title
    assert len({r.passage.title.split(" > ")[0] for r in found}) == 1


def test_scores_fall_and_limits_hold(atlas: CorpusIndex) -> None:
    found = retrieve("area of Guinea", [atlas], limit=2, now_ms=0)
    assert len(found) == 2
    assert 1.0 >= found[0].score >= found[1].score >= 0.0
    assert set(found[0].terms) == {"xareax"}


@given(st.lists(st.lists(st.floats(0, 1), max_size=4), max_size=4), st.integers(0, 8))
def test_diversify_keeps_the_best_first_and_loses_only_the_tail(scores: list[list[float]], limit: int) -> None:
    config = CorpusConfig("c", CorpusKind.COUNTRYINFO)
    ranked = [
        [Retrieved(make_passage(config, f"{c}/{n}", ("t",), "x"), s, (), 1.0) for n, s in enumerate(sorted(row, reverse=True))]
        for c, row in enumerate(scores)
    ]
    merged = diversify(ranked, limit)
    everything = sorted((s for row in scores for s in row), reverse=True)
    assert len(merged) == min(limit, len(everything))
    assert len({r.passage.evidence_id for r in merged}) == len(merged)
    if merged:
        assert merged[0].score == everything[0]


@given(st.text(max_size=80))
def test_any_question_gets_an_answer_or_none(question: str) -> None:
    index = SmallIndex()
    corpus = CorpusIndex(CorpusConfig("c", CorpusKind.COUNTRYINFO), index, PassageStore(None))
    index.put("c:1", "title", "body")
    assert isinstance(retrieve(question, [corpus], limit=3, now_ms=0), list)
