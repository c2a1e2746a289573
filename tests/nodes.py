"""A whole node for tests: all roles that are installed, a tool that reads, and a write whose every real run can be counted.

The write is ``counter.append`` (tests/counter_adapter.py). The policy ``delegated`` pre-grants it, and one test-only expert proposes it
where a question says ``tag NAME``; where it says so without a name, the proposal is not proven and waits for a person.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnus_node.config import load_config
from gnus_node.config.model import NodeConfig
from gnus_node.experts import registry
from gnus_node.experts.backend import Draft, GenRequest, ToolCall, abstain
from gnus_node.experts.file_lookup import FileLookupBackend, file_lookup_info
from gnus_node.init import make_data_dir
from gnus_node.loader import load_class
from gnus_node.ports.host import Clock, Entropy, Offload
from gnus_node.tools.adapter import AdapterContext
from tests.counter_adapter import CAPABILITY, CounterAdapter

COUNTER = "tests.counter_adapter:CounterAdapter"
UNPROVEN = "nobody-said-this"
POLICIES = Path(__file__).parent.parent / "configs" / "policies"
_TAG = re.compile(r"\btag ([a-z0-9-]+)\b")

ROLES = [
    "ingress",
    "router",
    "semantic_core",
    "elm_worker",
    "verifier",
    "memory_index",
    "grounding",
    "tool_intermediary",
    "settlement",
]
CALC = """
[experts.calc]
kind = "symbolic"
role = "domain_expert"
domains = ["math"]
"""
CORE = """
[experts.core]
kind = "extractive"
role = "semantic_core"
"""
HANDS = """
[experts.hands]
kind = "file_lookup"
role = "tool_support"
domains = ["operations"]
"""
"""Three experts for settings files: one calculates, one quotes, one proposes to read a named file."""


def folder_corpus(name: str, path: str = "") -> str:
    """The settings of a collection that is a folder, of its own name unless another is given."""
    return f'[[corpora]]\nname = "{name}"\nkind = "folder"\npath = "{path or name}"\nuri_prefix = "doc://{name}/"\n'


NODE = (
    """
[node]
data_dir = "data"
roles = {roles}
[api]
listen = "off"
queue_max = {waiting}
[store]
flush_ms = {flush_ms}
[limits]
max_running = {running}
"""
    + CALC
    + CORE
    + HANDS
    + """
[tools]
allow = ["files.read", "counter.append"]
adapter_paths = ["{counter}"]
roots = ["files"]
[policy]
template = "delegated"
directory = "policies"
"""
)
POLICY = """
description = "Reads, and the counter without a person."
capabilities = ["{capability}", "tool.files.read.readonly"]
domains = []
paths = ["@roots"]
pre_granted = ["{capability}"]
max_tokens = 8192
max_wall_ms = {wall_ms}
max_spend = 1.0
max_turns = 4
privacy_floor = "plaintext"
approval_floor = "delegated"
memory_floor = "policy_scoped"
"""
NOTES = "# Notes\n\nThe release codename is Blue Heron. The release date is 12 May 2031.\n"


def installed_roles() -> list[str]:
    """The roles that can be hosted here."""
    ready = importlib.util.find_spec("roles.grounding") and importlib.util.find_spec("gnus_node.cognition.documents")
    return [r for r in ROLES if r != "grounding" or ready]


def counter_file(folder: Path) -> Path:
    """Where the counter writes."""
    return folder / "counter.lines"


def make_node(
    folder: Path,
    entropy: Entropy,
    clock: Clock,
    *,
    flush_ms: int = 50,
    running: int = 16,
    waiting: int = 64,
    wall_ms: int = 20_000,
    notes: str = NOTES,
    files: Mapping[str, bytes] | None = None,
    corpora: Mapping[str, Mapping[str, str]] | None = None,
) -> NodeConfig:
    """Settings, policy, files and a fresh data directory in ``folder``; ``corpora`` are folders of documents by name."""
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "notes.md").write_text(notes)
    for name, data in (files or {}).items():
        (folder / "files" / name).write_bytes(data)
    policies = folder / "policies"
    policies.mkdir()
    shutil.copy(POLICIES / "dev.toml", policies / "dev.toml")
    (policies / "delegated.toml").write_text(POLICY.format(capability=CAPABILITY, wall_ms=wall_ms))
    text = NODE.format(roles=installed_roles(), counter=COUNTER, flush_ms=flush_ms, running=running, waiting=waiting)
    for corpus, documents in (corpora or {}).items():
        (folder / corpus).mkdir()
        for name, document in documents.items():
            (folder / corpus / name).write_text(document)
        text += folder_corpus(corpus)
    (folder / "node.toml").write_text(text.replace("'", '"'))
    config = load_config(folder / "node.toml")
    make_data_dir(config.node.data_dir, entropy, clock)
    return config


class Hands(FileLookupBackend):
    """Proposes ``counter.append`` for ``tag NAME``, an unproven one for ``tag`` alone, else what the file-lookup expert proposes."""

    def decide(self, req: GenRequest) -> tuple[tuple[ToolCall, ...], Draft]:
        """One proposal at most, and never again once there is an output."""
        offered = any(t.name == "counter.append" for t in req.tools)
        if not offered or "tag" not in req.question.split():
            return super().decide(req)
        if req.tool_outputs:
            return (), abstain("ABSTAINED")
        found = _TAG.search(req.question)
        return (ToolCall("counter.append", {"tag": found[1] if found else UNPROVEN}, "asked for"),), abstain("ABSTAINED")


def _hands(settings: Any, backend_id: str, offload: Offload) -> Hands:
    info = file_lookup_info(backend_id)
    return Hands(replace(info, capabilities=(CAPABILITY, *info.capabilities)))


def install_hands() -> Callable[[], None]:
    """Let the kind ``file_lookup`` build ``Hands`` in this process; the return value takes it back."""
    before = registry._BUILDERS["file_lookup"]
    registry._BUILDERS["file_lookup"] = _hands

    def undo() -> None:
        registry._BUILDERS["file_lookup"] = before

    return undo


def loading(folder: Path) -> Callable[[str], type[Any]]:
    """``Ports.load_class`` whose counter writes into ``folder``."""

    class Counter(CounterAdapter):
        @classmethod
        def build(cls, context: AdapterContext, settings: Mapping[str, Any]) -> CounterAdapter:
            return CounterAdapter.build(context, {"file": str(counter_file(folder)), "simulated": True})

    return lambda target: Counter if target == COUNTER else load_class(target)
