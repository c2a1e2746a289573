"""Derived answers: only these forms, exact comparison and conversion, and silence where units differ or numbers are as good as equal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.content.derived import conclude, derived


@pytest.mark.parametrize(
    ("question", "quotes", "answer"),
    [
        ("Is Dune the capital of Quell?", ["Dune"], "Yes (the capital of Quell is Dune)"),
        ("Is Ulm the capital of Quell?", ["Dune"], "No (the capital of Quell is Dune)"),
        ("Is Quell larger than Orland?", ["1.2 million sq km", "900 sq km"], "Yes (area: Quell 1.2 million sq km; Orland 900 sq km)"),
        ("Which is smaller, Quell or Orland?", ["1,200 sq km", "900 sq km"], "Orland (area: Quell 1,200 sq km; Orland 900 sq km)"),
        ("Which country has more people, Quell or Orland?", ["5", "7"], "Orland (population: Quell 5; Orland 7)"),
        ("Is Quell larger than Orland?", ["1,200 sq km", "900 sq mi"], None),
        ("Is Quell larger than Orland?", ["1,200 sq km", "1,201 sq km"], None),
        ("Is Quell larger than Orland?", ["large", "900 sq km"], None),
        ("What is the population of Quell and Orland?", ["5", "7"], "Quell: 5; Orland: 7"),
        ("What is the area of Quell in square miles?", ["1,000 sq km"], "≈ 386.1 square miles (1,000 sq km)"),
        ("What is the area of Quell in square miles?", ["1,000 m"], None),
    ],
)
def test_conclusions(question: str, quotes: list[str], answer: str | None) -> None:
    found = derived(question)
    assert found is not None
    assert conclude(found, quotes) == answer


@pytest.mark.parametrize("question", ["What is the capital of Quell?", "Is it raining?", "Who leads?", "", "Is Quell nice?", "x" * 500])
def test_other_questions_are_not_derived(question: str) -> None:
    assert derived(question) is None


@given(st.text(max_size=80), st.lists(st.text(max_size=20), max_size=3))
def test_any_text_is_read(question: str, quotes: list[str]) -> None:
    found = derived(question)
    if found is not None:
        made = conclude(found, quotes)
        assert made is None or isinstance(made, str)
