"""A real node in virtual time for the owner's tests: every role, LMDB, a bus whose faults and a probe whose callbacks the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from gnus_node.flow.owner import Owner
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import InlineOffload
from gnus_node.net.memory_transport import Faults, MemoryBus
from gnus_node.node import Node, Ports, open_node
from gnus_node.ports.host import Offload
from gnus_node.ports.submit import Answered, Ask
from gnus_node.telemetry.probe import RecordingProbe
from tests.counter_adapter import runs
from tests.nodes import counter_file, install_hands, loading, make_node

BASE_MS = 1_900_000_000_000
WRITE = "Append the tag alpha-1 to counter.txt"
READ = "What is the release codename in notes.md?"
SUM = "What is seven times twelve?"
CUT = Faults(cut=lambda _source, _target: True)
WHOLE = Faults()


@dataclass
class House:
    """One open node. ``at`` maps a point to what the test does there."""

    folder: Path
    bus: MemoryBus
    probe: RecordingProbe
    at: dict[str, Callable[[Mapping[str, str | int]], None]]
    node: Node = field(init=False)

    @property
    def owner(self) -> Owner:
        """The ingress's owner."""
        assert self.node.front.owner is not None
        return self.node.front.owner

    async def ask(self, question: str, **options: Any) -> Answered:
        """Ask as the operator."""
        return await self.node.submit.ask(self.node.operator, Ask(question, **options))

    async def rows(self) -> list[Any]:
        """The journal."""
        assert self.node.front.archive is not None
        stored = await self.node.store.scan("journal")
        return [await self.node.front.archive.row(row.key.decode()) for row in stored]

    async def stored(self, request_id: str) -> Answered | None:
        """The stored terminal of a request."""
        return await self.owner.lookup(self.node.operator, request_id)

    async def settled(self) -> None:
        """Wait until nothing is open; in virtual time."""
        assert self.node.front.idle is not None
        await self.node.front.idle()

    def effects(self) -> list[str]:
        """Tags that were appended, in order."""
        return [line.split()[0] for line in runs(str(counter_file(self.folder)))]

    def quiet(self) -> bool:
        """Whether no call is under way on the node's transport."""
        transport: Any = self.node.context.transport
        return not transport._incoming and not transport._outgoing


@asynccontextmanager
async def open_house(folder: Path, *, offload: Offload | None = None, again: bool = False, **settings: Any) -> AsyncIterator[House]:
    """A node in ``folder``; ``again`` opens the one that is there. Leaving the block waits for all of its tasks."""
    clock, entropy = SystemClock(base_ms=BASE_MS), SystemEntropy()
    at: dict[str, Callable[[Mapping[str, str | int]], None]] = {}

    def passed(name: str, facts: Mapping[str, str | int]) -> None:
        if name in at:
            at[name](facts)

    undo = install_hands()
    try:
        if again:
            from gnus_node.config import load_config

            config = load_config(folder / "node.toml")
        else:
            config = make_node(folder, entropy, clock, **settings)
        house = House(folder, MemoryBus(), RecordingProbe(callbacks=[passed]), at)
        ports = Ports(clock, entropy, offload or InlineOffload(), house.bus, house.probe, load_class=loading(folder))
        async with open_node(config, ports) as house.node:
            yield house
    finally:
        undo()


def once(action: Callable[[], None]) -> Callable[[Mapping[str, str | int]], None]:
    """Do something at the first time only."""
    done: list[bool] = []

    def act(_facts: Mapping[str, str | int]) -> None:
        if not done:
            done.append(True)
            action()

    return act


class Gate:
    """An inline offload whose store commits a test can hold back."""

    def __init__(self) -> None:
        self.open = trio.Event()
        self.open.set()
        self.waiting = 0

    async def run(self, work: Callable[..., Any], *args: Any, lane: str = "default") -> Any:
        """Pass the gate, if it is the store's work; then work."""
        await trio.lowlevel.checkpoint()
        if lane == "store":
            self.waiting += 1
            await self.open.wait()
            self.waiting -= 1
        return work(*args)
