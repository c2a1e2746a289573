"""What the house rules consult: the data, apart from the checks, so that an exception is one line with its reason.

Paths are relative to the project, with forward slashes. A key that ends in ``/`` stands for everything below it.
"""

from __future__ import annotations

PURE = {
    "gnus_node/records/": "records are values",
    "gnus_node/wire/": "bytes in, values out",
    "gnus_node/trust/": "decides from records and a given time",
    "gnus_node/policy/": "decides from ceilings",
    "gnus_node/content/": "text in, text and labels out",
    "gnus_node/privacy/": "redaction and sealing; chance comes in by Entropy",
    "gnus_node/evidence/": "the one judge of a chain",
    "gnus_node/config/model.py": "the settings' shape",
    "gnus_node/config/lines.py": "finds a key's line in a TOML text",
}
"""Deciding files: no trio, clock, chance, threads (rule 3). A file elsewhere joins with a comment ``# house: pure``."""

MAY_READ_CLOCK_AND_CHANCE = {
    "gnus_node/host/": "adapters of Clock, Entropy, Offload",
    "gnus_node/store/": "its writer thread and syncing",
    "gnus_node/cognition/documents/index.py": "a lock around one SQLite connection; it starts no thread",
}
"""Who may touch time, uuid, secrets, random, threads (rule 4)."""

MAY_IMPORT_BY_NAME = {
    "gnus_node/loader.py": "roles are entry points",
    "gnus_node/cognition/documents/": "reads the data and version of packages (importlib.resources, importlib.metadata); imports nothing by name",
    "gnus_node/host/servers.py": "asks which version of a package is installed (importlib.metadata)",
    "gnus_node/cli/compose.py": "a command imports its module, and the composition root, only when it runs",
}
"""Who may use importlib."""

MAY_START_PROCESSES = {
    "gnus_node/sandbox/": "isolation of child processes",
    "gnus_node/host/children.py": "child processes are a port, this is its adapter",
    "gnus_node/host/launch.py": "becomes the program that a child runs",
    "gnus_node/swarm/process.py": "a local swarm's nodes are processes of their own; the file holds nothing else",
}
"""Who may import subprocess and call what starts a process."""

MAY_BE_LONG = {
    "gnus_node/records/enums.py": "one table of every enumeration",
}
"""gnus_node modules over the length limit."""

MAY_SLEEP = {
    "tests/house/test_house.py": "plants the violation",
}
"""Tests that call ``time.sleep`` or ``trio.sleep``; ordering is for events, MockClock or a poll with a deadline."""

MAY_NAME_MACHINE_PATHS: dict[str, str] = {}
"""Tracked files that may hold a path of some machine or a registry's host name."""

ROLE_COMMON = ("gnus_node.role", "gnus_node.records", "gnus_node.ports")
"""What every role may import, besides the standard library and pydantic."""

ROLE_ROOMS = {
    "ingress": ("gnus_node.flow", "gnus_node.api", "gnus_node.evidence", "gnus_node.policy", "gnus_node.privacy"),
    "router": ("gnus_node.flow", "gnus_node.cognition", "gnus_node.policy", "gnus_node.evidence"),
    "semantic_core": ("gnus_node.cognition", "gnus_node.experts", "gnus_node.evidence"),
    "elm_worker": ("gnus_node.cognition", "gnus_node.experts", "gnus_node.evidence"),
    "verifier": ("gnus_node.cognition", "gnus_node.evidence"),
    "memory_index": ("gnus_node.memory", "gnus_node.evidence", "gnus_node.privacy"),
    "grounding": ("gnus_node.memory", "gnus_node.cognition", "gnus_node.evidence"),
    "tool_intermediary": ("gnus_node.tools", "gnus_node.evidence", "gnus_node.policy"),
    "settlement": ("gnus_node.settlement", "gnus_node.evidence"),
}
"""Room facades each built-in role may import (DECISIONS, House): thin roles over rooms, no role reaches another's room by accident."""

THINKING_ROLES = ("semantic_core", "elm_worker")
"""Roles that may reach neither tools nor network nor processes (rule 5)."""
