"""A whole swarm in virtual time over one in-memory bus: every node with its own keys, store and directory. Links can be cut and mended, and
a cut node goes on with what it was doing, as one that was stopped or partitioned does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from gnus_node.config.model import NetSettings
from gnus_node.evidence.bundle import verify_bundle
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SeededEntropy
from gnus_node.host.offload import InlineOffload
from gnus_node.identity import public_key
from gnus_node.net.memory_transport import Faults, MemoryBus
from gnus_node.node import Node, Ports, open_node
from gnus_node.ports.submit import Answered, Ask
from gnus_node.records.errors import GnusError
from gnus_node.swarm.found import ensure_members
from gnus_node.swarm.settings import Place, load_swarm, node_config
from gnus_node.telemetry.probe import RecordingProbe
from tests.counter_adapter import runs
from tests.nodes import counter_file, install_hands, loading
from tests.swarms import write_swarm

BASE_MS = 1_900_000_000_000


@dataclass
class Swarm:
    """The open swarm. ``passed`` are called at each point of any node."""

    folder: Path
    nodes: dict[str, Node]
    keys: dict[str, bytes]
    passed: list[Callable[[str, Mapping[str, str | int]], None]]
    down: set[bytes] = field(default_factory=set)

    @property
    def front(self) -> Node:
        """The ingress's node."""
        return self.nodes["front"]

    def cut(self, name: str) -> None:
        """Nothing goes to a node or comes from it any more."""
        self.down.add(self.keys[name])

    def mend(self) -> None:
        """All links are whole again."""
        self.down.clear()

    def lines(self) -> list[str]:
        """Tags that were appended, in order."""
        return [line.split()[0] for line in runs(str(counter_file(self.folder)))]

    async def ask(self, question: str, **options: int) -> Answered | GnusError:
        """Ask as the operator: what it came to."""
        try:
            return await self.front.submit.ask(self.front.operator, Ask(question, **options))
        except GnusError as error:
            return error

    async def acquainted(self) -> None:
        """Wait, in virtual time, until every node hears every other and knows its experts."""
        with trio.fail_after(60):
            while not all(self._knows(node) for node in self.nodes.values()):  # noqa: ASYNC110  in virtual time
                await trio.sleep(0.05)

    def _knows(self, node: Node) -> bool:
        rows = node.context.directory.rows()
        now = node.context.clock.monotonic()
        health = node.context.directory.health
        heard = all(row.alive and row.roles and health.well(row.node_id, now) for row in rows)
        return heard and len(node.context.directory.experts("local")) >= 3

    async def audit(self, request_id: str) -> None:
        """The audit bundle of an ended request must verify."""
        bundle = await self.front.admin.audit(request_id, True)
        verdict = verify_bundle(bundle, self.front.charter, self.front.context.clock.wall_ms())
        assert verdict.ok, verdict.error


@asynccontextmanager
async def open_swarm(folder: Path, roles: Mapping[str, tuple[str, ...]], seed: int = 1) -> AsyncIterator[Swarm]:
    """Found a swarm in ``folder`` and run all of its nodes."""
    clock, entropy, bus = SystemClock(base_ms=BASE_MS), SeededEntropy(seed), MemoryBus()
    settings = load_swarm(write_swarm(folder, roles, acting=True))
    identities, _ = ensure_members(settings, entropy.fork("founding"), clock)
    places = {name: Place(f"/ip4/127.0.0.1/tcp/{number}", "1" * 40) for number, name in enumerate(roles, 1)}
    swarm = Swarm(folder, {}, {name: public_key(i.transport) for name, i in identities.items()}, [])
    bus.faults = Faults(cut=lambda source, target: source != target and bool({source, target} & swarm.down))

    def passed(name: str, facts: Mapping[str, str | int]) -> None:
        for call in tuple(swarm.passed):
            call(name, facts)

    undo = install_hands()
    try:
        async with AsyncExitStack() as stack:
            for name in roles:
                config = node_config(settings, name, places).model_copy(update={"net": NetSettings()})
                probe = RecordingProbe(callbacks=[passed])
                ports = Ports(clock, entropy.fork(name), InlineOffload(), bus, probe, load_class=loading(folder))
                swarm.nodes[name] = await stack.enter_async_context(open_node(config, ports))
            await swarm.acquainted()
            yield swarm
    finally:
        undo()
