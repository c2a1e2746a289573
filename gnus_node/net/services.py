"""The table of services nodes offer each other: who serves each, how many calls at a time, how long at most (DESIGN.md section 5).

A service stands on the wire as ``/gnus/<path>/<version>``; a change of its messages is a new version. Requests enter at the ingress in
process (``ports.submit``), so the ingress serves nothing here but what every node serves.
"""

# house: pure

from __future__ import annotations

from dataclasses import dataclass

from gnus_node.records.enums import RoleName
from gnus_node.records.errors import GnusError

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS


@dataclass(frozen=True, slots=True)
class Service:
    """One row. ``roles`` may serve it, empty means every node; ``limit`` calls at a time on one node, then ``BUSY``."""

    name: str
    version: int
    roles: tuple[RoleName, ...]
    limit: int
    max_budget_ms: int
    purpose: str
    path: str = ""
    """Name on the wire where it differs from ``name``."""

    @property
    def protocol(self) -> str:
        """The protocol id, ``/gnus/<path>/<version>``."""
        return f"/gnus/{self.path or self.name}/{self.version}"


_MEMORY = (RoleName.MEMORY_INDEX,)
_TOOLS = (RoleName.TOOL_INTERMEDIARY,)
_SETTLEMENT = (RoleName.SETTLEMENT,)

_ROWS: tuple[Service, ...] = (
    Service("router.route", 1, (RoleName.ROUTER,), 64, 15 * MINUTE_MS, "run one mandate to a verified answer"),
    Service("memory.retrieve", 1, _MEMORY, 64, 30 * SECOND_MS, "governed context for a dispatch, signed"),
    Service("memory.put", 1, _MEMORY, 32, 30 * SECOND_MS, "offer a memory candidate"),
    Service("memory.search", 1, _MEMORY, 32, 30 * SECOND_MS, "search the owner's memory, for the node's own front door"),
    Service("memory.remember", 1, _MEMORY, 32, 30 * SECOND_MS, "keep a note of the owner, for the node's own front door"),
    Service("memory.get", 1, _MEMORY, 64, 30 * SECOND_MS, "one memory event by id"),
    Service("grounding.retrieve", 1, (RoleName.GROUNDING,), 64, 30 * SECOND_MS, "grounding evidence for a dispatch, signed"),
    Service("expert.run", 1, (RoleName.ELM_WORKER,), 32, 10 * MINUTE_MS, "run one expert on a dispatch"),
    Service("core.run", 1, (RoleName.SEMANTIC_CORE,), 32, 10 * MINUTE_MS, "run a semantic core on a dispatch"),
    Service("tools.mediate", 1, _TOOLS, 32, 5 * MINUTE_MS, "mediate the proposals of attested outputs"),
    Service("tools.effects", 1, _TOOLS, 32, 30 * SECOND_MS, "effects of a request, before a successor re-plans"),
    Service("verifier.synthesize", 1, (RoleName.VERIFIER,), 32, 5 * MINUTE_MS, "check, arbitrate and sign the answer"),
    Service("settlement.settle", 1, _SETTLEMENT, 32, MINUTE_MS, "verify the chain and record the task"),
    Service("settlement.get", 1, _SETTLEMENT, 32, 30 * SECOND_MS, "the task record and checkpoint of a request"),
    # DECISIONS, Authority: bodies behind digests are fetched by id at /gnus/records/1.
    Service("records.get", 1, (), 64, 30 * SECOND_MS, "records by id", path="records"),
    Service("net.announce", 1, (), 32, 10 * SECOND_MS, "announcements and registry records, exchanged when two nodes meet"),
    Service("net.heartbeat", 1, (), 64, 5 * SECOND_MS, "a sign of life with the node's load"),
    Service("trust.sync", 1, (), 16, MINUTE_MS, "the trust log's records the peer lacks"),
)

SERVICES: dict[str, Service] = {row.name: row for row in _ROWS}
"""Every service by name."""


def service(name: str) -> Service:
    """The row of a service. Raises ``UNKNOWN_SERVICE``."""
    found = SERVICES.get(name)
    if found is None:
        raise GnusError("UNKNOWN_SERVICE", "no service of this name is declared in net.services")
    return found


def services_table() -> str:
    """The Markdown table for the documentation, generated from ``SERVICES``."""
    lines = ["| service | protocol | served by | calls at a time | longest | purpose |", "|---|---|---|---|---|---|"]
    for row in SERVICES.values():
        roles = ", ".join(row.roles) or "every node"
        seconds = row.max_budget_ms // SECOND_MS
        lines.append(f"| `{row.name}` | `{row.protocol}` | {roles} | {row.limit} | {seconds} s | {row.purpose} |")
    return "\n".join(lines) + "\n"
