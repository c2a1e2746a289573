"""The verdict tree and the outline, as text."""

from __future__ import annotations

from gnus_node.cli.render import flat, latency, tree_page, verdict_page

VERDICT = {
    "ok": False,
    "proof": "refused",
    "trust_head": 7,
    "links": [
        {"link": "mandate", "proof": "proved", "by": "ed25519:aa", "links": [{"link": "plan", "proof": "refused", "detail": "wider"}]},
        {"link": "answer", "proof": "absent", "code": "CHAIN_BROKEN"},
    ],
}


def text(page) -> str:
    return "\n".join(line for line, _ in page.lines)


def test_a_verdict_names_the_link_that_does_not_hold():
    assert text(verdict_page(VERDICT)).splitlines() == [
        "REFUSED",
        "  proof       refused",
        "  trust_head  7",
        "├─ mandate proved by ed25519:aa",
        "│  └─ plan refused: wider",
        "└─ answer absent code CHAIN_BROKEN",
    ]


def test_only_a_true_verdict_is_shown_as_verified():
    for value in (None, "true", 1, {}):
        assert verdict_page({"ok": value}).lines[0] == ("REFUSED", "problem")
    assert verdict_page({"ok": True}).lines[0] == ("verified", "ok")


def test_values_of_any_shape_are_shown():
    assert flat({"a": [1, {"b": None}], "c": True}) == "a [1, (b )], c true"
    assert latency({"draft": 1.25, "odd": "n/a"}) == "draft 1.2 ms, odd n/a"
    assert latency(None) == ""
    assert text(tree_page("t", {"a": {"b": []}, "c": ["x", {"y": 1}]})) == "t\n  a:\n    b:\n  c:\n    - x\n    - y 1"
