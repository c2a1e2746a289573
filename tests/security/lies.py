"""Lies about a request, one at a time, each made by whoever holds the keys: signed properly, everything after it consistent.

A row is a lie, how it is made, the code it is refused with, and the link that is named. ``tests.security.test_chain_checks`` and the live
tests of malicious routers use them.
"""

from __future__ import annotations

from typing import Any

import pytest

from gnus_node.evidence.inputs import digest_of
from gnus_node.records import expert as ex
from gnus_node.records import flow
from gnus_node.records.enums import (
    AnswerType,
    ApprovalMode,
    BackendKind,
    EffectClass,
    EffectState,
    ExpertRole,
    KeyMode,
    MemoryMode,
    Outcome,
    PrivacyMode,
    ProcessingPass,
    RoleName,
    SignerRole,
    Stage,
    Whose,
)
from gnus_node.records.settlement import TaskStatus
from gnus_node.wire.digests import sha256
from tests.security.chain_kit import (
    ACME,
    ALPHA,
    BETA,
    CALL,
    CEILINGS,
    GAMMA,
    GLOBEX,
    NOW_MS,
    PASSAGE,
    Chain,
    Key,
    altered,
    make_swarm,
    sign,
    with_parts,
)

CAST = make_swarm()
BASE = Chain(CAST)
TWO = Chain(CAST, calls=2)
OTHER = "22222222-2222-4333-8444-555555555555"
WRITE = "tool.files.write.execute"
Row = tuple[str, dict[str, Any], str, str]


def key(owner: str, role: SignerRole | RoleName) -> Key:
    return CAST.key(owner, role)


def body(name: str, **changes: Any) -> dict[str, Any]:
    return {"change": {name: changes}}


def head(name: str, **changes: Any) -> dict[str, Any]:
    return {"header": {name: changes}}


def signed_by(name: str, owner: str, role: SignerRole | RoleName) -> dict[str, Any]:
    return {"keys": {name: key(owner, role)}}


def missing(*names: str) -> dict[str, Any]:
    return {"drop": frozenset(names)}


def part(**changes: Any) -> Any:
    return lambda old: with_parts(old, **changes)


def first(**changes: Any) -> Any:
    """The first part of a tuple changed."""
    return lambda old: (with_parts(old[0], **changes), *old[1:])


def place(stage: Stage, **changes: Any) -> Any:
    """The assignments of a stage changed."""
    return lambda old: tuple(with_parts(a, **changes) if a.stage is stage else a for a in old)


def member(name: str, **changes: Any) -> Any:
    return lambda old: tuple(with_parts(m, **changes) if m.expert_id == name else m for m in old)


def again(name: str, **changes: Any) -> dict[str, Any]:
    """A second record like one of the chain's, in the bag beside it."""

    def more(chain: Chain) -> list[Any]:
        record = chain[name]
        owner = next(k for k in chain.cast.keys.values() if k.public == record.header.signer)
        made = altered(record.body, changes)
        return [sign(made, owner, chain.cast.swarm, seq=900, at_ms=record.header.issued_at_ms, refs=record.header.refs)]

    return {"extra": more}


def ceilings(**changes: Any) -> dict[str, Any]:
    """A mandate with other ceilings than its policy's."""
    return {"change": {"mandate": {"ceilings": with_parts(CEILINGS, **changes)}}}


