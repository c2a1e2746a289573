"""One whole node in virtual time: one seed is one run, in any process on any machine (DESIGN.md rule 4).

Time is trio's ``MockClock``, which jumps when nobody can run; chance is ``SeededEntropy``; work runs inline; trio's scheduler is seeded. LMDB
and the files are real. The outcome holds what two runs are compared by: the hash over every point of the flow in order, and the ids of
every record that was stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio
import trio._core._run as scheduler
import trio.testing

from gnus_node.config.model import NodeConfig
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SeededEntropy
from gnus_node.host.offload import InlineOffload
from gnus_node.loader import load_class
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Node, Ports, open_node
from gnus_node.ports.host import Clock, Entropy
from gnus_node.ports.submit import Answered, Ask
from gnus_node.telemetry.probe import RecordingProbe

BASE_MS = 1_900_000_000_000
"""Wall time of every virtual run's start."""
COMPARED = ("record", "journal", "answer", "task", "effects", "payload", "request_key")
"""Tables whose keys two runs are compared by; the values of ``record`` are in its keys, those of the sealed ones in the digest."""

Prepare = Callable[[Entropy, Clock], NodeConfig]
"""Makes the data directory; what it writes must depend on its arguments alone."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a virtual run came to."""

    trace: str
    """Hash over every point passed, in order."""
    points: int
    records: tuple[str, ...]
    """Ids of all stored records, sorted."""
    state: str
    """Digest over the compared tables, keys and values."""
    answers: tuple[tuple[str, str, str], ...]
    """(request id, outcome, answer) in the order of the questions."""
    virtual_s: float
    """Virtual seconds that passed."""


@contextmanager
def seeded_scheduler(seed: int) -> Iterator[None]:
    """Let trio choose among runnable tasks by a seeded generator. Private API of the pinned trio; a test guards it."""
    before, state = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r.getstate()
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    scheduler._r.seed(seed)
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = before  # type: ignore[misc]
        scheduler._r.setstate(state)


def run_virtual(
    seed: int, prepare: Prepare, questions: Sequence[Sequence[Ask]], *, loading: Callable[[str], type[Any]] = load_class
) -> Ran:
    """Run a node from its founding: each group of questions is asked at the same time, and settled before the next."""
    with seeded_scheduler(seed):
        return trio.run(
            partial(_run, seed, prepare, questions, loading),
            clock=trio.testing.MockClock(autojump_threshold=0),
            strict_exception_groups=True,
        )


async def _run(seed: int, prepare: Prepare, questions: Sequence[Sequence[Ask]], loading: Callable[[str], type[Any]]) -> Ran:
    entropy, clock, probe = SeededEntropy(seed), SystemClock(base_ms=BASE_MS), RecordingProbe()
    config = prepare(entropy.fork("founding"), clock)
    ports = Ports(clock, entropy.fork("node"), InlineOffload(), MemoryBus(), probe, load_class=loading)
    started = trio.current_time()
    answers: list[Answered] = []
    async with open_node(config, ports) as node:
        for group in questions:
            answers += await ask_together(node, group)
            if node.front.idle is not None:
                await node.front.idle()
        await node.store.flush()
        tables = {name: await _all(node, name) for name in COMPARED}
    return Ran(
        trace=probe.trace_hash(),
        points=probe.passed,
        records=tuple(key.hex() for key in tables["record"]),
        state=_digest(tables),
        answers=tuple((a.request_id, str(a.outcome), a.answer) for a in answers),
        virtual_s=trio.current_time() - started,
    )


async def ask_together(node: Node, group: Sequence[Ask]) -> list[Answered]:
    """Ask several questions at the same time, as the operator; the answers in their order."""
    found: dict[int, Answered] = {}

    async def one(number: int, ask: Ask) -> None:
        found[number] = await node.submit.ask(node.operator, ask)

    async with trio.open_nursery() as nursery:
        for number, ask in enumerate(group):
            nursery.start_soon(one, number, ask)
    return [found[number] for number in range(len(group))]


async def _all(node: Node, table: str) -> dict[bytes, bytes]:
    rows = await node.store.scan(table, limit=10_000)
    return {row.key: row.value for row in rows}


def _digest(tables: Mapping[str, Mapping[bytes, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, rows in tables.items():
        for key, value in rows.items():
            for part in (name.encode(), key, value):
                digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
