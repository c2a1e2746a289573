"""The role contract: what a role is, and all that it is given (DESIGN.md section 1, rule 2).

A role is thin: it builds its room's service from what its host hands it, serves it, and has at most one background task. Built-in roles
use this module and their rooms only, so a third party's role can do what they do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gnus_node.flow.accept import FlowLimits
from gnus_node.flow.archive import Archive
from gnus_node.flow.owner import Owner
from gnus_node.net.context import RoleContext
from gnus_node.net.rpc import Handler
from gnus_node.ports.store import ClosableIndex
from gnus_node.records.authority import Policy
from gnus_node.records.enums import Domain, ExpertRole, RoleName, SourceClass
from gnus_node.records.envelope import Signed
from gnus_node.store.payloads import PayloadStore

__all__ = ["CorpusSpec", "ExpertSpec", "Front", "Handler", "Role", "RoleContext", "RoleHost"]


@dataclass(frozen=True, slots=True)
class ExpertSpec:
    """One configured expert: who it is, and the settings of its backend."""

    expert_id: str
    version: str
    role: ExpertRole
    domains: tuple[Domain, ...]
    license: str
    backend: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """One configured corpus."""

    name: str
    kind: str
    path: Path | None
    source_class: SourceClass
    trusted: bool
    uri_prefix: str
    tenant: str | None = None
    """The one tenant that may see it; None for all."""


@dataclass(slots=True)
class Front:
    """What the node's own front door uses of its roles; each is set by the role that offers it."""

    owner: Owner | None = None
    archive: Archive | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    corpora: Sequence[Mapping[str, Any]] = ()
    idle: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class RoleHost:
    """All that a role is given. ``serve`` registers a handler for a service of ``net.services``; ``offer`` puts a signed registry record
    (manifest, entry) into the directory and the announcement; ``sign_bytes`` signs with the role's key under another domain."""

    context: RoleContext
    serve: Callable[[str, Handler], None]
    offer: Callable[[Signed[Any]], None]
    sign_bytes: Callable[[bytes], bytes]
    load_class: Callable[[str], type[Any]]
    data_dir: Path
    front: Front
    payloads: PayloadStore
    policies: tuple[Signed[Policy], ...]
    limits: FlowLimits
    make_index: Callable[[Path | None], ClosableIndex]
    experts: tuple[ExpertSpec, ...] = ()
    corpora: tuple[CorpusSpec, ...] = ()
    adapters: tuple[tuple[str, str, Mapping[str, Any]], ...] = ()
    """Allow-listed tool adapters: name, target (empty for a built-in one), settings."""
    installed_adapters: Mapping[str, str] = field(default_factory=dict)
    roots: tuple[str, ...] = ()


class Role(Protocol):
    """One of the nine roles on one node."""

    name: RoleName

    async def open(self, host: RoleHost) -> None:
        """Build the service and serve it. Raises ``GnusError``: then the node does not start."""

    async def work(self) -> None:
        """Background work until cancelled; returning at once is fine."""

    async def aclose(self) -> None:
        """Let go of what ``open`` opened."""
