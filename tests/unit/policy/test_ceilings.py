"""Merging is strictest-wins whatever the order; comparing names every field that is wider."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.policy.ceilings import meet, merge, path_within, wider_fields
from gnus_node.records.authority import Ceilings
from gnus_node.records.enums import ApprovalMode, MemoryMode, PrivacyMode
from gnus_node.records.errors import GnusError

CAPS = ["memory.retrieve", "tool.files.read", "tool.web.fetch", "tool.web.fetch.readonly"]
DOMAINS = ["a.example", "b.example", "docs.a.example", "example"]
PATHS = ["/", "/srv", "/srv/docs", "/srv/docs/a", "/srv/docs2", "/srv/./docs", "/srv/../etc", "/srv//docs", "/etc"]


def subset(values: list[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(st.sampled_from(values)).map(lambda v: tuple(sorted(v)))


CEILINGS = st.builds(
    Ceilings,
    capabilities=subset(CAPS),
    domains=subset(DOMAINS),
    paths=subset(PATHS),
    pre_granted=subset(CAPS),
    max_tokens=st.integers(0, 5),
    max_wall_ms=st.integers(0, 5),
    max_spend=st.integers(0, 5),
    max_turns=st.integers(1, 16),
    privacy_floor=st.sampled_from(list(PrivacyMode)),
    approval_floor=st.sampled_from(list(ApprovalMode)),
    memory_floor=st.sampled_from(list(MemoryMode)),
)
CLEAN = CEILINGS.map(lambda c: with_(c, paths=tuple(p for p in c.paths if path_within(p, ["/"]))))
MANY = settings(max_examples=150, deadline=None)


def with_(ceilings: Ceilings, **change: Any) -> Ceilings:
    return Ceilings.model_validate(vars(ceilings) | change)


@MANY
@given(CEILINGS, CEILINGS)
def test_the_order_of_two_does_not_matter(a: Ceilings, b: Ceilings) -> None:
    assert meet(a, b) == meet(b, a)


@MANY
@given(CEILINGS, CEILINGS, CEILINGS)
def test_the_order_of_many_does_not_matter(a: Ceilings, b: Ceilings, c: Ceilings) -> None:
    assert meet(meet(a, b), c) == meet(a, meet(b, c)) == merge([c, b, a]) == merge([b, a, c])


@MANY
@given(CLEAN)
def test_a_policy_twice_is_a_policy_once(a: Ceilings) -> None:
    assert meet(a, a) == meet(meet(a, a), a)
    assert allowed_paths(meet(a, a)) == allowed_paths(a)
    assert merge([a]) == a


@MANY
@given(CEILINGS, CEILINGS)
def test_the_merge_is_within_each(a: Ceilings, b: Ceilings) -> None:
    merged = merge([a, b])
    assert wider_fields(merged, a) == []
    assert wider_fields(merged, b) == []


def allowed_paths(ceilings: Ceilings) -> set[str]:
    return {p for p in PATHS if path_within(p, ceilings.paths)}


@MANY
@given(CEILINGS, CEILINGS)
def test_the_merge_allows_exactly_what_both_allow(a: Ceilings, b: Ceilings) -> None:
    """By single questions, not by the code that merges."""
    merged = merge([a, b])
    for name in ("capabilities", "domains", "pre_granted"):
        assert set(getattr(merged, name)) == {v for v in getattr(a, name) if v in getattr(b, name)}
    assert allowed_paths(merged) == allowed_paths(a) & allowed_paths(b)
    for name in ("max_tokens", "max_wall_ms", "max_spend", "max_turns"):
        assert getattr(merged, name) == sorted((getattr(a, name), getattr(b, name)))[0]
    for name, order in (("privacy_floor", PrivacyMode), ("approval_floor", ApprovalMode), ("memory_floor", MemoryMode)):
        words = [m.value for m in order]
        assert words.index(getattr(merged, name).value) == max(words.index(getattr(x, name).value) for x in (a, b))


def test_without_a_policy_nothing_is_allowed() -> None:
    with pytest.raises(GnusError, match="POLICY_MISSING"):
        merge([])


BASE = Ceilings(
    capabilities=("memory.retrieve", "tool.files.read"),
    domains=("docs.example",),
    paths=("/srv/docs",),
    pre_granted=("tool.files.read",),
    max_tokens=100,
    max_wall_ms=1000,
    max_spend=10,
    max_turns=3,
    privacy_floor=PrivacyMode.RESTRICTED,
    approval_floor=ApprovalMode.DEFAULT,
    memory_floor=MemoryMode.TRUSTED_ONLY,
)
WIDER: list[tuple[str, Any]] = [
    ("capabilities", ("memory.retrieve", "tool.files.read", "tool.web.fetch")),
    ("capabilities", ("tool.files",)),
    ("domains", ("docs.example", "evil.example")),
    ("domains", ("example",)),
    ("domains", ("a.docs.example",)),
    ("paths", ("/srv",)),
    ("paths", ("/srv/docs", "/srv/docs2")),
    ("paths", ("/srv/docs/../..",)),
    ("pre_granted", ("tool.files.read", "tool.web.fetch")),
    ("max_tokens", 101),
    ("max_wall_ms", 1001),
    ("max_spend", 11),
    ("max_turns", 4),
    ("privacy_floor", PrivacyMode.PLAINTEXT),
    ("approval_floor", ApprovalMode.DELEGATED),
    ("memory_floor", MemoryMode.POLICY_SCOPED),
]
NARROWER: list[tuple[str, Any]] = [
    ("capabilities", ("memory.retrieve",)),
    ("capabilities", ()),
    ("domains", ()),
    ("paths", ("/srv/docs/a",)),
    ("paths", ()),
    ("pre_granted", ()),
    ("max_tokens", 99),
    ("max_wall_ms", 0),
    ("max_spend", 0),
    ("max_turns", 1),
    ("privacy_floor", PrivacyMode.PRIVATE_BOUNDARY),
    ("approval_floor", ApprovalMode.STEP_BY_STEP),
    ("memory_floor", MemoryMode.NONE),
]


@pytest.mark.parametrize(("field", "value"), WIDER)
def test_each_field_widened_is_named(field: str, value: Any) -> None:
    assert wider_fields(with_(BASE, **{field: value}), BASE) == [field]


@pytest.mark.parametrize(("field", "value"), NARROWER)
def test_each_field_narrowed_is_within(field: str, value: Any) -> None:
    assert wider_fields(with_(BASE, **{field: value}), BASE) == []


def test_every_field_of_the_ceilings_is_compared() -> None:
    assert {field for field, _ in WIDER} == set(Ceilings.model_fields) == {field for field, _ in NARROWER}
    everything = with_(BASE, **dict(WIDER))
    assert set(wider_fields(everything, BASE)) == set(Ceilings.model_fields)
    assert wider_fields(BASE, BASE) == []


@pytest.mark.parametrize(
    ("path", "roots", "inside"),
    [
        ("/srv/docs", ["/srv/docs"], True),
        ("/srv/docs/a/b", ["/srv/docs"], True),
        ("/srv/docs/a", ["/srv/docs/"], True),
        ("/srv/docs", ["/etc", "/srv"], True),
        ("/anything", ["/"], True),
        ("/", ["/"], True),
        ("/", ["/srv"], False),
        ("/srv/docs2", ["/srv/docs"], False),
        ("/srv/doc", ["/srv/docs"], False),
        ("/srv", ["/srv/docs"], False),
        ("/srv/docs/../secret", ["/srv/docs"], False),
        ("/srv/docs/..", ["/srv/docs"], False),
        ("/srv/../srv/docs", ["/srv/docs"], False),
        ("/..", ["/"], False),
        ("/../etc", ["/"], False),
        ("/srv/docs/./a", ["/srv/docs"], False),
        ("/.", ["/"], False),
        ("/srv/docs//a", ["/srv/docs"], False),
        ("//srv/docs", ["/srv/docs"], False),
        ("//", ["/"], False),
        ("/srv/docs/", ["/srv/docs"], False),
        ("srv/docs", ["/srv/docs"], False),
        ("srv/docs", ["/"], False),
        ("", ["/"], False),
        ("../srv/docs", ["/srv/docs"], False),
        ("/srv/docs/a", [], False),
        ("/SRV/docs", ["/srv"], False),
        ("/srv/docs/..a", ["/srv/docs"], True),
        ("/srv/docs/...", ["/srv/docs"], True),
        ("/srv/docs\\..\\x", ["/srv/docs"], False),
    ],
)
def test_paths(path: str, roots: list[str], inside: bool) -> None:
    assert path_within(path, roots) is inside


@settings(max_examples=200, deadline=None)
@given(st.text("ab./", max_size=12), st.lists(st.sampled_from(["/", "/a", "/a/b", "/b"]), max_size=2))
def test_a_path_within_leads_nowhere_else(tail: str, roots: list[str]) -> None:
    import posixpath

    path = "/" + tail
    if path_within(path, roots):
        assert posixpath.normpath(path) == path, "only a path that is already plain is within anything"
        assert any(posixpath.commonpath([path, root]) == root for root in roots)
