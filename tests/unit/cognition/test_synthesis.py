"""Composing an answer: evidence beats votes, copies of one voice count once, silence where nothing supports."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gnus_node.cognition.dissent import Cited
from gnus_node.cognition.synthesis import EXACT, Draft, compose
from gnus_node.records.enums import AnswerType, BackendKind, Outcome


def cited(text, *, corpus="notes", item="g0", trusted=False, fresh=0):
    return Cited(bytes([len(item)]) * 32, item, (0, len(text)), text, "title", corpus, trusted, fresh)


def draft(name, answer, *cites, kind=BackendKind.EXTRACTIVE, confidence=0, calibration=None, model="m"):
    return Draft(
        name, b"o" * 32, None, answer, AnswerType.TEXT, confidence, calibration, kind, model, "" if answer else "NO_EVIDENCE", cites
    )


def test_a_supported_answer_is_given_with_its_source():
    made = compose([draft("a", "Lima", cited("The capital is Lima"))])
    assert (made.outcome, made.answer, made.agreement, made.reason_code) == (Outcome.ANSWERED, "Lima", 10_000, "OK")
    assert [c.item for c in made.cited] == ["g0"]


def test_an_answer_that_its_passage_does_not_hold_is_not_given():
    made = compose([draft("a", "Lima", cited("The capital is Quito"))])
    assert made.outcome is Outcome.ABSTAINED
    assert made.reason_code == "UNSUPPORTED_ANSWER"
    assert made.answer == ""


def test_uncalibrated_confidence_is_no_vote():
    made = compose([draft("a", "Lima", confidence=10_000)])
    assert made.outcome is Outcome.ABSTAINED


def test_only_the_symbolic_expert_is_exact():
    assert compose([draft("a", "42", kind=BackendKind.SYMBOLIC, confidence=10_000, calibration=EXACT)]).answer == "42"
    posing = draft("a", "42", kind=BackendKind.OPENAI, confidence=10_000, calibration=EXACT)
    assert compose([posing]).outcome is Outcome.ABSTAINED


def test_evidence_beats_many_unsupported_voices():
    crowd = [draft(f"x{i}", "Quito") for i in range(9)]
    made = compose([*crowd, draft("a", "Lima", cited("Lima"))])
    assert made.answer == "Lima"


def test_a_trusted_source_weighs_more_and_the_other_is_told():
    made = compose(
        [draft("a", "Nur-Sultan", cited("Nur-Sultan", corpus="old")), draft("b", "Astana", cited("Astana", corpus="new", trusted=True))]
    )
    assert made.answer.startswith("Astana")
    assert "Nur-Sultan (according to old)" in made.answer
    assert made.reason_code == "SOURCES_DISAGREE"
    assert made.divergence > 0
    assert made.agreement < 10_000


def test_the_fresher_of_equal_sources_is_preferred():
    old, new = (
        draft("a", "Nur-Sultan", cited("Nur-Sultan", corpus="a", fresh=1)),
        draft("b", "Astana", cited("Astana", corpus="b", fresh=2)),
    )
    assert compose([old, new]).answer.startswith("Astana")


def test_copies_that_read_one_collection_count_once():
    one = compose([draft("a", "Lima", cited("Lima", corpus="c")), draft("b", "Quito", cited("Quito", corpus="d"))])
    many = compose(
        [*(draft(f"s{i}", "Lima", cited("Lima", corpus="c")) for i in range(5)), draft("b", "Quito", cited("Quito", corpus="d"))]
    )
    assert many.agreement == one.agreement


def test_everybody_silent_is_an_abstention_with_its_reason():
    assert compose([draft("a", "")]).reason_code == "NO_EVIDENCE"
    absent = replace(draft("a", ""), output=None, absence=b"a" * 32)
    assert compose([absent]).reason_code == "NO_EXPERT"
    assert compose([]).outcome is Outcome.ABSTAINED


@given(
    st.lists(
        st.builds(
            lambda name, answer, text, trusted: draft(name, answer, cited(text, trusted=trusted)),
            st.text("abc", min_size=1, max_size=3),
            st.sampled_from(["", "Lima", "Quito", "42"]),
            st.sampled_from(["Lima", "Quito", "42 is it", "nothing"]),
            st.booleans(),
        ),
        max_size=6,
        unique_by=lambda d: d.expert_id,
    )
)
def test_an_answer_always_has_support_and_every_draft_is_judged(drafts):
    made = compose(drafts)
    assert [j.draft for j in made.judged] == drafts
    if made.outcome is Outcome.ANSWERED:
        assert any(j.supported for j in made.judged)
        assert made.cited
    assert all(j.weight == 0 for j in made.judged)


def at(text, part, **more):
    start = text.index(part)
    return Cited(
        b"r" * 32, more.pop("item", "g0"), (start, start + len(part)), text, more.pop("title", "t"), more.pop("corpus", "notes"), True, 0
    )


def test_both_sides_of_a_disagreement_are_named_and_documents_of_one_corpus_told_apart():
    one, two = at("The code is heron", "heron", title="a.md"), at("The code is crane", "crane", title="b.md", item="g1")
    made = compose([replace(draft("a", "heron", one), rivals=(two,))])
    assert made.reason_code == "SOURCES_DISAGREE"
    assert "notes, a.md" in made.answer
    assert "crane (according to notes, b.md)" in made.answer
    assert made.agreement < 10_000
    assert len(made.cited) == 2


def test_a_rival_that_says_the_same_is_none():
    one, two = at("It is 1,204 km", "1,204 km"), at("1204 km", "1204 km", item="g1")
    assert compose([replace(draft("a", "1,204 km", one), rivals=(two,))]).reason_code == "OK"


def test_figures_of_other_dates_are_told_and_are_no_disagreement():
    dated = at("84,012,284 (2025 est.)", "84,012,284", corpus="book")
    plain = at("80783000", "80783000", corpus="list", item="g1")
    made = compose([draft("a", "84,012,284", dated), draft("b", "80783000", plain)])
    assert made.reason_code == "OK"
    assert "2025" in made.answer
    assert "80783000 (according to list), without a date" in made.answer


def test_a_derived_answer_counts_only_where_it_follows_from_what_it_cites():
    question = "Is Ulm the capital of Quell?"
    cite = at("Dune", "Dune", title="Quell > Capital")
    right = draft("a", "No (the capital of Quell is Dune)", cite)
    assert compose([right], "", question).outcome is Outcome.ANSWERED
    wrong = draft("a", "Yes (the capital of Quell is Dune)", cite)
    assert compose([wrong], "", question).reason_code == "UNSUPPORTED_ANSWER"
    elsewhere = draft("a", "No (the capital of Quell is Dune)", at("Dune", "Dune", title="Orland > Capital"))
    assert compose([elsewhere], "", question).reason_code == "UNSUPPORTED_ANSWER"


def test_a_calculation_without_a_result_is_not_answered_from_documents():
    silent = replace(draft("calc", "", kind=BackendKind.SYMBOLIC), reason="UNDEFINED")
    made = compose([silent, draft("a", "Lima", cited("Lima"))])
    assert (made.outcome, made.reason_code, made.cited) == (Outcome.ABSTAINED, "UNDEFINED", ())


def test_the_reason_of_a_refused_tool_reaches_the_abstention():
    made = compose([replace(draft("a", ""), reason="NO_EVIDENCE")], "PATH_DENIED")
    assert made.reason_code == "PATH_DENIED"
    assert "allowed folders" in made.reason


def test_an_ambiguous_name_tells_its_meanings():
    shown = (
        at("Brazzaville", "Brazzaville", title="Congo (Brazzaville) > Capital"),
        at("Kinshasa", "Kinshasa", title="DRC > Capital", item="g1"),
    )
    made = compose([replace(draft("a", ""), reason="AMBIGUOUS", rivals=shown), draft("b", "Brazzaville", shown[0])])
    assert made.reason_code == "AMBIGUOUS"
    assert "DRC: Kinshasa" in made.reason
    assert len(made.cited) == 2
