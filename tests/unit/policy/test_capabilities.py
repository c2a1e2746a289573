"""Capability names: the seed's spellings read to one; nothing else is read."""

from __future__ import annotations

import pytest

from gnus_node.policy.capabilities import canonical_set, parse
from gnus_node.records.errors import GnusError


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("tool:web.fetch", "tool.web.fetch"),
        ("tool.web.fetch", "tool.web.fetch"),
        ("tool:web.fetch.readonly", "tool.web.fetch.readonly"),
        ("memory:retrieve", "memory.retrieve"),
        ("memory.retrieve", "memory.retrieve"),
        ("a.b", "a.b"),
        ("a:b.c.d.e.f", "a.b.c.d.e.f"),
        ("tool.files_2.read", "tool.files_2.read"),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    assert parse(spelling) == name
    assert parse(name) == name


@pytest.mark.parametrize(
    "spelling",
    [
        "",
        "tool",
        "tool:",
        ":web",
        ".web",
        "tool.",
        "tool..web",
        "tool::web",
        "tool.web:fetch",
        "tool:web:fetch",
        "Tool:web",
        "tool:Web",
        "tool:web.*",
        "*",
        "tool.*",
        "tool:web fetch",
        " tool:web",
        "tool:web ",
        "tool:web\n",
        "tool/web",
        "tool-web.fetch",
        "tool.1web",
        "tool._web",
        "a.b.c.d.e.f.g",
        "tool.wеb",  # a Cyrillic letter
        "tool." + "a" * 200,
    ],
)
def test_everything_else_is_refused_without_telling_it(spelling: str) -> None:
    with pytest.raises(GnusError, match="MALFORMED") as error:
        parse(spelling)
    if len(spelling) > 8:
        assert spelling not in str(error.value)


def test_a_set_is_sorted_and_of_one_spelling() -> None:
    assert canonical_set(["tool:web.fetch", "memory:retrieve", "tool.web.fetch"]) == ("memory.retrieve", "tool.web.fetch")
    with pytest.raises(GnusError, match="MALFORMED"):
        canonical_set(["tool:web.fetch", "*"])
