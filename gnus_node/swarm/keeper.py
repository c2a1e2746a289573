"""The keeper of a local swarm: starts its nodes, says how they are, starts again what dies, stops all of them in order.

Invariants: no node outlives its keeper (``process``); a node that cannot start stops the whole start, with the end of its log; every wait has
a deadline. The ingress is stopped first, while all others still answer, so requests under way end as they should.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from gnus_node.cli.client import Node
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.identity import Identity, public_key
from gnus_node.net.peer_text import peer_text
from gnus_node.ports.host import Offload
from gnus_node.records.enums import ExpertRole, RoleName
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import DirectoryLock
from gnus_node.swarm.found import ensure_members
from gnus_node.swarm.process import Child, last_reason, start
from gnus_node.swarm.settings import Place, SwarmConfig
from gnus_node.swarm.state import NodeRow, NodeState, forget_state, hold, write_places, write_state

LOG_FILE = "node.log"
POLL_S = 0.1
ASK_S = 5.0
HOLD_S = 2.0
"""How long a lock is tried for: who only looks whether a swarm runs holds it for a moment."""
KILL_AFTER_S = 10.0
"""Beyond its drain time, a node that is told to stop has this long to close its stores."""
STEADY_S = 30.0
"""A node that lived longer starts the pauses before restarts anew."""
MAX_PAUSE_S = 30.0

Say = Callable[[str], None]


@dataclass(slots=True)
class _Kept:
    row: NodeRow
    child: Child | None = None
    gone: trio.Event = field(default_factory=trio.Event)


async def keep(swarm: SwarmConfig, file: Path, offload: Offload, say: Say, on_ready: Callable[[Mapping[str, Any]], None]) -> None:
    """Bring the swarm up and keep it until SIGINT or SIGTERM. Raises ``ALREADY_RUNNING``, ``CONFIG``, ``BACKEND_FAILED`` (no start)."""
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            swarm.swarm.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = await _hold(swarm.swarm.data_dir)
            keeper = Keeper(swarm, file, offload, say)
            try:
                forget_state(swarm.swarm.data_dir)  # what an earlier keeper wrote who was killed
                nursery.start_soon(_until, signals, nursery.cancel_scope)
                try:
                    await keeper.up(nursery, on_ready)
                    await keeper.mind()
                finally:
                    with trio.CancelScope(shield=True):
                        await keeper.down()
            finally:
                forget_state(swarm.swarm.data_dir)
                lock.release()


async def _until(signals: Any, scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


async def _hold(data_dir: Path) -> DirectoryLock:
    with trio.move_on_after(HOLD_S):
        while True:
            try:
                return hold(data_dir)
            except GnusError as error:
                if error.code != "ALREADY_RUNNING":
                    raise
            await trio.sleep(POLL_S)
    return hold(data_dir)


class Keeper:
    """The nodes of one swarm while it is up."""

    def __init__(self, swarm: SwarmConfig, file: Path, offload: Offload, say: Say) -> None:
        self._swarm = swarm
        self._file = file
        self._offload = offload
        self._say = say
        self._kept: dict[str, _Kept] = {}
        self._ready = False
        self._stopping = False

    async def up(self, nursery: trio.Nursery, on_ready: Callable[[Mapping[str, Any]], None]) -> None:
        """Found what is not founded, start every node, wait until each of them is ready and knows all others."""
        started = trio.current_time()
        founded = not (self._swarm.folder(self._swarm.founder) / "charter.json").exists()
        if founded:
            self._say(f"founding the swarm {self._swarm.swarm.name}: keys, charter, {len(self._swarm.nodes)} grants")
        # On the loop, whose clock the grants are dated by; nothing else runs yet.
        identities, api_key = ensure_members(self._swarm, SystemEntropy(), SystemClock())
        places = choose_places(self._swarm, identities)
        await self._offload.run(write_places, self._swarm.swarm.data_dir, places)
        self._say(f"starting {len(places)} nodes below {self._swarm.swarm.data_dir} ...")
        for name, node in self._swarm.nodes.items():
            row = NodeRow(name, tuple(str(role) for role in sorted(node.roles)), places[name].address)
            self._kept[name] = _Kept(row)
            await self._start(name)
            nursery.start_soon(self._watch, name)
        with trio.move_on_after(self._swarm.swarm.start_s) as scope:
            await self._all_ready()
        if scope.cancelled_caught:
            waiting = [name for name, kept in self._kept.items() if kept.row.state is not NodeState.READY]
            what = f"not ready: {', '.join(waiting)}" if waiting else "the nodes do not all know each other"
            raise GnusError("BACKEND_FAILED", f"the swarm did not come up within {self._swarm.swarm.start_s} s: {what}", fix="see node.log")
        self._ready = True
        self._write()
        seconds = trio.current_time() - started
        self._say(f"all {len(places)} nodes are ready and know each other after {seconds:.1f} s")
        front = self._swarm.folder(self._swarm.founder)
        facts: dict[str, Any] = {"ready": True, "nodes": len(places), "seconds": round(seconds, 1), "data_dir": str(front)}
        facts |= {"socket": str(front / "node.sock"), "charter": str(front / "charter.json")}
        on_ready({**facts, **({"api_key": api_key} if api_key else {})})

    async def _start(self, name: str) -> None:
        kept = self._kept[name]
        folder = self._swarm.folder(name)
        kept.child = await start(["run", "--swarm", str(self._file), "--node", name, "--while-stdin"], folder / LOG_FILE)
        kept.row.pid, kept.row.state = kept.child.pid, NodeState.STARTING
        kept.row.starts += 1
        self._write()

    async def _watch(self, name: str) -> None:
        """Wait for a node's end, report it, start it again."""
        kept, pauses = self._kept[name], 0
        while kept.child is not None:
            since = trio.current_time()
            ended = await kept.child.wait()
            if self._stopping:
                kept.row.state = NodeState.STOPPED
                kept.gone.set()
                return
            was_ready = kept.row.state is NodeState.READY
            kept.row.state, kept.row.ended, kept.row.pid = NodeState.DIED, ended, 0
            self._write()
            log = self._swarm.folder(name) / LOG_FILE
            self._say(f"{name} died ({ended}); its log is {log}")
            if not self._ready and not was_ready:
                raise GnusError("BACKEND_FAILED", f"node {name} did not start ({ended}): {last_reason(log)}", fix=f"see {log}")
            if not self._swarm.swarm.restart:
                kept.gone.set()
                return
            pauses = 1 if trio.current_time() - since > STEADY_S else pauses + 1
            await trio.sleep(min(MAX_PAUSE_S, 0.5 * 2.0 ** (pauses - 1)))
            await self._start(name)
            self._say(f"{name} is started again (pid {kept.row.pid})")

    async def _all_ready(self) -> None:
        """Until every node is ready, knows all others, and who plans knows every expert."""
        experts = self._expected_experts()
        while True:
            await self._look("ready")
            if all(kept.row.state is NodeState.READY for kept in self._kept.values()) and await self._acquainted(experts):
                return
            await trio.sleep(POLL_S)

    async def _look(self, words: str) -> None:
        """Note which of the nodes that were started are ready by now, and say so."""
        for name, kept in self._kept.items():
            if kept.row.state is NodeState.STARTING and await self._asked(name, "/readyz") is not None:
                kept.row.state = NodeState.READY
                self._write()
                self._say(f"  {name} is {words}: {', '.join(kept.row.roles)} (pid {kept.row.pid})")

    async def _acquainted(self, experts: set[str]) -> bool:
        """Whether every node sees all others alive, and who plans sees every expert."""
        for name, kept in self._kept.items():
            status = await self._asked(name, "/admin/status")
            if status is None or sum(1 for peer in status.get("peers", ()) if peer.get("alive")) < len(self._kept):
                return False
            plans = {str(RoleName.ROUTER), str(RoleName.INGRESS)} & set(kept.row.roles)
            if plans and not experts <= {e.get("id") for e in status.get("experts", ())}:
                return False
        return True

    def _expected_experts(self) -> set[str]:
        found: set[str] = set()
        for node in self._swarm.nodes.values():
            for name, expert in self._swarm.experts.items():
                home = RoleName.SEMANTIC_CORE if expert.role is ExpertRole.SEMANTIC_CORE else RoleName.ELM_WORKER
                if expert.enabled and home in node.roles and (node.experts is None or name in node.experts):
                    found.add(name)
        return found

    async def _asked(self, name: str, target: str) -> dict[str, Any] | None:
        """A node's answer, None while it gives none."""
        door = Node(self._swarm.folder(name) / "node.sock")
        try:
            answer = await self._offload.run(lambda: door.get(target, timeout_s=ASK_S))
        except GnusError:
            return None
        return answer if isinstance(answer, dict) else {}

    async def mind(self) -> None:
        """Until cancelled: note which restarted nodes are ready again."""
        while True:
            await trio.sleep(POLL_S * 5)
            await self._look("ready again")

    async def down(self) -> None:
        """Stop every node, the ingress first."""
        if not self._kept:
            return
        self._stopping = True
        self._say("stopping ...")
        patience = self._swarm.limits.drain_s + KILL_AFTER_S
        first = self._kept.pop(self._swarm.founder, None)
        if first and first.child:
            self._say(f"  {self._swarm.founder} stopped ({await first.child.stop(patience)})")
        async with trio.open_nursery() as nursery:
            for name, kept in self._kept.items():
                if kept.child is not None:
                    nursery.start_soon(self._stop, name, kept.child, patience)
        self._say("the swarm is down")

    async def _stop(self, name: str, child: Child, patience: float) -> None:
        self._say(f"  {name} stopped ({await child.stop(patience)})")

    def _write(self) -> None:
        write_state(self._swarm.swarm.data_dir, [kept.row for kept in self._kept.values()], ready=self._ready)


def choose_places(swarm: SwarmConfig, identities: Mapping[str, Identity]) -> dict[str, Place]:
    """An address for each node: the file's ports in order, or free ones."""
    host, base = swarm.swarm.host, swarm.swarm.base_port
    with _Sockets() as free:
        ports = [base + number if base else free.port(host) for number in range(len(swarm.nodes))]
    named = zip(swarm.nodes, ports, strict=True)
    return {name: Place(f"/ip4/{host}/tcp/{port}", peer_text(public_key(identities[name].transport))) for name, port in named}


class _Sockets:
    """Free ports, held together for a moment so that they differ."""

    def __enter__(self) -> _Sockets:
        self._held: list[socket.socket] = []
        return self

    def port(self, host: str) -> int:
        held = socket.socket()
        self._held.append(held)
        held.bind((host, 0))
        return int(held.getsockname()[1])

    def __exit__(self, *_error: object) -> None:
        for held in self._held:
            held.close()
