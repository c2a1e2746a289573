"""Merging and comparing ceilings, field by field (DESIGN.md section 2). Pure.

Merging takes the strictest of each field, so the order of policies does not matter. Comparing lists every field in which one set of
ceilings is wider than another; an empty list is containment.
"""

from __future__ import annotations

from collections.abc import Iterable

from gnus_node.records.authority import Ceilings
from gnus_node.records.errors import GnusError


def path_within(path: str, roots: Iterable[str]) -> bool:
    """Whether an absolute path is one of the roots or below one. Paths with ``.``, ``..`` or empty segments are within nothing."""
    segments = path.split("/")[1:]
    if not path.startswith("/") or (path != "/" and any(s in ("", ".", "..") for s in segments)):
        return False
    return any(root == "/" or path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _meet_paths(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    """The paths that both allow: of each pair the narrower one."""
    both = {p for p in a if path_within(p, b)} | {p for p in b if path_within(p, a)}
    return tuple(sorted(both))


def meet(a: Ceilings, b: Ceilings) -> Ceilings:
    """The widest ceilings within both."""
    return Ceilings(
        capabilities=tuple(sorted(set(a.capabilities) & set(b.capabilities))),
        domains=tuple(sorted(set(a.domains) & set(b.domains))),
        paths=_meet_paths(a.paths, b.paths),
        pre_granted=tuple(sorted(set(a.pre_granted) & set(b.pre_granted))),
        max_tokens=min(a.max_tokens, b.max_tokens),
        max_wall_ms=min(a.max_wall_ms, b.max_wall_ms),
        max_spend=min(a.max_spend, b.max_spend),
        max_turns=min(a.max_turns, b.max_turns),
        privacy_floor=max(a.privacy_floor, b.privacy_floor, key=lambda v: v.rank()),
        approval_floor=max(a.approval_floor, b.approval_floor, key=lambda v: v.rank()),
        memory_floor=max(a.memory_floor, b.memory_floor, key=lambda v: v.rank()),
    )


def merge(all_ceilings: Iterable[Ceilings]) -> Ceilings:
    """The meet of all. Raises ``POLICY_MISSING`` where there is none: without a policy nothing is allowed."""
    merged: Ceilings | None = None
    for ceilings in all_ceilings:
        merged = ceilings if merged is None else meet(merged, ceilings)
    if merged is None:
        raise GnusError("POLICY_MISSING", "no policy applies")
    return merged


def wider_fields(inner: Ceilings, outer: Ceilings) -> list[str]:
    """Fields in which ``inner`` is wider than ``outer``; empty means contained."""
    wide = []
    for name in ("capabilities", "domains", "pre_granted"):
        if not set(getattr(inner, name)) <= set(getattr(outer, name)):
            wide.append(name)
    if not all(path_within(p, outer.paths) for p in inner.paths):
        wide.append("paths")
    for name in ("max_tokens", "max_wall_ms", "max_spend", "max_turns"):
        if getattr(inner, name) > getattr(outer, name):
            wide.append(name)
    for name in ("privacy_floor", "approval_floor", "memory_floor"):
        if getattr(inner, name).rank() < getattr(outer, name).rank():
            wide.append(name)
    return wide
