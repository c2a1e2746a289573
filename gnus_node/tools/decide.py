"""The checks of one tool proposal, in their published order (DESIGN.md section 6; 18.1.3.8.2, .8, .11).

Pure: the mediator gathers verified plain values into a ``MediationInput``; ``decide`` answers. Signatures, containment and freshness of the
records themselves are ``evidence``'s and ``policy``'s verdicts and come in as values; so do the taint and the sanitiser's findings.

Invariants: default deny (every field that is missing denies); the first failing check decides and names itself; narrowing any
capability set, scope or verdict never turns a refusal into an allowance; a check holds alone (without it, some refused case would pass).

The order has three phases. ``door`` asks who calls and with what authority, ``proposal`` judges the call before its dry run, ``outcome``
the dry run and what it showed. A refusal before the dry run belongs to the proposal, not to the effect: it is attested, but leaves no
effect row and moves none, so that a stale router, or a second expert without the right, cannot use up an effect key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gnus_node.records.enums import ApprovalMode, DryRunKind, EffectClass, EffectState, WireEnum
from gnus_node.records.errors import CODES
from gnus_node.tools.adapter import AdapterProfile, DryRun, ToolScope, ValidCall
from gnus_node.tools.approval import ApprovalFacts, approval_reasons
from gnus_node.tools.capabilities import Declared, covered, may_propose
from gnus_node.tools.effects import blocks_dependents
from gnus_node.tools.paths import is_below


class Phase(WireEnum):
    """When a check runs."""

    DOOR = "door"
    PROPOSAL = "proposal"
    OUTCOME = "outcome"


class Taint(WireEnum):
    """The taint verdict on a call: integrity of its arguments and choice, confidentiality of what would leave."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    FORBIDDEN = "forbidden"


class Approved(WireEnum):
    """Where a person's decision stands, as verified against effect key and attestation."""

    NONE = "none"
    GRANTED = "granted"
    DENIED = "denied"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Findings:
    """The sanitiser's verdict on what the dry run (or the real run) showed. ``blocked``: policy refuses these flags outright."""

    usable: bool
    severe: bool = False
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class MediationInput:
    """All that the checks look at; nothing is looked up. The defaults deny.

    ``records_refusal``: code with which mandate, plan, Dispatch or ExpertOutput failed to verify or to be contained, empty if none did.
    ``contract``: what a boundary contract allows, None where no catalog is installed. ``call_refusal``: code with which the adapter's
    ``validate`` refused, empty if ``call`` is set. ``recorded``: state of this effect key in the log, None for a new one.
    ``dependencies``: states of the effects whose outcome this call builds on. None for taint, dry run or findings means not established.
    """

    is_router_peer: bool = False
    generation_current: bool = False
    now_ms: int = 0
    lease_not_after_ms: int = 0
    records_refusal: str = "CHAIN_BROKEN"
    proposal_in_output: bool = False
    selected: bool = False
    is_pinned_intermediary: bool = False
    trust_fresh: bool = False
    dependencies: tuple[EffectState, ...] = ()
    profile: AdapterProfile | None = None
    mandate_capabilities: frozenset[str] = frozenset()
    plan_capabilities: frozenset[str] = frozenset()
    manifest: frozenset[Declared] = frozenset()
    contract: frozenset[str] | None = None
    approval_mode: ApprovalMode = ApprovalMode.READ_ONLY
    pre_granted: frozenset[str] = frozenset()
    plan_requires_dry_run: bool = False
    plan_human_approval: bool = True
    scope: ToolScope = field(default_factory=ToolScope)
    call: ValidCall | None = None
    call_refusal: str = ""
    recorded: EffectState | None = None
    taint: Taint | None = None
    dry_run: DryRun | None = None
    dry_run_timed_out: bool = False
    findings: Findings | None = None
    approved: Approved = Approved.NONE

    @property
    def is_read(self) -> bool:
        """Whether the tool only reads; an unknown tool does not."""
        return self.profile is not None and self.profile.effect is EffectClass.READ

    @property
    def wanted(self) -> str:
        """The capability the tool needs; empty, and so granted by nothing, for an unknown tool."""
        return self.profile.capability if self.profile is not None else ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer. ``reason_code`` is ``OK`` or a code of the error table; ``check`` names the deciding check.

    ``approval_required`` says that a person must decide (then ``allow`` is False until one has). ``evidence`` holds names, codes and
    counts only, never argument text.
    """

    allow: bool
    reason_code: str
    approval_required: bool = False
    check: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


Test = Callable[[MediationInput], bool]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: ``passes`` True lets the proposal go on to the next; otherwise ``reason_code`` is the answer."""

    name: str
    reason_code: str
    phase: Phase
    what: str
    passes: Test


def _arguments_valid(m: MediationInput) -> bool:
    if m.call is None:
        return m.call_refusal in _SCOPE_CODES
    return m.profile is None or (m.call.tool == m.profile.name and isinstance(m.call.arguments, m.profile.arguments))


