"""Server-sent events, read strictly and within bounds: bytes in, ``data`` payloads out. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from gnus_node.records.errors import GnusError


@dataclass(slots=True)
class SseDecoder:
    """Feed it chunks as they come. Raises ``BACKEND_FAILED`` on a line, an event or a stream over its bound, or text not in UTF-8."""

    max_line_bytes: int
    max_total_bytes: int
    _buffer: bytearray = field(default_factory=bytearray)
    _data: list[str] = field(default_factory=list)
    _data_bytes: int = 0
    _total: int = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The payloads completed by this chunk."""
        self._total += len(chunk)
        if self._total > self.max_total_bytes:
            raise GnusError("BACKEND_FAILED", "the server's stream is over its bound")
        self._buffer += chunk
        found: list[str] = []
        start = 0
        while (end := self._buffer.find(b"\n", start)) >= 0:
            self._line(bytes(self._buffer[start:end]).removesuffix(b"\r"), found)
            start = end + 1
        del self._buffer[:start]
        if len(self._buffer) > self.max_line_bytes:
            raise GnusError("BACKEND_FAILED", "the server sent a line over its bound")
        return found

    def _line(self, line: bytes, found: list[str]) -> None:
        if len(line) > self.max_line_bytes:
            raise GnusError("BACKEND_FAILED", "the server sent a line over its bound")
        if not line:
            if self._data:
                found.append("\n".join(self._data))
            self._data.clear()
            self._data_bytes = 0
            return
        name, _, value = line.partition(b":")
        if name != b"data":
            return  # comments, ids, event names and retry times say nothing here
        self._data_bytes += len(value)
        if self._data_bytes > self.max_line_bytes:
            raise GnusError("BACKEND_FAILED", "the server sent an event over its bound")
        try:
            self._data.append(value.removeprefix(b" ").decode("utf-8"))
        except UnicodeDecodeError:
            raise GnusError("BACKEND_FAILED", "the server's stream is not UTF-8") from None
