"""The verdict tree and the outline, as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.cli.output import Page, cells, wrapped
from gnus_node.cli.pages import key_page, plan_page, remembered_page, settings_page, status_page, trust_page
from gnus_node.cli.render import answer_page, flat, latency, verdict_page
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


def test_settings_stand_in_the_sections_of_their_file():
    value = {
        "node": {"roles": ["router", "ingress"], "node_id": None},
        "experts": {"a": {"kind": "x", "options": {}}},
        "corpora": [{"name": "n"}],
    }
    assert text(settings_page("node.toml", value)).splitlines() == [
        "node.toml",
        "",
        "[node]",
        "  roles    router, ingress",
        "  node_id  -",
        "",
        "[experts]",
        "",
        "[experts.a]",
        "  kind  x",
        "",
        "[[corpora]]",
        "  name  n",
    ]


NASTY = [None, 0, 1.5, "a\x1b[2Jb", [], ["x", None, {"y": 1}], {}, {"a": {"b": [1]}}, True]
PAGES = {
    status_page: ("problems", "node_id", "software", "roles", "profile", "experts", "corpora", "trust", "commits", "bytes_per_table"),
    plan_page: ("intent", "risk", "execution_graph", "constraints", "tool_policy", "assignments", "reasons", "max_turns", "privacy_mode"),
    trust_page: ("name", "swarm", "head", "head_fresh", "nodes", "tenants", "authority"),
    remembered_page: ("event", "trust", "findings"),
    answer_page: (
        "answer",
        "outcome",
        "sources",
        "route",
        "backends",
        "latency_ms",
        "agreement",
        "pending_approvals",
        "effects",
        "verdict",
    ),
    key_page: ("api_key_id", "tenant"),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_no_value_of_another_node_breaks_a_page_or_reaches_the_terminal_raw(page):
    for name in PAGES[page]:
        for value in NASTY:
            shown = text(page({"api_key": "k", name: value}))
            assert "\x1b" not in shown
    assert isinstance(text(page({"api_key": "k"})), str)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_are_cut_at_blanks_and_their_rest_keeps_its_column(width: int):
    page = Page().pairs([("one", "word " * 60), ("path", "/a" * 100), ("three", "x")])
    for (line, _), hang in zip(page.lines, page.hangs, strict=True):
        parts = wrapped(line, width, hang)
        assert " ".join(part.strip() for part in parts).split() == line.split()
        assert all(cells(part) <= width or len(part.split()) == 1 for part in parts), parts
        assert all(part.startswith(" " * hang) for part in parts[1:])


def test_a_word_too_long_for_a_line_stays_whole_and_wide_letters_count_twice():
    assert wrapped("id " + "f" * 50, 30, 4) == ["id", "    " + "f" * 50]
    assert wrapped("東京 " * 6, 10, 0)[0] == "東京 東京"
    assert wrapped("short", 80, 4) == ["short"]
    assert wrapped("  two  blanks " + "x" * 40, 20, 2)[0] == "  two  blanks"


@given(st.text(alphabet="ab 東\u0301", max_size=200), st.integers(1, 60), st.integers(0, 30))
def test_wrapping_loses_no_letter(given_text: str, width: int, hang: int):
    assert "".join("".join(wrapped(given_text, width, hang)).split()) == "".join(given_text.split())


def test_a_table_lines_up_and_numbers_stand_to_the_right():
    page = Page().table(("name", "passages"), [("docs", 197), ("factbook", 73116)])
    assert text(page).splitlines() == ["  name      passages", "  docs           197", "  factbook    73,116"]
    assert Page().table(("a",), []).lines == []
