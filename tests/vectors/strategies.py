"""Hypothesis strategies for arbitrary valid bodies, built from the field types by a walk of their own."""

from __future__ import annotations

import typing
from enum import Enum
from functools import cache
from typing import Any

from hypothesis import strategies as st

from gnus_node.records.authority import CapabilityName, Domainname, PathRoot
from gnus_node.records.base import FixedPoint, Name, NodeId, Part, RawBytes, ReasonCode, Uuid, Version
from tests.vectors.support import _limits, is_set, split

MAX_LENGTH = 3


def of_type(annotation: Any) -> st.SearchStrategy[Any]:
    base, marks = split(annotation)
    limits = _limits(marks)
    for mark in marks:
        if isinstance(mark, RawBytes):
            return st.binary(min_size=mark.size, max_size=mark.size)
        if isinstance(mark, FixedPoint):
            return st.integers(0, mark.maximum)
    if typing.get_origin(base) is tuple:
        return _listing(typing.get_args(base)[0], min(limits.get("max_length", MAX_LENGTH), MAX_LENGTH), is_set(marks))
    if base is bytes:
        return st.binary(min_size=limits.get("min_length", 0), max_size=min(limits["max_length"], 64))
    if base is bool:
        return st.booleans()
    if base is int:
        return st.integers(limits.get("ge", -(2**40)), limits.get("le", 2**40))
    if base is str:
        return _text(limits)
    if issubclass(base, Enum):
        return st.sampled_from(list(base))
    if issubclass(base, Part):
        return bodies(base)
    raise AssertionError(f"no strategy for {base}")


def _listing(item: Any, most: int, as_set: bool) -> st.SearchStrategy[Any]:
    items = of_type(item)
    if not as_set:
        return st.lists(items, max_size=most).map(tuple)
    return st.lists(items, max_size=most, unique=True).map(lambda values: tuple(sorted(values)))


_NUMBER = st.integers(0, 10**6)
_BY_TYPE: tuple[tuple[Any, st.SearchStrategy[str]], ...] = (
    (CapabilityName, _NUMBER.map(lambda n: f"tool.t{n % 7}.c_{n}")),
    (Domainname, _NUMBER.map(lambda n: f"d-{n % 7}.example{n}")),
    (PathRoot, st.one_of(st.just("/"), st.text("ab/ .é", max_size=8).map(lambda t: "/" + t))),
    (Uuid, _NUMBER.map(lambda n: f"{n:08x}-0000-4000-8000-{n * 977:012x}")),
    (ReasonCode, st.text("AZ09_", max_size=8).map(lambda t: "C" + t)),
    (NodeId, st.text("az09-", max_size=8).map(lambda t: "n" + t)),
    (Version, st.text("0aZ.+-", max_size=8).map(lambda t: "1" + t)),
    (Name, st.text("aZ09._:/@+-", max_size=12).map(lambda t: "N" + t)),
)
_BY_PATTERN = {_limits(split(kind)[1])["pattern"]: strategy for kind, strategy in _BY_TYPE}
"""A quick strategy for each pattern of ``records``; ``from_regex`` costs far more and finds no other faults."""


def _text(limits: dict[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" in limits:
        return _BY_PATTERN[limits["pattern"]]
    return st.text(
        st.characters(codec="utf-8"), min_size=max(limits.get("min_length", 0), 1), max_size=min(limits.get("max_length", 20), 20)
    )


@cache
def bodies(part: type[Part]) -> st.SearchStrategy[Any]:
    """Arbitrary valid values of a part."""
    hints = typing.get_type_hints(part, include_extras=True)
    required = {name: of_type(hints[name]) for name, info in part.model_fields.items() if info.is_required()}
    optional = {name: of_type(hints[name]) for name, info in part.model_fields.items() if not info.is_required()}
    return st.fixed_dictionaries(required, optional=optional).map(part.model_validate)
