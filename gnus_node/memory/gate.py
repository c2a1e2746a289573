"""The write gate: what is worth remembering, and as what (18.1.3.4.5). Pure; weights and thresholds are settings.

``write_score = w1*novelty + w2*expected_utility + w3*consistency - w4*contamination_risk`` and
``trusted_score = p1*provenance + p2*consensus + p3*attestation``, all scores 0..10000, weights in ten-thousandths. Higher trust is never decided here
alone: it needs a quorum certificate; the gate says only whether a candidate may ask for one.
"""

from __future__ import annotations

from dataclasses import dataclass

from gnus_node.records.base import SCORE_ONE


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Weights (ten-thousandths) and thresholds (scores)."""

    novelty: int = 4_000
    utility: int = 3_000
    consistency: int = 3_000
    contamination: int = 8_000
    provenance: int = 4_000
    consensus: int = 4_000
    attestation: int = 2_000
    write_threshold: int = 4_500
    trusted_threshold: int = 8_000


@dataclass(frozen=True, slots=True)
class GateInput:
    """What the gate looks at, each 0..10000."""

    novelty: int
    utility: int
    consistency: int
    contamination: int
    provenance: int
    consensus: int
    attestation: int


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The decision with its scores; ``write`` False means skip."""

    write: bool
    may_promote: bool
    write_score: int
    trusted_score: int


def decide(given: GateInput, settings: GateSettings | None = None) -> GateDecision:
    """Both formulas. Monotone: more novelty, utility, consistency never lowers the write score, more contamination never raises it."""
    s = settings or GateSettings()
    raised = s.novelty * given.novelty + s.utility * given.utility + s.consistency * given.consistency
    write_score = (raised - s.contamination * given.contamination) // SCORE_ONE
    trusted = (s.provenance * given.provenance + s.consensus * given.consensus + s.attestation * given.attestation) // SCORE_ONE
    write = write_score >= s.write_threshold
    return GateDecision(write, write and trusted >= s.trusted_threshold, max(0, min(SCORE_ONE, write_score)), min(SCORE_ONE, trusted))
