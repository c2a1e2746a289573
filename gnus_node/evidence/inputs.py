"""What went into a dispatch: the texts its referred records commit to (DESIGN.md section 2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from gnus_node.records.base import Committed
from gnus_node.records.envelope import Signed
from gnus_node.wire.digests import input_digest


def committed_in(part: BaseModel) -> Iterator[Committed]:
    """Every commitment in a body, in field order."""
    for value in part.__dict__.values():
        if type(value) not in _ATOMS:
            yield from _in_value(value)


_ATOMS = frozenset({bytes, int, str, bool, type(None)})
"""What holds no commitment, by far the most of a body: told by a look at the class."""


def _in_value(value: Any) -> Iterator[Committed]:
    if isinstance(value, tuple):
        for item in value:
            if type(item) not in _ATOMS:
                yield from _in_value(item)
    elif isinstance(value, Committed):
        yield value
    elif not isinstance(value, str) and isinstance(value, BaseModel):
        yield from committed_in(value)


@lru_cache(maxsize=4096)
def committed_of(record: Signed[Any]) -> tuple[Committed, ...]:
    """Every commitment in a record; a record never changes, and several roles of a node ask."""
    return tuple(committed_in(record.body))


def digest_of(records: Iterable[Signed[Any]]) -> bytes:
    """``Dispatch.input_digest`` for these referred records: their ids, and every text they commit to."""
    return _digest(tuple(records))


@lru_cache(maxsize=256)
def _digest(records: tuple[Signed[Any], ...]) -> bytes:
    """Several roles of a node ask for the same records; equal records have equal bytes, so equal digests."""
    commitments = [c.commitment for r in records for c in committed_of(r)]
    return input_digest(commitments, [r.id for r in records])
