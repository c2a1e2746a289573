"""The Tool Intermediary's service: every proposal of a dispatch is judged, dry-run, attested, and run only where all of it holds (18.1.3.8).

The order is DESIGN.md section 6's. This file gathers verified values and keeps the order; the checks are ``tools.decide``, the effect states
``tools.effects``, durability and at-most-once ``tools.log``. A refusal is an outcome: it is signed like any other. Nothing is bypassed: without a
router's valid dispatch there is not even an attestation.
"""

from __future__ import annotations

from typing import Any

import trio

from gnus_node.evidence.authority import check_mandate
from gnus_node.evidence.bag import Bag
from gnus_node.net.context import RoleContext
from gnus_node.net.gate import Admitted, admit_dispatch, attest_task
from gnus_node.net.rpc import Request
from gnus_node.records.enums import EffectState, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.expert import ExpertOutput
from gnus_node.records.tools import EffectReport, EffectSummary
from gnus_node.telemetry.events import emit
from gnus_node.tools.decide import Decision, admit, decide, moves_effect
from gnus_node.tools.effects import EffectEvent, event_for_failure
from gnus_node.tools.gather import Gathered, gather, with_outcome
from gnus_node.tools.log import Claim, EffectLog
from gnus_node.tools.registry import AdapterRegistry
from gnus_node.tools.rows import EffectRow
from gnus_node.tools.sign import Attested, Signing
from gnus_node.wire.digests import sha256
from gnus_node.wire.message import Message

_TOOL = frozenset({Stage.TOOL})
MAX_RESULTS = 256
"""Most outputs of read effects kept for proposals that merge into one."""


