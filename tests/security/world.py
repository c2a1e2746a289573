"""A real node for the security tests: one process, real store, real files, two collections that disagree about one fact."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gnus_node.config import load_config
from gnus_node.config.model import NodeConfig
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SeededEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.identity import Identity, load_identity
from gnus_node.init import make_data_dir
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Node, Ports, open_node
from tests.nodes import CALC, CORE, folder_corpus

QUESTIONS = {
    "arithmetic": "What is seven times twelve plus two?",
    "file": "What is the release codename in release-notes.txt?",
    "abstention": "What is the airspeed of an unladen swallow?",
    "documents": "What is the capital of Freedonia?",
    "disagreement": "What is the population of Freedonia?",
}
_SETTINGS = (
    """
[node]
data_dir = "data"
[api]
listen = "off"
"""
    + CORE
    + CALC
    + """
[experts.files]
kind = "file_lookup"
role = "tool_support"
domains = ["operations"]
[experts.red]
kind = "extractive"
role = "primary_draft"
options = { corpora = ["red"] }
[experts.blue]
kind = "extractive"
role = "primary_draft"
options = { corpora = ["blue"] }
[tools]
allow = ["files.read"]
roots = ["files"]
"""
    + folder_corpus("red")
    + folder_corpus("blue")
)


@dataclass(frozen=True, slots=True)
class World:
    """A running node, its bus and its keys."""

    node: Node
    bus: MemoryBus
    clock: SystemClock
    entropy: SeededEntropy
    identity: Identity
    folder: Path


def make_world(folder: Path, clock: SystemClock, entropy: SeededEntropy) -> NodeConfig:
    """Files, documents, settings, data directory."""
    for name, text in (
        ("files/release-notes.txt", "The release codename is Blue Heron. It shipped on 3 May 2026.\n"),
        ("red/freedonia.md", "# Freedonia\n\nThe capital of Freedonia is Marxville. The population of Freedonia is 4100000.\n"),
        ("blue/freedonia.md", "# Freedonia\n\nThe population of Freedonia is 5200000.\n"),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "node.toml").write_text(_SETTINGS, encoding="utf-8")
    config = load_config(folder / "node.toml")
    make_data_dir(config.node.data_dir, entropy, clock)
    return config


@asynccontextmanager
async def open_world(folder: Path) -> AsyncIterator[World]:
    """Run the node for the length of the block."""
    clock, entropy, bus = SystemClock(), SeededEntropy(7), MemoryBus()
    config = make_world(folder, clock, entropy)
    ports = Ports(clock, entropy.fork("node"), ThreadOffload(), bus)
    async with open_node(config, ports) as node:
        assert node.problems() == []
        yield World(node, bus, clock, entropy, load_identity(config.node.data_dir), folder)
