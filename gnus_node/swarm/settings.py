"""The settings of a local swarm: its nodes, and what they share. One file; each node's own settings are derived from it, never written.

Invariants: what a node gets is a ``NodeConfig`` like any other; everything below ``[swarm] data_dir`` belongs to the swarm, one folder a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from gnus_node.config.load import load_toml
from gnus_node.config.model import (
    ApiSettings,
    Corpora,
    Entries,
    Experts,
    FilePath,
    LimitSettings,
    NetSettings,
    NodeConfig,
    NodeSettings,
    PolicySettings,
    Settings,
    StoreSettings,
    TelemetrySettings,
    ToolSettings,
)
from gnus_node.records.base import Name
from gnus_node.records.enums import ColocationProfile, RoleName
from gnus_node.records.errors import GnusError

MAX_NODES = 64
NodeName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
NEEDED = (RoleName.ROUTER, RoleName.VERIFIER, RoleName.SETTLEMENT)
"""Roles without which no question is accepted or answered, beside the one ingress."""


class ClusterSettings(Settings):
    """Where the swarm lives and how its processes are kept."""

    data_dir: FilePath
    """Folder of the swarm: one folder a node, each with keys, store, socket and log."""
    name: Name = "local"
    """Name of the swarm, if it is founded now."""
    operator: Name = "local"
    """Who runs the nodes."""
    profile: ColocationProfile = ColocationProfile.SMALL_SWARM
    """Which roles may share a node."""
    host: Annotated[str, Field(pattern=r"^[0-9.]{7,15}$")] = "127.0.0.1"
    """Numeric address that the nodes listen on."""
    base_port: Annotated[int, Field(ge=0, le=65_000)] = 0
    """Port of the first node, the others follow; 0 takes free ones at each start."""
    restart: bool = True
    """Whether a node that died is started again."""
    start_s: Annotated[int, Field(ge=5, le=3600)] = 180
    """Longest time until all nodes are ready."""


class ClusterNode(Settings):
    """One node. The key of the table is its name and its folder's."""

    roles: Annotated[Entries[RoleName], Field(min_length=1, max_length=9)]
    """Roles it hosts."""
    experts: Entries[Name] | None = None
    """Which of the experts it offers; left out, all that its roles can host."""
    corpora: Entries[Name] | None = None
    """Which of the corpora it grounds from; left out, all, if it hosts that role."""


class SwarmConfig(Settings):
    """A swarm's file. What is not about nodes or processes is a section of ``node.toml`` that every node shares."""

    swarm: ClusterSettings
    nodes: Annotated[dict[NodeName, ClusterNode], Field(min_length=1, max_length=MAX_NODES)]
    api: ApiSettings = Field(default_factory=ApiSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    experts: Experts = Field(default_factory=dict)
    corpora: Corpora = ()
    tools: ToolSettings = Field(default_factory=ToolSettings)
    policy: PolicySettings = Field(default_factory=PolicySettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)

    @model_validator(mode="after")
    def _whole(self) -> SwarmConfig:
        hosted = [role for node in self.nodes.values() for role in node.roles]
        if hosted.count(RoleName.INGRESS) != 1:
            raise ValueError("exactly one node hosts the role ingress")
        missing = [str(role) for role in NEEDED if role not in hosted]
        if missing:
            raise ValueError(f"no node hosts {', '.join(missing)}")
        known = set(self.experts), {c.name for c in self.corpora}
        for name, node in self.nodes.items():
            for wanted, there, what in ((node.experts, known[0], "experts"), (node.corpora, known[1], "corpora")):
                unknown = sorted(set(wanted or ()) - there)
                if unknown:
                    raise ValueError(f"node {name} names {what} that are not set: {', '.join(unknown)}")
        if self.api.unix_socket is not None or self.telemetry.log_file is not None:
            raise ValueError("unix_socket and log_file are each node's own here: node.sock and node.log in its folder")
        if self.swarm.base_port and self.swarm.base_port + len(self.nodes) > 65_536:
            raise ValueError("base_port leaves no room for all nodes")
        return self

    @property
    def founder(self) -> str:
        """The node on which the authority's key lies: the ingress's, whose tenants' policies it signs too."""
        return next(name for name, node in self.nodes.items() if RoleName.INGRESS in node.roles)

    def folder(self, name: str) -> Path:
        """A node's folder. Raises ``CONFIG`` for a node that is not in the file."""
        if name not in self.nodes:
            raise GnusError("CONFIG", f"the swarm's file has no node {name[:40]!r}", fix=f"one of {', '.join(self.nodes)}")
        return self.swarm.data_dir / name


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node of the swarm listens: ``/ip4/HOST/tcp/PORT``, and its peer id."""

    listen: str
    peer: str

    @property
    def address(self) -> str:
        """As others put it into ``net.bootstrap``."""
        return f"{self.listen}/p2p/{self.peer}"


def load_swarm(path: Path) -> SwarmConfig:
    """The swarm's settings. Raises ``CONFIG``."""
    return load_toml(path, SwarmConfig)


def node_config(swarm: SwarmConfig, name: str, places: Mapping[str, Place]) -> NodeConfig:
    """The settings of one node. It keeps in touch with the nodes that stand before it in the file, so that each pair has one that dials."""
    node, folder = swarm.nodes[name], swarm.folder(name)
    earlier = list(swarm.nodes)[: list(swarm.nodes).index(name)]
    front = RoleName.INGRESS in node.roles
    experts = {key: e for key, e in swarm.experts.items() if node.experts is None or key in node.experts}
    corpora = tuple(c for c in swarm.corpora if node.corpora is None or c.name in node.corpora)
    return NodeConfig(
        node=NodeSettings(data_dir=folder, roles=node.roles, operator=swarm.swarm.operator, profile=swarm.swarm.profile),
        api=swarm.api if front else ApiSettings(listen="off"),
        net=NetSettings(listen=(places[name].listen,), bootstrap=tuple(places[other].address for other in earlier)),
        store=swarm.store,
        limits=swarm.limits,
        experts=experts,
        corpora=corpora if RoleName.GROUNDING in node.roles else (),
        tools=swarm.tools,
        policy=swarm.policy,
        telemetry=swarm.telemetry,
    )
