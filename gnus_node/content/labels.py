"""Labels: how far a value may be believed, and who may see it (DESIGN.md section 6, "Untrusted until proven").

A label is a pair; what is made from several values carries their join: the least integrity, the strictest confidentiality. The order is
total in each part, so join is associative, commutative and idempotent, and labels only ever get worse along a flow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from gnus_node.records.enums import PrivacyScope

Confidentiality = PrivacyScope
"""Who may see a value, widest first; the same scale as privacy scopes, so that labels and scopes compare."""


class Integrity(IntEnum):
    """How far a value may be believed; higher is better."""

    UNTRUSTED = 0
    """Tool output, web content, model text: anybody may have written it."""
    SOURCE_TRUSTED = 1
    """A field of a source that policy trusts, read as data."""
    TRUSTED = 2
    """The user's query, signed policy, higher-trust memory."""


@dataclass(frozen=True, slots=True)
class Label:
    """Integrity and confidentiality of one value."""

    integrity: Integrity
    confidentiality: Confidentiality

    def join(self, other: Label) -> Label:
        """The label of something made from both."""
        return Label(
            min(self.integrity, other.integrity),
            max(self.confidentiality, other.confidentiality, key=lambda scope: scope.rank()),
        )

    def may_flow_to(self, scope: Confidentiality) -> bool:
        """Whether a destination of this scope is at least as strict as the value asks."""
        return self.confidentiality.rank() <= scope.rank()


BEST = Label(Integrity.TRUSTED, Confidentiality.PUBLIC)
"""The neutral element of ``join``: the label of nothing."""


def join_all(labels: Iterable[Label]) -> Label:
    """The join of any number of labels; ``BEST`` for none."""
    result = BEST
    for label in labels:
        result = result.join(label)
    return result
