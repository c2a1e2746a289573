"""What the local door asks of the node: the verbs of the command line that need a running node.

Only the 0600 unix socket reaches these (docs/protocol/http.md); whoever calls them is the node's operator. Values are plain JSON values
except where a type says otherwise. Every method raises ``GnusError`` and nothing else.
"""

from __future__ import annotations

from typing import Any, Protocol

from gnus_node.ports.submit import Answered
from gnus_node.records.enums import Tier


class Admin(Protocol):
    """The node as its operator sees it."""

    async def status(self) -> dict[str, Any]:
        """The node's status, problems first."""

    async def ask(self, question: str, **options: Any) -> Answered:
        """Ask as the operator. ``options`` are fields of ``Ask`` other than ``question``. Cancelling cancels as in ``Submit.ask``."""

    async def plan(self, question: str) -> dict[str, Any]:
        """The plan the question would get, as a view; nothing is dispatched."""

    async def audit(self, request_id: str, payloads: bool) -> bytes:
        """The audit bundle's bytes; with ``payloads`` texts and salts too. Raises ``NOT_FOUND``."""

    async def memory_search(self, query: str, limit: int) -> list[dict[str, Any]]:
        """At most ``limit`` memory events that fit, best first."""

    async def memory_put(self, content: str, memory_class: str) -> dict[str, Any]:
        """Propose a memory event; its object as admitted. Raises ``MEMORY_REFUSED``."""

    async def tools(self) -> list[dict[str, Any]]:
        """The tools of this node's intermediary, with what each may do."""

    async def grant(self, request: str, operator: str, tier: Tier) -> dict[str, Any]:
        """Grant a request to join, with the authority's key; charter and trust log for the new node. Raises ``FORBIDDEN`` without that key."""

    async def doctor(self) -> list[dict[str, Any]]:
        """Findings, worst first: what, why, fix, code."""
