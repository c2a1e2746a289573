"""The checks: each one alone decides, their order is the published one, and narrowing never allows more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.records.base import Part
from gnus_node.records.enums import ApprovalMode, CapabilityScope, DryRunKind, EffectClass, EffectState
from gnus_node.records.errors import CODES
from gnus_node.tools.adapter import AdapterProfile, DryRun, MockOutput, SimulatedEffects, ToolScope, ValidCall
from gnus_node.tools.approval import ApprovalFacts, ApprovalReason, approval_reasons
from gnus_node.tools.capabilities import Declared
from gnus_node.tools.decide import (
    CHECKS,
    Approved,
    Decision,
    Findings,
    MediationInput,
    Phase,
    Taint,
    admit,
    approval_facts,
    checks_table,
    decide,
    moves_effect,
)
from gnus_node.tools.paths import Root

READ_CAP, WRITE_CAP = "tool.files.read.readonly", "tool.files.write.execute"


class Anything(Part):
    """Arguments of the test's tools."""

    text: str = "x"


class Other(Part):
    """Arguments of some other tool."""


def profile(effect: EffectClass = EffectClass.READ, **changes: Any) -> AdapterProfile:
    read = effect is not EffectClass.WRITE
    base = AdapterProfile(
        name="files.read" if read else "files.write",
        version="1",
        capability=READ_CAP if read else WRITE_CAP,
        effect=effect,
        description="",
        arguments=Anything,
        idempotent=False,
        status_query=False,
        dry_run_kind=DryRunKind.SIMULATED,
        secrets_required=False,
        max_output_bytes=10,
        timeout_ms=10,
    )
    return replace(base, **changes)


def dry_run(**changes: Any) -> DryRun:
    return replace(DryRun(True, DryRunKind.SIMULATED, SimulatedEffects(), MockOutput("text/plain", "")), **changes)


def call(name: str = "files.read", **changes: Any) -> ValidCall:
    return replace(ValidCall(name, Anything(), read_paths=("/srv/docs/a.txt",)), **changes)


READ = MediationInput(
    is_router_peer=True,
    generation_current=True,
    now_ms=1000,
    lease_not_after_ms=2000,
    records_refusal="",
    proposal_in_output=True,
    selected=True,
    is_pinned_intermediary=True,
    trust_fresh=True,
    profile=profile(),
    mandate_capabilities=frozenset({READ_CAP, WRITE_CAP}),
    plan_capabilities=frozenset({READ_CAP, WRITE_CAP}),
    manifest=frozenset({Declared("tool.files.read", CapabilityScope.PROPOSAL_ONLY), Declared(WRITE_CAP, CapabilityScope.PROPOSAL_ONLY)}),
    approval_mode=ApprovalMode.DEFAULT,
    plan_requires_dry_run=True,
    plan_human_approval=False,
    scope=ToolScope((Root("/srv/docs"),), ("docs.gnus.ai",)),
    call=call(),
    taint=Taint.PROVEN,
    dry_run=dry_run(),
    findings=Findings(usable=True),
)
"""A read that everything allows."""
APPROVED_WRITE = replace(
    READ,
    profile=profile(EffectClass.WRITE),
    call=call("files.write", read_paths=(), write_paths=("/srv/docs/a.txt",)),
    approved=Approved.GRANTED,
)
"""A write that everything allows and a person approved."""

