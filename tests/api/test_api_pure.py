"""The pure parts: rate, pieces, gate, errors."""

from __future__ import annotations

import hypercorn
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.api.errors import error_headers, error_object, status_of
from gnus_node.api.gate import Gate
from gnus_node.api.ratelimit import UNIT, Bucket, Limiter, Rate, full, refill, take
from gnus_node.api.render import pieces, sse_status
from gnus_node.api.settings import MAX_PIECES, ApiSettings
from gnus_node.ports.submit import Status
from gnus_node.records.errors import CODES, GnusError

rates = st.builds(Rate, st.integers(1, 100_000), st.integers(1, 1000))


@given(rates, st.lists(st.integers(0, 100_000), max_size=60))
def test_never_more_than_the_rate(rate: Rate, gaps: list[int]) -> None:
    """Over any run of tries: at most the burst, plus the rate times the time."""
    bucket, now, taken = full(rate, 0), 0, 0
    for gap in gaps:
        now += gap
        result = take(bucket, rate, now)
        bucket = result.bucket
        taken += result.allowed
        assert 0 <= bucket.units <= rate.burst * UNIT
        assert taken <= rate.burst + now * rate.per_minute / 60_000
        if not result.allowed:
            assert take(bucket, rate, now + result.wait_ms).allowed
            assert not take(bucket, rate, now + result.wait_ms - 1).allowed


@given(rates, st.integers(0, 1000), st.integers(0, 50_000), st.integers(0, 50_000))
def test_refill_in_two_steps_is_refill_in_one(rate: Rate, units: int, first: int, second: int) -> None:
    bucket = Bucket(min(units, rate.burst * UNIT), 0)
    assert refill(refill(bucket, rate, first), rate, first + second) == refill(bucket, rate, first + second)


def test_a_clock_that_goes_back_adds_nothing() -> None:
    rate = Rate(60, 1)
    empty = take(full(rate, 10_000), rate, 10_000).bucket
    assert not take(empty, rate, 0).allowed
    assert not take(take(empty, rate, 0).bucket, rate, 10_000).allowed


def test_buckets_are_bounded() -> None:
    limiter = Limiter(Rate(60, 1), bound=10)
    for n in range(100):
        assert limiter.take(f"k{n}", 0).allowed
    assert len(limiter) == 10
    assert not limiter.take("k99", 0).allowed


@given(st.text(max_size=300) | st.text(alphabet="ab \n", min_size=0, max_size=300).map(lambda t: t * 200))
def test_pieces_are_the_text(text: str) -> None:
    cut = list(pieces(text))
    assert "".join(cut) == text
    assert all(cut)
    assert len(cut) <= MAX_PIECES


def test_gate_gives_back() -> None:
    gate = Gate(ApiSettings(max_inflight=2, max_inflight_per_key=1, max_streams=1))
    for _ in range(3):
        with gate.request("a"), gate.stream():
            with pytest.raises(GnusError), gate.request("a"):
                pass
            with gate.request("b"):
                with pytest.raises(GnusError), gate.request("c"):
                    pass
                with pytest.raises(GnusError), gate.stream():
                    pass
    assert (gate.inflight, gate.streams) == (0, 0)


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_an_error_response(code: str) -> None:
    error = GnusError(code)
    assert 400 <= status_of(error) < 600
    value = error_object(error, "r1")
    assert set(value) == {"message", "type", "param", "code", "gnus"}
    assert value["gnus"]["code"] == code
    retry = error_headers(error, idempotent=False)["x-should-retry"]
    assert retry == ("true" if CODES[code].retryable and CODES[code].definite else "false")


@given(st.text(), st.text(), st.dictionaries(st.text(), st.text() | st.integers()))
def test_a_status_comment_is_one_comment(stage: str, state: str, facts: dict[str, str | int]) -> None:
    line = sse_status(Status("r1", 1, stage, state, 0, facts))
    assert line.startswith(b": gnus.status number=1")
    assert line.endswith(b"\n\n")
    assert line.count(b"\n") == 2
    assert b"\r" not in line


def test_hypercorn_is_the_version_the_connection_was_written_against() -> None:
    """connection.py overrides internals: read it against the new version before moving the pin."""
    from importlib.metadata import version

    assert hypercorn is not None
    assert version("hypercorn") == "0.18.0"
