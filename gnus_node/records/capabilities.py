"""Capability names: one canonical form, to which the seed's spellings parse (18.1.3.1.4, 18.1.3.2.5). Pure.

It stands beside the records, because their JSON views read the seed's spellings.

``tool:web.fetch.readonly``, ``tool.web.fetch`` and ``memory:retrieve`` are spellings; ``tool.web.fetch.readonly``, ``tool.web.fetch`` and
``memory.retrieve`` are the names. Containment is equality: a narrower name never implies a wider one, and there are no wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gnus_node.records.errors import GnusError

SPELLING = r"^[a-z][a-z0-9_]*[.:][a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){0,4}$"
"""What is read: the first separator may be a colon, as the seed writes it."""
MAX_CAPABILITY = 128

_SPELLING = re.compile(SPELLING.removesuffix("$"))


def parse(spelling: str) -> str:
    """The canonical name of a capability. Raises ``MALFORMED``."""
    if len(spelling) > MAX_CAPABILITY or not _SPELLING.fullmatch(spelling):
        raise GnusError("MALFORMED", "a capability is written like tool.web.fetch.readonly")
    return spelling.replace(":", ".", 1)


def canonical_set(spellings: Iterable[str]) -> tuple[str, ...]:
    """A sorted set of canonical names."""
    return tuple(sorted({parse(s) for s in spellings}))
