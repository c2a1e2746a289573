"""Links of the work: retrieval, grounding, expert outputs, absences, registry entries, task attestations. Pure."""

from __future__ import annotations

from typing import Any

from gnus_node.evidence.authority import check_router
from gnus_node.evidence.verdict import Link
from gnus_node.evidence.walk import Walk
from gnus_node.policy.contain import expert_role, named_experts
from gnus_node.records.authority import Absence
from gnus_node.records.base import Committed
from gnus_node.records.enums import MemoryMode, Proof, SignerRole, Stage, TrustClass
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import GroundingEvidence, RetrievalResult, RetrievedItem
from gnus_node.records.expert import CapabilityManifest, ExpertEntry, ExpertOutput, OutputEvidence
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.settlement import TaskAttestation
from gnus_node.records.tools import SanitizedData

_MEMORY = frozenset({Stage.MEMORY})
_GROUND = frozenset({Stage.GROUND})
_DRAFT = frozenset({Stage.DRAFT, Stage.VERIFY})
NOT_NEEDED = "NOT_NEEDED"
"""Reason of a fallback expert that was not asked; the one absence that an output may follow, where the verifier asks for more."""


def check_work(walk: Walk) -> list[Link]:
    """Everything between the plan and the tools."""
    links = []
    for retrieval in walk.bag.of(RetrievalResult):
        walk.executed(retrieval, retrieval.body.dispatch, _MEMORY, "memory")
        _check_memory(walk, retrieval)
        links.append(walk.link("memory", retrieval, proof=Proof.ATTESTED, detail=f"{len(retrieval.body.items)} items"))
    plan = walk.plan
    if plan is not None:
        _check_hints(walk, plan)
        _check_entries(walk, plan)
    for evidence in walk.bag.of(GroundingEvidence):
        dispatch = walk.executed(evidence, evidence.body.dispatch, _GROUND, "evidence")
        if evidence.body.turn != dispatch.body.turn:
            raise GnusError("CHAIN_BROKEN", "evidence of another turn", link="evidence")
        links.append(walk.link("evidence", evidence, proof=Proof.ATTESTED, detail=f"{len(evidence.body.items)} passages"))
    links.extend(_check_output(walk, output) for output in walk.bag.of(ExpertOutput))
    links.extend(_check_absence(walk, absence) for absence in walk.bag.of(Absence))
    return links


def _check_memory(walk: Walk, retrieval: Signed[RetrievalResult]) -> None:
    """Memory was read in a mode the mandate allows, and gave nothing that its mode forbids."""
    body = retrieval.body
    if body.memory_mode.rank() < walk.mandate.body.ceilings.memory_floor.rank():
        raise GnusError("CHAIN_BROKEN", "memory was read in a wider mode than the mandate's", link="memory")
    if not all(memory_permitted(body.memory_mode, item) for item in body.items):
        raise GnusError("CHAIN_BROKEN", "memory gave an item that its mode forbids", link="memory")


def memory_permitted(mode: MemoryMode, item: RetrievedItem) -> bool:
    """Whether an item may be used in a memory mode."""
    return mode is not MemoryMode.NONE and (mode is not MemoryMode.TRUSTED_ONLY or item.trust_class is TrustClass.HIGHER_TRUST)


def _check_hints(walk: Walk, plan: Signed[ExecutionPlan]) -> None:
    for hint in plan.body.hints:
        walk.bag.get(hint, RetrievalResult, "plan")


def _check_entries(walk: Walk, plan: Signed[ExecutionPlan]) -> None:
    """Each assigned expert has a signed registry entry of the assigned key, and that entry's manifest."""
    versions = {e.elm_id: e.version for e in plan.body.selected_elms}
    if plan.body.selected_core:
        versions[plan.body.selected_core.core_id] = plan.body.selected_core.version
    capabilities = {e.elm_id: set(e.capabilities) for e in plan.body.selected_elms}
    for place in plan.body.assignments:
        if place.expert_id is None:
            continue
        if place.entry is None:
            raise GnusError("CHAIN_BROKEN", "an expert without a registry entry", link="plan")
        entry = walk.bag.get(place.entry, ExpertEntry, "expert entry")
        manifest = walk.bag.get(entry.body.manifest, CapabilityManifest, "manifest")
        for record, link in ((entry, "expert entry"), (manifest, "manifest")):
            walk.signer(record, link)
            if record.header.signer != place.key:
                raise GnusError("CHAIN_BROKEN", "an entry of another worker", link=link)
        if entry.body.expert_id != place.expert_id or entry.body.key != place.key or entry.body.node_id != place.node_id:
            raise GnusError("CHAIN_BROKEN", "an entry of another expert", link="expert entry")
        if entry.body.expert_version != versions[place.expert_id]:
            raise GnusError("CHAIN_BROKEN", "an entry of another version than the plan's", link="expert entry")
        if not capabilities.get(place.expert_id, set()) <= {c.name for c in manifest.body.required_capabilities}:
            raise GnusError("MANIFEST_MISSING", "the plan gives an expert what its manifest does not declare", link="manifest")
        walk.see(entry, manifest)


