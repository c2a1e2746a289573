"""The verdict tree and the outline, as text."""

from __future__ import annotations

from gnus_node.cli.render import flat, latency, tree_page, verdict_page
from gnus_node.evidence.verdict import Link, Verdict, refused
from gnus_node.records.enums import Outcome, Proof
from gnus_node.records.errors import GnusError

USER = Link("user", Proof.ASSERTED, "node-1/ingress", "as node-1 authenticated it")
LINKS = (
    Link("mandate", Proof.PROVED, "node-1/ingress", children=(USER,)),
    Link("synthesis", Proof.ATTESTED, "node-1/verifier", "answered", bytes(32)),
    Link("settlement", Proof.ABSENT, "", "not settled yet"),
)
GOOD = Verdict(True, "11111111-2222-4333-8444-555555555555", 1, Outcome.ANSWERED, 7, LINKS).to_plain()
BAD = refused(GnusError("PLAN_EXCEEDS_MANDATE", "wider than the mandate: max_turns", link="plan"), trust_head=7).to_plain()


def text(page) -> str:
    return "\n".join(line for line, _ in page.lines)


def test_a_verdict_says_how_far_each_link_is_proved_and_by_whom():
    assert text(verdict_page(GOOD)).splitlines() == [
        "verified",
        "  request      11111111-2222-4333-8444-555555555555",
        "  generation   1",
        "  outcome      answered",
        "  valid as of  trust head 7",
        "├─ mandate, proved of node-1/ingress",
        "│  └─ user, asserted by node-1/ingress: as node-1 authenticated it",
        "├─ synthesis, attested by node-1/verifier: answered",
        "└─ settlement, absent: not settled yet",
    ]


def test_a_refusal_names_the_link_that_does_not_hold():
    assert text(verdict_page(BAD)).splitlines() == [
        "REFUSED",
        "  plan: wider than the mandate: max_turns (PLAN_EXCEEDS_MANDATE)",
        "  valid as of  trust head 7",
    ]


def test_only_a_true_verdict_is_shown_as_verified():
    for value in (None, "true", 1, {}):
        assert verdict_page({"ok": value}).lines[0] == ("REFUSED", "problem")
    assert verdict_page({"ok": True}).lines[0] == ("verified", "ok")


def test_values_of_any_shape_are_shown():
    assert flat({"a": [1, {"b": None}], "c": True}) == "a [1, (b )], c true"
    assert latency({"draft": 1.25, "odd": "n/a", "total": 3}) == "3.0 ms in all\nby stage, in ms: draft 1.2, odd n/a"
    assert latency(None) == ""
    assert text(tree_page("t", {"a": {"b": []}, "c": ["x", {"y": 1}]})) == "t\n  a:\n    b:\n  c:\n    - x\n    - y 1"
