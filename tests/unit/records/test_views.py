"""JSON views of every kind: what a record shows is read back the same, texts are rejoined or withheld, and nothing poses as another."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gnus_node.records.authority import RoleGrant
from gnus_node.records.base import Committed
from gnus_node.records.catalog import BODIES
from gnus_node.records.enums import AnswerType, ConsensusState, PrivacyScope, ReplicationPolicy, TrustClass
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import CODES, GnusError
from gnus_node.records.evidence import SynthesisResult
from gnus_node.records.expert import CapabilityConstraint, CapabilityManifest, ExpertOutput, RequiredCapability, ToolProposal
from gnus_node.records.jsontext import canonical, read_view, write_view
from gnus_node.records.memory import DerivedMemory, MemoryEvent, MemoryProvenanceMetadata
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.settlement import LearningEvent, TaskRecord
from gnus_node.records.tools import DryRunResult, SanitizedData
from gnus_node.records.views import (
    SIGNATURE_NAMES,
    CapabilityManifestView,
    ErrorView,
    ExecutionPlanView,
    ExpertOutputView,
    MemoryEventView,
    TaskRecordView,
    dump,
    json_plain,
    read_as,
    read_record,
    to_view,
    view_for,
)
from gnus_node.records.views.scalars import signature_text
from gnus_node.wire.kinds import KINDS
from gnus_node.wire.memory_event import open_event
from gnus_node.wire.signed import open_record, seal
from tests.vectors.strategies import bodies
from tests.vectors.support import KEYS, header, sample

VECTORS = Path(__file__).parents[2] / "vectors"
KIND_NAMES = [body.KIND for body in BODIES]


def opened(body: Any) -> Signed[Any]:
    role = sorted(KINDS[(body.KIND, 1)].signers)[0]
    return open_record(seal(header(body.KIND, role), body, KEYS[role].sign).raw)


def commit(text: str, number: int) -> Committed:
    return Committed(commitment=bytes([number]) * 32, size=len(text.encode()))


@pytest.mark.parametrize("form", ["full", "least"])
@pytest.mark.parametrize("kind", KIND_NAMES)
def test_every_vector_has_a_view_that_reads_back(kind: str, form: str) -> None:
    vector = json.loads((VECTORS / f"{kind}.json").read_text())[form]
    signed = open_record(bytes.fromhex(vector["raw"]))
    shown = to_view(signed, {})
    assert shown["record_id"] == f"sha256:{vector['id']}"
    name = SIGNATURE_NAMES.get(type(signed.body), "signature")
    assert base64.b64decode(shown[name].removeprefix("ed25519:")) == signed.signature
    assert shown["header"]["signer"] == f"ed25519:{signed.header.signer.hex()}"
    text = write_view(shown, indent=2)
    assert dump(read_record(kind, read_view(text))) == shown
    for field in type(signed.body).model_fields:
        assert (field in shown) == (getattr(signed.body, field) is not None)
    # no bytes and no nulls anywhere, no floats
    assert not {type(v) for v in flat(shown)} - {str, int, bool, Decimal}


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [v for item in value.values() for v in flat(item)]
    if isinstance(value, list | tuple):
        return [v for item in value for v in flat(item)]
    return [value]


def named_once(manifest: CapabilityManifest) -> bool:
    """A constraint named twice has no view."""
    return all(len({c.name for c in r.constraints}) == len(r.constraints) for r in manifest.required_capabilities)


@pytest.mark.parametrize("body", BODIES, ids=KIND_NAMES)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_arbitrary_records_have_a_view_that_reads_back(body: Any, data: st.DataObject) -> None:
    value = data.draw(bodies(body))
    assume(not isinstance(value, CapabilityManifest) or named_once(value))
    shown = to_view(opened(value), {})
    assert dump(read_record(body.KIND, read_view(write_view(shown)))) == shown


@pytest.mark.parametrize("body", BODIES, ids=KIND_NAMES)
def test_unknown_fields_nulls_and_missing_fields_are_refused(body: Any) -> None:
    shown = to_view(opened(sample(body)), {})
    view = view_for(body)
    with pytest.raises(GnusError, match=r"MALFORMED: .*extra_forbidden"):
        read_as(view, shown | {"surprise": 1})
    for name, info in view.model_fields.items():
        with pytest.raises(GnusError, match="MALFORMED"):
            read_as(view, shown | {name: None})
        less = {k: v for k, v in shown.items() if k != name}
        if info.is_required():
            with pytest.raises(GnusError, match="MALFORMED"):
                read_as(view, less)
        else:
            read_as(view, less)
    with pytest.raises(GnusError, match="MALFORMED"):
        read_as(view, shown | {"header": shown["header"] | {"surprise": 1}})


def test_scores_and_amounts_are_decimals_in_units() -> None:
    plan = to_view(opened(sample(next(b for b in BODIES if b.KIND == "execution_plan"))), {})
    assert plan["constraints"]["max_spend"] == Decimal("0.007000")
    assert plan["attestation_requirements"]["min_reputation"] == Decimal("0.7")
    text = write_view(plan)
    assert '"max_spend": 0.007' in text
    assert '"min_reputation": 0.7,' in text or '"min_reputation": 0.7}' in text
    learning = to_view(opened(sample(LearningEvent)), {})
    assert learning["score"] == Decimal("0.7")
    assert read_record("learning_event", learning | {"score": 1}).model_dump()["score"] == Decimal(1)
    for bad in (0.5, Decimal("0.00001"), 2, -1, "0.5", True):
        with pytest.raises(GnusError, match="MALFORMED"):
            read_record("learning_event", learning | {"score": bad})


def output(answer: str, answer_type: AnswerType, arguments: str, reason: str = "because") -> tuple[Signed[Any], dict[bytes, str]]:
    call = ToolProposal(
        tool_call_id=sample(ToolProposal).tool_call_id, tool_name="web.fetch", arguments=commit(arguments, 2), reason=commit(reason, 3)
    )
    values = {k: v for k, v in vars(sample(ExpertOutput, full=False)).items() if v is not None}
    body = ExpertOutput.model_validate(values | {"answer": commit(answer, 1), "answer_type": answer_type, "tool_calls": (call,)})
    return opened(body), {bytes([1]) * 32: answer, bytes([2]) * 32: arguments, bytes([3]) * 32: reason}


def test_texts_are_rejoined_or_withheld() -> None:
    signed, texts = output("forty-two", AnswerType.TEXT, '{"url":"https://example.com"}')
    view = ExpertOutputView.from_signed(signed, texts)
    assert view.answer == "forty-two"
    assert view.tool_calls[0].arguments == {"url": "https://example.com"}
    assert view.tool_calls[0].reason == "because"
    assert view.tool_calls[0].reason_withheld is None
    hidden = view.from_signed(signed, {})
    withheld = {"commitment": "sha256:" + "01" * 32, "size": 9}
    assert hidden.to_json()["answer"] == withheld
    call = hidden.to_json()["tool_calls"][0]
    assert call["arguments"]["size"] == 29
    assert "reason" not in call
    assert call["reason_withheld"]["size"] == 7
    with pytest.raises(GnusError, match="COMMITMENT_MISMATCH"):
        view.from_signed(signed, texts | {bytes([1]) * 32: "forty-three"})


def test_a_structured_answer_is_shown_as_one() -> None:
    signed, texts = output('{"a":[1,2.5,null]}', AnswerType.JSON, "{}")
    view = ExpertOutputView.from_signed(signed, texts)
    assert view.answer == {"a": [1, Decimal("2.5"), None]}
    assert view.to_json()["answer"] == {"a": [1, Decimal("2.5"), None]}, "a null inside free JSON stays"
    assert read_as(ExpertOutputView, read_view(write_view(view.to_json()))) == view
    signed, texts = output("[1]", AnswerType.JSON, "{}")
    assert ExpertOutputView.from_signed(signed, texts).answer == [1]
    signed, texts = output('{"a":1}', AnswerType.TEXT, "{}")
    assert ExpertOutputView.from_signed(signed, texts).answer == '{"a":1}', "text stays text"


@pytest.mark.parametrize(
    "text", ["not json", "5", '"x"', '{"a":1,"a":2}', "[" * 99, "NaN", r'["\ud800"]', '{"commitment":"sha256:' + "00" * 32 + '","size":1}']
)
def test_an_experts_bad_text_neither_hides_its_record_nor_poses_as_withheld(text: str) -> None:
    signed, texts = output(text, AnswerType.JSON, text, reason=text)
    shown = ExpertOutputView.from_signed(signed, texts).to_json()
    assert shown["answer"] == text
    assert shown["tool_calls"][0]["arguments"] == {"commitment": "sha256:" + "02" * 32, "size": len(text.encode())}
    assert shown["tool_calls"][0]["reason"] == text
    assert dump(read_as(ExpertOutputView, read_view(write_view(shown)))) == shown


def test_evidence_has_its_address() -> None:
    view = ExpertOutputView.from_signed(opened(sample(ExpertOutput)), {})
    record = view.evidence[0].record
    assert record is not None
    assert view.evidence[0].ref == f"cid://{record.removeprefix('sha256:')}#{view.evidence[0].item}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"filesystem_access":[],"network_requests":["GET https://a.example/"],"secrets_required":false}', True),
        ('{"filesystem_access":[]}', False),
        ("[]", False),
        ("nothing", False),
    ],
)
def test_simulated_effects_are_an_object_of_the_seeds_shape(text: str, shown: bool) -> None:
    values = {k: v for k, v in vars(sample(DryRunResult)).items() if v is not None}
    signed = opened(DryRunResult.model_validate(values | {"simulated_effects": commit(text, 9)}))
    found = to_view(signed, {bytes([9]) * 32: text})["simulated_effects"]
    if shown:
        assert list(found["network_requests"]) == ["GET https://a.example/"]
    else:
        assert found == {"commitment": "sha256:" + "09" * 32, "size": len(text)}


def test_structured_fields_are_an_object() -> None:
    values = {k: v for k, v in vars(sample(SanitizedData)).items() if v is not None}
    text = canonical({"title": "T", "n": 1.25})
    signed = opened(SanitizedData.model_validate(values | {"structured_fields": commit(text, 9), "plain_text": commit("é", 8)}))
    shown = to_view(signed, {bytes([9]) * 32: text, bytes([8]) * 32: "é"})
    assert shown["structured_fields"] == {"title": "T", "n": Decimal("1.25")}
    assert shown["plain_text"] == "é"


def test_a_manifests_constraints_are_a_map_and_named_once() -> None:
    one = CapabilityConstraint(name="domains", values=("docs.example",))
    for constraints, fine in (((one,), True), ((one, one), False)):
        need = RequiredCapability(name="tool.web.fetch", scope=sample(RequiredCapability).scope, constraints=constraints)
        values = vars(sample(CapabilityManifest)) | {"required_capabilities": (need,)}
        signed = opened(CapabilityManifest.model_validate(values))
        if fine:
            view = CapabilityManifestView.from_signed(signed, {})
            assert view.required_capabilities[0].constraints == {"domains": ("docs.example",)}
        else:
            with pytest.raises(GnusError, match="MALFORMED"):
                CapabilityManifestView.from_signed(signed, {})


def test_free_json_is_bounded_and_exact() -> None:
    signed, texts = output("x", AnswerType.TEXT, "{}")
    shown = ExpertOutputView.from_signed(signed, texts).to_json()
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    for bad in (deep, 2**53, Decimal("0.1000000000000000000000001"), Decimal("1E+400"), b"x", {1: 2}, float("nan")):
        with pytest.raises(GnusError, match="MALFORMED"):
            read_as(ExpertOutputView, shown | {"answer": {"a": bad}})
    for good in (2**53 - 1, Decimal("0.1"), Decimal("1E+300"), 0.5, None, True, [], {}):
        assert read_as(ExpertOutputView, shown | {"answer": {"a": good}})


def test_a_view_of_another_kind_is_refused() -> None:
    with pytest.raises(GnusError, match="UNKNOWN_KIND"):
        ExecutionPlanView.from_signed(opened(sample(TaskRecord)), {})
    with pytest.raises(GnusError, match="UNKNOWN_KIND"):
        read_record("nothing", {})
    assert TaskRecordView.from_signed(opened(sample(TaskRecord)), {}).task_id


@pytest.mark.parametrize(
    "text",
    [
        "ed25519:" + "A" * 88,
        "ed25519:" + base64.b64encode(bytes(63)).decode(),
        "ed25519:" + base64.b64encode(bytes(65)).decode(),
        "ed25519:" + base64.b64encode(bytes(64)).decode().rstrip("="),
        "ed25519:" + base64.b64encode(bytes(64)).decode().replace("A==", "B=="),
        "ed25519:" + bytes(64).hex(),
        base64.b64encode(bytes(64)).decode(),
        signature_text(bytes(64)) + "\n",
    ],
)
def test_a_signature_has_one_spelling(text: str) -> None:
    shown = to_view(opened(sample(LearningEvent)), {})
    assert read_record("learning_event", shown | {"signature": signature_text(bytes(64))})
    with pytest.raises(GnusError, match="MALFORMED"):
        read_record("learning_event", shown | {"signature": text})


@pytest.mark.parametrize(
    "text", ["sha256:" + "0" * 63, "sha256:" + "0" * 65, "SHA256:" + "0" * 64, "sha256:" + "A" * 64, "0" * 64, "sha256:" + "0" * 64 + "\n"]
)
def test_a_digest_has_one_spelling(text: str) -> None:
    shown = to_view(opened(sample(LearningEvent)), {})
    with pytest.raises(GnusError, match="MALFORMED"):
        read_record("learning_event", shown | {"task": text})


def test_the_seeds_signature_names() -> None:
    assert {body.__name__: name for body, name in SIGNATURE_NAMES.items()} == {
        "ExecutionPlan": "plan_signature",
        "ExpertOutput": "expert_signature",
        "CapabilityManifest": "signature",
        "DryRunResult": "signature",
        "ToolAttestation": "intermediary_signature",
        "SanitizedData": "signature",
        "TaskRecord": "settlement_signature",
        "SynthesisResult": "synthesis_signature",
    }
    assert "synthesis_signature" in to_view(opened(sample(SynthesisResult)), {})


def memory_event(form: str) -> Any:
    return open_event(bytes.fromhex(json.loads((VECTORS / "memory_event.json").read_text())[form]["raw"]))


def derived(of: Any, **change: Any) -> DerivedMemory:
    values: dict[str, Any] = {
        "event": of.id,
        "memory_class": of.body.memory_class,
        "trust_class": TrustClass.HIGHER_TRUST,
        "consensus_state": ConsensusState.APPROVED,
        "provenance": MemoryProvenanceMetadata(
            source_type=of.body.source_type,
            source_reputation=9000,
            attestation_refs=of.body.attestation_refs,
            provenance_score=1234,
            author=of.body.author,
            instruction_scrubbed=True,
            safe_to_memorize=True,
        ),
        "privacy_scope": PrivacyScope.TENANT_PRIVATE,
        "replication_policy": ReplicationPolicy.TENANT_NODES,
        "admitted_seq": 1,
        "quarantined": False,
    }
    return DerivedMemory.model_validate(values | change)


@pytest.mark.parametrize("form", ["full", "least"])
def test_a_memory_event_shows_the_least_trust_without_a_fold(form: str) -> None:
    event = memory_event(form)
    view = MemoryEventView.from_event(event)
    assert view.trust_class is TrustClass.LOWER_TRUST
    assert view.consensus_state is ConsensusState.PENDING
    assert (view.provenance_score, view.source_reputation) == (0, 0)
    assert view.safe_to_memorize is False, "what an author claims is not shown as a fact"
    assert view.record_id == f"sha256:{event.id.hex()}"
    assert view.memory_event_id.replace("-", "") == event.id.hex()[:32]
    assert view.signature == signature_text(event.raw[-64:])
    assert view.payload_ref == f"cid://{(event.body.payload_ref or event.body.content_hash).hex()}"
    assert read_as(MemoryEventView, read_view(write_view(view.to_json()))) == view
    assert isinstance(event.body, MemoryEvent)


def test_a_memory_event_shows_its_own_derived_state_only() -> None:
    event = memory_event("full")
    view = MemoryEventView.from_event(event, derived(event))
    assert (view.trust_class, view.consensus_state) == (TrustClass.HIGHER_TRUST, ConsensusState.APPROVED)
    assert (view.provenance_score, view.source_reputation) == (Decimal("0.1234"), Decimal("0.9"))
    assert view.safe_to_memorize
    with pytest.raises(GnusError, match="MALFORMED"):
        MemoryEventView.from_event(event, derived(event, event=bytes(32)))


@pytest.mark.parametrize("code", CODES)
def test_every_error_has_a_view(code: str) -> None:
    view = ErrorView.from_error(GnusError(code, "what happened", link="plan"))
    assert (view.code, view.definite, view.retryable) == (code, CODES[code].definite, CODES[code].retryable)
    assert read_as(ErrorView, read_view(write_view(dump(view)))) == view
    assert read_as(ErrorView, GnusError(code).to_plain())


def test_an_unsigned_body_prints_with_numbers() -> None:
    plain = json_plain(sample(ExecutionPlan))
    assert plain["constraints"]["max_spend"] == 0.007
    assert plain["attestation_requirements"]["min_reputation"] == 0.7
    assert plain["query_hash"].startswith("sha256:")
    assert json_plain(sample(RoleGrant))["tier"] == "D"
    assert json.loads(json.dumps(plain)) == plain


def test_an_error_of_no_known_code_is_refused() -> None:
    with pytest.raises(GnusError, match="MALFORMED"):
        read_as(ErrorView, GnusError("BUSY").to_plain() | {"code": "NOPE"})
