"""What was asked: invisible characters go, follow-ups are completed from the person's own turns, orders and data are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.content.asked import asked, changes_a_file, is_data, visible
from gnus_node.content.filenames import is_of_file

TURNS = "user: What is the capital of Veldonia?\nassistant: Ostrava"


@pytest.mark.parametrize(
    ("question", "context", "expected"),
    [
        ("And of Quell?", TURNS, "What is the capital of Quell?"),
        ("what about Quell", TURNS, "What is the capital of Quell?"),
        ("And of Orland?", TURNS + "\nuser: And of Quell?\nassistant: Dune", "What is the capital of Orland?"),
        ("And the verifier?", "user: What does the router do?", "What does the verifier do?"),
        ("And of Quell?", "", "And of Quell?"),
        ("And of Quell?", "assistant: What is the population of Orland?", "And of Quell?"),
        ("And of Quell?", "user: Hello there!\n  user: What is the area of Orland?", "And of Quell?"),
        ("What is the area of Quell?", TURNS, "What is the area of Quell?"),
        ("And what is the area of Quell?", TURNS, "And what is the area of Quell?"),
    ],
)
def test_follow_ups(question: str, context: str, expected: str) -> None:
    assert asked(question, context) == expected


@pytest.mark.parametrize("hidden", ["\u200b", "\u202e", "\x00", "\ufeff", "\u2066", "\x1b[31m"])
def test_what_nobody_sees_is_not_asked(hidden: str) -> None:
    assert visible(f"what is {hidden}2+2") == "what is 2+2"
    assert visible(f"{hidden}what is 2+2{hidden}") == "what is 2+2"


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_understood_as_some_text(question: str, context: str) -> None:
    assert isinstance(asked(question, context), str)
    assert visible(visible(question)) == visible(question)


def test_orders_and_data_are_no_questions() -> None:
    assert changes_a_file("Please delete notes.txt")
    assert changes_a_file("can you overwrite a.md?")
    assert not changes_a_file("What does notes.txt say about how to delete a file?")
    assert is_data('{"tool": "files.read"}')
    assert is_data("[1, 2]")
    assert not is_data("What is [x]?")


def test_a_document_is_the_named_file_by_the_end_of_its_path() -> None:
    assert is_of_file("doc://docs/protocol/audit.md#bundle", ("audit.md",))
    assert is_of_file("doc://docs/protocol/audit.md", ("protocol/audit.md",))
    assert not is_of_file("doc://docs/audit.md", ("other/audit.md",))
    assert not is_of_file("doc://docs/myaudit.md", ("audit.md",))
    assert not is_of_file("doc://docs/a.md", ("..",))
