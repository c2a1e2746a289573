"""Two nodes in two processes over libp2p: one asks, routes, verifies, remembers and settles; the other's experts and documents answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from gnus_node.config import load_config
from gnus_node.evidence.bundle import verify_bundle
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.init import make_data_dir
from gnus_node.membership import grant_node, join_swarm, make_member, read_request
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Node, Ports, open_node
from gnus_node.records.enums import RoleName, Tier
from gnus_node.records.errors import GnusError
from tests.nodes import CALC, CORE, folder_corpus
from tests.p2p.world import until

FRONT = ("ingress", "router", "verifier", "memory_index", "settlement", "tool_intermediary")
BACK = ("semantic_core", "elm_worker", "grounding")
ROOT = Path(__file__).resolve().parents[2]


def settings(folder: Path, roles: tuple[str, ...], *, bootstrap: tuple[str, ...] = (), more: str = "") -> Path:
    path = folder / "node.toml"
    path.write_text(
        f"""[node]
data_dir = "data"
roles = {json.dumps(roles)}
[api]
listen = "off"
[net]
listen = ["/ip4/127.0.0.1/tcp/0"]
bootstrap = {json.dumps(bootstrap)}
{more}
""",
        encoding="utf-8",
    )
    return path


EXPERTS = CORE + CALC + folder_corpus("notes")


def ports() -> Ports:
    return Ports(SystemClock(), SystemEntropy(), ThreadOffload(), MemoryBus())


@asynccontextmanager
async def process(path: Path, log: Path) -> AsyncIterator[trio.Process]:
    """A node of its own; its standard error goes to a file that a failing test shows."""
    with log.open("wb") as errors:
        command = [sys.executable, "-m", "tests.p2p.node_process", str(path)]
        node = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT)
        try:
            yield node
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(10):
                if node.stdin:
                    await node.stdin.aclose()
                await node.wait()
            if node.returncode is None:
                node.kill()
                with trio.CancelScope(shield=True):
                    await node.wait()


async def founder(tmp_path: Path) -> Path:
    folder = tmp_path / "front"
    folder.mkdir()
    make_data_dir(folder / "data", SystemEntropy(), SystemClock())
    return folder


async def ask_and_audit(node: Node, question: str) -> str:
    """The answer, once its audit bundle verifies."""
    answer = await node.admin.ask(question)
    verdict = verify_bundle(await node.admin.audit(answer.request_id, False), node.charter, SystemClock().wall_ms())
    assert verdict.ok, verdict.error
    return answer.answer


@pytest.mark.slow
async def test_a_question_is_answered_by_two_processes_and_audited(tmp_path: Path) -> None:
    front = await founder(tmp_path)
    back = tmp_path / "back"
    notes = back / "notes"
    notes.mkdir(parents=True)
    (notes / "release.md").write_text("# Release\n\nThe release codename of version 4 is Blue Heron.\n", encoding="utf-8")
    request = read_request(make_member(back / "data", SystemEntropy(), [RoleName(r) for r in BACK]))
    charter, trust = grant_node(front / "data", request, SystemClock())
    join_swarm(back / "data", charter, trust)

    log = tmp_path / "back.log"
    async with open_node(load_config(settings(front, FRONT)), ports()) as node:
        assert node.problems() == []
        path = settings(back, BACK, bootstrap=node.addresses, more=EXPERTS)
        async with process(path, log) as child:
            assert child.stdout is not None
            directory = node.context.directory
            await until(lambda: len(directory.experts("local")) == 2)
            assert await ask_and_audit(node, "What is seven times twelve plus two?") == "86"
            assert "Blue Heron" in await ask_and_audit(node, "What is the release codename of version 4?")
            rows = {row.node_id: row for row in directory.rows()}
            assert rows[request.node_id].alive
            await until(lambda: request.node_id in node.presence.loads)
        await until(lambda: node.context.transport.peers() == (node.context.transport.local_key,))


@pytest.mark.slow
async def test_a_running_authority_grants_and_everybody_hears_of_it(tmp_path: Path) -> None:
    """Node 3 is granted while node 2 runs in its own process: node 2 learns it by trust sync and takes node 3's announcement."""
    front = await founder(tmp_path)
    second, third = tmp_path / "second", tmp_path / "third"
    ask = read_request(make_member(second / "data", SystemEntropy(), [RoleName.ELM_WORKER]))
    join_swarm(second / "data", *grant_node(front / "data", ask, SystemClock()))
    later = read_request(make_member(third / "data", SystemEntropy(), [RoleName.SEMANTIC_CORE]))
    async with open_node(load_config(settings(front, FRONT)), ports()) as node:
        with pytest.raises(GnusError, match="ALREADY_RUNNING"):
            grant_node(front / "data", later, SystemClock())
        config = load_config(settings(second, ("elm_worker",), bootstrap=node.addresses))
        async with open_node(config, ports()) as two:
            await until(lambda: len(node.context.transport.peers()) == 2)
            with pytest.raises(GnusError, match="FORBIDDEN"):
                await two.heads.grant(later, operator="local", tier=Tier.A)
            await node.heads.grant(later, operator="local", tier=Tier.A)
            await until(lambda: later.node_id in two.context.trust.state.grants)
            assert two.context.trust.state.log_ids == node.context.trust.state.log_ids
            log = second / "data" / "trust.json"
            granted = two.context.trust.state.grants[later.node_id].raw.hex()
            await until(lambda: granted in log.read_text(encoding="utf-8"))
            charter = (front / "data" / "charter.json").read_text(encoding="utf-8")
            join_swarm(third / "data", charter, log.read_text(encoding="utf-8"))
            # Knows the first node only; the second hears of it by gossip, or when the first tells where it is.
            path = settings(third, ("semantic_core",), bootstrap=node.addresses)
            async with open_node(load_config(path), ports()) as three:
                everybody = set(node.context.trust.state.grants)
                for one in (node, two, three):
                    await until(lambda one=one: {r.node_id for r in one.context.directory.rows() if r.alive} == everybody)  # type: ignore[misc]
