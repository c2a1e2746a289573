"""``gnus-node swarm`` with real processes: up, status, a question through nine nodes, a node that dies, down, and a keeper that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from gnus_node.cli.client import Node
from gnus_node.evidence.bundle import import_charter, verify_bundle
from gnus_node.host.clock import SystemClock
from gnus_node.records.errors import GnusError
from tests.p2p.world import until
from tests.swarms import NINE, write_swarm

ROOT = Path(__file__).resolve().parents[2]
THREE = {
    "front": ("ingress", "router", "verifier", "memory_index", "tool_intermediary"),
    "worker": ("elm_worker", "semantic_core", "grounding"),
    "books": ("settlement",),
}
UP_S = 150.0


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "gnus_node.cli.main", "swarm", *map(str, arguments)]


async def say(*arguments: object, code: int = 0) -> Any:
    """Run a command to its end; its JSON."""
    done = await trio.run_process(command(*arguments, "--json"), capture_stdout=True, capture_stderr=True, check=False, cwd=ROOT)
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)


@asynccontextmanager
async def keeper(file: Path) -> AsyncIterator[tuple[trio.Process, dict[str, Any]]]:
    """A swarm in the foreground, ready."""
    log = file.with_name("keeper.log")
    with log.open("wb") as errors:
        process = await trio.lowlevel.open_process(command("up", file, "--json"), stdout=subprocess.PIPE, stderr=errors, cwd=ROOT)
    try:
        assert process.stdout is not None
        with trio.fail_after(UP_S):
            text = await process.stdout.receive_some(65536)
        assert text, log.read_text()
        yield process, json.loads(text)
    finally:
        process.terminate()
        with trio.CancelScope(shield=True), trio.move_on_after(40):
            await process.wait()
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie, whose parent has not looked yet, has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def answer(folder: Path, question: str) -> dict[str, Any]:
    """Ask the node in a folder and verify the audit."""
    door, charter = Node(folder / "node.sock"), import_charter((folder / "charter.json").read_bytes())
    answered = await trio.to_thread.run_sync(lambda: door.post("/admin/ask", {"question": question}, timeout_s=60))
    bundle = await trio.to_thread.run_sync(lambda: door.call("GET", f"/admin/audit/{answered['audit_id']}", timeout_s=60))
    verdict = verify_bundle(bundle, charter, SystemClock().wall_ms())
    assert verdict.ok, verdict.error
    return dict(answered)


@pytest.mark.slow
async def test_nine_processes_answer_and_stop_in_order(tmp_path: Path) -> None:
    file = write_swarm(tmp_path, NINE)
    async with keeper(file) as (process, ready):
        front = Path(ready["data_dir"])
        state = await say("status", file)
        assert state["ready"] is True
        assert {node["name"]: tuple(node["roles"]) for node in state["nodes"]} == {name: tuple(sorted(r)) for name, r in NINE.items()}
        assert all(node["peers"] == 8 for node in state["nodes"])
        pids = {node["name"]: node["pid"] for node in state["nodes"]}
        assert len(set(pids.values())) == 9
        assert (await answer(front, "What is seven times twelve?"))["answer"] == "84"
        found = await answer(front, "What is the release codename?")
        assert "Blue Heron" in found["answer"]
        read = await answer(front, "What is the release date in notes.md?")
        assert read["answer"] == "The release date is 12 May 2031."
        with pytest.raises(AssertionError, match="ALREADY_RUNNING"):
            await say("up", file)
        assert (await say("down", file))["nodes"] == 9
        assert await process.wait() == 0
        assert all(gone(pid) for pid in pids.values())
        assert (await say("status", file, code=3))["error"]["code"] == "NOT_RUNNING"
        log = file.with_name("keeper.log").read_text()
        assert log.index("front stopped (exit 0)") < min(log.index(f"{name} stopped (exit 0)") for name in NINE if name != "front")


@pytest.mark.slow
async def test_what_dies_is_reported_and_comes_back_as_itself_and_no_orphan_stays(tmp_path: Path) -> None:
    file = write_swarm(tmp_path, THREE)
    async with keeper(file) as (process, ready):
        front = Path(ready["data_dir"])
        before = {node["name"]: node for node in (await say("status", file))["nodes"]}
        os.kill(before["worker"]["pid"], signal.SIGKILL)
        log = file.with_name("keeper.log")
        await until(lambda: "worker died (SIGKILL)" in log.read_text())
        await until(lambda: "worker is ready again" in log.read_text(), 60)
        with trio.fail_after(30):
            while True:
                again = {node["name"]: node for node in (await until_json(file))["nodes"]}
                if not again["worker"]["problems"] and again["front"]["peers"] == 2:
                    break
        assert again["worker"]["node_id"] == before["worker"]["node_id"]
        assert again["worker"]["starts"] == 2
        assert (await answer(front, "What is seven times twelve?"))["answer"] == "84"
        pids = [node["pid"] for node in again.values()]
        process.kill()
        await process.wait()
        await until(lambda: all(map(gone, pids)), 30)
    # And all of it starts again, with the keys that are there.
    async with keeper(file) as (process, ready):
        state = {node["name"]: node for node in (await say("status", file))["nodes"]}
        assert {n: row["node_id"] for n, row in state.items()} == {n: row["node_id"] for n, row in before.items()}
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
        assert all(gone(row["pid"]) for row in state.values())


async def until_json(file: Path) -> Any:
    """The status, whatever it says."""
    done = await trio.run_process(command("status", file, "--json"), capture_stdout=True, check=False, cwd=ROOT)
    return json.loads(done.stdout)


@pytest.mark.slow
async def test_a_node_that_cannot_start_stops_the_start_and_says_why(tmp_path: Path) -> None:
    file = write_swarm(tmp_path, {**THREE, "books": ("settlement", "elm_worker")})
    text = file.read_text().replace('profile = "dev"', 'profile = "small_swarm"').replace('directory = "policies"', "")
    file.write_text(text)
    failed = await say("up", file, "--detach", code=1)
    assert "books" in failed["error"]["what"]
    assert "profile small_swarm forbids settlement" in failed["error"]["what"]
    with pytest.raises(GnusError, match="NOT_RUNNING"):
        Node(tmp_path / "s" / "front" / "node.sock").get("/healthz")
