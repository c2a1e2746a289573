"""What a reader is shown of a span: clean words, nothing that acts, nothing added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.content.quoting import plain_quote


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words", "plain words"),
        ("a **bold** and `code_name` word", "a bold and code_name word"),
        ("left over** stars *here", "left over stars here"),
        ("2 * 3 ** 4", "2 * 3 ** 4"),
        ("see [the page](https://a.example/x) now", "see the page now"),
        ("see [the page](javascript:alert(1)) now", "see the page now"),
        ("before <script>steal()</script> after", "before after"),
        ("before <script>never closed", "before"),
        ('an <img src=x onerror="go()"> image', "an image"),
        ("`<profile>.toml` is read", "<profile>.toml is read"),
        ("| a | b |\n|---|---|\n| c | d |", "a, b c, d"),
        ("# Heading\nwords", "Heading words"),
        ("first:\n- one\n- two", "first: one; two"),
        ("go to javascript:alert(1) please", "go to please"),
        ("wrapped\n  line", "wrapped line"),
    ],
)
def test_spans_are_shown_clean(text: str, shown: str) -> None:
    assert plain_quote(text) == shown


@given(st.text(st.sampled_from("ab <>/[]()`*|#-\n:javscript"), max_size=120))
def test_nothing_active_is_left(text: str) -> None:
    shown = plain_quote(text)
    assert "<script>" not in shown.casefold()
    assert not any(ord(c) < 32 for c in shown)


@pytest.mark.parametrize("text", ["<script " * 5000, "[" * 20_000, "`" * 20_000, "* " * 20_000, "|" * 20_000, "(" * 20_000, "<a=" * 5000])
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    assert len(plain_quote(text)) <= len(text)
