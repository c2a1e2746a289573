"""What a response covers: every record of its request, so that none can be left out afterwards. Pure.

Records refer to those before them in their headers. The response refers to the *ends*, what no other record refers to; following the
references from there reaches all of them. So one signature stands for the whole set, answered or failed, and a step that is dropped shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gnus_node.evidence.bag import Bag
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError


def ends(records: Iterable[Signed[Any]]) -> tuple[bytes, ...]:
    """Ids of the records that no other refers to, sorted: what the response puts into its ``refs``."""
    held = tuple(records)
    referred = {ref for record in held for ref in record.header.refs}
    return tuple(sorted(r.id for r in held if r.id not in referred))


def covered(bag: Bag, response: Signed[Any]) -> set[bytes]:
    """Ids of all records that the response reaches. Raises ``CHAIN_BROKEN`` where one of them is missing."""
    found: set[bytes] = set()
    waiting = list(response.header.refs)
    while waiting:
        ref = waiting.pop()
        if ref in found:
            continue
        record = bag.find(ref)
        if record is None:
            raise GnusError("CHAIN_BROKEN", "a record that the response covers is missing", link="response")
        found.add(ref)
        waiting.extend(record.header.refs)
    return found
