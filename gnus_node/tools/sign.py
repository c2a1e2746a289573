"""What the intermediary signs: dry runs, first and second attestations, sanitised data (18.1.3.8.5 to .7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnus_node.content.sanitise import SANITIZER_VERSION, Sanitised, sanitise_text
from gnus_node.evidence.links_tools import NOTHING, policy_hash
from gnus_node.net.context import RoleContext
from gnus_node.net.gate import Admitted
from gnus_node.records.base import Committed
from gnus_node.records.enums import AttestationPhase, DryRunKind, EffectState
from gnus_node.records.envelope import Signed
from gnus_node.records.tools import (
    ContentType,
    DryRunResult,
    MockOutput,
    SanitizedData,
    StripReport,
    ToolAttestation,
)
from gnus_node.tools.adapter import ToolOutput
from gnus_node.tools.decide import Decision
from gnus_node.tools.gather import Gathered
from gnus_node.wire import jsontext
from gnus_node.wire.digests import sha256

ISOLATION = "in_process"
"""What isolates a built-in read adapter: nothing but its own checks and the kernel's; said as it is."""
SANITISE_LANE = "sanitise"
BLOCKING_BYTES = 16 * 1024
"""Above this a text is sanitised off the loop."""


@dataclass(frozen=True, slots=True)
class Attested:
    """Records made for one proposal, the texts they commit to, and its newest attestation."""

    records: tuple[Signed[Any], ...]
    texts: tuple[Committed, ...]
    attestation: Signed[ToolAttestation]
    clean: Sanitised | None = None
    source_hash: bytes = NOTHING


