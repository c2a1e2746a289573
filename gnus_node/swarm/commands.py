"""What the command line does with a local swarm: up, status, down, and the settings of one of its nodes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from gnus_node.cli.client import Node
from gnus_node.config.model import NodeConfig
from gnus_node.host.offload import ThreadOffload
from gnus_node.records.errors import GnusError, faults_of, refuse
from gnus_node.store.disk import private_directory
from gnus_node.swarm.keeper import KILL_AFTER_S, Say, keep
from gnus_node.swarm.process import detach, last_reason
from gnus_node.swarm.settings import SwarmConfig, load_swarm, node_config
from gnus_node.swarm.state import read_places, read_state, running, tell_keeper

STATUS_S = 3.0
POLL_S = 0.1
KEEPER_LOG = "keeper.log"
LOOKERS = 16


def bring_up(file: Path, say: Say, on_ready: Callable[[Mapping[str, Any]], None]) -> None:
    """Keep the swarm in the foreground until SIGINT or SIGTERM. Raises what ``keep`` raises."""
    swarm = load_swarm(file)
    try:
        trio.run(partial(keep, swarm, file.resolve(), ThreadOffload({"default": LOOKERS}), say, on_ready))
    except ExceptionGroup as group:
        refuse(faults_of(group) or ())
        raise


def bring_up_detached(file: Path, say: Say) -> Mapping[str, Any]:
    """Start a keeper that goes on by itself, and wait until all is ready. Raises ``ALREADY_RUNNING``, ``BACKEND_FAILED``."""
    swarm = load_swarm(file)
    folder = swarm.swarm.data_dir
    private_directory(folder)
    if running(folder):
        raise GnusError("ALREADY_RUNNING", "this swarm is up already", fix="gnus-node swarm status, or gnus-node swarm down")
    log = folder / KEEPER_LOG
    log.unlink(missing_ok=True)
    pid, ended = detach(["swarm", "up", str(file.resolve())], log)
    say(f"starting {len(swarm.nodes)} nodes in the background (keeper {pid}, log {log}) ...")
    return trio.run(_await_ready, folder, log, swarm.swarm.start_s + KILL_AFTER_S, pid, ended)


async def _await_ready(folder: Path, log: Path, patience_s: float, pid: int, ended: Callable[[], bool]) -> Mapping[str, Any]:
    with trio.move_on_after(patience_s):
        while not ended():
            await trio.sleep(POLL_S)
            try:
                state = read_state(folder)
            except GnusError:
                continue
            if state["ready"] is True and state["pid"] == pid:
                return {"ready": True, "pid": state["pid"], "nodes": len(state["nodes"])}
    raise GnusError("BACKEND_FAILED", f"the swarm did not come up: {last_reason(log)}", fix=f"see {log}")


def bring_down(file: Path) -> Mapping[str, Any]:
    """Tell the keeper to stop, and wait until it has. Raises ``NOT_RUNNING``, ``DEADLINE``."""
    swarm = load_swarm(file)
    folder = swarm.swarm.data_dir
    pid = tell_keeper(folder, signal.SIGTERM)
    # The ingress first, then the others together: each may take its drain time and what closing takes.
    patience = 2 * (swarm.limits.drain_s + KILL_AFTER_S) + KILL_AFTER_S

    async def gone() -> bool:
        with trio.move_on_after(patience):
            while running(folder):  # noqa: ASYNC110  a lock of another process has no event
                await trio.sleep(POLL_S)
            return True
        return False

    if not trio.run(gone):
        raise GnusError("DEADLINE", f"the swarm did not stop within {patience:.0f} s", fix=f"see process {pid}")
    return {"stopped": True, "pid": pid, "nodes": len(swarm.nodes)}


def swarm_status(file: Path) -> dict[str, Any]:
    """Every node: process, roles, peers, what is wrong with it. Raises ``NOT_RUNNING``."""
    swarm = load_swarm(file)
    state = read_state(swarm.swarm.data_dir)
    rows = [row for row in state["nodes"] if isinstance(row, dict) and row.get("name") in swarm.nodes]
    nodes = trio.run(_look, swarm, rows)
    problems = [f"{node['name']}: {problem}" for node in nodes for problem in node["problems"]]
    return {"problems": problems, "ready": not problems and state["ready"] is True, "keeper": state["pid"], "nodes": nodes}


async def _look(swarm: SwarmConfig, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Ask all nodes at the same time."""
    found: dict[int, dict[str, Any]] = {}
    offload = ThreadOffload({"default": LOOKERS})

    async def one(number: int, row: Mapping[str, Any]) -> None:
        found[number] = await offload.run(_node_status, swarm, row)

    async with trio.open_nursery() as nursery:
        for number, row in enumerate(rows):
            nursery.start_soon(one, number, row)
    return [found[number] for number in range(len(rows))]


def _node_status(swarm: SwarmConfig, row: Mapping[str, Any]) -> dict[str, Any]:
    name = str(row["name"])
    found: dict[str, Any] = {
        "name": name,
        "state": str(row.get("state")),
        "pid": row.get("pid") or None,
        "roles": list(row.get("roles", ())),
        "starts": row.get("starts", 0),
        "last_end": row.get("ended") or None,
        "listen": row.get("listen"),
        "peers": 0,
        "experts": [],
        "problems": [],
    }
    try:
        status = Node(swarm.folder(name) / "node.sock").get("/admin/status", timeout_s=STATUS_S)
    except GnusError as error:
        found["problems"] = [f"{found['state']}, {error.what}" if found["state"] != "ready" else error.what]
        return found
    peers = [peer for peer in status.get("peers", ()) if peer.get("node_id") != status.get("node_id")]
    found |= {
        "node_id": status.get("node_id"),
        "peers": sum(1 for peer in peers if peer.get("alive")),
        "problems": list(status.get("problems", ())),
        "data_dir": str(swarm.folder(name)),
    }
    silent = [str(peer.get("node_id")) for peer in peers if not peer.get("alive")]
    if silent:
        found["problems"].append(f"does not hear {', '.join(silent)}")
    return found


def node_settings(file: Path, name: str) -> NodeConfig:
    """The settings of one node of a swarm that was brought up. Raises ``CONFIG``."""
    swarm = load_swarm(file)
    swarm.folder(name)
    return node_config(swarm, name, read_places(swarm.swarm.data_dir))