def _check_output(walk: Walk, output: Signed[ExpertOutput]) -> Link:
    body = output.body
    link = f"output {body.expert_id}"
    dispatch = walk.executed(output, body.dispatch, _DRAFT, link)
    plan = walk.plan
    if plan is None or dispatch.body.expert_id != body.expert_id or body.turn != dispatch.body.turn:
        raise GnusError("CHAIN_BROKEN", "an output of another expert or turn", link=link)
    place = next(a for a in plan.body.assignments if a.expert_id == body.expert_id and a.key == output.header.signer)
    entry = walk.bag.get(place.entry or b"", ExpertEntry, "expert entry").body
    identity = (body.expert_version, body.backend_kind, body.model_id, body.artifact_hash, body.model_license)
    if identity != (entry.expert_version, entry.backend_kind, entry.model_id, entry.artifact_hash, entry.model_license):
        raise GnusError("CHAIN_BROKEN", "an output whose backend is not the registered one", link=link)
    if body.calibration_id not in (None, entry.calibration_id) or (body.confidence and body.calibration_id is None):
        raise GnusError("CHAIN_BROKEN", "an output with a calibration that is not the registered one", link=link)
    if body.expert_role is not expert_role(plan.body, body.expert_id):
        raise GnusError("CHAIN_BROKEN", "an output in another role than the plan's", link=link)
    for reference in body.evidence:
        if reference.record not in dispatch.header.refs:
            raise GnusError("CHAIN_BROKEN", "an output cites evidence it was not given", link=link)
        check_item(walk, reference, link)
    if len({c.tool_call_id for c in body.tool_calls}) != len(body.tool_calls):
        raise GnusError("CHAIN_BROKEN", "two proposals with one id", link=link)
    model = Link("model", Proof.ATTESTED, walk.by(output), f"{body.backend_kind}: {body.model_id} ({body.model_license})")
    state = f"abstained: {body.abstained}" if body.abstained else f"confidence {body.confidence}/10000"
    return walk.link(link, output, detail=state, children=(model,))


def check_item(walk: Walk, reference: OutputEvidence, link: str) -> None:
    """An item that is cited stands in the evidence record that is named."""
    record = walk.bag.find(reference.record)
    if record is None:
        raise GnusError("CHAIN_BROKEN", "a cited evidence record is missing", link=link)
    text = cited_text(record, reference.item)
    if text is None:
        raise GnusError("CHAIN_BROKEN", "a cited item is not in its evidence record", link=link)
    if not reference.span_start <= reference.span_end <= text.size:
        raise GnusError("CHAIN_BROKEN", "a cited span is not in its passage", link=link)


def cited_text(record: Signed[Any], item: str) -> Committed | None:
    """The committed text of an item of an evidence record, or None. No text has more characters than its committed bytes."""
    body = record.body
    if isinstance(body, GroundingEvidence):
        return next((i.passage for i in body.items if i.item == item), None)
    if isinstance(body, RetrievalResult):
        return next((i.content for i in body.items if i.item == item), None)
    return body.plain_text if isinstance(body, SanitizedData) and body.tool_call_id == item else None


def _check_absence(walk: Walk, absence: Signed[Absence]) -> Link:
    """Signed by the plan's router, or by the very worker that refused."""
    body = absence.body
    link = f"absence {body.expert_id}"
    walk.signer(absence, link)
    walk.of_request(absence, link)
    if absence.header.role is SignerRole.ROUTER:
        check_router(absence, walk.mandate, walk.trust, walk.now_ms, live=walk.live)
    plan = walk.plan
    if plan is None or body.plan != plan.id or body.expert_id not in named_experts(plan.body):
        raise GnusError("CHAIN_BROKEN", "an absence of an expert the plan does not name", link=link)
    workers = {a.key for a in plan.body.assignments if a.expert_id == body.expert_id}
    if absence.header.role is not SignerRole.ROUTER and absence.header.signer not in workers:
        raise GnusError("CHAIN_BROKEN", "an absence that neither router nor worker signed", link=link)
    present = any(o.body.expert_id == body.expert_id and o.body.turn <= body.turn for o in walk.bag.of(ExpertOutput))
    if present and body.reason != NOT_NEEDED:
        raise GnusError("CHAIN_BROKEN", "an absence of an expert whose output is at hand", link=link)
    walk.see(absence)
    return walk.link(link, absence, proof=Proof.ASSERTED, detail=body.reason)


def check_task_attestations(walk: Walk) -> None:
    """Every executed dispatch has exactly one attestation by the key that executed it, over the output at hand."""
    attested: set[bytes] = set()
    for attestation in walk.bag.of(TaskAttestation):
        body = attestation.body
        dispatch = walk.dispatches.get(body.dispatch)
        output = walk.outputs.get(body.dispatch)
        walk.signer(attestation, "task attestation")
        walk.of_request(attestation, "task attestation")
        if dispatch is None or output is None or body.output != output.id or attestation.header.signer != dispatch.body.peer:
            raise GnusError("CHAIN_BROKEN", "a task attestation that fits no executed dispatch", link="task attestation")
        fits = body.processing_pass is dispatch.body.processing_pass and body.node_id == dispatch.body.node_id
        if isinstance(output.body, ExpertOutput):
            fits = fits and body.backend_kind is output.body.backend_kind and body.usage == output.body.usage
        if not fits or body.dispatch in attested:
            raise GnusError("CHAIN_BROKEN", "a task attestation that contradicts its dispatch", link="task attestation")
        attested.add(body.dispatch)
        walk.see(attestation)
    missing = set(walk.outputs) - attested
    if missing:
        raise GnusError("CHAIN_BROKEN", f"{len(missing)} executed dispatches without an attestation", link="task attestation")