class Signing:
    """Signs for one intermediary."""

    def __init__(self, context: RoleContext) -> None:
        self._context = context
        self._node = context.node

    def first(self, admitted: Admitted, given: Gathered, decision: Decision) -> Attested:
        """The first attestation: of the dry run, or of the refusal that came before it."""
        started = self._node.clock.monotonic()
        records: list[Signed[Any]] = []
        texts: list[Committed] = []
        dry = given.input.dry_run
        if dry is not None and given.mock is not None:
            effects = admitted.vault.commit(jsontext.canonical(dry.effects.to_plain()))
            preview = admitted.vault.commit(given.mock.plain_text)
            body = DryRunResult(
                tool_call_id=given.call.tool_call_id,
                dry_run_ok=dry.ok,
                simulated_effects=effects,
                mock_output=MockOutput(content_type=ContentType(dry.mock_output.content_type), preview=preview),
                risk_flags=given.flags,
                human_approval_required=decision.approval_required,
                request_id=given.output.body.request_id,
                dry_run_kind=dry.kind,
            )
            records.append(self._context.signer.sign(body, refs=[given.output.id]))
            texts += [effects, preview]
        result = records[0].id if records else None
        state = EffectState.AUTHORISED if decision.allow else EffectState.REFUSED
        if decision.approval_required and not decision.allow:
            state = EffectState.AWAITING_APPROVAL
        attestation = self._attest(
            admitted,
            given,
            phase=AttestationPhase.DRY_RUN,
            dry_run_ok=dry is not None and dry.ok and result is not None,
            safe_to_execute=decision.allow,
            provenance=result or NOTHING,
            reason=decision.reason_code,
            state=state,
            dry_run=result,
        )
        self._node.metrics.observe("attest_ms", (self._node.clock.monotonic() - started) * 1000)
        return Attested((*records, attestation), tuple(texts), attestation)

    async def second(self, admitted: Admitted, given: Gathered, first: Attested, raw: ToolOutput) -> Attested:
        """The second attestation, over the sanitised real output. Raises ``SANITIZER_FAILED``: then the output is unusable."""
        started = self._node.clock.monotonic()
        if len(raw.data) > BLOCKING_BYTES:
            clean = await self._node.offload.run(sanitise_text, raw.data, raw.content_type, lane=SANITISE_LANE)
        else:
            clean = sanitise_text(raw.data, raw.content_type)
        self._node.metrics.observe("sanitise_ms", (self._node.clock.monotonic() - started) * 1000)
        return self._result(admitted, given, first, clean, sha256(raw.data), raw.content_type)

    def again(self, admitted: Admitted, given: Gathered, known: Attested) -> Attested:
        """A further proposal of an effect that is done: its own attestations over the same output."""
        if known.clean is None:
            return known
        first = self.first(admitted, given, Decision(True, "OK"))
        return self._result(admitted, given, first, known.clean, known.source_hash, str(known.clean.content_type))

    def _result(self, admitted: Admitted, given: Gathered, first: Attested, clean: Sanitised, source: bytes, content_type: str) -> Attested:
        report = clean.strip_report
        text = admitted.vault.commit(clean.plain_text)
        structured = admitted.vault.commit(jsontext.canonical(dict(clean.structured_fields)))
        data = self._context.signer.sign(
            SanitizedData(
                tool_call_id=given.call.tool_call_id,
                source_hash=source,
                content_type=ContentType(content_type),
                plain_text=text,
                structured_fields=structured,
                strip_report=StripReport(
                    removed_zero_width_chars=report.removed_zero_width_chars,
                    removed_active_content=report.removed_active_content,
                    instruction_scrub_applied=report.instruction_scrub_applied,
                    removed_lines=len(clean.findings),
                ),
                request_id=given.output.body.request_id,
                risk_flags=tuple(sorted(clean.risk_flags)),
                sanitizer_version=SANITIZER_VERSION,
            ),
            refs=[given.output.id],
        )
        attestation = self._attest(
            admitted,
            given,
            phase=AttestationPhase.RESULT,
            dry_run_ok=True,
            safe_to_execute=True,
            provenance=data.id,
            reason="OK",
            state=EffectState.DONE,
            dry_run=None,
            first=first.attestation.id,
            sanitized=data.id,
            safe_to_memorize=not clean.findings and not clean.severe,
        )
        self._node.metrics.count("tool_attestations", tool=given.tool_label, reason_code="OK", phase="result")
        records = (*first.records, data, attestation)
        return Attested(records, (*first.texts, text, structured), attestation, clean, source)

    def failed(self, admitted: Admitted, given: Gathered, first: Attested, state: EffectState, reason: str) -> Attested:
        """The second attestation of a run without a usable output: failed, lost, or refused by the sanitiser."""
        attestation = self._attest(
            admitted,
            given,
            phase=AttestationPhase.RESULT,
            dry_run_ok=True,
            safe_to_execute=False,
            provenance=NOTHING,
            reason=reason,
            state=state,
            dry_run=None,
            first=first.attestation.id,
        )
        self._node.metrics.count("tool_attestations", tool=given.tool_label, reason_code=reason, phase="result")
        return Attested((*first.records, attestation), first.texts, attestation)

    def _attest(
        self,
        admitted: Admitted,
        given: Gathered,
        *,
        phase: AttestationPhase,
        dry_run_ok: bool,
        safe_to_execute: bool,
        provenance: bytes,
        reason: str,
        state: EffectState,
        dry_run: bytes | None,
        first: bytes | None = None,
        sanitized: bytes | None = None,
        safe_to_memorize: bool = False,
    ) -> Signed[ToolAttestation]:
        profile = given.adapter.profile if given.adapter else None
        policies = policy_hash(p.id for p in admitted.authority.policies)
        body = ToolAttestation(
            request_id=given.output.body.request_id,
            tool_call_id=given.call.tool_call_id,
            dry_run_ok=dry_run_ok,
            safe_to_execute=safe_to_execute,
            safe_to_memorize=safe_to_memorize,
            provenance_hash=provenance,
            capability_hash=sha256(given.capability.encode()),
            policy_hash=policies,
            sanitizer_version=SANITIZER_VERSION,
            intermediary_node_id=self._node.node_id,
            timestamp_ms=self._node.clock.wall_ms(),
            reason_code=reason,
            phase=phase,
            generation=given.output.body.generation,
            turn=given.output.body.turn,
            tool_name=given.call.tool_name,
            capability=given.capability,
            effect_class=given.effect_class,
            effect_key=given.effect_key,
            effect_state=state,
            dry_run_kind=profile.dry_run_kind if profile and given.input.dry_run else DryRunKind.NONE,
            expert_output=given.output.id,
            dispatch=admitted.dispatch.id,
            dry_run=dry_run,
            first_attestation=first,
            sanitized=sanitized,
            isolation=ISOLATION,
        )
        return self._context.signer.sign(body, refs=[given.output.id, admitted.dispatch.id])