MANDATE: tuple[Row, ...] = (
    ("no mandate", missing("mandate"), "CHAIN_BROKEN", "mandate"),
    ("two mandates", again("mandate", generation=2), "CHAIN_BROKEN", "mandate"),
    ("signed by a router", signed_by("mandate", ALPHA, RoleName.ROUTER), "WRONG_ROLE", "request_mandate"),
    ("another ingress than the signer", body("mandate", ingress_node=BETA), "CHAIN_BROKEN", "mandate"),
    (
        "an ingress without the tenant",
        signed_by("mandate", GAMMA, RoleName.INGRESS) | body("mandate", ingress_node=GAMMA),
        "FORBIDDEN",
        "mandate",
    ),
    ("a lease beyond the wall time", body("mandate", not_after_ms=NOW_MS + 100_000), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("no policy", body("mandate", policies=()), "POLICY_MISSING", "mandate"),
    ("the policy is not at hand", missing("policy"), "POLICY_MISSING", "policy"),
    ("a policy that is none", body("mandate", policies=lambda old: (*old, BASE["retrieval"].id)), "POLICY_MISSING", "policy"),
    ("the policy of another tenant", body("policy", tenant=GLOBEX), "POLICY_MISSING", "policy"),
    ("another tenant's key", signed_by("policy", GLOBEX, SignerRole.POLICY), "POLICY_MISSING", "policy"),
    (
        "another tenant's policy, properly signed",
        signed_by("policy", GLOBEX, SignerRole.POLICY) | body("policy", tenant=GLOBEX),
        "POLICY_MISSING",
        "policy",
    ),
    ("a policy signed by an approver", signed_by("policy", ACME, SignerRole.APPROVER), "WRONG_ROLE", "policy"),
    ("a policy that had ended", body("policy", not_after_ms=NOW_MS - 1), "EXPIRED", "policy"),
    ("a policy for somebody else", body("policy", subject="berta"), "POLICY_MISSING", "policy"),
    ("capabilities", ceilings(capabilities=(CEILINGS.capabilities[0], WRITE)), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("domains", ceilings(domains=("docs.example", "evil.example")), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("paths", ceilings(paths=("/srv",)), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("pre_granted", ceilings(pre_granted=(WRITE,)), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("tokens", ceilings(max_tokens=4001), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("wall", ceilings(max_wall_ms=60_001), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("spend", ceilings(max_spend=1001), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("turns", ceilings(max_turns=3), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("privacy", ceilings(privacy_floor=PrivacyMode.PLAINTEXT), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("approval", ceilings(approval_floor=next(iter(ApprovalMode))), "MANDATE_EXCEEDS_POLICY", "mandate"),
    ("a router key that is none", body("mandate", router=bytes(32)), "CHAIN_BROKEN", "mandate"),
    ("a router key of another role", body("mandate", router=key(ALPHA, RoleName.VERIFIER).public), "CHAIN_BROKEN", "mandate"),
    ("a router on another node", body("mandate", router_node=BETA), "CHAIN_BROKEN", "mandate"),
    (
        "a router without the tenant",
        body("mandate", router=key(GAMMA, RoleName.ROUTER).public, router_node=GAMMA),
        "FORBIDDEN",
        "mandate",
    ),
    ("a settlement key that is none", body("mandate", settlement=key(ALPHA, RoleName.VERIFIER).public), "CHAIN_BROKEN", "mandate"),
    ("settlement without the tenant", body("mandate", settlement=key(GAMMA, RoleName.SETTLEMENT).public), "FORBIDDEN", "mandate"),
    ("an intermediary without a grant", body("mandate", intermediary_id="node-nowhere"), "CHAIN_BROKEN", "mandate"),
    ("an intermediary without the tenant", body("mandate", intermediary_id=GAMMA), "FORBIDDEN", "mandate"),
    ("a client key without a request", body("mandate", client_key=key(ACME, SignerRole.CLIENT).public), "CHAIN_BROKEN", "user"),
    ("a client request that is missing", body("mandate", client_signature=sha256(b"x")), "CHAIN_BROKEN", "user"),
)

PLAN: tuple[Row, ...] = (
    ("two plans", again("plan", reasons=("another",)), "CHAIN_BROKEN", "plan"),
    ("signed by another router", signed_by("plan", BETA, RoleName.ROUTER), "FENCED", "execution_plan"),
    ("signed by an ingress", signed_by("plan", ALPHA, RoleName.INGRESS), "WRONG_ROLE", "execution_plan"),
    ("made after the lease", head("plan", issued_at_ms=NOW_MS + 30_001), "LEASE_EXPIRED", "execution_plan"),
    ("older than its mandate", head("plan", issued_at_ms=NOW_MS - 130_000), "CHAIN_BROKEN", "execution_plan"),
    ("of another mandate", body("plan", mandate=sha256(b"x")), "CHAIN_BROKEN", "plan"),
    ("request_id", body("plan", request_id=OTHER), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("generation", body("plan", generation=2), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("query_hash", body("plan", query_hash=sha256(b"x")), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("tokens", body("plan", constraints=part(max_tokens=4001)), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("wall", body("plan", constraints=part(max_wall_ms=60_001)), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("spend", body("plan", constraints=part(max_spend=1001)), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("turns", body("plan", max_turns=3), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("privacy", body("plan", privacy_mode=PrivacyMode.PLAINTEXT), "PLAN_EXCEEDS_MANDATE", "plan"),
    (
        "capabilities",
        body("plan", tool_policy=part(capability_whitelist=(CEILINGS.capabilities[0], WRITE))),
        "PLAN_EXCEEDS_MANDATE",
        "plan",
    ),
    ("domains", body("plan", tool_policy=part(allowlisted_domains=("evil.example",))), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("paths", body("plan", tool_policy=part(allowlisted_paths=("/",))), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("no dry run", body("plan", tool_policy=part(require_dry_run=False)), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("another intermediary", body("plan", intermediary_id=BETA), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("no intermediary", body("plan", intermediary_id=None), "PLAN_EXCEEDS_MANDATE", "plan"),
    (
        "no intermediary although tools are planned",
        body("plan", intermediary_id=None, assignments=lambda old: tuple(a for a in old if a.stage is not Stage.TOOL)),
        "PLAN_EXCEEDS_MANDATE",
        "plan",
    ),
    (
        "another intermediary throughout",
        body("plan", intermediary_id=BETA, assignments=place(Stage.TOOL, node_id=BETA, key=key(BETA, RoleName.TOOL_INTERMEDIARY).public)),
        "PLAN_EXCEEDS_MANDATE",
        "plan",
    ),
    (
        "no person where policy wants one",
        {"ceilings": with_parts(CEILINGS, approval_floor=ApprovalMode.STEP_BY_STEP)},
        "PLAN_EXCEEDS_MANDATE",
        "plan",
    ),
    (
        "tools at another node than the pinned one",
        body("plan", assignments=place(Stage.TOOL, node_id=BETA, key=key(BETA, RoleName.TOOL_INTERMEDIARY).public)),
        "PLAN_EXCEEDS_MANDATE",
        "plan",
    ),
    ("no default deny", body("plan", sandbox_profile=part(default_deny=False)), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("no task attestation", body("plan", attestation_requirements=part(require_task_attestation=False)), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("no tool attestation", body("plan", attestation_requirements=part(require_tool_attestation=False)), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("an expert's capabilities", body("plan", selected_elms=first(capabilities=(WRITE,))), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("an expert twice", body("plan", selected_elms=lambda old: (old[0], *old)), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("an expert nobody executes", body("plan", assignments=lambda old: old[:-1]), "PLAN_EXCEEDS_MANDATE", "plan"),
    ("a stage that is not of the graph", body("plan", execution_graph=part(stages=(Stage.DRAFT,))), "PLAN_EXCEEDS_MANDATE", "plan"),
    (
        "a verifier who drafts",
        body("plan", assignments=place(Stage.SYNTHESIZE, expert_id="core", entry=BASE["entry.core"].id)),
        "PLAN_EXCEEDS_MANDATE",
        "plan",
    ),
    (
        "drafting without an expert",
        body("plan", assignments=lambda old: (*old, with_parts(old[4], expert_id=None, entry=None))),
        "PLAN_EXCEEDS_MANDATE",
        "plan",
    ),
    ("a key without a grant", body("plan", assignments=place(Stage.SYNTHESIZE, key=bytes(32))), "CHAIN_BROKEN", "plan"),
    (
        "a key of another role",
        body("plan", assignments=place(Stage.SYNTHESIZE, key=key(ALPHA, RoleName.ROUTER).public)),
        "CHAIN_BROKEN",
        "plan",
    ),
    ("a key of another node", body("plan", assignments=place(Stage.SYNTHESIZE, node_id=BETA)), "CHAIN_BROKEN", "plan"),
    (
        "a role that does not execute the stage",
        body("plan", assignments=place(Stage.SYNTHESIZE, role=RoleName.ROUTER, key=key(ALPHA, RoleName.ROUTER).public)),
        "CHAIN_BROKEN",
        "plan",
    ),
    (
        "a node without the tenant",
        body("plan", assignments=place(Stage.SYNTHESIZE, node_id=GAMMA, key=key(GAMMA, RoleName.VERIFIER).public)),
        "FORBIDDEN",
        "plan",
    ),
    ("a hint that is missing", body("plan", hints=(sha256(b"x"),)), "CHAIN_BROKEN", "plan"),
    ("a hint that is none", body("plan", hints=(BASE["policy"].id,)), "CHAIN_BROKEN", "plan"),
    (
        "an expert without an entry",
        body("plan", assignments=lambda old: (*old[:-1], with_parts(old[-1], entry=None))),
        "CHAIN_BROKEN",
        "plan",
    ),
    ("an entry that is missing", missing("entry.spare"), "CHAIN_BROKEN", "expert entry"),
    ("a manifest that is missing", missing("manifest.spare"), "CHAIN_BROKEN", "manifest"),
    ("an entry of another worker", signed_by("entry.spare", BETA, RoleName.ELM_WORKER), "CHAIN_BROKEN", "expert entry"),
    ("a manifest of another worker", signed_by("manifest.spare", BETA, RoleName.ELM_WORKER), "CHAIN_BROKEN", "manifest"),
    ("an entry of another expert", body("entry.spare", expert_id="other"), "CHAIN_BROKEN", "expert entry"),
    ("an entry of another key", body("entry.spare", key=key(BETA, RoleName.ELM_WORKER).public), "CHAIN_BROKEN", "expert entry"),
    ("an entry of another node", body("entry.spare", node_id=BETA), "CHAIN_BROKEN", "expert entry"),
    ("another version than the entry's", body("plan", selected_elms=first(version="2.0")), "CHAIN_BROKEN", "expert entry"),
    ("another version than the core's", body("plan", selected_core=part(version="2.0")), "CHAIN_BROKEN", "expert entry"),
    ("a capability no manifest declares", body("manifest.helper", required_capabilities=()), "MANIFEST_MISSING", "manifest"),
)

DISPATCH: tuple[Row, ...] = (
    ("by another router", signed_by("dispatch.core", BETA, RoleName.ROUTER), "FENCED", "dispatch"),
    ("after the lease", head("dispatch.core", issued_at_ms=NOW_MS + 30_001), "LEASE_EXPIRED", "dispatch"),
    ("older than the mandate", head("dispatch.core", issued_at_ms=NOW_MS - 130_000), "CHAIN_BROKEN", "dispatch"),
    ("of another mandate", body("dispatch.core", mandate=sha256(b"x")), "CHAIN_BROKEN", "dispatch"),
    ("of another plan", body("dispatch.core", plan=sha256(b"x")), "CHAIN_BROKEN", "dispatch"),
    ("request_id", body("dispatch.core", request_id=OTHER), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("generation", body("dispatch.core", generation=2), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("another pass", body("dispatch.core", processing_pass=ProcessingPass.RETRIEVAL), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("more turns", body("dispatch.core", turn=3), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("tokens", body("dispatch.core", remaining=part(tokens=4001)), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("wall", body("dispatch.core", remaining=part(wall_ms=60_001)), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("spend", body("dispatch.core", remaining=part(spend=1001)), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("an unplanned expert", body("dispatch.core", expert_id="spare"), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    (
        "an unplanned key",
        body("dispatch.core", peer=key(BETA, RoleName.SEMANTIC_CORE).public, node_id=BETA),
        "DISPATCH_EXCEEDS_PLAN",
        "dispatch",
    ),
    ("a draft without a plan", body("dispatch.core", plan=None), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("memory: an expert without a plan", body("dispatch.memory", expert_id="core"), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("memory: more tokens than the mandate", body("dispatch.memory", remaining=part(tokens=4001)), "DISPATCH_EXCEEDS_PLAN", "dispatch"),
    ("memory: a key without a grant", body("dispatch.memory", peer=bytes(32)), "CHAIN_BROKEN", "dispatch"),
    ("memory: a key of another role", body("dispatch.memory", peer=key(ALPHA, RoleName.VERIFIER).public), "CHAIN_BROKEN", "dispatch"),
    ("memory: a key of another node", body("dispatch.memory", node_id=BETA), "CHAIN_BROKEN", "dispatch"),
    (
        "memory: a node without the tenant",
        body("dispatch.memory", peer=key(GAMMA, RoleName.MEMORY_INDEX).public, node_id=GAMMA),
        "FORBIDDEN",
        "dispatch",
    ),
    ("two for one place", again("dispatch.core"), "CHAIN_BROKEN", "dispatch"),
    ("a missing input", head("dispatch.core", refs=lambda refs: (*refs, sha256(b"x"))), "CHAIN_BROKEN", "dispatch"),
    ("inputs that are not the digested ones", head("dispatch.core", refs=lambda refs: refs[:-1]), "CHAIN_BROKEN", "dispatch"),
    ("no mandate among the inputs", head("dispatch.memory", refs=()), "CHAIN_BROKEN", "dispatch"),
    ("dropped", missing("dispatch.core"), "CHAIN_BROKEN", "output core"),
)

WORK: tuple[Row, ...] = (
    ("a retrieval by another node", signed_by("retrieval", BETA, RoleName.MEMORY_INDEX), "CHAIN_BROKEN", "memory"),
    ("a retrieval by a node without the tenant", signed_by("retrieval", GAMMA, RoleName.MEMORY_INDEX), "FORBIDDEN", "memory"),
    ("a retrieval of another request", body("retrieval", request_id=OTHER), "CHAIN_BROKEN", "memory"),
    ("a retrieval of another generation", body("retrieval", generation=2), "CHAIN_BROKEN", "memory"),
    ("a retrieval of a dispatch to somebody else", body("retrieval", dispatch=sha256(b"x")), "CHAIN_BROKEN", "memory"),
    ("two retrievals of one dispatch", again("retrieval", items=()), "CHAIN_BROKEN", "memory"),
    ("an untrusted item in a trusted mode", body("retrieval", memory_mode=MemoryMode.TRUSTED_ONLY), "CHAIN_BROKEN", "memory"),
    ("an item in no mode at all", body("retrieval", memory_mode=MemoryMode.NONE), "CHAIN_BROKEN", "memory"),
    (
        "a wider memory mode than the mandate's",
        {
            "ceilings": with_parts(CEILINGS, memory_floor=MemoryMode.TRUSTED_ONLY),
            "change": {"plan": {"memory_mode": MemoryMode.TRUSTED_ONLY}},
        },
        "CHAIN_BROKEN",
        "memory",
    ),
    (
        "a plan with a wider memory mode",
        {"ceilings": with_parts(CEILINGS, memory_floor=MemoryMode.TRUSTED_ONLY)},
        "PLAN_EXCEEDS_MANDATE",
        "plan",
    ),
    ("evidence of another turn", body("evidence", turn=1), "CHAIN_BROKEN", "evidence"),
    ("evidence by another node", signed_by("evidence", BETA, RoleName.GROUNDING), "CHAIN_BROKEN", "evidence"),
    ("a router's evidence", signed_by("evidence", ALPHA, RoleName.ROUTER), "WRONG_ROLE", "grounding_evidence"),
    ("an output by another worker", signed_by("output.core", BETA, RoleName.SEMANTIC_CORE), "CHAIN_BROKEN", "output core"),
    ("an output of another request", body("output.core", request_id=OTHER), "CHAIN_BROKEN", "output core"),
    ("an output of another generation", body("output.core", generation=2), "CHAIN_BROKEN", "output core"),
    ("an output of another expert", body("output.core", expert_id="spare"), "CHAIN_BROKEN", "output spare"),
    ("an output of another turn", body("output.core", turn=2), "CHAIN_BROKEN", "output core"),
    ("another version", body("output.core", expert_version="2.0"), "CHAIN_BROKEN", "output core"),
    ("a rule that poses as a model", body("output.core", backend_kind=BackendKind.OPENAI), "CHAIN_BROKEN", "output core"),
    ("another model", body("output.core", model_id="grand-model"), "CHAIN_BROKEN", "output core"),
    ("another licence", body("output.core", model_license="none"), "CHAIN_BROKEN", "output core"),
    ("another artifact", body("output.core", artifact_hash=sha256(b"x")), "CHAIN_BROKEN", "output core"),
    ("another role", body("output.core", expert_role=ExpertRole.VERIFIER), "CHAIN_BROKEN", "output core"),
    (
        "a calibration that is not registered",
        body("output.core", calibration_id="exact/1", confidence=10_000),
        "CHAIN_BROKEN",
        "output core",
    ),
    ("confidence without a calibration", body("output.core", confidence=10_000), "CHAIN_BROKEN", "output core"),
    ("another swarm's entry", head("entry.spare", swarm=bytes(16)), "WRONG_SWARM", "expert_entry"),
    ("an item that is not in its record", body("output.core", evidence=first(item="p9")), "CHAIN_BROKEN", "output core"),
    (
        "a record that is no evidence",
        body("output.core", evidence=lambda old: (with_parts(old[0], record=BASE["plan"].id),)),
        "CHAIN_BROKEN",
        "output core",
    ),
    ("a span outside the passage", body("output.core", evidence=first(span_end=len(PASSAGE) + 1)), "CHAIN_BROKEN", "output core"),
    (
        "a span outside the memory",
        body("output.core", evidence=lambda old: (*old[:2], with_parts(old[2], span_end=10_000))),
        "CHAIN_BROKEN",
        "output core",
    ),
    (
        "a span outside the evidence",
        body("output.core", evidence=lambda old: (old[0], with_parts(old[1], span_end=10_000), old[2])),
        "CHAIN_BROKEN",
        "output core",
    ),
    ("a span that runs backwards", body("output.core", evidence=first(span_start=9, span_end=3)), "CHAIN_BROKEN", "output core"),
    (
        "two proposals with one id",
        body("output.helper", tool_calls=lambda old: (*old, with_parts(old[0], tool_name="files.stat"))),
        "CHAIN_BROKEN",
        "output helper",
    ),
    ("two outputs of one dispatch", again("output.core", answer_type=AnswerType.JSON), "CHAIN_BROKEN", "output core"),
    ("an absence of an expert nobody named", body("absence.spare", expert_id="ghost"), "CHAIN_BROKEN", "absence ghost"),
    ("an absence of another plan", body("absence.spare", plan=sha256(b"x")), "CHAIN_BROKEN", "absence spare"),
    ("an absence of another request", body("absence.spare", request_id=OTHER), "CHAIN_BROKEN", "absence spare"),
    ("an absence of another generation", body("absence.spare", generation=2), "CHAIN_BROKEN", "absence spare"),
    ("an absence by another router", signed_by("absence.spare", BETA, RoleName.ROUTER), "FENCED", "absence"),
    ("an absence after the lease", head("absence.spare", issued_at_ms=NOW_MS + 30_001), "LEASE_EXPIRED", "absence"),
    ("an absence by another worker", signed_by("absence.spare", ALPHA, RoleName.SEMANTIC_CORE), "CHAIN_BROKEN", "absence spare"),
    ("an absence by a node without the tenant", signed_by("absence.spare", GAMMA, RoleName.ELM_WORKER), "FORBIDDEN", "absence spare"),
    (
        "an absence instead of an output at hand",
        again("absence.spare", expert_id="core", reason="UNREACHABLE"),
        "CHAIN_BROKEN",
        "absence core",
    ),
    ("an absence omitted", missing("absence.spare"), "CHAIN_BROKEN", "member spare"),
    ("an attestation omitted", missing("task_attestation.core"), "CHAIN_BROKEN", "task attestation"),
    ("an attestation by another key", signed_by("task_attestation.core", ALPHA, RoleName.ELM_WORKER), "CHAIN_BROKEN", "task attestation"),
    (
        "an attestation by a node without the tenant",
        signed_by("task_attestation.core", GAMMA, RoleName.SEMANTIC_CORE),
        "FORBIDDEN",
        "task attestation",
    ),
    ("an attestation of another output", body("task_attestation.core", output=sha256(b"x")), "CHAIN_BROKEN", "task attestation"),
    ("an attestation of another dispatch", body("task_attestation.core", dispatch=sha256(b"x")), "CHAIN_BROKEN", "task attestation"),
    ("an attestation of another request", body("task_attestation.core", request_id=OTHER), "CHAIN_BROKEN", "task attestation"),
    ("an attestation of another generation", body("task_attestation.core", generation=2), "CHAIN_BROKEN", "task attestation"),
    (
        "an attestation of another pass",
        body("task_attestation.core", processing_pass=ProcessingPass.COMPUTE),
        "CHAIN_BROKEN",
        "task attestation",
    ),
    ("an attestation of another node", body("task_attestation.core", node_id=BETA), "CHAIN_BROKEN", "task attestation"),
    (
        "an attestation of another backend",
        body("task_attestation.core", backend_kind=BackendKind.OPENAI),
        "CHAIN_BROKEN",
        "task attestation",
    ),
    ("an attestation of another usage", body("task_attestation.core", usage=part(prompt_tokens=1)), "CHAIN_BROKEN", "task attestation"),
    ("two attestations of one dispatch", again("task_attestation.core", wall_ms=9), "CHAIN_BROKEN", "task attestation"),
    ("a stray record", {"extra": lambda chain: [lone_entry(chain)]}, "CHAIN_BROKEN", "stray expert_entry"),
    ("another swarm's record", head("evidence", swarm=bytes(16)), "WRONG_SWARM", "grounding_evidence"),
    ("an ungranted worker", {"keys": {"output.core": Key(SignerRole.SEMANTIC_CORE, bytes(32))}}, "UNKNOWN_KEY", "expert_output"),
    ("a key older than its grant", head("output.core", epoch=0), "NOT_YET_VALID", "expert_output"),
    ("before its grant", head("output.core", issued_at_ms=NOW_MS - 10 * 24 * 3600 * 1000), "NOT_YET_VALID", "expert_output"),
    ("after its grant", head("output.core", issued_at_ms=NOW_MS + 10 * 24 * 3600 * 1000), "EXPIRED", "expert_output"),
    ("from the future", head("output.core", issued_at_ms=NOW_MS + 3600 * 1000), "NOT_YET_VALID", "expert_output"),
)


def calibrated_abstention() -> dict[str, Any]:
    calibrated = {"calibration_id": "exact/1", "confidence": 10_000}
    return {"change": {"output.helper": calibrated, "synthesis": {"members": member("helper", weight=1)}}}


def two_syntheses(**later: int) -> dict[str, Any]:
    """The verifier was asked again; the response keeps to what it had said first."""

    def more(chain: Chain) -> list[Any]:
        old, verifier = chain["dispatch.synthesis"], key(ALPHA, RoleName.VERIFIER)
        dispatch = sign(altered(old.body, later), key(ALPHA, RoleName.ROUTER), CAST.swarm, seq=907, at_ms=NOW_MS + 60, refs=old.header.refs)
        result = sign(
            altered(chain["synthesis"].body, {"dispatch": dispatch.id}), verifier, CAST.swarm, seq=908, at_ms=NOW_MS + 61, refs=()
        )
        attested = altered(chain["task_attestation.synthesis"].body, {"dispatch": dispatch.id, "output": result.id})
        return [dispatch, result, sign(attested, verifier, CAST.swarm, seq=909, at_ms=NOW_MS + 62, refs=())]

    return {"extra": more}


def hidden_output(whose: str = "core") -> dict[str, Any]:
    """The synthesis counts the core as not needed although its output is at hand; or counts another expert by the core's absence."""

    def absent(chain: Chain) -> Any:
        made = altered(chain["absence.spare"].body, {"expert_id": "core"})
        return sign(made, key(ALPHA, RoleName.ROUTER), CAST.swarm, seq=902, at_ms=NOW_MS + 50, refs=())

    hidden = absent(BASE)
    refs = [*(r for r in BASE.records.values() if r.id in BASE["dispatch.synthesis"].header.refs), hidden]
    return {
        "extra": lambda chain: [hidden],
        "header": {"dispatch.synthesis": {"refs": lambda refs: (*refs, hidden.id)}},
        "change": {
            "dispatch.synthesis": {"input_digest": digest_of(refs)},
            "synthesis": {
                "members": member(whose, output=None, absence=hidden.id, cluster=0, supported=False),
                "outcome": Outcome.ABSTAINED,
            },
        },
    }


def newer_output() -> dict[str, Any]:
    """The core spoke again a turn later; the synthesis was not given it."""

    def more(chain: Chain) -> list[Any]:
        router, worker = key(ALPHA, RoleName.ROUTER), key(ALPHA, RoleName.SEMANTIC_CORE)
        old = chain["dispatch.core"]
        dispatch = sign(altered(old.body, {"turn": 2}), router, CAST.swarm, seq=903, at_ms=NOW_MS + 51, refs=old.header.refs)
        output = sign(
            altered(chain["output.core"].body, {"turn": 2, "dispatch": dispatch.id}),
            worker,
            CAST.swarm,
            seq=904,
            at_ms=NOW_MS + 52,
            refs=(),
        )
        attested = altered(chain["task_attestation.core"].body, {"dispatch": dispatch.id, "output": output.id})
        return [dispatch, output, sign(attested, worker, CAST.swarm, seq=905, at_ms=NOW_MS + 53, refs=())]

    return {"extra": more}


def idle_approval() -> Any:
    return sign(Chain(CAST, **approved())["approval"].body, key(ACME, SignerRole.APPROVER), CAST.swarm, seq=906, at_ms=NOW_MS)


def cite(name: str, item: str) -> ex.OutputEvidence:
    return ex.OutputEvidence(type=ex.EvidenceType.CITATION, record=BASE[name].id, item=item, span_start=0, span_end=1)


def lone_entry(chain: Chain) -> Any:
    return sign(
        altered(chain["entry.spare"].body, {"slots": 7}),
        chain.cast.key(ALPHA, RoleName.ELM_WORKER),
        chain.cast.swarm,
        seq=901,
        at_ms=NOW_MS,
    )


def write(**second: Any) -> dict[str, Any]:
    """The same call as a write that policy, plan and manifest allow."""
    declared = (with_parts(BASE["manifest.helper"].body.required_capabilities[0], name=WRITE),)
    capability = {"capability": WRITE, "capability_hash": sha256(WRITE.encode()), "effect_class": EffectClass.WRITE}
    return {
        "ceilings": with_parts(CEILINGS, capabilities=(WRITE,)),
        "change": {
            "manifest.helper": {"required_capabilities": declared},
            "plan": {"tool_policy": part(capability_whitelist=(WRITE,)), "selected_elms": first(capabilities=(WRITE,))},
            "attestation.first": capability,
            "attestation.second": second,
        },
    }


def approved(**changes: Any) -> dict[str, Any]:
    """A write that a person approved, with a lie about the approval."""
    how = write()
    return how | {"approve": True, "change": how["change"] | {"approval": changes}}


def without_input(dispatch: str, name: str) -> dict[str, Any]:
    """A dispatch that leaves an input out, with a digest that fits."""
    left = [r for n, r in BASE.records.items() if n != name and r.id in BASE[dispatch].header.refs]
    return {
        "header": {dispatch: {"refs": lambda refs: tuple(r for r in refs if r != BASE[name].id)}},
        "change": {dispatch: {"input_digest": digest_of(left)}},
    }


def plus(how: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """More changed fields."""
    return how | {"change": how.get("change", {}) | changes}


BOTH = ("attestation.first", "attestation.second")
TOOLS: tuple[Row, ...] = (
    ("the first attestation omitted", missing("attestation.first"), "CHAIN_BROKEN", "result files.read"),
    (
        "a proposal nobody attested",
        missing(*BOTH, "dry_run", "sanitized") | body("output.core", evidence=lambda old: old[1:]),
        "CHAIN_BROKEN",
        "proposal files.read",
    ),
    ("the result omitted", missing("attestation.second"), "CHAIN_BROKEN", "attestation files.read"),
    (
        "signed by another intermediary",
        signed_by("attestation.first", BETA, RoleName.TOOL_INTERMEDIARY),
        "CHAIN_BROKEN",
        "attestation files.read",
    ),
    ("signed by a router", signed_by("attestation.first", ALPHA, RoleName.ROUTER), "WRONG_ROLE", "tool_attestation"),
    (
        "by a node without the tenant",
        signed_by("attestation.first", GAMMA, RoleName.TOOL_INTERMEDIARY),
        "FORBIDDEN",
        "attestation files.read",
    ),
    ("of another request", body("attestation.first", request_id=OTHER), "CHAIN_BROKEN", "attestation files.read"),
    ("of another generation", body("attestation.first", generation=2), "CHAIN_BROKEN", "attestation files.read"),
    (
        "of a dispatch that is none of tools",
        body("attestation.first", dispatch=BASE["dispatch.helper"].id),
        "CHAIN_BROKEN",
        "attestation files.read",
    ),
    ("of no dispatch", body("attestation.first", dispatch=sha256(b"x")), "CHAIN_BROKEN", "attestation files.read"),
    ("of another turn", body("attestation.first", turn=1), "CHAIN_BROKEN", "attestation files.read"),
    ("of another node", body("attestation.first", intermediary_node_id=BETA), "CHAIN_BROKEN", "attestation files.read"),
    ("of an output that is missing", body("attestation.first", expert_output=sha256(b"x")), "CHAIN_BROKEN", "attestation files.read"),
    ("of a proposal nobody made", body("attestation.first", tool_call_id=OTHER), "CHAIN_BROKEN", "attestation files.read"),
    ("of another tool", body("attestation.first", tool_name="files.write"), "CHAIN_BROKEN", "attestation files.write"),
    ("under another capability", body("attestation.first", capability_hash=sha256(b"x")), "CHAIN_BROKEN", "attestation files.read"),
    ("under other policies", body("attestation.first", policy_hash=sha256(b"x")), "CHAIN_BROKEN", "attestation files.read"),
    ("two first attestations", again("attestation.first", timestamp_ms=9), "CHAIN_BROKEN", "attestation"),
    ("a first that binds an output", body("attestation.first", sanitized=sha256(b"x")), "CHAIN_BROKEN", "attestation files.read"),
    ("a first that follows another", body("attestation.first", first_attestation=sha256(b"x")), "CHAIN_BROKEN", "attestation files.read"),
    ("safe without a passed dry run", body("attestation.first", dry_run_ok=False), "CHAIN_BROKEN", "attestation files.read"),
    (
        "safe without a dry run",
        body("attestation.first", dry_run=None, provenance_hash=sha256(b"")),
        "CHAIN_BROKEN",
        "attestation files.read",
    ),
    (
        "safe outside the plan's whitelist",
        body("plan", tool_policy=part(capability_whitelist=())),
        "CAPABILITY_DENIED",
        "attestation files.read",
    ),
    (
        "safe outside the expert's own capabilities",
        body("plan", selected_elms=first(capabilities=())),
        "CAPABILITY_DENIED",
        "attestation files.read",
    ),
    ("a dry run that is missing", missing("dry_run"), "CHAIN_BROKEN", "attestation files.read"),
    ("a dry run by another node", signed_by("dry_run", BETA, RoleName.TOOL_INTERMEDIARY), "CHAIN_BROKEN", "attestation files.read"),
    ("a dry run of another call", body("dry_run", tool_call_id=OTHER), "CHAIN_BROKEN", "attestation files.read"),
    ("a dry run of another request", body("dry_run", request_id=OTHER), "CHAIN_BROKEN", "attestation files.read"),
    ("a dry run that failed", body("dry_run", dry_run_ok=False), "CHAIN_BROKEN", "attestation files.read"),
    ("a dry run of another kind", body("dry_run", dry_run_kind="validated_only"), "CHAIN_BROKEN", "attestation files.read"),
    ("a dry run of another output", head("dry_run", refs=(BASE["output.core"].id,)), "CHAIN_BROKEN", "attestation files.read"),
    ("another provenance", body("attestation.first", provenance_hash=sha256(b"x")), "CHAIN_BROKEN", "attestation files.read"),
    (
        "provenance of a refusal without a dry run",
        body("attestation.first", dry_run=None, safe_to_execute=False),
        "CHAIN_BROKEN",
        "attestation files.read",
    ),
    ("a result without its first", body("attestation.second", first_attestation=sha256(b"x")), "CHAIN_BROKEN", "result files.read"),
    ("a result after a refusal", body("attestation.first", safe_to_execute=False), "UNATTESTED", "result files.read"),
    ("two results of one proposal", again("attestation.second", timestamp_ms=9), "CHAIN_BROKEN", "result files.read"),
    ("a result of another effect", body("attestation.second", effect_key=sha256(b"x")), "CHAIN_BROKEN", "result files.read"),
    ("a result of another class", body("attestation.second", effect_class=EffectClass.WRITE), "CHAIN_BROKEN", "result files.read"),
    (
        "a result that follows itself",
        body("attestation.second", first_attestation=BASE["attestation.second"].id),
        "CHAIN_BROKEN",
        "result files.read",
    ),
    (
        "a result with sanitised data that are missing",
        body("attestation.second", sanitized=sha256(b"x")),
        "CHAIN_BROKEN",
        "result files.read",
    ),
    ("sanitised data by another node", signed_by("sanitized", BETA, RoleName.TOOL_INTERMEDIARY), "CHAIN_BROKEN", "result files.read"),
    (
        "sanitised data of another call",
        {"change": {"sanitized": {"tool_call_id": OTHER}, "output.core": {"evidence": lambda old: old[1:]}}},
        "CHAIN_BROKEN",
        "result files.read",
    ),
    ("sanitised data of another request", body("sanitized", request_id=OTHER), "CHAIN_BROKEN", "result files.read"),
    ("sanitised data of another output", head("sanitized", refs=(BASE["output.core"].id,)), "CHAIN_BROKEN", "result files.read"),
    ("a result of other data", body("attestation.second", provenance_hash=sha256(b"x")), "CHAIN_BROKEN", "result files.read"),
    (
        "data of an effect that is not done",
        body("attestation.second", effect_state=EffectState.FAILED_DEFINITE),
        "CHAIN_BROKEN",
        "result files.read",
    ),
    (
        "provenance of an effect that is not done",
        body("attestation.second", effect_state=EffectState.FAILED_DEFINITE, sanitized=None),
        "CHAIN_BROKEN",
        "result files.read",
    ),
    ("data that are not usable", body("attestation.second", safe_to_execute=False), "CHAIN_BROKEN", "result files.read"),
    ("a report by another node", signed_by("effects", BETA, RoleName.TOOL_INTERMEDIARY), "CHAIN_BROKEN", "effects"),
    ("a report of another request", body("effects", request_id=OTHER), "CHAIN_BROKEN", "effects"),
    ("a lone report of another request", again("effects", dispatch=None, request_id=OTHER), "CHAIN_BROKEN", "effects"),
    (
        "a lone report by another node",
        {
            "extra": lambda c: [
                sign(altered(c["effects"].body, {"dispatch": None}), key(BETA, RoleName.TOOL_INTERMEDIARY), CAST.swarm, seq=9, at_ms=NOW_MS)
            ]
        },
        "CHAIN_BROKEN",
        "effects",
    ),
    ("a write without approval", write(), "APPROVAL_REQUIRED", "result files.read"),
    (
        "a read that waited for approval",
        body("attestation.first", effect_state=EffectState.AWAITING_APPROVAL),
        "APPROVAL_REQUIRED",
        "result files.read",
    ),
    ("an approval that is missing", write(approval=sha256(b"x")), "CHAIN_BROKEN", "result files.read"),
    ("an approval of another call", approved(tool_call_id=OTHER), "APPROVAL_REQUIRED", "result files.read"),
    ("an approval of another effect", approved(effect_key=sha256(b"x")), "APPROVAL_REQUIRED", "result files.read"),
    ("an approval of another attestation", approved(attestation=sha256(b"x")), "APPROVAL_REQUIRED", "result files.read"),
    ("an approval under other policies", approved(policy_hash=sha256(b"x")), "APPROVAL_REQUIRED", "result files.read"),
    ("an approval of another request", approved(request_id=OTHER), "APPROVAL_REQUIRED", "result files.read"),
    ("a denial", approved(approved=False), "APPROVAL_REQUIRED", "result files.read"),
    ("an approval that had ended", approved(not_after_ms=NOW_MS), "APPROVAL_REQUIRED", "result files.read"),
    (
        "another tenant's approver",
        approved() | signed_by("approval", GLOBEX, SignerRole.APPROVER),
        "APPROVAL_REQUIRED",
        "result files.read",
    ),
    ("an approval by the policy key", approved() | signed_by("approval", ACME, SignerRole.POLICY), "WRONG_ROLE", "approval_decision"),
    ("an approval nobody needed", {"extra": lambda c: [idle_approval()]}, "CHAIN_BROKEN", "stray approval_decision"),
    (
        "a result of another capability",
        body("attestation.second", capability=WRITE, capability_hash=sha256(WRITE.encode())),
        "CHAIN_BROKEN",
        "result files.read",
    ),
    (
        "a result of another call with the same effect",
        {
            "calls": 2,
            "change": {
                "attestation.first2": {"effect_key": sha256(CALL.encode())},
                "attestation.second2": {"effect_key": sha256(CALL.encode()), "first_attestation": TWO["attestation.first"].id},
            },
        },
        "CHAIN_BROKEN",
        "result files.read",
    ),
    ("mediated in another turn than dispatched", body("dispatch.tool", turn=1), "CHAIN_BROKEN", "attestation files.read"),
    (
        "mediated in another turn than proposed",
        {"change": {"dispatch.tool": {"turn": 1}, "attestation.first": {"turn": 1}}},
        "CHAIN_BROKEN",
        "attestation files.read",
    ),
    (
        "an output that was not put to the intermediary",
        without_input("dispatch.tool", "output.helper"),
        "CHAIN_BROKEN",
        "attestation files.read",
    ),
    (
        "an answer over a proposal that nobody mediated",
        missing("dispatch.tool", "task_attestation.tool", "effects", *BOTH, "dry_run", "sanitized")
        | body("output.core", evidence=lambda old: old[1:]),
        "CHAIN_BROKEN",
        "proposal files.read",
    ),
)

END: tuple[Row, ...] = (
    ("by another verifier", signed_by("synthesis", BETA, RoleName.VERIFIER), "CHAIN_BROKEN", "synthesis"),
    ("by a worker", signed_by("synthesis", ALPHA, RoleName.SEMANTIC_CORE), "WRONG_ROLE", "synthesis_result"),
    ("of another plan", body("synthesis", plan=sha256(b"x")), "CHAIN_BROKEN", "synthesis"),
    ("of another dispatch", body("synthesis", dispatch=BASE["dispatch.core"].id), "CHAIN_BROKEN", "synthesis"),
    ("of another request", body("synthesis", request_id=OTHER), "CHAIN_BROKEN", "synthesis"),
    ("of another generation", body("synthesis", generation=2), "CHAIN_BROKEN", "synthesis"),
    ("an outcome that is none", body("synthesis", outcome=Outcome.FAILED), "CHAIN_BROKEN", "synthesis"),
    ("a member left out", body("synthesis", members=lambda old: old[:-1]), "CHAIN_BROKEN", "synthesis"),
    ("a member twice", body("synthesis", members=lambda old: (*old, old[0])), "CHAIN_BROKEN", "synthesis"),
    (
        "a member nobody planned",
        body("synthesis", members=lambda old: (*old, with_parts(old[2], expert_id="ghost"))),
        "CHAIN_BROKEN",
        "synthesis",
    ),
    ("a member with both", body("synthesis", members=member("spare", output=BASE["output.core"].id)), "CHAIN_BROKEN", "member spare"),
    ("a member with neither", body("synthesis", members=member("spare", absence=None)), "CHAIN_BROKEN", "member spare"),
    (
        "another expert's output",
        body("synthesis", members=member("helper", output=BASE["output.core"].id)),
        "CHAIN_BROKEN",
        "member helper",
    ),
    (
        "another expert's absence",
        body("synthesis", members=member("helper", output=None, absence=BASE["absence.spare"].id)),
        "CHAIN_BROKEN",
        "member helper",
    ),
    ("an output that is missing", body("synthesis", members=member("core", output=sha256(b"x"))), "CHAIN_BROKEN", "member core"),
    ("a vote for the uncalibrated", body("synthesis", members=member("core", weight=1)), "CHAIN_BROKEN", "member core"),
    ("a vote for the absent", body("synthesis", members=member("spare", weight=1)), "CHAIN_BROKEN", "member spare"),
    ("a cluster for the absent", body("synthesis", members=member("spare", cluster=1)), "CHAIN_BROKEN", "member spare"),
    ("support for the absent", body("synthesis", members=member("spare", supported=True)), "CHAIN_BROKEN", "member spare"),
    ("a cluster for an abstention", body("synthesis", members=member("helper", cluster=1)), "CHAIN_BROKEN", "member helper"),
    ("support for an abstention", body("synthesis", members=member("helper", supported=True)), "CHAIN_BROKEN", "member helper"),
    ("an answer nobody gave", body("synthesis", members=member("core", cluster=0, supported=False)), "CHAIN_BROKEN", "synthesis"),
    ("an answer nobody supports", body("synthesis", members=member("core", supported=False)), "CHAIN_BROKEN", "synthesis"),
    (
        "an output it was not given",
        head("dispatch.synthesis", refs=lambda refs: refs) | missing("output.core"),
        "CHAIN_BROKEN",
        "member core",
    ),
    ("a source it was not given", without_input("dispatch.synthesis", "evidence"), "CHAIN_BROKEN", "source"),
    ("memory it was not given", without_input("dispatch.synthesis", "retrieval"), "CHAIN_BROKEN", "synthesis"),
    ("an attestation it was not given", without_input("dispatch.synthesis", "attestation.second"), "UNATTESTED", "synthesis"),
    ("an absence it was not given", without_input("dispatch.synthesis", "absence.spare"), "CHAIN_BROKEN", "member spare"),
    (
        "evidence it was not given",
        plus(without_input("dispatch.helper", "evidence"), **{"output.helper": {"evidence": lambda _: (cite("evidence", "p0"),)}}),
        "CHAIN_BROKEN",
        "output helper",
    ),
    (
        "a tool output that failed",
        {
            "change": {
                "attestation.second": {"effect_state": EffectState.FAILED_DEFINITE, "sanitized": None, "provenance_hash": sha256(b"")},
                "synthesis": {"tool_attestations": ()},
            }
        },
        "UNATTESTED",
        "source",
    ),
    (
        "a tool output that nobody may use",
        {
            "change": {
                "attestation.second": {"safe_to_execute": False, "sanitized": None, "provenance_hash": sha256(b"")},
                "synthesis": {"sources": lambda old: old[:1]},
            }
        },
        "UNATTESTED",
        "synthesis",
    ),
    (
        "a member with an absence beside its output",
        body("synthesis", members=member("core", absence=BASE["absence.spare"].id)),
        "CHAIN_BROKEN",
        "member core",
    ),
    ("an absence instead of a NOT_NEEDED output", hidden_output(), "CHAIN_BROKEN", "member core"),
    ("an absence of another expert", hidden_output("spare"), "CHAIN_BROKEN", "member spare"),
    ("a vote for an abstention", calibrated_abstention(), "CHAIN_BROKEN", "member helper"),
    ("an earlier attempt than the last", two_syntheses(attempt=1), "CHAIN_BROKEN", "response"),
    ("an earlier turn than the last", two_syntheses(turn=2), "CHAIN_BROKEN", "response"),
    (
        "an old output although there is a newer one",
        newer_output(),
        "CHAIN_BROKEN",
        "member core",
    ),
    (
        "a verification that poses as a synthesis",
        {
            "change": {
                "plan": {
                    "assignments": lambda old: (*old, with_parts(old[3], stage=Stage.VERIFY)),
                    "execution_graph": part(stages=tuple(Stage[s] for s in ("DRAFT", "GROUND", "MEMORY", "SYNTHESIZE", "TOOL", "VERIFY"))),
                },
                "dispatch.synthesis": {"stage": Stage.VERIFY},
            }
        },
        "CHAIN_BROKEN",
        "synthesis",
    ),
    ("a source item that is not there", body("synthesis", sources=first(item="p9")), "CHAIN_BROKEN", "source"),
    (
        "a source span outside",
        body("synthesis", sources=lambda old: (old[0], with_parts(old[1], span_end=len(PASSAGE) + 1))),
        "CHAIN_BROKEN",
        "source",
    ),
    (
        "a tool output whose result is no attestation",
        body("synthesis", tool_attestations=(BASE["attestation.first"].id,)),
        "UNATTESTED",
        "synthesis",
    ),
    ("memory nobody retrieved", body("synthesis", memory_used=(sha256(b"x"),)), "CHAIN_BROKEN", "synthesis"),
    (
        "memory the plan does not permit",
        body("plan", memory_mode=MemoryMode.TRUSTED_ONLY),
        "CHAIN_BROKEN",
        "synthesis",
    ),
    ("a response by another ingress", signed_by("response", BETA, RoleName.INGRESS), "CHAIN_BROKEN", "response"),
    ("a response by a node without the tenant", signed_by("response", GAMMA, RoleName.INGRESS), "FORBIDDEN", "response"),
    ("a response to another mandate", body("response", mandate=sha256(b"x")), "CHAIN_BROKEN", "response"),
    ("a response of another request", body("response", request_id=OTHER), "CHAIN_BROKEN", "response"),
    ("a response of another generation", body("response", generation=2), "CHAIN_BROKEN", "response"),
    ("two responses", again("response", finished_at_ms=9) | {"covers_no_extra": True}, "CHAIN_BROKEN", "response"),
    (
        "a record that the response does not cover",
        again("dispatch.core", attempt=1) | {"covers_no_extra": True},
        "CHAIN_BROKEN",
        "response",
    ),
    ("a record that was covered and is gone", again("dispatch.core", attempt=1) | {"lose": "extra"}, "CHAIN_BROKEN", "response"),
    ("a response that covers what is not there", head("response", refs=lambda refs: (*refs, sha256(b"x"))), "CHAIN_BROKEN", "response"),
    ("an answer without its synthesis", body("response", synthesis=None), "CHAIN_BROKEN", "response"),
    ("an answer of another synthesis", body("response", synthesis=sha256(b"x")), "CHAIN_BROKEN", "response"),
    (
        "an answer with an error",
        body("response", error=flow.ErrorDetail(code="INTERNAL", what="x", fix="x", whose=Whose.LOCAL, definite=True, retryable=False)),
        "CHAIN_BROKEN",
        "response",
    ),
    ("a provisional answer", body("synthesis", provisional=True), "CHAIN_BROKEN", "response"),
    ("another answer", body("response", answer=part(commitment=sha256(b"x"))), "CHAIN_BROKEN", "response"),
    ("another answer type", body("response", answer_type=AnswerType.JSON), "CHAIN_BROKEN", "response"),
    ("another outcome", body("response", outcome=Outcome.ABSTAINED), "CHAIN_BROKEN", "response"),
    ("another agreement", body("response", agreement=1), "CHAIN_BROKEN", "response"),
    ("a failure that answers", body("response", outcome=Outcome.FAILED, synthesis=None), "CHAIN_BROKEN", "response"),
    ("a failure of a synthesis", body("response", outcome=Outcome.FAILED, answer=part(size=0), agreement=0), "CHAIN_BROKEN", "response"),
    (
        "a failure without an error",
        body("response", outcome=Outcome.FAILED, synthesis=None, answer=part(size=0), agreement=0),
        "CHAIN_BROKEN",
        "response",
    ),
    (
        "effects nobody reported",
        body("response", effects=(with_parts(BASE["effects"].body.effects[0], turn=1),)),
        "CHAIN_BROKEN",
        "response",
    ),
    ("settled by another node", signed_by("task", BETA, RoleName.SETTLEMENT), "CHAIN_BROKEN", "settlement"),
    ("settled by a node without the tenant", signed_by("task", GAMMA, RoleName.SETTLEMENT), "FORBIDDEN", "settlement"),
    ("settled by an ingress", signed_by("task", ALPHA, RoleName.INGRESS), "WRONG_ROLE", "task_record"),
    ("settled for another request", body("task", request_id=OTHER), "CHAIN_BROKEN", "settlement"),
    ("settled for another generation", body("task", generation=2), "CHAIN_BROKEN", "settlement"),
    ("settled for another plan", body("task", plan_hash=sha256(b"x")), "CHAIN_BROKEN", "settlement"),
    ("settled without an output", body("task", expert_result_hashes=lambda old: old[:-1]), "CHAIN_BROKEN", "settlement"),
    ("settled without an attestation", body("task", tool_attestation_hashes=()), "CHAIN_BROKEN", "settlement"),
    ("settled for another response", body("task", final_response_hash=sha256(b"x")), "CHAIN_BROKEN", "settlement"),
    (
        "rejected for another response",
        body("task", status=TaskStatus.REJECTED, final_response_hash=sha256(b"x")),
        "CHAIN_BROKEN",
        "settlement",
    ),
    ("settled without its response", missing("response"), "CHAIN_BROKEN", "settlement"),
    ("settled in another mode", body("task", key_mode=KeyMode.TEST), "CHAIN_BROKEN", "settlement"),
    ("settled above the ceiling", body("task", price=1001), "SPEND_EXCEEDED", "settlement"),
    ("settled twice", again("task", settled_at_ms=9) | {"covers_no_extra": True}, "CHAIN_BROKEN", "settlement"),
)

ROWS = [
    pytest.param(how, code, link, id=f"{group}: {name}")
    for group, rows in (("mandate", MANDATE), ("plan", PLAN), ("dispatch", DISPATCH), ("work", WORK), ("tools", TOOLS), ("end", END))
    for name, how, code, link in rows
]


CLIENT: tuple[Row, ...] = (
    ("another question", body("request", query=part(size=1)), "CHAIN_BROKEN", "user"),
    ("another context", body("request", context=BASE["mandate"].body.query), "CHAIN_BROKEN", "user"),
    ("another principal", body("request", principal="berta"), "CHAIN_BROKEN", "user"),
    ("another tenant", body("request", tenant=GLOBEX), "CHAIN_BROKEN", "user"),
    ("another tenant's client", signed_by("request", GLOBEX, SignerRole.CLIENT), "CHAIN_BROKEN", "user"),
    ("another client key", body("mandate", client_key=bytes(32)), "CHAIN_BROKEN", "user"),
    (
        "another tenant's client throughout",
        signed_by("request", GLOBEX, SignerRole.CLIENT) | body("mandate", client_key=key(GLOBEX, SignerRole.CLIENT).public),
        "CHAIN_BROKEN",
        "user",
    ),
    ("signed by an approver", signed_by("request", ACME, SignerRole.APPROVER), "WRONG_ROLE", "agent_request"),
    ("narrower than the mandate", body("request", narrowing=with_parts(CEILINGS, max_tokens=1)), "MANDATE_EXCEEDS_POLICY", "mandate"),
)
FAILED: tuple[Row, ...] = (
    ("an error with an answer", body("response", answer=BASE["synthesis"].body.answer), "CHAIN_BROKEN", "response"),
    ("an error with agreement", body("response", agreement=1), "CHAIN_BROKEN", "response"),
    ("an error with a synthesis", body("response", synthesis=sha256(b"x")), "CHAIN_BROKEN", "response"),
    ("a failure without its error", body("response", error=None), "CHAIN_BROKEN", "response"),
    ("an answer of no synthesis", body("response", outcome=Outcome.ANSWERED, error=None), "CHAIN_BROKEN", "response"),
    ("settled without its attestations", body("task", tool_attestation_hashes=()), "CHAIN_BROKEN", "settlement"),
)
ROWS += [pytest.param(how | {"client": True}, code, link, id=f"client: {name}") for name, how, code, link in CLIENT]
ROWS += [pytest.param(how | {"fails": True}, code, link, id=f"failed: {name}") for name, how, code, link in FAILED]