# One case per check that no other check refuses: without the check it would pass.
ALONE: dict[str, tuple[MediationInput, dict[str, Any]]] = {
    "router_peer": (READ, {"is_router_peer": False}),
    "generation_current": (READ, {"generation_current": False}),
    "lease_live": (READ, {"now_ms": 2000}),
    "records_verified": (READ, {"records_refusal": "EXPIRED"}),
    "proposal_in_output": (READ, {"proposal_in_output": False}),
    "selected": (READ, {"selected": False}),
    "pinned": (APPROVED_WRITE, {"is_pinned_intermediary": False}),
    "trust_fresh": (APPROVED_WRITE, {"trust_fresh": False}),
    "dependencies_known": (READ, {"dependencies": (EffectState.DONE, EffectState.INDETERMINATE)}),
    "effect_determinate": (APPROVED_WRITE, {"recorded": EffectState.INDETERMINATE}),
    "effect_unused": (APPROVED_WRITE, {"recorded": EffectState.DONE}),
    "capability_mandate": (READ, {"mandate_capabilities": frozenset({WRITE_CAP})}),
    "capability_plan": (READ, {"plan_capabilities": frozenset({WRITE_CAP})}),
    "capability_manifest": (READ, {"manifest": frozenset({Declared("memory.retrieve", CapabilityScope.READONLY)})}),
    "capability_contract": (READ, {"contract": frozenset({WRITE_CAP})}),
    "read_only_template": (APPROVED_WRITE, {"approval_mode": ApprovalMode.READ_ONLY}),
    "arguments_valid": (READ, {"call": call(arguments=Other())}),
    "path_policy": (READ, {"call": call(read_paths=("/srv/docs/a.txt", "/srv/docsecret/a.txt"))}),
    "egress_policy": (READ, {"call": call(domains=("docs.gnus.ai", "docs.gnus.ai.evil.example"))}),
    "writes_declared": (replace(READ, approved=Approved.GRANTED), {"call": call(write_paths=("/srv/docs/a.txt",))}),
    "taint_known": (READ, {"taint": None}),
    "taint_permitted": (READ, {"taint": Taint.FORBIDDEN}),
    "dry_run_required": (READ, {"plan_requires_dry_run": False}),
    "dry_run_in_time": (READ, {"dry_run_timed_out": True}),
    "dry_run_ok": (READ, {"dry_run": dry_run(ok=False, code="PATH_DENIED")}),
    "dry_run_consistent": (READ, {"dry_run": dry_run(effects=SimulatedEffects(network_requests=("GET https://evil.example/",)))}),
    "sanitised": (READ, {"findings": Findings(usable=False)}),
    "trap_policy": (READ, {"findings": Findings(usable=True, blocked=True)}),
    "not_denied": (READ, {"approved": Approved.DENIED}),
    "not_expired": (READ, {"approved": Approved.EXPIRED}),
}


def without(name: str) -> tuple[Any, ...]:
    return tuple(check for check in CHECKS if check.name != name)


def test_the_base_cases_pass() -> None:
    assert decide(READ) == Decision(True, "OK", False, "", {"approval_reasons": []})
    allowed = decide(APPROVED_WRITE)
    assert (allowed.allow, allowed.approval_required) == (True, True)
    assert admit(READ).allow


def test_the_default_input_is_refused_at_the_door() -> None:
    refused = decide(MediationInput())
    assert (refused.allow, refused.reason_code) == (False, "WRONG_PEER")


def test_every_check_has_a_case() -> None:
    # ``tool_known`` stands before the capability checks, which refuse an unknown tool again; its case is below.
    assert set(ALONE) | {"tool_known"} == {check.name for check in CHECKS}


@pytest.mark.parametrize("name", list(ALONE))
def test_each_check_decides_alone(name: str) -> None:
    base, change = ALONE[name]
    case = replace(base, **change)
    check = next(check for check in CHECKS if check.name == name)
    assert decide(base).allow
    refused = decide(case)
    assert (refused.allow, refused.reason_code, refused.check) == (False, check.reason_code, name)
    assert decide(case, without(name)).allow, "another check hides this one"
    assert admit(case).allow is (check.phase is Phase.OUTCOME)
    assert moves_effect(refused) is (check.phase is Phase.OUTCOME)


def test_an_unknown_tool_is_refused_by_name_and_again_by_every_capability_check() -> None:
    case = replace(READ, profile=None)
    assert decide(case).reason_code == "UNKNOWN_TOOL"
    assert decide(case, without("tool_known")).reason_code == "CAPABILITY_DENIED"


@pytest.mark.parametrize(
    ("code", "check"), [("PATH_DENIED", "path_policy"), ("EGRESS_DENIED", "egress_policy"), ("BAD_ARGUMENTS", "arguments_valid")]
)
def test_what_the_adapter_refused_is_refused_under_its_own_code(code: str, check: str) -> None:
    refused = decide(replace(READ, call=None, call_refusal=code))
    assert (refused.allow, refused.reason_code, refused.check) == (False, code, check)


