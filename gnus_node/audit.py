"""``gnus-node audit verify``: a bundle's file judged against a charter's file, without any node (DESIGN.md section 2).

The judging is ``evidence.bundle``'s and pure; here are the files and the clock. The charter is all that is taken on trust, and the trust log
of ``--trust-head``, where the judge keeps a newer one than the bundle's: then a revocation since counts, and the verdict is valid as of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import trio

from gnus_node.evidence.bundle import MAX_BUNDLE_BYTES, import_charter, import_trust, verify_bundle
from gnus_node.host.clock import SystemClock
from gnus_node.records.errors import GnusError

T = TypeVar("T")


def verify_bundle_file(bundle: Path, charter: Path, trust_head: Path | None) -> dict[str, Any]:
    """The verdict as JSON (``Verdict.to_plain``). A bundle that does not hold is a verdict with ``ok`` false and its broken link named.

    Raises ``USAGE`` where a file cannot be read; ``MALFORMED``, ``CHAIN_BROKEN`` where the judge's own charter or trust log does not read.
    """
    data = _read(bundle)
    own = _parsed(import_charter, charter, "the charter", "give the file charter.json of the swarm")
    newer = _parsed(import_trust, trust_head, "the trust log", "give the file trust.json of a node") if trust_head is not None else ()

    async def judge() -> dict[str, Any]:
        return verify_bundle(data, own, SystemClock().wall_ms(), newer_trust=newer).to_plain()

    return trio.run(judge)


def _parsed(parse: Callable[[bytes], T], path: Path, what: str, fix: str) -> T:
    try:
        return parse(_read(path))
    except GnusError as error:
        if error.code == "USAGE":
            raise
        raise GnusError(error.code, f"{path} is not {what}: {error.what}", fix=fix) from None


def _read(path: Path) -> bytes:
    """A file's bytes, at most one more than a bundle may have: what is longer is refused by whoever decodes it."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BUNDLE_BYTES + 1)
    except OSError as error:
        raise GnusError("USAGE", f"{path} cannot be read: {error.strerror}", fix="name a file that can be read") from None