def _path_policy(m: MediationInput) -> bool:
    if m.call is None:
        return m.call_refusal != "PATH_DENIED"
    paths = (*m.call.read_paths, *m.call.write_paths)
    return all(any(is_below(path, root) for root in m.scope.paths) for path in paths)


def _egress_policy(m: MediationInput) -> bool:
    if m.call is None:
        return m.call_refusal != "EGRESS_DENIED"
    return all(domain in m.scope.domains for domain in m.call.domains)


def _writes_declared(m: MediationInput) -> bool:
    """A tool that says it reads has no call that changes a file."""
    return m.call is None or not (m.is_read and m.call.write_paths)


def _no_surprise(m: MediationInput) -> bool:
    """A dry run that shows network or secrets which the call and the profile did not name is not believed."""
    if m.dry_run is None or m.call is None or m.profile is None:
        return True
    shown = m.dry_run.effects
    packets = bool(shown.network_requests) and not m.call.domains
    secrets = shown.secrets_required and not (m.profile.secrets_required or m.call.secrets)
    files = bool(shown.filesystem_access) and not (m.call.read_paths or m.call.write_paths)
    return not (packets or secrets or files)


_SCOPE_CODES = frozenset({"PATH_DENIED", "EGRESS_DENIED"})
_OPEN = frozenset({EffectState.PROPOSED, EffectState.DRY_RUN, EffectState.AWAITING_APPROVAL, EffectState.AUTHORISED})
_D, _P, _O = Phase.DOOR, Phase.PROPOSAL, Phase.OUTCOME

CHECKS: tuple[Check, ...] = (
    Check("router_peer", "WRONG_PEER", _D, "the peer is the router of this generation", lambda m: m.is_router_peer),
    Check("generation_current", "FENCED", _D, "no higher generation was seen", lambda m: m.generation_current),
    Check("lease_live", "LEASE_EXPIRED", _D, "the router's lease still runs", lambda m: m.now_ms < m.lease_not_after_ms),
    Check("records_verified", "CHAIN_BROKEN", _D, "mandate, plan, Dispatch, ExpertOutput hold", lambda m: m.records_refusal == ""),
    Check("proposal_in_output", "CHAIN_BROKEN", _D, "the proposal stands in that signed output", lambda m: m.proposal_in_output),
    Check("selected", "NOT_SELECTED", _D, "the proposal is of the selected draft", lambda m: m.selected),
    Check("tool_known", "UNKNOWN_TOOL", _D, "the allow-list has an adapter for it", lambda m: m.profile is not None),
    Check(
        "pinned", "DISPATCH_EXCEEDS_PLAN", _D, "other than reads: the plan pins this node", lambda m: m.is_read or m.is_pinned_intermediary
    ),
    Check("trust_fresh", "TRUST_STALE", _D, "other than reads: the trust head is fresh", lambda m: m.is_read or m.trust_fresh),
    Check(
        "dependencies_known",
        "EFFECT_INDETERMINATE",
        _D,
        "the outcome of every effect it builds on is known",
        lambda m: not any(blocks_dependents(state) for state in m.dependencies),
    ),
    Check(
        "effect_determinate",
        "EFFECT_INDETERMINATE",
        _D,
        "this effect is not indeterminate; such a one never runs again",
        lambda m: m.recorded is not EffectState.INDETERMINATE,
    ),
    Check(
        "effect_unused",
        "REPLAYED",
        _D,
        "this effect has not started and is not settled",
        lambda m: m.recorded is None or m.recorded in _OPEN or m.recorded is EffectState.INDETERMINATE,
    ),
    Check("capability_mandate", "CAPABILITY_DENIED", _P, "the mandate allows it", lambda m: covered(m.mandate_capabilities, m.wanted)),
    Check("capability_plan", "CAPABILITY_DENIED", _P, "the plan whitelists it", lambda m: covered(m.plan_capabilities, m.wanted)),
    Check("capability_manifest", "MANIFEST_MISSING", _P, "the expert's manifest declares it", lambda m: may_propose(m.manifest, m.wanted)),
    Check(
        "capability_contract",
        "CAPABILITY_DENIED",
        _P,
        "the boundary contract allows it, where there is one",
        lambda m: m.contract is None or covered(m.contract, m.wanted),
    ),
    Check(
        "read_only_template",
        "CAPABILITY_DENIED",
        _P,
        "template read_only: it is a read",
        lambda m: m.is_read or m.approval_mode is not ApprovalMode.READ_ONLY,
    ),
    Check("arguments_valid", "BAD_ARGUMENTS", _P, "the arguments fit the adapter's schema", _arguments_valid),
    Check("path_policy", "PATH_DENIED", _P, "every path is below an allowed root", _path_policy),
    Check("egress_policy", "EGRESS_DENIED", _P, "every host is an allowed domain", _egress_policy),
    Check("writes_declared", "CAPABILITY_DENIED", _P, "a read changes no file", _writes_declared),
    Check("taint_known", "TAINTED", _P, "the taint of the call was established", lambda m: m.taint is not None),
    Check("taint_permitted", "TAINTED", _P, "nothing leaves that policy forbids to leave", lambda m: m.taint is not Taint.FORBIDDEN),
    Check("dry_run_required", "PLAN_EXCEEDS_MANDATE", _P, "the plan demands the dry run (18.1.3.8.8)", lambda m: m.plan_requires_dry_run),
    Check("dry_run_in_time", "DRY_RUN_TIMEOUT", _O, "the dry run ended in time (18.1.6.1.1)", lambda m: not m.dry_run_timed_out),
    Check("dry_run_ok", "DRY_RUN_FAILED", _O, "there is a dry run, and it succeeded", lambda m: m.dry_run is not None and m.dry_run.ok),
    Check("dry_run_consistent", "DRY_RUN_FAILED", _O, "it showed only what the call named", _no_surprise),
    Check("sanitised", "SANITIZER_FAILED", _O, "the sanitiser finished", lambda m: m.findings is not None and m.findings.usable),
    Check("trap_policy", "TRAP_DETECTED", _O, "no finding that policy blocks", lambda m: m.findings is None or not m.findings.blocked),
    Check("not_denied", "APPROVAL_DENIED", _O, "no person denied it", lambda m: m.approved is not Approved.DENIED),
    Check("not_expired", "EXPIRED", _O, "no approval ran out waiting", lambda m: m.approved is not Approved.EXPIRED),
)
"""The published order. Approval is judged after all of them, by ``approval.approval_reasons``."""


