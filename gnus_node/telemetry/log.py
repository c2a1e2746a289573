"""The structured log: one bound logger per node, JSON lines or key=value, without any global configuration.

Every line passes ``redact``. A log that cannot be written costs lines, never a request: losses are counted and reported by the next line
that can be written. Files are private (0600) and bounded: at ``max_bytes`` they rotate, and ``keep`` old ones remain.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from gnus_node.ports.host import Clock
from gnus_node.records.enums import WireEnum
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.redact import clean_event, clean_fields, fault_fields

MAX_LOG_BYTES = 16 * 1024 * 1024
KEEP_LOGS = 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class LogForm(WireEnum):
    """How lines look: for machines, or for a person at a terminal."""

    JSON = "json"
    KEY_VALUE = "key_value"
    TERMINAL = "terminal"


class Sink(Protocol):
    """Where lines go."""

    def write(self, line: str) -> None:
        """Write one line (without its end). May raise ``OSError`` or ``ValueError`` (closed)."""


class StreamSink:
    """Lines to an open text stream that someone else owns; what it cannot encode is escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        """Write and flush."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._stream.flush()


class FileSink:
    """Lines to a private file that rotates: ``node.log``, ``node.log.1`` (newest old one) to ``node.log.KEEP``.

    Raises ``CONFIG`` where the file cannot be opened, or is a link or no regular file.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_LOG_BYTES, keep: int = KEEP_LOGS) -> None:
        if max_bytes < 1 or keep < 0:
            raise GnusError("CONFIG", "a log needs a positive size and no negative number of old files")
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._fd = -1
        self._cut = False
        try:
            self._open()
        except OSError as error:
            raise GnusError("CONFIG", f"the log file cannot be opened: {error.strerror or type(error).__name__}") from None

    def write(self, line: str) -> None:
        """Append one line in one system call."""
        data = (b"\n" if self._cut else b"") + line.encode("utf-8", "backslashreplace") + b"\n"
        if self._fd < 0:
            self._open()
        if self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        written = os.write(self._fd, data)
        self._size += written
        self._cut = written != len(data)
        if self._cut:
            raise OSError("the line was cut short")

    def close(self) -> None:
        """Close the file; a later line opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                raise OSError("not a plain file of its own")
            os.fchmod(fd, 0o600)
        except OSError:
            os.close(fd)
            raise
        self._fd, self._size = fd, found.st_size

    def _rotate(self) -> None:
        """Move the files up by one. A step that fails raises ``OSError``; the line is then lost and the next one tries again."""
        self.close()
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._keep + 1))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.replace(older)
        if not self._keep:
            self._path.unlink(missing_ok=True)
        self._open()


class _Lines:
    """What structlog calls at the end, by level name. Keeps a failing sink from failing the caller."""

    def __init__(self, sink: Sink, render_loss: Any) -> None:
        self._sink = sink
        self._render_loss = render_loss
        self.lost = 0

    def msg(self, line: str) -> None:
        """Write one line, after a note on lines lost before."""
        try:
            if self.lost:
                self._sink.write(self._render_loss(self.lost))
                self.lost = 0
            self._sink.write(line)
        except (OSError, ValueError):
            self.lost += 1

    debug = info = warning = error = critical = msg


def make_log(sink: Sink, *, clock: Clock, level: str = "info", form: LogForm = LogForm.JSON, **bound: str | int) -> FilteringBoundLogger:
    """A logger for one node, implementing ``ports.host.Log``; ``bind`` gives children. ``bound`` fields stand in every line.

    ``level`` is debug, info, warning or error (``CONFIG`` otherwise). Time is the Clock's wall time, UTC.
    """
    if level not in _LEVELS:
        raise GnusError("CONFIG", "no such log level", fix=f"one of {', '.join(_LEVELS)}")

    def guard(_logger: Any, method: str, event: MutableMapping[str, Any]) -> EventDict:
        line: dict[str, Any] = {"at": utc_text(clock.wall_ms()), "level": method, "event": clean_event(event.get("event"))}
        line.update(clean_fields(event))
        fault = event.get("exc_info")
        if isinstance(fault, BaseException):
            line.update(fault_fields(fault))
        return line

    logfmt = structlog.processors.LogfmtRenderer(bool_as_flag=False)

    def render(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> str:
        if form is LogForm.JSON:
            return json.dumps(dict(line), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
        if form is LogForm.TERMINAL:
            return terminal_line(line)
        return str(logfmt(None, "", dict(line)))

    def render_loss(lost: int) -> str:
        return render(None, "", guard(None, "warning", {"event": "log.lines_lost", "lines": lost}))

    processors: list[Processor] = [guard, render]
    logger = structlog.wrap_logger(
        _Lines(sink, render_loss),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        context_class=dict,
        cache_logger_on_first_use=False,
    )
    return cast(FilteringBoundLogger, logger.bind(**bound))


def terminal_line(line: Mapping[str, Any]) -> str:
    """A line for reading: the time of day (UTC), the level where it is not info, the event, then what belongs to it."""
    at, level, event = (str(line.get(name, "")) for name in ("at", "level", "event"))
    rest = "  ".join(f"{name} {_word(value)}" for name, value in line.items() if name not in ("at", "level", "event"))
    return f"{at[11:19]}  {'' if level == 'info' else level.upper() + '  '}{event:<18}  {rest}".rstrip()


def _word(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text.isprintable() else json.dumps(text)


def utc_text(wall_ms: int) -> str:
    """``2026-11-30T12:00:00.000Z`` for milliseconds since the epoch."""
    return (_EPOCH + timedelta(milliseconds=wall_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class NullLog:
    """Writes nothing: for tools and tests that look elsewhere."""

    def info(self, event: str, **fields: Any) -> None:
        """Nothing."""

    def warning(self, event: str, **fields: Any) -> None:
        """Nothing."""

    def error(self, event: str, **fields: Any) -> None:
        """Nothing."""
