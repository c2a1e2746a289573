"""Swarms of several nodes for tests: the same questions and the same countable write as ``tests.nodes``, spread over nodes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.counter_adapter import CAPABILITY
from tests.nodes import CALC, CORE, COUNTER, HANDS, NOTES, POLICIES, POLICY, folder_corpus

SWARM = (
    """
[swarm]
data_dir = "s"
profile = "dev"
base_port = {base_port}
restart = {restart}
start_s = 120
{nodes}
[api]
listen = "off"
[limits]
drain_s = 5
"""
    + CALC
    + CORE
    + HANDS
    + folder_corpus("notes", "files")
    + """
[tools]
allow = ["files.read"{counter}]
adapter_paths = [{path}]
roots = ["files"]
[policy]
template = "{template}"
directory = "policies"
"""
)
NINE: Mapping[str, tuple[str, ...]] = {
    "front": ("ingress",),
    "router": ("router",),
    "core": ("semantic_core",),
    "worker": ("elm_worker",),
    "verifier": ("verifier",),
    "memory": ("memory_index",),
    "grounding": ("grounding",),
    "tools": ("tool_intermediary",),
    "books": ("settlement",),
}
"""One role a node."""
DOUBLED: Mapping[str, tuple[str, ...]] = {
    **NINE,
    "router2": ("router",),
    "core2": ("semantic_core",),
    "worker2": ("elm_worker",),
    "verifier2": ("verifier",),
    "grounding2": ("grounding",),
    "memory2": ("memory_index",),
}
"""And a second of each role that may have one."""


def write_swarm(
    folder: Path,
    nodes: Mapping[str, tuple[str, ...]],
    *,
    acting: bool = False,
    base_port: int = 0,
    restart: bool = True,
    wall_ms: int = 20_000,
) -> Path:
    """A swarm's file with what it names, in ``folder``; with ``acting`` the counter is allowed and pre-granted."""
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "notes.md").write_text(NOTES)
    policies = folder / "policies"
    policies.mkdir()
    shutil.copy(POLICIES / "dev.toml", policies / "dev.toml")
    shutil.copy(POLICIES / "default.toml", policies / "default.toml")
    (policies / "delegated.toml").write_text(POLICY.format(capability=CAPABILITY, wall_ms=wall_ms))
    tables = "\n".join(f"[nodes.{name}]\nroles = [{', '.join(chr(34) + r + chr(34) for r in roles)}]" for name, roles in nodes.items())
    text = SWARM.format(
        nodes=tables,
        base_port=base_port,
        restart="true" if restart else "false",
        counter=', "counter.append"' if acting else "",
        path=f'"{COUNTER}"' if acting else "",
        template="delegated" if acting else "default",
    )
    path = folder / "swarm.toml"
    path.write_text(text)
    return path
