"""The log: private, bounded, one line an event, and no user text however it is passed."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.ports.host import Log
from gnus_node.records.enums import Outcome, Tier
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.events import EVENTS, emit, events_table
from gnus_node.telemetry.log import FileSink, LogForm, StreamSink, make_log
from gnus_node.telemetry.redact import MAX_FIELD_CHARS, MAX_FIELDS, TEXT_FIELDS, clean_fields, fault_fields

CANARY = "canary-7f3a the launch code is swordfish"


class FixedClock:
    """Noon on a day."""

    def wall_ms(self) -> int:
        return 1_796_040_000_123

    def monotonic(self) -> float:
        return 5.0


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def logger(stream: io.StringIO, **options: object) -> Log:
    return make_log(StreamSink(stream), clock=FixedClock(), **options)  # type: ignore[arg-type]


def test_a_line_is_json_with_time_level_and_bound_fields() -> None:
    stream = io.StringIO()
    log = logger(stream, node_id="n1")
    log.info("request.accepted", request_id="r1", tokens=12, share=0.5, ok=True, tier=Tier.A, outcome=Outcome.ANSWERED, record=b"\x01\xff")
    log.warning("peer.lost")
    first, second = lines(stream)
    assert first == {
        "at": "2026-11-30T12:00:00.123Z",
        "level": "info",
        "event": "request.accepted",
        "node_id": "n1",
        "request_id": "r1",
        "tokens": 12,
        "share": 0.5,
        "ok": True,
        "tier": "A",
        "outcome": "answered",
        "record": "01ff",
    }
    assert second["level"] == "warning"
    assert not structlog.is_configured(), "no global configuration"


def test_levels_filter_and_an_unknown_one_is_refused() -> None:
    stream = io.StringIO()
    log = logger(stream, level="warning")
    log.info("quiet.one")
    log.error("loud.one")
    assert [line["event"] for line in lines(stream)] == ["loud.one"]
    with pytest.raises(GnusError, match="CONFIG"):
        logger(stream, level="loud")


@pytest.mark.parametrize("form", list(LogForm))
@pytest.mark.parametrize("name", [*sorted(TEXT_FIELDS), "user_question", "model_answer"])
def test_text_fields_are_never_written(form: LogForm, name: str) -> None:
    stream = io.StringIO()
    logger(stream, form=form).info("some.thing", **{name: CANARY})
    assert "swordfish" not in stream.getvalue()
    assert "[redacted]" in stream.getvalue()


@pytest.mark.parametrize(
    "value",
    [
        {"deep": CANARY},
        {CANARY},
        [CANARY, {"x": CANARY}],
        [[CANARY]],
        CANARY.encode() + b"x" * 20,
        ValueError(CANARY),
        GnusError("BUSY", CANARY),
        object,
        CANARY * 20,
        type("Sneaky", (), {"__repr__": lambda self: CANARY, "__str__": lambda self: CANARY})(),
    ],
)
def test_what_is_not_simple_is_neutralised(value: object) -> None:
    stream = io.StringIO()
    logger(stream).info("some.thing", detail=value)
    assert "swordfish" not in stream.getvalue()
    assert lines(stream)[0]["event"] == "some.thing"


def test_text_in_an_event_name_or_exception_is_refused() -> None:
    stream = io.StringIO()
    log = make_log(StreamSink(stream), clock=FixedClock())
    log.info(f"asked: {CANARY}")
    log.info("asked %s", CANARY)
    try:
        raise RuntimeError(CANARY)
    except RuntimeError:
        log.exception("some.fault")
    assert "swordfish" not in stream.getvalue()
    assert [line["event"] for line in lines(stream)] == ["event.refused", "event.refused", "some.fault"]


def test_an_exception_object_shows_type_and_place_only() -> None:
    stream = io.StringIO()
    try:
        raise RuntimeError(CANARY)
    except RuntimeError as error:
        logger(stream).error("some.fault", exc_info=error)
    (line,) = lines(stream)
    assert line["fault"] == "RuntimeError"
    assert "test_log.py:" in str(line["where"])
    assert fault_fields(ValueError()) == {"fault": "ValueError", "where": ""}


@pytest.mark.parametrize("form", list(LogForm))
def test_one_event_is_one_line_whatever_the_value(form: LogForm) -> None:
    stream = io.StringIO()
    forged = 'x\n{"event":"forged"}\r\n\x1b[2J\u2028\u202e\ud800"= y'
    logger(stream, form=form).info("some.thing", expert_id=forged, node="n")
    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert text.endswith("\n")
    assert text[:-1].isascii()
    assert text[:-1].isprintable()


def test_key_value_form_reads_as_logfmt() -> None:
    stream = io.StringIO()
    logger(stream, form=LogForm.KEY_VALUE).info("some.thing", expert_id="a b", ok=True, experts=["x", "y"])
    assert stream.getvalue() == 'at=2026-11-30T12:00:00.123Z level=info event=some.thing expert_id="a b" ok=true experts=x,y\n'


def test_the_terminal_form_is_a_line_for_a_person() -> None:
    stream = io.StringIO()
    log = logger(stream, form=LogForm.TERMINAL)
    log.info("some.thing", expert_id="a b", ok=True, experts=["x", "y"])
    log.warning("other", expert_id="a\x1b[2J\nb")
    first, second = stream.getvalue().splitlines()
    assert first == "12:00:00  some.thing          expert_id a b  ok true  experts x,y"
    assert second.startswith("12:00:00  WARNING  other")
    assert "\x1b" not in second


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.text(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=400) | st.binary(max_size=80),
            lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=40,
    )
)
def test_the_guard_bounds_everything_and_never_raises(fields: dict[str, object]) -> None:
    kept = clean_fields(fields)
    assert len(kept) <= MAX_FIELDS + 1
    line = json.dumps(kept, allow_nan=False)
    assert "\n" not in line
    for name, value in kept.items():
        assert name.isidentifier()
        assert name == name.lower()
        # An escape is at most ten characters long.
        assert len(str(value)) <= 10 * 2 * MAX_FIELD_CHARS


def test_a_log_file_is_private_even_if_it_was_not(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    path.touch(mode=0o644)
    path.chmod(0o644)
    sink = FileSink(path)
    make_log(sink, clock=FixedClock()).info("node.started")
    sink.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["event"] == "node.started"


def test_links_and_pipes_are_refused_as_log_files(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("data")
    (tmp_path / "soft").symlink_to(target)
    linked = tmp_path / "linked"
    linked.write_text("data")
    os.link(linked, tmp_path / "hard")
    os.mkfifo(tmp_path / "pipe")
    for name in ("soft", "hard", "pipe", "missing/node.log"):
        with pytest.raises(GnusError) as caught:
            FileSink(tmp_path / name)
        assert caught.value.code == "CONFIG"
    assert target.read_text() == linked.read_text() == "data"


def test_files_rotate_and_old_ones_are_bounded(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "node.log", max_bytes=1000, keep=2)
    log = make_log(sink, clock=FixedClock())
    for number in range(60):
        log.info("some.thing", number=number)
    sink.close()
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["node.log", "node.log.1", "node.log.2"]
    kept = [json.loads(line)["number"] for name in reversed(names) for line in (tmp_path / name).read_text().splitlines()]
    assert kept == list(range(kept[0], 60)), "the newest lines, in order, none lost"
    for name in names:
        found = (tmp_path / name).stat()
        assert found.st_size <= 1000
        assert stat.S_IMODE(found.st_mode) == 0o600


def test_a_log_that_cannot_be_written_costs_lines_and_says_how_many() -> None:
    class Full(io.StringIO):
        broken = False

        def write(self, text: str) -> int:
            if self.broken:
                raise OSError(28, "No space left on device")
            return super().write(text)

    stream = Full()
    log = logger(stream)
    stream.broken = True
    log.info("lost.one")
    log.info("lost.two")
    stream.broken = False
    log.info("kept.one")
    assert [line["event"] for line in lines(stream)] == ["log.lines_lost", "kept.one"]
    assert lines(stream)[0]["lines"] == 2


def test_a_stream_that_cannot_encode_gets_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    make_log(StreamSink(stream), clock=FixedClock(), form=LogForm.KEY_VALUE).info("some.thing", expert_id="é")
    assert b"expert_id=\\xe9" in raw.getvalue()


SAMPLE = {"request_id": "r", "generation": 1, "experts": [], "findings": []}


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_an_event_needs_all_its_fields(name: str) -> None:
    full = {field: SAMPLE.get(field, 0) for field in EVENTS[name].required}
    stream = io.StringIO()
    log = logger(stream)
    emit(log, name, **full)
    (line,) = lines(stream)
    assert line["event"] == name
    assert set(full) <= set(line), "the guard lets every required field through"
    assert "[redacted]" not in line.values()
    for field in full:
        for broken in ({k: v for k, v in full.items() if k != field}, {**full, field: None}):
            with pytest.raises(GnusError, match=field):
                emit(log, name, **broken)
    assert len(lines(stream)) == 1


def test_events_cover_the_seed_and_unknown_ones_are_refused() -> None:
    words = events_table()
    for part in ("experts chosen", "per-expert latency", "agreement score", "write / skip", "accounting outcome", "sanitizer findings"):
        assert part in words
    with pytest.raises(GnusError, match="INTERNAL"):
        emit(logger(io.StringIO()), "no.such.event", request_id="r")
