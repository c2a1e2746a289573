"""Gathering what the checks look at, from verified records and the operator's configuration (DESIGN.md section 6). Pure but for the clock.

Labels claimed by experts are ignored: an argument counts as proven only where this intermediary itself finds the value in the query.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gnus_node.content.normalise import fold
from gnus_node.content.sanitise import Sanitised, sanitise_text
from gnus_node.evidence.authority import check_dispatch
from gnus_node.net.context import NodeContext
from gnus_node.net.gate import Admitted
from gnus_node.records.authority import Dispatch
from gnus_node.records.enums import EffectClass, EffectState, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.expert import CapabilityManifest, ExpertEntry, ExpertOutput, ToolProposal
from gnus_node.records.plan import ExecutionPlan
from gnus_node.tools.adapter import DryRun, ToolAdapter, ToolScope, ValidCall
from gnus_node.tools.capabilities import Declared
from gnus_node.tools.decide import Findings, MediationInput, Taint
from gnus_node.tools.paths import narrow_roots
from gnus_node.tools.registry import AdapterRegistry
from gnus_node.tools.rows import EffectFacts
from gnus_node.trust.check import check_signer, head_fresh
from gnus_node.wire import jsontext
from gnus_node.wire.digests import effect_key

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Gathered:
    """One proposal with all that its checks look at."""

    input: MediationInput
    call: ToolProposal
    output: Signed[ExpertOutput]
    adapter: ToolAdapter | None
    effect_key: bytes
    arguments_digest: bytes
    mock: Sanitised | None = None

    @property
    def tool_label(self) -> str:
        """The tool's name for logs and metrics; an unknown one may be a model's text."""
        return self.adapter.profile.name if self.adapter else UNKNOWN

    @property
    def capability(self) -> str:
        """The capability the call needs; of an unknown tool, a name that nothing grants."""
        return self.adapter.profile.capability if self.adapter else "tool.unknown"

    @property
    def effect_class(self) -> EffectClass:
        """What the tool does; an unknown one counts as the worst."""
        return self.adapter.profile.effect if self.adapter else EffectClass.WRITE

    @property
    def flags(self) -> tuple[str, ...]:
        """Risk flags of the mock output, sorted."""
        return tuple(sorted(self.mock.risk_flags)) if self.mock else ()

    def facts(self) -> EffectFacts:
        """What the effect log keeps of it."""
        body = self.output.body
        return EffectFacts(
            request_id=body.request_id,
            tool_call_id=self.call.tool_call_id,
            generation=body.generation,
            turn=body.turn,
            tool=self.call.tool_name,
            effect=self.effect_class,
            resumable=self.adapter is not None and self.adapter.profile.resumable,
            arguments=self.arguments_digest,
        )

    def recorded(self, state: EffectState) -> Gathered:
        """With the state its effect stands in."""
        return replace(self, input=replace(self.input, recorded=state))

    def timed_out(self) -> Gathered:
        """After a dry run that ran out of time."""
        return replace(self, input=replace(self.input, dry_run_timed_out=True))


def gather(
    node: NodeContext,
    registry: AdapterRegistry,
    roots: Iterable[str],
    admitted: Admitted,
    output: Signed[ExpertOutput],
    call: ToolProposal,
    *,
    selected: bool,
) -> Gathered:
    """All that can be known before a dry run; what cannot be established stays at its denying default."""
    authority = admitted.authority
    mandate, plan = authority.mandate.body, authority.plan
    if plan is None:
        raise GnusError("CHAIN_BROKEN", "a mediation without a plan", link="plan")
    adapter = registry.get(call.tool_name)
    refusal = _records_refusal(node, admitted, plan, output)
    arguments, argument_text, argument_refusal = _arguments(admitted, call)
    scope = _scope(roots, mandate.ceilings.paths, plan.body.tool_policy.allowlisted_paths, plan.body.tool_policy.allowlisted_domains)
    valid, call_refusal = _validate(adapter, arguments, scope)
    secret = admitted.vault.effect_secret()
    now = node.clock.wall_ms()
    is_read = adapter is not None and adapter.profile.effect is EffectClass.READ
    given = MediationInput(
        is_router_peer=True,  # admit_dispatch refused every other peer
        generation_current=True,
        now_ms=now,
        lease_not_after_ms=mandate.not_after_ms,
        records_refusal=refusal,
        proposal_in_output=call in output.body.tool_calls,
        selected=selected or is_read,
        is_pinned_intermediary=plan.body.intermediary_id == node.node_id == mandate.intermediary_id,
        trust_fresh=head_fresh(node.trust.state, now),
        profile=adapter.profile if adapter else None,
        mandate_capabilities=frozenset(mandate.ceilings.capabilities),
        plan_capabilities=frozenset(plan.body.tool_policy.capability_whitelist),
        manifest=_declared(admitted, plan, output),
        approval_mode=mandate.ceilings.approval_floor,
        pre_granted=frozenset(mandate.ceilings.pre_granted),
        plan_requires_dry_run=plan.body.tool_policy.require_dry_run,
        plan_human_approval=plan.body.tool_policy.human_approval,
        scope=scope,
        call=valid,
        call_refusal=call_refusal or argument_refusal,
        taint=_taint(arguments, admitted.vault.text(mandate.query)),
    )
    # A read may run again in a new generation; what changes the world has one key across all of them.
    scope_name = f"{call.tool_name}#{mandate.generation}" if is_read else call.tool_name
    key = effect_key(secret, mandate.request_id, output.body.turn, scope_name, argument_text)
    digest = hmac.new(secret, b"arguments\x00" + argument_text.encode("utf-8"), hashlib.sha256).digest()
    return Gathered(given, call, output, adapter, key, digest)


def with_outcome(given: Gathered, result: DryRun) -> Gathered:
    """After the dry run: its mock output through the sanitiser; a sanitiser that fails makes it unusable."""
    mock: Sanitised | None = None
    findings = Findings(usable=False)
    try:
        mock = sanitise_text(result.mock_output.preview, result.mock_output.content_type)
        findings = Findings(usable=True, severe=mock.severe)
    except GnusError:
        pass  # fail closed: findings stay unusable, and the check names it
    return replace(given, mock=mock, input=replace(given.input, dry_run=result, findings=findings))


def _records_refusal(node: NodeContext, admitted: Admitted, plan: Signed[ExecutionPlan], output: Signed[ExpertOutput]) -> str:
    """Why the proposing output does not hold, empty where it does: its signer, its own dispatch, its place in the plan."""
    trust, now = node.trust.state, node.clock.wall_ms()
    try:
        check_signer(trust, output, now, live=False)
        dispatch = admitted.bag.get(output.body.dispatch, Dispatch, "dispatch")
        check_dispatch(admitted.authority, dispatch, trust, now, live=False)
    except GnusError as error:
        return error.code
    body = output.body
    same = (body.request_id, body.generation, body.turn) == (dispatch.body.request_id, dispatch.body.generation, dispatch.body.turn)
    placed = dispatch.body.peer == output.header.signer and dispatch.body.expert_id == body.expert_id
    in_time = body.turn == admitted.dispatch.body.turn and dispatch.body.stage is Stage.DRAFT
    return "" if same and placed and in_time and plan.body.request_id == body.request_id else "CHAIN_BROKEN"


def _declared(admitted: Admitted, plan: Signed[ExecutionPlan], output: Signed[ExpertOutput]) -> frozenset[Declared]:
    """What the expert's signed manifest declares: the manifest its planned registry entry names, signed by the same worker."""
    place = next((a for a in plan.body.assignments if a.expert_id == output.body.expert_id and a.key == output.header.signer), None)
    entry = admitted.bag.find(place.entry) if place and place.entry else None
    if entry is None or not isinstance(entry.body, ExpertEntry) or entry.header.signer != output.header.signer:
        return frozenset()
    manifest = admitted.bag.find(entry.body.manifest)
    if manifest is None or not isinstance(manifest.body, CapabilityManifest) or manifest.header.signer != output.header.signer:
        return frozenset()
    return frozenset(Declared(c.name, c.scope) for c in manifest.body.required_capabilities)


