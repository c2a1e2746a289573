"""How far drafts agree: clusters of answers that say the same, and their divergence (18.1.3.3, 18.1.6.2). Pure.

Divergence is the Gini impurity of the clusters' weights: 0 where all weight agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from gnus_node.content.agreement import agree


def cluster(answers: Sequence[str]) -> list[int]:
    """A cluster number from 1 for each answer, in order; an answer joins the first cluster whose first member it agrees with."""
    firsts: list[str] = []
    numbers: list[int] = []
    for answer in answers:
        for index, first in enumerate(firsts):
            if agree(answer, first):
                numbers.append(index + 1)
                break
        else:
            firsts.append(answer)
            numbers.append(len(firsts))
    return numbers


def divergence(weights: Sequence[int]) -> int:
    """Gini impurity of cluster weights, 0..10000."""
    total = sum(weights)
    if total <= 0:
        return 0
    return round(10_000 * (1 - sum(Fraction(w, total) ** 2 for w in weights)))