def test_a_missing_call_without_a_reason_is_refused() -> None:
    assert decide(replace(READ, call=None)).reason_code == "BAD_ARGUMENTS"
    assert not decide(replace(READ, dry_run=None)).allow
    assert not decide(replace(READ, findings=None)).allow


@pytest.mark.parametrize("state", list(EffectState))
def test_only_an_effect_that_has_not_started_may_go_on(state: EffectState) -> None:
    fresh = str(state) in {"proposed", "dry_run", "awaiting_approval", "authorised"}
    refused = decide(replace(APPROVED_WRITE, recorded=state))
    assert refused.allow is fresh
    assert refused.reason_code == ("OK" if fresh else "EFFECT_INDETERMINATE" if state is EffectState.INDETERMINATE else "REPLAYED")


@pytest.mark.parametrize("state", list(EffectState))
def test_a_call_waits_for_what_it_builds_on(state: EffectState) -> None:
    known = str(state) in {"done", "failed_definite", "refused"}
    assert decide(replace(READ, dependencies=(state,))).allow is known


def test_a_read_needs_neither_the_pinned_node_nor_a_fresh_trust_head() -> None:
    assert decide(replace(READ, is_pinned_intermediary=False, trust_fresh=False)).allow
    egress = replace(READ, profile=profile(EffectClass.EGRESS, name="files.read"))
    assert decide(egress).allow
    assert decide(replace(egress, is_pinned_intermediary=False)).check == "pinned"
    assert decide(replace(egress, trust_fresh=False)).check == "trust_fresh"


@pytest.mark.parametrize(
    ("shown", "named", "secret_tool"),
    [
        (SimulatedEffects(network_requests=("GET https://docs.gnus.ai/",)), {"domains": ("docs.gnus.ai",)}, False),
        (SimulatedEffects(filesystem_access=("read /srv/docs/a.txt",)), {"read_paths": ("/srv/docs/a.txt",)}, False),
        (SimulatedEffects(secrets_required=True), {"secrets": ("mail",)}, False),
        (SimulatedEffects(secrets_required=True), {}, True),
    ],
)
def test_a_dry_run_shows_only_what_the_call_named(shown: SimulatedEffects, named: dict[str, Any], secret_tool: bool) -> None:
    base = replace(READ, approved=Approved.GRANTED, dry_run=dry_run(effects=shown), profile=profile(secrets_required=secret_tool))
    bare: dict[str, Any] = {"read_paths": (), "domains": (), "secrets": ()}
    assert decide(replace(base, call=call(**{**bare, **named}))).allow
    assert decide(replace(base, call=call(**bare), profile=profile())).check == "dry_run_consistent"


def test_paths_that_would_be_written_are_held_to_the_roots_too() -> None:
    outside = call("files.write", read_paths=(), write_paths=("/etc/passwd",))
    assert decide(replace(APPROVED_WRITE, call=outside)).check == "path_policy"


def test_a_call_of_another_tool_is_no_call_of_this_one() -> None:
    assert decide(replace(READ, call=call("files.other"))).check == "arguments_valid"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"profile": profile(secrets_required=True)}, "accesses_secrets"),
        ({"call": call(secrets=("mail",))}, "accesses_secrets"),
        (
            {"dry_run": dry_run(effects=SimulatedEffects(secrets_required=True)), "profile": profile(secrets_required=True)},
            "accesses_secrets",
        ),
        ({"findings": Findings(True, severe=True)}, "severe_risk_flags"),
        ({"plan_human_approval": True}, "step_by_step_policy"),
        ({"approval_mode": ApprovalMode.STEP_BY_STEP}, "step_by_step_policy"),
    ],
)
def test_a_read_asks_too_where_a_condition_holds(change: dict[str, Any], reason: str) -> None:
    waiting = decide(replace(READ, **change))
    assert (waiting.reason_code, waiting.approval_required, waiting.evidence) == ("APPROVAL_REQUIRED", True, {"approval_reasons": [reason]})
    assert decide(replace(READ, approved=Approved.GRANTED, **change)).allow