def _arguments(admitted: Admitted, call: ToolProposal) -> tuple[dict[str, Any], str, str]:
    """The arguments, their canonical text, and why they do not read."""
    try:
        text = admitted.vault.text(call.arguments)
        value = jsontext.read_free(text)
        if not isinstance(value, dict) or jsontext.canonical(value) != text:
            return {}, text, "BAD_ARGUMENTS"
        return value, text, ""
    except GnusError as error:
        return {}, "", "BAD_ARGUMENTS" if error.code in ("MALFORMED", "NUMBER_RANGE", "TOO_LARGE") else error.code


def _scope(roots: Iterable[str], ceiling: tuple[str, ...], plan: tuple[str, ...], domains: tuple[str, ...]) -> ToolScope:
    """Operator's roots, mandate and plan together; ill-spelled roots grant nothing."""
    try:
        return ToolScope(narrow_roots(roots, ceiling, plan), domains)
    except GnusError:
        return ToolScope((), domains)


def _validate(adapter: ToolAdapter | None, arguments: dict[str, Any], scope: ToolScope) -> tuple[ValidCall | None, str]:
    if adapter is None:
        return None, "UNKNOWN_TOOL"
    try:
        return adapter.validate(arguments, scope), ""
    except GnusError as error:
        return None, error.code


def _taint(arguments: dict[str, Any], query: str) -> Taint:
    """Proven where every leaf value stands in the query's words, after folding; otherwise not."""
    text = fold(query)
    return Taint.PROVEN if all(_stands(leaf, text) for leaf in _leaves(arguments)) else Taint.UNPROVEN


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _stands(leaf: Any, text: str) -> bool:
    """Whether a value stands whole in the text: not as a part of a longer word or number."""
    if isinstance(leaf, bool) or leaf is None:
        return False
    wanted = fold(str(leaf))
    if not wanted:
        return False
    at = text.find(wanted)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(wanted) : at + len(wanted) + 1]
        clear = not before or not (before.isalnum() or before in "/-_.")
        if clear and not after.isalnum():
            return True
        at = text.find(wanted, at + 1)
    return False
