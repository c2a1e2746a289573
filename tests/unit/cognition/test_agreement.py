"""Agreement: which answers say the same, how far a set of answers diverges."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.cognition.agreement import cluster, divergence
from gnus_node.content.agreement import agree, contains, number_of, words


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Astana", "astana."),
        ("the Blue Heron", "Blue Heron"),
        ("1,564,116 sq km", "1564116"),
        ("1.284 million sq km", "1,284,000 sq km"),
        ("357,022 sq km", "357,114 square kilometres"),
        ("São Tomé", "sao tome"),
        ("Ouagadougou", "name: Ouagadougou"),
    ],
)
def test_answers_that_say_the_same(a, b):
    assert agree(a, b)
    assert agree(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [("Astana", "Nur-Sultan"), ("14", "15"), ("1.2 million", "1.2 billion"), ("", "Astana"), ("-5", "5"), ("Guinea", "Bissau")],
)
def test_answers_that_do_not(a, b):
    assert not agree(a, b)
    assert not agree(b, a)


def test_a_number_needs_to_be_the_only_one():
    assert number_of("between 3 and 5") is None
    assert number_of("none") is None
    assert number_of("2.5 thousand") == Fraction(2500)


@given(st.lists(st.text(max_size=12), max_size=8))
def test_clusters_number_every_answer_from_one_without_gaps(answers):
    numbers = cluster(answers)
    assert len(numbers) == len(answers)
    assert not numbers or set(numbers) == set(range(1, max(numbers) + 1))


@given(st.lists(st.integers(min_value=0, max_value=10**6), max_size=8))
def test_divergence_is_a_score_and_zero_where_all_agree(weights):
    value = divergence(weights)
    assert 0 <= value <= 10_000
    if len([w for w in weights if w]) <= 1:
        assert value == 0


@given(st.text(max_size=40), st.text(max_size=10))
def test_containment_is_of_whole_words_in_order(text, answer):
    if contains(text, answer):
        hay, needle = words(text), words(answer)
        assert any(hay[i : i + len(needle)] == needle for i in range(len(hay)))


def test_part_of_a_word_is_no_containment():
    assert not contains("the Nigerian coast", "Niger")