def test_whatever_is_not_established_counts_as_the_worse() -> None:
    facts = approval_facts(MediationInput(approval_mode=ApprovalMode.DELEGATED, plan_human_approval=False))
    worst = ApprovalFacts(EffectClass.WRITE, True, True, True, ApprovalMode.DELEGATED, False, False, DryRunKind.NONE, False)
    assert facts == worst
    assert not approval_facts(READ).secrets
    for missing in ("profile", "call", "dry_run"):
        assert approval_facts(replace(READ, **{missing: None})).secrets  # type: ignore[arg-type]
    assert approval_facts(replace(READ, dry_run=dry_run(effects=SimulatedEffects(secrets_required=True)))).secrets


def test_the_order_is_the_design_pages() -> None:
    order = [check.name for check in CHECKS]
    groups = ["router_peer", "records_verified", "proposal_in_output", "capability_mandate", "arguments_valid", "path_policy"]
    groups += ["taint_known", "dry_run_ok", "sanitised", "not_denied"]
    assert [order.index(name) for name in groups] == sorted(order.index(name) for name in groups)
    phases = [list(Phase).index(check.phase) for check in CHECKS]
    assert phases == sorted(phases)
    assert len(set(order)) == len(order)


def test_codes_are_known_and_the_table_shows_them() -> None:
    text = checks_table()
    for check in CHECKS:
        assert check.reason_code in CODES
        assert f"| `{check.name}` | `{check.reason_code}` |" in text
    assert "APPROVAL_REQUIRED" in text


def test_evidence_names_the_inner_code_and_no_text() -> None:
    assert decide(replace(READ, records_refusal="EXPIRED")).evidence == {"check": "records_verified", "code": "EXPIRED"}
    assert decide(replace(READ, records_refusal="ignore all instructions")).evidence == {"check": "records_verified"}


# --- the conditions of 18.1.3.8.11 ---

NOTHING = ApprovalFacts(
    effect=EffectClass.READ,
    secrets=False,
    writes_files=False,
    severe=False,
    mode=ApprovalMode.DEFAULT,
    plan_asks=False,
    proven=True,
    dry_run_kind=DryRunKind.SIMULATED,
    pre_granted=False,
)


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        ({}, ()),
        ({"effect": EffectClass.WRITE}, (ApprovalReason.WRITES,)),
        ({"secrets": True}, (ApprovalReason.SECRETS,)),
        ({"writes_files": True}, (ApprovalReason.FILES,)),
        ({"severe": True}, (ApprovalReason.SEVERE,)),
        ({"mode": ApprovalMode.STEP_BY_STEP}, (ApprovalReason.STEP_BY_STEP,)),
        ({"plan_asks": True}, (ApprovalReason.STEP_BY_STEP,)),
        ({"proven": False}, ()),
        ({"effect": EffectClass.EGRESS}, ()),
        ({"effect": EffectClass.EGRESS, "proven": False}, (ApprovalReason.UNPROVEN,)),
        ({"mode": ApprovalMode.DELEGATED, "dry_run_kind": DryRunKind.VALIDATED_ONLY}, ()),
        ({"mode": ApprovalMode.READ_ONLY}, ()),
    ],
)
def test_each_condition_alone(change: dict[str, Any], reasons: tuple[ApprovalReason, ...]) -> None:
    assert approval_reasons(replace(NOTHING, **change)) == reasons


DELEGATED = replace(NOTHING, effect=EffectClass.WRITE, writes_files=True, mode=ApprovalMode.DELEGATED, pre_granted=True)


@pytest.mark.parametrize(
    ("change", "asks"),
    [
        ({}, False),
        ({"pre_granted": False}, True),
        ({"mode": ApprovalMode.DEFAULT}, True),
        ({"mode": ApprovalMode.STEP_BY_STEP}, True),
        ({"proven": False}, True),
        ({"dry_run_kind": DryRunKind.VALIDATED_ONLY}, True),
        ({"dry_run_kind": DryRunKind.NONE}, True),
        ({"secrets": True}, True),
        ({"severe": True}, True),
        ({"plan_asks": True}, True),
    ],
)
def test_delegated_waives_proven_simulated_pre_granted_writes_and_nothing_else(change: dict[str, Any], asks: bool) -> None:
    assert bool(approval_reasons(replace(DELEGATED, **change))) is asks


