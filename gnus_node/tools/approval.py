"""When a person must approve a call: the five conditions of 18.1.3.8.11 and two of ours, and the templates (DESIGN.md section 6).

Pure. The templates, weakest first: ``delegated`` waives the writing of capabilities that the policy pre-grants by name, where every
argument is proven and the dry run simulated the effect; ``default`` is the five conditions; ``step_by_step`` asks for every call;
``read_only`` asks for nothing it can refuse, every call that is not a read is refused before this (``decide``).

Invariants: a pre-grant waives conditions about writing only, never secrets, severe findings or a wish for steps. Conditions only add up.
"""

from __future__ import annotations

from dataclasses import dataclass

from gnus_node.records.enums import ApprovalMode, DryRunKind, EffectClass, WireEnum


class ApprovalReason(WireEnum):
    """Why a person must decide. The first five are the seed's, in its order."""

    WRITES = "writes_external_state"
    SECRETS = "accesses_secrets"
    FILES = "touches_non_readonly_files"
    SEVERE = "severe_risk_flags"
    STEP_BY_STEP = "step_by_step_policy"
    UNPROVEN = "unproven_arguments"
    NOT_SIMULATED = "write_not_simulated"


@dataclass(frozen=True, slots=True)
class ApprovalFacts:
    """What the conditions look at. ``proven``: every argument and the choice of the call come from trusted sources.

    ``pre_granted``: the merged policies name this very capability in ``Ceilings.pre_granted``.
    """

    effect: EffectClass
    secrets: bool
    writes_files: bool
    severe: bool
    mode: ApprovalMode
    plan_asks: bool
    proven: bool
    dry_run_kind: DryRunKind
    pre_granted: bool


def approval_reasons(facts: ApprovalFacts) -> tuple[ApprovalReason, ...]:
    """The conditions that hold, in their published order; empty means that nobody needs to be asked."""
    waived = facts.mode is ApprovalMode.DELEGATED and facts.pre_granted and facts.proven and facts.dry_run_kind is DryRunKind.SIMULATED
    writes = facts.effect is EffectClass.WRITE or facts.writes_files
    holds = {
        ApprovalReason.WRITES: facts.effect is EffectClass.WRITE and not waived,
        ApprovalReason.SECRETS: facts.secrets,
        ApprovalReason.FILES: facts.writes_files and not waived,
        ApprovalReason.SEVERE: facts.severe,
        ApprovalReason.STEP_BY_STEP: facts.plan_asks or facts.mode is ApprovalMode.STEP_BY_STEP,
        ApprovalReason.UNPROVEN: (writes or facts.effect is not EffectClass.READ) and not facts.proven,
        ApprovalReason.NOT_SIMULATED: writes and facts.dry_run_kind is not DryRunKind.SIMULATED,
    }
    return tuple(reason for reason in ApprovalReason if holds[reason])
