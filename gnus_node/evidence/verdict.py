"""What an audit says: a tree of links, each with how far it is proved, and by whom (DESIGN.md section 2). It never claims more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnus_node.records.enums import Outcome, Proof
from gnus_node.records.errors import GnusError


@dataclass(frozen=True, slots=True)
class Link:
    """One link: ``proof`` says how far, ``by`` names the node and role (or key) it rests on."""

    name: str
    proof: Proof
    by: str
    detail: str = ""
    record: bytes | None = None
    children: tuple[Link, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """JSON form."""
        plain: dict[str, Any] = {"name": self.name, "proof": str(self.proof), "by": self.by}
        if self.detail:
            plain["detail"] = self.detail
        if self.record is not None:
            plain["record"] = f"sha256:{self.record.hex()}"
        if self.children:
            plain["children"] = [child.to_plain() for child in self.children]
        return plain


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole judgement; ``ok`` False names the broken link in ``error``."""

    ok: bool
    request_id: str
    generation: int
    outcome: Outcome | None
    trust_head: int
    links: tuple[Link, ...]
    error: GnusError | None = None

    def to_plain(self) -> dict[str, Any]:
        """JSON form: the object ``audit verify --json`` prints."""
        plain: dict[str, Any] = {
            "ok": self.ok,
            "request_id": self.request_id,
            "generation": self.generation,
            "outcome": str(self.outcome) if self.outcome else None,
            "valid_as_of": f"trust head {self.trust_head}",
            "trust_head": self.trust_head,
            "links": [link.to_plain() for link in self.links],
        }
        if self.error is not None:
            plain["error"] = self.error.to_plain()
        return plain


def refused(error: GnusError, *, request_id: str = "", generation: int = 0, trust_head: int = 0) -> Verdict:
    """The verdict on a chain that does not hold. The broken link always has a name: what is no record at all is the bundle's fault."""
    if not error.link:
        error = GnusError(error.code, error.what, fix=error.fix, link="bundle", whose=error.whose)
    return Verdict(False, request_id, generation, None, trust_head, (), error)
