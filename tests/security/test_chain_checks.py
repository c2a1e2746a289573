"""Every check of the chain, one lie at a time: what is not allowed is refused with its code and its link named, what is allowed holds.

Removing a check from ``evidence`` or ``policy.contain`` makes rows of its own fail (kept true by hand mutation).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gnus_node.evidence.authority import authorise
from gnus_node.evidence.chain import admit_chain, verify_chain
from gnus_node.evidence.links_tools import AttestedOutput
from gnus_node.evidence.verdict import Link
from gnus_node.records import authority as au
from gnus_node.records.enums import (
    ApprovalMode,
    EffectState,
    Outcome,
    Proof,
    RoleName,
    Stage,
)
from gnus_node.records.errors import GnusError
from gnus_node.records.settlement import TaskStatus
from gnus_node.wire.digests import sha256
from tests.security.chain_kit import (
    ALPHA,
    CEILINGS,
    NOW_MS,
    Chain,
    with_parts,
)
from tests.security.lies import BASE, CAST, ROWS, WRITE, again, approved, body, head, key, member, missing, part, plus, signed_by, write


def test_the_untouched_chain_holds() -> None:
    verdict = BASE.verdict(live=True, settled=True)
    assert verdict.ok
    assert verdict.outcome is Outcome.ANSWERED


CALIBRATED = {"calibration_id": "exact/1", "confidence": 10_000}


def unmediated_failure() -> dict[str, Any]:
    """The request ended while its proposal was on the way: no answer was made of it."""
    gone = ("dispatch.tool", "task_attestation.tool", "effects", "dry_run", "sanitized", "attestation.first", "attestation.second")
    core = ("dispatch.core", "output.core", "task_attestation.core", "absence.spare", "task")
    return missing(*gone, *core) | {"fails": True, "change": {"response": {"effects": ()}}}


HOLD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a client's own signature", {"client": True}),
    ("an ended failure", {"fails": True}),
    ("two calls", {"calls": 2}),
    ("a write that a person approved", approved()),
    ("a write that every policy granted", plus(write()) | {"ceilings": with_parts(CEILINGS, capabilities=(WRITE,), pre_granted=(WRITE,))}),
    (
        "a waiting read that a person approved",
        {"approve": True, "change": {"attestation.first": {"effect_state": EffectState.AWAITING_APPROVAL}}},
    ),
    (
        "a calibrated vote",
        {
            "change": {
                "output.helper": {**CALIBRATED, "abstained": None},
                "synthesis": {"members": member("helper", weight=10_000, cluster=2)},
            }
        },
    ),
    (
        "an answer by votes alone",
        {
            "change": {
                "output.helper": {**CALIBRATED, "abstained": None},
                "synthesis": {
                    "members": lambda old: member("core", cluster=0, supported=False)(member("helper", weight=9_000, cluster=2)(old))
                },
            }
        },
    ),
    ("a worker's own absence", signed_by("absence.spare", ALPHA, RoleName.ELM_WORKER)),
    ("an absence of an earlier turn", again("absence.spare", expert_id="core", reason="UNREACHABLE", turn=0)),
    ("a fallback that was not needed at first", again("absence.spare", expert_id="core", reason="NOT_NEEDED")),
    (
        "a person's turn at every step",
        {
            "ceilings": with_parts(CEILINGS, approval_floor=ApprovalMode.STEP_BY_STEP),
            "change": {"plan": {"tool_policy": part(human_approval=True)}},
        },
    ),
    (
        "an unanswered dispatch at every limit",
        again("dispatch.core", turn=2, attempt=16, remaining=au.Remaining(tokens=4000, wall_ms=60_000, spend=1000)),
    ),
    ("a second attempt", again("dispatch.core", attempt=1)),
    ("a later turn", again("dispatch.core", turn=2)),
    (
        "a proposal of the last turn",
        {"change": {"plan": {"max_turns": 1}, "output.core": {"tool_calls": BASE["output.helper"].body.tool_calls}}},
    ),
    ("a rejection on record", body("task", status=TaskStatus.REJECTED, reason_code="REVOKED")),
    ("a lease as long as the wall time", body("mandate", not_after_ms=NOW_MS + 60_002)),
    ("a plan at the lease's last moment", head("plan", issued_at_ms=NOW_MS + 30_000)),
    ("a policy that ends with the mandate", body("policy", not_after_ms=NOW_MS + 2)),
    ("a failure before anybody mediated", unmediated_failure()),
    ("a price at the ceiling", body("task", price=1000)),
    (
        "a failed effect that is not used",
        {
            "change": {
                "attestation.second": {"effect_state": EffectState.FAILED_DEFINITE, "sanitized": None, "provenance_hash": sha256(b"")},
                "output.core": {"evidence": lambda old: old[1:]},
                "synthesis": {"tool_attestations": (), "sources": lambda old: old[:1]},
            },
            "drop": frozenset({"sanitized"}),
        },
    ),
)


@pytest.mark.parametrize("how", [pytest.param(how, id=name) for name, how in HOLD])
def test_what_is_allowed_holds(how: dict[str, Any]) -> None:
    assert Chain(CAST, **how).verdict().ok


def test_a_chain_is_settled_or_not() -> None:
    with pytest.raises(GnusError, match="before its time") as caught:
        BASE.verdict(settled=False)
    assert caught.value.link == "settlement"
    open_end = Chain(CAST, **missing("task"))
    assert open_end.verdict(settled=False).ok
    assert open_end.verdict().ok
    with pytest.raises(GnusError, match="no task record"):
        open_end.verdict(settled=True)


def test_a_lease_ends_for_those_who_act_not_for_those_who_audit() -> None:
    bag = BASE.bag()
    late = BASE["mandate"].body.not_after_ms + 1
    assert verify_chain(bag, CAST.trust, late).ok
    assert verify_chain(bag, CAST.trust, late - 1, live=True).ok
    with pytest.raises(GnusError) as caught:
        verify_chain(bag, CAST.trust, late, live=True)
    assert caught.value.code == "LEASE_EXPIRED"


def test_only_attested_outputs_are_admitted() -> None:
    admitted = admit_chain(Chain(CAST, **missing("task")).bag(), CAST.trust, NOW_MS + 5000)
    assert {a.data.id for a in admitted.values()} == {BASE["sanitized"].id}
    assert set(admitted) == {BASE["attestation.second"].id}
    failed = dict(HOLD)["a failed effect that is not used"]
    failed = failed | {"drop": failed["drop"] | {"task"}}
    assert admit_chain(Chain(CAST, **failed).bag(), CAST.trust, NOW_MS + 5000) == {}
    unusable = plus(failed, **{"attestation.second": {"safe_to_execute": False, "sanitized": None, "provenance_hash": sha256(b"")}})
    assert admit_chain(Chain(CAST, **unusable).bag(), CAST.trust, NOW_MS + 5000) == {}


def test_an_attested_output_is_made_by_admit_only() -> None:
    with pytest.raises(TypeError, match="admit only"):
        AttestedOutput(object(), BASE["attestation.second"], BASE["sanitized"])
    (made,) = admit_chain(Chain(CAST, **missing("task")).bag(), CAST.trust, NOW_MS + 5000).values()
    with pytest.raises(TypeError, match="does not travel"):
        pickle.dumps(made)


def test_a_dispatch_is_executed_by_the_key_it_names_only() -> None:
    bag, now = BASE.bag(), NOW_MS + 5000
    stages, dispatch = frozenset({Stage.DRAFT}), BASE["dispatch.core"].id
    me = key(ALPHA, RoleName.SEMANTIC_CORE).public
    assert authorise(bag, CAST.trust, now, me=me, stages=stages, dispatch_id=dispatch).dispatch == BASE["dispatch.core"]
    for wrong in ({"me": key(ALPHA, RoleName.ELM_WORKER).public}, {"stages": frozenset({Stage.TOOL})}):
        with pytest.raises(GnusError) as caught:
            authorise(bag, CAST.trust, now, **{"me": me, "stages": stages, "dispatch_id": dispatch} | wrong)
        assert caught.value.code == "WRONG_PEER"


LABELS = {
    "mandate": (Proof.PROVED, "node-alpha/ingress"),
    "policy": (Proof.PROVED, None),
    "user": (Proof.ASSERTED, "node-alpha/ingress"),
    "plan": (Proof.PROVED, "node-alpha/router"),
    "memory": (Proof.ATTESTED, "node-alpha/memory_index"),
    "evidence": (Proof.ATTESTED, "node-alpha/grounding"),
    "output core": (Proof.PROVED, "node-alpha/semantic_core"),
    "output helper": (Proof.PROVED, "node-alpha/elm_worker"),
    "model": (Proof.ATTESTED, None),
    "absence spare": (Proof.ASSERTED, "node-alpha/router"),
    "attestation files.read": (Proof.ATTESTED, "node-alpha/tool_intermediary"),
    "result files.read": (Proof.ATTESTED, "node-alpha/tool_intermediary"),
    "isolation": (Proof.ATTESTED, "node-alpha/tool_intermediary"),
    "synthesis": (Proof.ATTESTED, "node-alpha/verifier"),
    "source": (Proof.PROVED, "node-alpha/verifier"),
    "response": (Proof.PROVED, "node-alpha/ingress"),
    "settlement": (Proof.ATTESTED, "node-alpha/settlement"),
}
"""DESIGN.md section 2: integrity, order and containment are proved; what a key says of the world is attested; the user, asserted."""


def labels(links: Sequence[Link]) -> Iterator[tuple[str, Proof, str]]:
    for link in links:
        yield link.name, link.proof, link.by
        yield from labels(link.children)


def test_the_verdict_claims_what_is_proved_and_no_more() -> None:
    verdict = BASE.verdict()
    found = list(labels(verdict.links))
    assert {name for name, _, _ in found} == set(LABELS)
    assert not [row for row in found if row[1] is not LABELS[row[0]][0] or LABELS[row[0]][1] not in (None, row[2])]
    plain = verdict.to_plain()
    assert (plain["ok"], plain["valid_as_of"], plain["outcome"]) == (True, "trust head 1", "answered")


def test_a_client_that_signed_is_proved_and_an_open_end_is_absent() -> None:
    found = {name: proof for name, proof, _ in labels(Chain(CAST, client=True, **missing("task")).verdict().links)}
    assert (found["user"], found["settlement"]) == (Proof.PROVED, Proof.ABSENT)


@pytest.mark.parametrize(("how", "code", "link"), ROWS)
def test_one_lie_is_refused(how: dict[str, Any], code: str, link: str) -> None:
    chain = Chain(CAST, **how)
    with pytest.raises(GnusError) as caught:
        chain.verdict()
    assert (caught.value.code, caught.value.link) == (code, link), caught.value.what
