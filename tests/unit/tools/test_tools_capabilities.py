"""Capabilities match exactly, and manifests only ever allow proposing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.enums import CapabilityScope
from gnus_node.tools.capabilities import Declared, covered, covers, may_propose, operation_of, scope_of

READ = "tool.files.read.readonly"
names = st.from_regex(r"[a-z]{1,4}(\.[a-z]{1,4}){1,4}(\.(readonly|execute|proposal_only))?", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(names, names)
def test_only_the_same_name_covers(granted: str, wanted: str) -> None:
    assert covers(granted, wanted) == (granted == wanted)


@pytest.mark.parametrize(
    "granted", ["tool.files.read", "tool.files", "tool.files.read.execute", "tool.files.read.readonly.x", "*", "", "tool.*"]
)
def test_neighbours_and_wildcards_cover_nothing(granted: str) -> None:
    assert not covers(granted, READ)
    assert not covered([granted], READ)


def test_the_empty_capability_is_never_granted() -> None:
    assert not covers("", "")
    assert not may_propose([Declared("", CapabilityScope.PROPOSAL_ONLY)], "")


def test_scope_and_operation() -> None:
    assert (scope_of(READ), operation_of(READ)) == ("readonly", "tool.files.read")
    assert (scope_of("tool.web.fetch"), operation_of("tool.web.fetch")) == ("", "tool.web.fetch")


@pytest.mark.parametrize(
    ("name", "scope", "wanted", "allowed"),
    [
        ("tool.web.fetch", CapabilityScope.PROPOSAL_ONLY, "tool.web.fetch.readonly", True),  # the seed's own manifest
        (READ, CapabilityScope.PROPOSAL_ONLY, READ, True),
        (READ, CapabilityScope.READONLY, READ, True),
        ("tool.files.write", CapabilityScope.READONLY, "tool.files.write.execute", False),
        ("tool.files.write", CapabilityScope.EXECUTE, "tool.files.write.execute", False),
        ("tool.files", CapabilityScope.PROPOSAL_ONLY, READ, False),
        ("memory.retrieve", CapabilityScope.READONLY, READ, False),
    ],
)
def test_what_a_manifest_lets_an_expert_propose(name: str, scope: CapabilityScope, wanted: str, allowed: bool) -> None:
    assert may_propose([Declared(name, scope)], wanted) is allowed


def test_an_empty_manifest_proposes_nothing() -> None:
    assert not may_propose([], READ)
