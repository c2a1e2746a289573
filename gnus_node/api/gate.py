"""How much work may be under way at one door: requests in all, requests per key, streams.

The gate never queues: the one queue of a request is the ingress's (DESIGN.md section 5). Over a bound the answer is ``BUSY``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gnus_node.api.errors import ApiError
from gnus_node.api.settings import ApiSettings


class Gate:
    """Counts what is under way. Used inside one trio loop only, so counting needs no lock."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._per_key: Counter[str] = Counter()
        self.inflight = 0
        self.streams = 0

    @contextmanager
    def request(self, key_id: str) -> Iterator[None]:
        """A place for one request. Raises ``BUSY``."""
        if self.inflight >= self._settings.max_inflight:
            raise ApiError("BUSY", "too many requests are under way on this node")
        if self._per_key[key_id] >= self._settings.max_inflight_per_key:
            raise ApiError("BUSY", "too many requests are under way with this key")
        self.inflight += 1
        self._per_key[key_id] += 1
        try:
            yield
        finally:
            self.inflight -= 1
            self._per_key[key_id] -= 1
            if not self._per_key[key_id]:
                del self._per_key[key_id]

    @contextmanager
    def stream(self) -> Iterator[None]:
        """A place for one stream, inside a request's. Raises ``BUSY``."""
        if self.streams >= self._settings.max_streams:
            raise ApiError("BUSY", "too many streams are open on this node")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1