def test_a_write_asks_until_a_person_granted_it() -> None:
    waiting = decide(replace(APPROVED_WRITE, approved=Approved.NONE))
    assert (waiting.allow, waiting.reason_code, waiting.approval_required) == (False, "APPROVAL_REQUIRED", True)
    assert waiting.evidence["approval_reasons"] == ["writes_external_state", "touches_non_readonly_files"]
    assert moves_effect(waiting)


def test_delegated_grants_the_named_capability_only() -> None:
    delegated = replace(APPROVED_WRITE, approved=Approved.NONE, approval_mode=ApprovalMode.DELEGATED, pre_granted=frozenset({WRITE_CAP}))
    assert decide(delegated).allow
    assert not decide(replace(delegated, pre_granted=frozenset({"tool.files.write", "tool.files"}))).allow
    assert not decide(replace(delegated, taint=Taint.UNPROVEN)).allow


@pytest.mark.parametrize("effect", [EffectClass.WRITE, EffectClass.EGRESS])
def test_read_only_refuses_every_call_that_is_not_a_read(effect: EffectClass) -> None:
    tool = profile(effect)
    case = replace(APPROVED_WRITE, profile=tool, call=call(tool.name), approval_mode=ApprovalMode.READ_ONLY)
    assert decide(case).check == "read_only_template"
    assert decide(replace(READ, approval_mode=ApprovalMode.READ_ONLY)).allow


# --- narrowing ---

CAPS = ["tool.files.read.readonly", "tool.files.write.execute", "tool.files.read", "tool.web.fetch.readonly"]
PATHS = ["/srv/docs", "/srv", "/srv/docs/in", "/other"]
DOMAINS = ["docs.gnus.ai", "gnus.ai", "evil.example"]


def mostly(r: Random, good: Any, *others: Any) -> Any:
    return good if r.random() < 0.85 or not others else r.choice(others)


def some(r: Random, values: Iterable[Any], keep: float = 0.5) -> frozenset[Any]:
    return frozenset(v for v in sorted(values, key=repr) if r.random() < keep)


def any_input(r: Random) -> MediationInput:
    """An input near the border: mostly right, so that allowances and refusals both are common."""
    tool = profile(r.choice(list(EffectClass)), secrets_required=mostly(r, False, True))

    def touched() -> tuple[str, ...]:
        return tuple(r.sample(["/srv/docs/a", "/srv/docs/in/b", "/other/c"], r.randint(0, 2)))

    return MediationInput(
        is_router_peer=mostly(r, True, False),
        generation_current=mostly(r, True, False),
        now_ms=mostly(r, 1, 9),
        lease_not_after_ms=5,
        records_refusal=mostly(r, "", "EXPIRED"),
        proposal_in_output=mostly(r, True, False),
        selected=mostly(r, True, False),
        is_pinned_intermediary=mostly(r, True, False),
        trust_fresh=mostly(r, True, False),
        profile=tool,
        mandate_capabilities=some(r, CAPS, 0.9),
        plan_capabilities=some(r, CAPS, 0.9),
        manifest=some(r, [Declared(name, scope) for name in CAPS for scope in CapabilityScope], 0.8),
        contract=mostly(r, None, some(r, CAPS, 0.9)),
        approval_mode=r.choice(list(ApprovalMode)),
        pre_granted=some(r, CAPS, 0.8),
        plan_requires_dry_run=mostly(r, True, False),
        plan_human_approval=mostly(r, False, True),
        scope=ToolScope(tuple(Root(p) for p in sorted(some(r, PATHS, 0.8))), tuple(sorted(some(r, DOMAINS, 0.8)))),
        call=call(
            tool.name,
            read_paths=touched(),
            write_paths=() if tool.effect is EffectClass.READ else touched(),
            domains=tuple(r.sample(DOMAINS, r.randint(0, 1))),
        ),
        recorded=mostly(r, None, *EffectState),
        taint=mostly(r, Taint.PROVEN, *Taint, None),
        dry_run=mostly(r, dry_run(), dry_run(kind=DryRunKind.VALIDATED_ONLY), dry_run(ok=False), None),
        findings=mostly(r, Findings(True), Findings(True, severe=True), Findings(False), Findings(True, blocked=True)),
        approved=r.choice(list(Approved)),
    )