class IntermediaryService:
    """Serves ``tools.mediate`` and ``tools.effects``. ``roots`` are the operator's directories for file tools."""

    def __init__(self, context: RoleContext, registry: AdapterRegistry, log: EffectLog, roots: tuple[str, ...]) -> None:
        self._context = context
        self._node = context.node
        self._registry = registry
        self._log = log
        self._roots = roots
        self._signing = Signing(context)
        self._results: dict[bytes, Attested] = {}

    # -- services -------------------------------------------------------------------------------------------------------------

    async def mediate(self, request: Request) -> Message:
        """All proposals of the dispatched outputs. Returns attestations, dry runs, sanitised data, and the EffectReport that closes it."""
        started = self._node.clock.monotonic()
        admitted = admit_dispatch(self._context, request, _TOOL)
        outputs = sorted((r for r in admitted.inputs if isinstance(r.body, ExpertOutput)), key=lambda o: (-o.body.confidence, o.id))
        made: list[Signed[Any]] = []
        texts: list[Any] = []
        selected = outputs[0].id if outputs else b""
        for output in outputs:
            for call in output.body.tool_calls:
                gathered = gather(self._node, self._registry, self._roots, admitted, output, call, selected=output.id == selected)
                attested = await self._one(admitted, gathered)
                made.extend(attested.records)
                texts.extend(attested.texts)
        report = await self._report(
            admitted.authority.mandate.body.request_id, admitted.authority.mandate.body.generation, admitted.dispatch.id
        )
        wall_ms = (self._node.clock.monotonic() - started) * 1000
        attestation = attest_task(self._context, admitted, report.id, wall_ms)
        raws = tuple(r.raw for r in (*made, report, attestation))
        return Message(raws, admitted.vault.parcels(texts))

    async def effects(self, request: Request) -> Message:
        """What has happened for a request, for its ingress before a new generation; older generations are fenced by asking."""
        node = self._node
        bag = Bag.read(request.message.records, node.opener.open)
        # Not live: a lease that has run out allows nothing more, but what was done under it must not stay unknown.
        allowed = check_mandate(bag, node.trust.state, node.clock.wall_ms(), live=False)
        mandate = allowed.mandate.body
        if node.trust.state.by_transport(request.peer) != mandate.ingress_node:
            raise GnusError("WRONG_PEER", "only the request's ingress asks for its effects", link="mandate")
        self._context.fence.check(mandate.request_id, mandate.generation, allowed.mandate.id)
        report = await self._report(mandate.request_id, mandate.generation, None)
        return Message((report.raw,))

    async def _report(self, request_id: str, generation: int, dispatch: bytes | None) -> Signed[EffectReport]:
        rows = await self._log.for_request(request_id)
        body = EffectReport(request_id=request_id, generation=generation, dispatch=dispatch, effects=tuple(_summary(row) for row in rows))
        return self._context.signer.sign(body, refs=[dispatch] if dispatch else [])

    # -- one proposal ---------------------------------------------------------------------------------------------------------

    async def _one(self, admitted: Admitted, given: Gathered) -> Attested:
        """One proposal from the door to its last attestation."""
        decision = admit(given.input)
        if not decision.allow:
            return self._refuse(admitted, given, decision)
        async with self._log.open_or_get(given.effect_key, given.facts()) as claim:
            known = self._results.get(given.effect_key)
            if claim.row.state is EffectState.DONE and known is not None:
                given = await self._dry_run(given)
                decision = decide(given.input)
                return self._signing.again(admitted, given, known) if decision.allow else self._refuse(admitted, given, decision)
            given = given.recorded(claim.row.state)
            decision = admit(given.input)
            if not decision.allow:
                return self._refuse(admitted, given, decision)
            waiting = claim.row.state is EffectState.AWAITING_APPROVAL
            if not waiting:
                await claim.move(EffectEvent.DRY_RUN)
            given = await self._dry_run(given)
            decision = decide(given.input)
            first = self._signing.first(admitted, given, decision)
            self._note(admitted, given, decision)
            if waiting:
                return first
            if decision.approval_required and not decision.allow:
                await claim.move(EffectEvent.APPROVAL_DUE, attestation=first.attestation.id)
                return first
            if not decision.allow:
                if moves_effect(decision):
                    await claim.move(EffectEvent.REFUSE, attestation=first.attestation.id, reason_code=decision.reason_code)
                return first
            await claim.move(EffectEvent.AUTHORISE, attestation=first.attestation.id)
            return await self._execute(admitted, given, claim, first)

    def _refuse(self, admitted: Admitted, given: Gathered, decision: Decision) -> Attested:
        self._note(admitted, given, decision)
        return self._signing.first(admitted, given, decision)

    async def _dry_run(self, given: Gathered) -> Gathered:
        """The dry run, pure, off the loop and under its deadline; then its mock output through the sanitiser."""
        adapter, call = given.adapter, given.input.call
        if adapter is None or call is None:
            raise GnusError("INTERNAL", "a dry run without a validated call")
        clock, metrics = self._node.clock, self._node.metrics
        started = clock.monotonic()
        result = adapter.dry_run(call, given.input.scope)  # pure and bounded by its contract; what took too long does not count
        took_s = clock.monotonic() - started
        metrics.observe("dry_run_ms", took_s * 1000)
        if took_s > adapter.profile.timeout_ms / 1000:
            return given.timed_out()
        return with_outcome(given, result)

    async def _execute(self, admitted: Admitted, given: Gathered, claim: Claim, first: Attested) -> Attested:
        """The real run: durable ``executing`` before it, shielded with its outcome, then the second attestation."""
        adapter, call = given.adapter, given.input.call
        if adapter is None or call is None:
            raise GnusError("INTERNAL", "an execution without a validated call")
        facts: dict[str, str | int] = {"request_id": claim.row.request_id, "tool": adapter.profile.name}
        self._node.probe.point("effect.start", **facts)
        mandate = admitted.authority.mandate
        # Whoever asked for this request's effects with a newer generation was told that this one has not happened: then it must not.
        self._context.fence.check(mandate.body.request_id, mandate.body.generation, mandate.id)
        with trio.CancelScope(shield=not given.input.is_read):
            await claim.move(EffectEvent.START)
            self._node.probe.point("effect.executing", **facts)
            deadline = trio.current_time() + adapter.profile.timeout_ms / 1000
            try:
                with trio.fail_at(deadline):
                    raw = await adapter.execute(call, given.input.scope, idempotency_key=claim.row.idempotency_key, deadline=deadline)
            except trio.TooSlowError:
                return await self._failed(admitted, given, claim, first, GnusError("DEADLINE", "the tool did not end in time"))
            except GnusError as error:
                return await self._failed(admitted, given, claim, first, error)
            self._node.probe.point("effect.executed", **facts)
            if not raw.definite:
                return await self._failed(admitted, given, claim, first, GnusError("EFFECT_INDETERMINATE"))
            await claim.move(EffectEvent.SUCCEED, outcome=sha256(raw.data))
            self._node.probe.point("effect.recorded", **facts)
        try:
            attested = await self._signing.second(admitted, given, first, raw)
        except GnusError as error:
            return self._signing.failed(admitted, given, first, EffectState.DONE, error.code)
        if len(self._results) >= MAX_RESULTS:
            self._results.pop(next(iter(self._results)))
        self._results[given.effect_key] = attested
        return attested

    async def _failed(self, admitted: Admitted, given: Gathered, claim: Claim, first: Attested, error: GnusError) -> Attested:
        """A run that failed: definite where nothing happened, indeterminate where nobody can say; a read is always definite."""
        definite = error.row.definite or given.input.is_read
        row = await claim.move(event_for_failure(definite=definite), reason_code=error.code)
        return self._signing.failed(admitted, given, first, row.state, error.code)

    def _note(self, admitted: Admitted, given: Gathered, decision: Decision) -> None:
        findings = sorted(given.flags)
        self._node.metrics.count("tool_attestations", tool=given.tool_label, reason_code=decision.reason_code, phase="dry_run")
        for flag in findings:
            self._node.metrics.count("sanitizer_findings", flag=flag)
        if decision.approval_required:
            self._node.metrics.count("approvals", decision="pending")
        emit(
            self._node.log,
            "tool.mediated",
            request_id=admitted.dispatch.body.request_id,
            generation=admitted.dispatch.body.generation,
            tool_name=given.tool_label,
            dry_run_status="ok" if given.input.dry_run and given.input.dry_run.ok else "none",
            findings=findings,
            approval_state="required" if decision.approval_required else "not_required",
            reason_code=decision.reason_code,
        )


def _summary(row: EffectRow) -> EffectSummary:
    return EffectSummary(
        effect_key=row.effect_key,
        tool_call_id=row.tool_call_id,
        tool_name=row.tool,
        effect_class=row.effect,
        state=row.state,
        turn=row.turn,
        attestation=row.attestation or None,
    )
