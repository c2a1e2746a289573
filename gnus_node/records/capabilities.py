"""Capability names: one canonical form, to which the seed's spellings parse (18.1.3.1.4, 18.1.3.2.5). Pure.

It stands beside the records, because their JSON views read the seed's spellings.

``tool:web.fetch.readonly``, ``tool.web.fetch`` and ``memory:retrieve`` are spellings; ``tool.web.fetch.readonly``, ``tool.web.fetch`` and
``memory.retrieve`` are the names. Containment is equality: a narrower name never implies a wider one, and there are no wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gnus_node.records.errors import GnusError

_CANONICAL = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,5}")


def parse(spelling: str) -> str:
    """The canonical name of a capability. Raises ``MALFORMED``."""
    name = spelling.replace(":", ".", 1)
    if len(name) > 128 or not _CANONICAL.fullmatch(name):
        raise GnusError("MALFORMED", "a capability is written like tool.web.fetch.readonly")
    return name


def canonical_set(spellings: Iterable[str]) -> tuple[str, ...]:
    """A sorted set of canonical names."""
    return tuple(sorted({parse(s) for s in spellings}))