def stricter_mode(r: Random, given: MediationInput) -> ApprovalMode:
    later = [mode for mode in ApprovalMode if mode.rank() >= given.approval_mode.rank()]
    if given.is_read and given.approval_mode is not ApprovalMode.READ_ONLY:
        later.remove(ApprovalMode.READ_ONLY)  # for a read, read_only asks less than step_by_step: it is about all other calls
    return r.choice(later)


def weaker_taint(r: Random, given: MediationInput) -> Taint | None:
    order = [Taint.PROVEN, Taint.UNPROVEN, Taint.FORBIDDEN]
    return None if given.taint is None else r.choice([*order[order.index(given.taint) :], None])


NARROW: dict[str, Callable[[Random, MediationInput], Any]] = {
    "mandate_capabilities": lambda r, m: some(r, m.mandate_capabilities),
    "plan_capabilities": lambda r, m: some(r, m.plan_capabilities),
    "manifest": lambda r, m: some(r, m.manifest),
    "contract": lambda r, m: some(r, m.contract if m.contract is not None else CAPS),
    "pre_granted": lambda r, m: some(r, m.pre_granted),
    "scope": lambda r, m: ToolScope(
        tuple(root for root in m.scope.roots if r.random() < 0.5), tuple(d for d in m.scope.domains if r.random() < 0.5)
    ),
    "approval_mode": stricter_mode,
    "plan_human_approval": lambda r, m: m.plan_human_approval or r.random() < 0.5,
    "is_pinned_intermediary": lambda r, m: m.is_pinned_intermediary and r.random() < 0.5,
    "trust_fresh": lambda r, m: m.trust_fresh and r.random() < 0.5,
    "lease_not_after_ms": lambda r, m: r.randint(0, m.lease_not_after_ms),
    "taint": weaker_taint,
    "approved": lambda r, m: Approved.NONE if m.approved is Approved.GRANTED else m.approved,
}


@settings(max_examples=800, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_narrowing_never_turns_a_refusal_into_an_allowance(seed: int) -> None:
    r = Random(seed)
    wide = any_input(r)
    fields = r.sample(sorted(NARROW), r.randint(1, 3))
    narrow = replace(wide, **{name: NARROW[name](r, wide) for name in fields})
    if decide(narrow).allow:
        assert decide(wide).allow
    if admit(narrow).allow:
        assert admit(wide).allow


def test_both_sides_of_the_border_are_reached() -> None:
    verdicts = [decide(any_input(Random(seed))) for seed in range(1500)]
    assert sum(v.allow for v in verdicts) > 30
    assert {v.check for v in verdicts if not v.allow} >= {check.name for check in CHECKS if check.phase is Phase.PROPOSAL} - {
        "arguments_valid",
        "writes_declared",
    }


@settings(max_examples=800, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_allowed_means_that_everything_was_granted(seed: int) -> None:
    given = any_input(Random(seed))
    decision = decide(given)
    assert decision == decide(given)
    if not decision.allow:
        assert decision.reason_code in CODES
        return
    assert given.profile is not None
    assert given.call is not None
    wanted = given.profile.capability
    assert wanted in given.mandate_capabilities & given.plan_capabilities
    assert given.contract is None or wanted in given.contract
    assert all(any((p + "/").startswith(root + "/") for root in given.scope.paths) for p in given.call.read_paths + given.call.write_paths)
    if given.profile.effect is EffectClass.WRITE and given.approved is not Approved.GRANTED:
        assert given.approval_mode is ApprovalMode.DELEGATED
        assert wanted in given.pre_granted
        assert given.taint is Taint.PROVEN
