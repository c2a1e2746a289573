"""The line finder against texts whose lines the test itself wrote."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from gnus_node.config.lines import key_lines, nearest_line

TEXT = '''# head
title = "a [x]" # [not.a.table]

[node]
"quoted key" = 1
list = [
  "one", # comment ]
  "two [",
]
after = { a = 1, b = [2] }

[a.b]
text = """
[fake]
key = 1
"""
lit = \'\'\'
x = "\'\'\'
dotted.inner = 3

[[corpora]]
name = "first"
[corpora.sub]
deep = 1
[[corpora]]
name = "second"
'''


def test_lines_of_a_text_with_every_trap():
    tomllib.loads(TEXT)
    lines = key_lines(TEXT)
    expected = {
        ("title",): 2,
        ("node",): 4,
        ("node", "quoted key"): 5,
        ("node", "list"): 6,
        ("node", "after"): 10,
        ("a", "b"): 12,
        ("a", "b", "text"): 13,
        ("a", "b", "lit"): 17,
        ("a", "b", "dotted", "inner"): 19,
        ("corpora", 0, "name"): 22,
        ("corpora", 0, "sub", "deep"): 24,
        ("corpora", 1): 25,
        ("corpora", 1, "name"): 26,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert not any("fake" in path for path in lines)
    assert nearest_line(lines, ("node", "after", "a")) == 10
    assert nearest_line(lines, ("nothing",)) == 1


keys = st.text(alphabet="abcdefgh_-", min_size=1, max_size=6)
texts = st.text(alphabet='ab[]{}#=" \n', max_size=12)


def written(value: str) -> str:
    """A TOML string, over several lines where it has any."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{escaped}"""' if "\n" in value else f'"{escaped}"'


@given(st.dictionaries(keys, st.dictionaries(keys, st.one_of(texts, st.lists(texts, max_size=3)), max_size=4), max_size=4))
def test_every_key_is_found_where_it_was_written(data: dict[str, dict[str, str | list[str]]]):
    text, expected = "", {}
    for table, entries in data.items():
        expected[(table,)] = text.count("\n") + 1
        text += f"[{table}]\n"
        for key, value in entries.items():
            expected[(table, key)] = text.count("\n") + 1
            text += f"{key} = " + ("[\n" + ",\n".join(map(written, value)) + "\n]" if isinstance(value, list) else written(value)) + "\n"
    tomllib.loads(text)
    assert key_lines(text) == expected