def admit(given: MediationInput, checks: tuple[Check, ...] = CHECKS) -> Decision:
    """What can be said before a dry run: refuses as ``decide`` would; ``OK`` means that a dry run is due, not that anything may run."""
    return _first_failure(given, tuple(check for check in checks if check.phase is not Phase.OUTCOME)) or Decision(True, "OK")


def decide(given: MediationInput, checks: tuple[Check, ...] = CHECKS) -> Decision:
    """The whole decision after the dry run. ``allow`` means: attest it and execute it, exactly as proposed, now."""
    refused = _first_failure(given, checks)
    if refused is not None:
        return refused
    reasons = approval_reasons(approval_facts(given))
    evidence = {"approval_reasons": [str(reason) for reason in reasons]}
    if reasons and given.approved is not Approved.GRANTED:
        return Decision(False, "APPROVAL_REQUIRED", True, "approval", evidence)
    return Decision(True, "OK", bool(reasons), "", evidence)


def approval_facts(given: MediationInput) -> ApprovalFacts:
    """The approval conditions' view of the input; whatever is missing counts as the worse."""
    profile, call, run, findings = given.profile, given.call, given.dry_run, given.findings
    return ApprovalFacts(
        effect=profile.effect if profile is not None else EffectClass.WRITE,
        secrets=(profile is None or profile.secrets_required)
        or (call is None or bool(call.secrets))
        or (run is None or run.effects.secrets_required),
        writes_files=call is None or bool(call.write_paths),
        severe=findings is None or findings.severe,
        mode=given.approval_mode,
        plan_asks=given.plan_human_approval,
        proven=given.taint is Taint.PROVEN,
        dry_run_kind=run.kind if run is not None else DryRunKind.NONE,
        pre_granted=covered(given.pre_granted, given.wanted),
    )


def moves_effect(decision: Decision) -> bool:
    """Whether a decision concerns the effect, and so its row in the log, and not just this proposal of it."""
    return not any(check.name == decision.check and check.phase is not Phase.OUTCOME for check in CHECKS)


def _first_failure(given: MediationInput, checks: tuple[Check, ...]) -> Decision | None:
    for check in checks:
        if not check.passes(given):
            detail = {
                "records_verified": given.records_refusal,
                "arguments_valid": given.call_refusal,
                "dry_run_ok": given.dry_run.code if given.dry_run is not None else "",
            }.get(check.name, "")
            evidence: dict[str, Any] = {"check": check.name}
            if detail in CODES:
                evidence["code"] = detail
            return Decision(False, check.reason_code, False, check.name, evidence)
    return None


def checks_table() -> str:
    """The order as Markdown, for the generated docs."""
    lines = ["| # | phase | check | refuses with | passes where |", "|---|---|---|---|---|"]
    lines += [f"| {n} | {c.phase} | `{c.name}` | `{c.reason_code}` | {c.what} |" for n, c in enumerate(CHECKS, 1)]
    lines.append(
        f"| {len(CHECKS) + 1} | outcome | `approval` | `APPROVAL_REQUIRED` | no condition of 18.1.3.8.11 holds, or a person approved |"
    )
    return "\n".join(lines) + "\n"
