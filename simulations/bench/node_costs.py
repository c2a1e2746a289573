"""What a request costs inside one node: overhead, commits, throughput, beside the bare pipeline. Real clock, threads and disk."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from gnus_node.config import load_config
from gnus_node.evidence.bag import Bag
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.init import make_data_dir
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.net.signing import KeySigner
from gnus_node.node import Node, Ports, open_node
from gnus_node.records.enums import Outcome, SignerRole
from gnus_node.records.envelope import Signed
from gnus_node.wire.signed import open_record, seal

ROUNDS = 5
PER_ROUND = 30
WARM_UP = 5
TOGETHER = 40
SETTINGS = """
[node]
data_dir = "data"
[api]
listen = "off"
[experts.core]
kind = "extractive"
role = "semantic_core"
[experts.calc]
kind = "symbolic"
role = "domain_expert"
domains = ["math"]
[experts.files]
kind = "file_lookup"
role = "tool_support"
domains = ["operations"]
[[corpora]]
name = "countryinfo"
kind = "countryinfo"
uri_prefix = "countryinfo://"
[tools]
allow = ["files.read"]
roots = ["files"]
"""
KINDS: dict[str, tuple[Callable[[int], str], Outcome]] = {
    "arithmetic": (lambda n: f"What is seven times twelve plus {n}?", Outcome.ANSWERED),
    "file": (lambda n: f"What is the release codename of build {n % 7}, according to notes.md?", Outcome.ANSWERED),
    "grounded": (lambda n: f"What is the capital of {('Peru', 'Chad', 'Norway', 'Japan', 'Kenya')[n % 5]}?", Outcome.ANSWERED),
    "abstention": (lambda n: f"Which colour has curtain {n} in the reading room?", Outcome.ABSTAINED),
}
NOTES = "# Notes\n\n" + "\n".join(f"The release codename of build {n} is Heron {n}.\n" for n in range(7))


def quantile(samples: list[float], share: float) -> float:
    """The nearest-rank quantile."""
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


async def measure_requests(folder: Path, calibrate: Callable[[], float]) -> dict[str, Any]:
    """Five rounds, each with calibration, baselines and every kind of question, one after another."""
    clock, entropy = SystemClock(), SystemEntropy()
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "notes.md").write_text(NOTES, encoding="utf-8")
    (folder / "node.toml").write_text(SETTINGS, encoding="utf-8")
    config = load_config(folder / "node.toml")
    make_data_dir(config.node.data_dir, entropy, clock)
    found: dict[str, Any] = {"calibration_ms": [], "echo_us": [], "per_second": [], "bare_ms": {kind: [] for kind in KINDS}}
    for kind in KINDS:
        found[kind] = {name: [] for name in ("p50", "p95", "p99", "commits", "commit_wait", "inference", "grounding", "samples")}
    async with open_node(config, Ports(clock, entropy, ThreadOffload(), MemoryBus())) as node:
        samples = {kind: await _warm(node, kind) for kind in KINDS}
        for number in range(ROUNDS):
            found["calibration_ms"].append(calibrate())
            found["echo_us"].append(await _echo_us())
            for kind in KINDS:
                found["bare_ms"][kind].append(_bare_ms(samples[kind]))
                await _round(node, kind, number, found[kind])
            found["per_second"].append(await _together(node, number))
    return found


async def _warm(node: Node, kind: str) -> list[Signed[Any]]:
    """A few requests; the records of the last one."""
    text, outcome = KINDS[kind]
    for number in range(WARM_UP):
        answer = await node.admin.ask(text(number))
        if answer.outcome is not outcome:
            raise SystemExit(f"the {kind} question ended {answer.outcome} ({answer.reason_code}), expected {outcome}")
    await _idle(node)
    archive = node.front.archive
    stored = await archive.answer(answer.request_id) if archive else None
    if archive is None or stored is None:
        raise SystemExit("the node hosts no ingress")
    bag: Bag = await archive.bag(stored, settled=True)
    return list(bag)


async def _idle(node: Node) -> None:
    if node.front.idle is not None:
        await node.front.idle()


async def _round(node: Node, kind: str, number: int, into: dict[str, Any]) -> None:
    """One round of one kind: each request alone, settled before the next begins, so that its commits are its own."""
    text, _ = KINDS[kind]
    overhead, waits, inference, grounding, commits = [], [], [], [], []
    for at in range(PER_ROUND):
        await _idle(node)
        await node.store.flush()
        before = node.store.commits
        answer = await node.admin.ask(text(number * PER_ROUND + at))
        commits.append(node.store.commits - before)
        overhead.append(answer.latency_ms["overhead"])
        waits.append(answer.latency_ms["commit_wait"])
        inference.append(answer.latency_ms["inference"])
        grounding.append(answer.latency_ms.get("grounding", 0.0))
    into["samples"].append(overhead)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        into[name].append(quantile(overhead, share))
    into["commits"].append(max(commits))
    for name, values in (("commit_wait", waits), ("inference", inference), ("grounding", grounding)):
        into[name].append(quantile(values, 0.5))


def _bare_ms(records: list[Signed[Any]]) -> float:
    """The same records signed, encoded, decoded and verified, without a node: the floor of a request."""
    clock = SystemClock()
    signer = KeySigner(b"b" * 32, SignerRole.AUTHORITY, bytes(16), lambda: 0, clock, 0)
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        for record in records:
            seal(record.header, record.body, signer.sign_bytes)
            open_record(record.raw)
        best = min(best, (time.perf_counter() - started) * 1000)
    return best


async def _echo_us() -> float:
    """One round trip over two plain trio channels."""
    there, arriving = trio.open_memory_channel[bytes](1)
    back, returning = trio.open_memory_channel[bytes](1)

    async def echo() -> None:
        async for item in arriving:
            await back.send(item)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(echo)
        started = time.perf_counter()
        for _ in range(1000):
            await there.send(b"x")
            await returning.receive()
        spent = time.perf_counter() - started
        nursery.cancel_scope.cancel()
    return spent * 1000


async def _together(node: Node, number: int) -> float:
    """Requests a second with eight at a time, settlement included."""
    text, _ = KINDS["arithmetic"]
    started = time.perf_counter()
    limit = trio.CapacityLimiter(8)

    async def one(at: int) -> None:
        async with limit:
            await node.admin.ask(text(10_000 + number * TOGETHER + at))

    async with trio.open_nursery() as nursery:
        for at in range(TOGETHER):
            nursery.start_soon(one, at)
    await _idle(node)
    return TOGETHER / (time.perf_counter() - started)
