"""The first wall: how a path may be spelled, and which roots it names."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.errors import GnusError
from gnus_node.tools.paths import MAX_ROOTS, Root, clean_root, is_below, narrow_roots, plain_steps, targets_of
from tests.unit.tools.traversal import traversal_strings

ROOT = Root("/srv/docs")


SAID: set[str] = set()
"""Everything the errors of this file said."""


def refusal(path: str, roots: tuple[Root, ...] = (ROOT,)) -> str:
    try:
        targets_of(path, roots)
    except GnusError as error:
        SAID.add(error.what)
        return error.code
    return "OK"


def test_fifteen_hundred_traversals_are_refused_by_spelling() -> None:
    strings = traversal_strings(Random(7), 1600)
    assert len(set(strings)) >= 1500
    passed = [s for s in strings if refusal(s) == "OK"]
    assert passed == []
    assert len(SAID) < 12, "an error repeats text of the path"


NAMES = ["a.txt", "in/a.txt", "./a.txt", "in/./a.txt", "..a", "a..", "...", "a b.txt", "100%.txt", "~/x", "C:/x", "/srv/docs/a.txt"]
NAMES += ["Ordnung für Öfen.md", "文件.txt", "نام\u200cها.txt", "👩\u200d🚀.md"]


@pytest.mark.parametrize("path", NAMES)
def test_real_names_pass(path: str) -> None:
    found = targets_of(path, (ROOT,))
    assert [t.root for t in found] == [ROOT]
    assert found[0].path.startswith("/srv/docs/")


@pytest.mark.parametrize("path", ["/srv/docs", "/srv/docsecret/a", "/srv/doc", "/srv", "/etc/passwd", "/", "/srv/docs/.", "."])
def test_the_root_itself_and_its_neighbours_are_denied(path: str) -> None:
    assert refusal(path) == "PATH_DENIED"


def test_no_roots_allow_nothing() -> None:
    assert refusal("a.txt", ()) == "PATH_DENIED"
    assert refusal("/a.txt", ()) == "PATH_DENIED"


def test_an_empty_path_is_no_argument() -> None:
    assert refusal("") == "BAD_ARGUMENTS"


@pytest.mark.parametrize("path", ["x" * 256, "a/" * 500 + "b" * 30, "é" * 128 + ".txt"])
def test_overlong_names_are_denied(path: str) -> None:
    assert refusal(path) == "PATH_DENIED"


def test_relative_paths_are_tried_below_each_root_in_order_and_absolute_ones_where_they_belong() -> None:
    roots = (Root("/b"), Root("/a", "in"))
    assert [t.path for t in targets_of("x/y", roots)] == ["/b/x/y", "/a/in/x/y"]
    assert [(t.root, t.relative) for t in targets_of("/a/in/x", roots)] == [(Root("/a", "in"), "x")]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_whatever_passes_stays_lexically_below_its_root(path: str) -> None:
    code = refusal(path)
    if code != "OK":
        assert code in {"PATH_DENIED", "BAD_ARGUMENTS"}
        return
    found = targets_of(path, (ROOT,))
    for target in found:
        assert is_below(target.path, "/srv/docs")
        assert not {"..", ".", ""} & set(target.relative.split("/"))
        assert not set(target.relative) & set("\0\\\n")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", ".", "..", "", "x\0", "\\", "%2e"]), min_size=1, max_size=6))
def test_steps_are_judged_one_by_one(steps: list[str]) -> None:
    plain = all(s in {"a", "b", "."} for s in steps) and any(s in {"a", "b"} for s in steps)
    try:
        kept = plain_steps("/".join(steps))
    except GnusError:
        # a single empty first step makes the path absolute, and is no step
        assert not plain
        return
    assert plain or (steps[0] == "" and all(s in {"a", "b", "."} for s in steps[1:]))
    assert kept == tuple(s for s in steps if s in {"a", "b"})


def test_roots_are_narrowed_by_every_grant() -> None:
    assert narrow_roots(["/srv"], ["/srv/docs", "/other"], ["/srv/docs/in", "/srv/x"]) == (Root("/srv", "docs/in"),)
    assert narrow_roots(["/srv/docs/"], ["/srv"]) == (Root("/srv/docs"),)
    assert narrow_roots(["/srv"], []) == ()
    assert narrow_roots([], ["/srv"]) == ()
    assert narrow_roots(["/srv/docs"], ["/srv/docsecret"]) == ()


@settings(max_examples=60, deadline=None)
@given(*[st.lists(st.sampled_from(["/a", "/a/b", "/a/b/c", "/d", "/ab"]), max_size=4) for _ in range(3)])
def test_narrowed_roots_are_below_every_grant(bases: list[str], mandate: list[str], plan: list[str]) -> None:
    roots = narrow_roots(bases, mandate, plan)
    for root in roots:
        assert root.base in bases
        for grant in (bases, mandate, plan):
            assert any((root.path + "/").startswith(each + "/") for each in grant)
    assert len(set(roots)) == len(roots) <= MAX_ROOTS
    fewer = narrow_roots(bases, mandate, plan[1:])
    assert all(any((r.path + "/").startswith(wide.path + "/") for wide in roots) for r in fewer)


@pytest.mark.parametrize("path", ["relative", "/", "//", "/proc", "/proc/self", "/sys/x", "/dev", "/a/../b", "/a//b", "", "/a\0b"])
def test_roots_that_are_no_roots(path: str) -> None:
    with pytest.raises(GnusError) as refused:
        clean_root(path)
    assert refused.value.code == "PATH_DENIED"


def test_too_many_roots() -> None:
    with pytest.raises(GnusError):
        narrow_roots([f"/r{n}" for n in range(MAX_ROOTS + 1)])
