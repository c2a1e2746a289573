"""When one capability allows another: exactly (DESIGN.md section 6, default deny; 18.1.3.2.5, 18.1.3.8.13).

A capability is a canonical dotted name, ``tool.files.read.readonly``: the operation and, as its last word, the scope. Matching is
equality and nothing else. No prefix, no wildcard, no order among scopes: ``execute`` does not cover ``readonly``, ``tool.files`` covers
nothing below it, so that adding one name to a policy adds exactly one right. Other spellings are read into this form by ``policy``.

A manifest says what an expert may *propose*. Its scope stands in its own field (18.1.3.2.5), so it may name the operation alone
(``tool.web.fetch`` with ``proposal_only``); the scope that is really granted is then the mandate's and the plan's word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gnus_node.records.enums import CapabilityScope

_SCOPES = frozenset(str(scope) for scope in CapabilityScope)


@dataclass(frozen=True, slots=True)
class Declared:
    """One entry of an expert's manifest: a canonical name and the scope it asks for."""

    name: str
    scope: CapabilityScope


def covers(granted: str, wanted: str) -> bool:
    """Whether a granted capability allows the wanted one: the same canonical name."""
    return bool(wanted) and granted == wanted


def covered(granted: Iterable[str], wanted: str) -> bool:
    """Whether any of the granted capabilities allows the wanted one."""
    return any(covers(each, wanted) for each in granted)


def scope_of(capability: str) -> str:
    """The scope word that ends a capability, or an empty text where it has none."""
    last = capability.rpartition(".")[2]
    return last if last in _SCOPES else ""


def operation_of(capability: str) -> str:
    """A capability without its scope word."""
    return capability.rpartition(".")[0] if scope_of(capability) else capability


def may_propose(manifest: Iterable[Declared], wanted: str) -> bool:
    """Whether a manifest declares that the expert proposes ``wanted``.

    ``proposal_only`` allows proposing it. ``readonly`` allows proposing a read-only capability. ``execute`` allows nothing here: an
    expert never executes, and a manifest that asks for it does not ask for less by that.
    """
    for entry in manifest:
        if not wanted or entry.name not in {wanted, operation_of(wanted)}:
            continue
        if entry.scope is CapabilityScope.PROPOSAL_ONLY:
            return True
        if entry.scope is CapabilityScope.READONLY and scope_of(wanted) == CapabilityScope.READONLY:
            return True
    return False
