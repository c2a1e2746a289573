"""What acceptance decides: a request narrows its policies and never widens them; its digest stands for all that was asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.flow.accept import FlowLimits, check_size, idempotency_key, narrowed, question_digest
from gnus_node.policy.ceilings import wider_fields
from gnus_node.ports.submit import Ask, Caller
from gnus_node.records.authority import Ceilings
from gnus_node.records.enums import AnswerType, ApprovalMode, KeyMode, MemoryMode, PrivacyMode
from gnus_node.records.errors import GnusError

CAPABILITIES = ["tool.files.read.readonly", "tool.counter.append.execute"]
NUMBERS = st.integers(0, 2**40)
CEILINGS = st.builds(
    lambda capabilities, granted, paths, numbers, turns, privacy, approval, memory: Ceilings(
        capabilities=tuple(sorted(capabilities)),
        domains=(),
        paths=tuple(sorted(paths)),
        pre_granted=tuple(sorted(granted & capabilities)),
        max_tokens=numbers[0],
        max_wall_ms=numbers[1],
        max_spend=numbers[2],
        max_turns=turns,
        privacy_floor=privacy,
        approval_floor=approval,
        memory_floor=memory,
    ),
    st.sets(st.sampled_from(CAPABILITIES)),
    st.sets(st.sampled_from(CAPABILITIES)),
    st.sets(st.sampled_from(["/srv/a", "/srv/b"])),
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
    st.integers(1, 16),
    st.sampled_from(PrivacyMode),
    st.sampled_from(ApprovalMode),
    st.sampled_from(MemoryMode),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
OPTIONAL = st.none() | NUMBERS
ASKS = st.builds(
    Ask,
    question=TEXTS,
    context=TEXTS,
    answer_type=st.sampled_from(AnswerType),
    max_tokens=OPTIONAL,
    max_wall_ms=OPTIONAL,
    max_spend=OPTIONAL,
    privacy_mode=st.none() | st.sampled_from(PrivacyMode),
    stop=st.lists(TEXTS, max_size=2).map(tuple),
)
SECRET = b"s" * 32
CALLER = Caller("tenant", "project", "someone", KeyMode.LIVE, "key_1")


@given(CEILINGS, ASKS)
def test_a_request_never_widens_its_ceilings(ceilings: Ceilings, ask: Ask) -> None:
    inner = narrowed(ceilings, ask)
    assert wider_fields(inner, ceilings) == []
    for name in ("max_tokens", "max_wall_ms", "max_spend"):
        wanted = getattr(ask, name)
        assert getattr(inner, name) == (getattr(ceilings, name) if wanted is None else min(wanted, getattr(ceilings, name)))
    if ask.privacy_mode is not None:
        assert inner.privacy_floor.rank() >= ask.privacy_mode.rank()
    assert narrowed(inner, ask) == inner


@given(ASKS, ASKS)
def test_two_asks_have_one_digest_exactly_if_they_are_the_same(one: Ask, other: Ask) -> None:
    assert (question_digest(SECRET, one) == question_digest(SECRET, other)) == (one == other)
    assert question_digest(SECRET, one) == question_digest(SECRET, replace(one, idempotency_key="any"))
    assert question_digest(SECRET, one) != question_digest(b"t" * 32, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Ask("a\x00b", context="c"), Ask("a", context="b\x00c")),
        (Ask("q"), Ask("q", privacy_mode=PrivacyMode.PRIVATE_BOUNDARY)),
        (Ask("q"), Ask("q", stop=("\n",))),
        (Ask("q"), Ask("q", max_tokens=1)),
    ],
)
def test_what_changes_the_answer_changes_the_digest(one: Ask, other: Ask) -> None:
    assert question_digest(SECRET, one) != question_digest(SECRET, other)


def test_one_tenants_idempotency_key_is_not_anothers() -> None:
    keys = {
        idempotency_key(caller, text)
        for caller in (CALLER, replace(CALLER, tenant="other"), replace(CALLER, key_id="key_2"))
        for text in ("a", "b")
    }
    assert len(keys) == 6
    assert idempotency_key(CALLER, "a") == idempotency_key(replace(CALLER, principal="else"), "a")


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (Ask(""), "MALFORMED"),
        (Ask(" \n\t "), "MALFORMED"),
        (Ask("\ud800"), "MALFORMED"),
        (Ask("fine", context="\udfff"), "MALFORMED"),
        (Ask("é" * 9), "TOO_LARGE"),
        (Ask("fine", context="x" * 33), "TOO_LARGE"),
    ],
)
def test_what_is_no_question_is_refused_before_anything_else(ask: Ask, code: str) -> None:
    limits = FlowLimits(max_question_bytes=16, max_context_bytes=32)
    with pytest.raises(GnusError) as error:
        check_size(ask, limits)
    assert error.value.code == code
    check_size(Ask("é" * 8, context="x" * 32), limits)
