"""A bag of opened records: found by id and by kind. Everything in ``evidence`` judges a bag; nothing in it does input or output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from gnus_node.records.base import Body
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError

B = TypeVar("B", bound=Body)
MAX_BAG = 1024
"""Most records one request may have."""


class Bag:
    """Opened records of one request, in the order they came, each once. A kind is a body's own class, which no other class derives from."""

    def __init__(self, records: Iterable[Signed[Any]] = ()) -> None:
        self._by_id: dict[bytes, Signed[Any]] = {}
        self._by_kind: dict[type[Body], tuple[Signed[Any], ...]] = {}
        self.add(records)

    @classmethod
    def read(cls, raws: Iterable[bytes], opener: Callable[[bytes], Signed[Any]]) -> Bag:
        """Open raw envelopes. Raises what opening raises."""
        return cls(opener(raw) for raw in raws)

    def add(self, records: Iterable[Signed[Any]]) -> None:
        """Add records. Raises ``TOO_LARGE``."""
        for record in records:
            if record.id not in self._by_id:
                self._by_id[record.id] = record
                kind = type(record.body)
                self._by_kind[kind] = (*self._by_kind.get(kind, ()), record)
        if len(self._by_id) > MAX_BAG:
            raise GnusError("TOO_LARGE", f"more than {MAX_BAG} records of one request")

    def __iter__(self) -> Iterator[Signed[Any]]:
        return iter(tuple(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, record_id: object) -> bool:
        return record_id in self._by_id

    def find(self, record_id: bytes) -> Signed[Any] | None:
        """A record by id, or None."""
        return self._by_id.get(record_id)

    def raws(self) -> tuple[bytes, ...]:
        """The raw envelopes."""
        return tuple(r.raw for r in self._by_id.values())

    def of(self, kind: type[B]) -> tuple[Signed[B], ...]:
        """All records of a kind, in order."""
        return self._by_kind.get(kind, ())

    def one(self, kind: type[B], link: str) -> Signed[B]:
        """The only record of a kind. Raises ``CHAIN_BROKEN`` where there is none or more."""
        found = self.of(kind)
        if len(found) != 1:
            raise GnusError("CHAIN_BROKEN", f"{len(found)} records of kind {kind.KIND} where one belongs", link=link)
        return found[0]

    def maybe(self, kind: type[B], link: str) -> Signed[B] | None:
        """The only record of a kind, or None. Raises ``CHAIN_BROKEN`` where there are more."""
        return self.one(kind, link) if self.of(kind) else None

    def get(self, record_id: bytes, kind: type[B], link: str) -> Signed[B]:
        """A record by id. Raises ``CHAIN_BROKEN`` where it is missing or of another kind."""
        found = self._by_id.get(record_id)
        if found is None or not isinstance(found.body, kind):
            raise GnusError("CHAIN_BROKEN", f"a {kind.KIND} that is referred to is missing", link=link)
        return found
