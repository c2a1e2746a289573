"""Intent by form, and the smallest effective set of experts."""

from __future__ import annotations

import pytest

from gnus_node.cognition.intent import classify, risk_of
from gnus_node.records.enums import Intent, Risk


@pytest.mark.parametrize(
    ("question", "intent"),
    [
        ("What is nine plus eleven?", Intent.ARITHMETIC),
        ("12 * (3 + 4)", Intent.ARITHMETIC),
        ("How many metres are in 5 miles?", Intent.ARITHMETIC),
        ("How many days are between 3 January 2020 and 9 March 2020?", Intent.ARITHMETIC),
        ("What does the file logs/today.txt say about rain?", Intent.FILE),
        ("Read /srv/data/report.csv and tell me the total", Intent.FILE),
        ("Which role signs a dispatch?", Intent.SYSTEM),
        ("Who painted the ceiling?", Intent.FACT),
        ("Tell me a story", Intent.GENERAL),
        ("", Intent.UNKNOWN),
        ("???", Intent.UNKNOWN),
    ],
)
def test_intent_follows_form(question, intent):
    assert classify(question).intent is intent


def test_a_word_problem_is_not_arithmetic_but_worth_asking_a_calculator():
    found = classify("Anna has 7 pears and gives 2 to Ben. How many pears has she left?")
    assert found.intent is not Intent.ARITHMETIC
    assert found.numeric


def test_every_classification_says_why():
    assert classify("Who wrote it?").reasons


def test_words_of_action_raise_the_risk():
    assert risk_of("delete the old file", Intent.GENERAL)[0] is Risk.MEDIUM
    assert risk_of("what is the capital?", Intent.FACT)[0] is Risk.LOW
