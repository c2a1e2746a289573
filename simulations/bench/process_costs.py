"""What the program costs as a process: ``--help``, start to ready, resident memory."""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnus_node.cli.client import Node
from gnus_node.records.errors import GnusError
from simulations.bench.node_costs import NOTES, SETTINGS

REQUESTS = 200
READY_S = 120.0


def measure_process(folder: Path, calibrate: Callable[[], float]) -> dict[str, Any]:
    """One node as a process of its own, started twice: the first start builds keys and index, the second is measured."""
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "notes.md").write_text(NOTES, encoding="utf-8")
    (folder / "node.toml").write_text(SETTINGS, encoding="utf-8")
    program = [str(Path(sys.executable).with_name("gnus-node"))]
    helps = [_timed([*program, "--help"]) for _ in range(5)]
    _run(program, folder, requests=0)
    ready_s, rss_start, rss_later = _run(program, folder, requests=REQUESTS)
    return {
        "calibration_ms": calibrate(),
        "help_s": statistics.median(helps),
        "help_samples_s": helps,
        "ready_s": ready_s,
        "rss_start_mb": rss_start,
        "rss_later_mb": rss_later,
    }


def _timed(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def _run(program: list[str], folder: Path, *, requests: int) -> tuple[float, float, float]:
    """Start, wait until ready, ask, stop; seconds to ready, resident megabytes before and after the questions."""
    started = time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*program, "swarm", "up", "--config", str(folder / "node.toml")], stdout=log, stderr=log)
        try:
            node = Node(folder / "data" / "node.sock")
            while not _ready(node):
                if process.poll() is not None or time.perf_counter() - started > READY_S:
                    raise SystemExit(f"the node did not become ready: {(folder / 'log').read_text()[-1000:]}")
                time.sleep(0.02)
            ready_s = time.perf_counter() - started
            before = _rss_mb(process.pid)
            for number in range(requests):
                node.post("/admin/ask", {"question": f"What is {number} times seven?"}, timeout_s=60)
            return ready_s, before, _rss_mb(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _ready(node: Node) -> bool:
    try:
        node.get("/readyz", timeout_s=5)
    except GnusError:
        return False
    return True


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(row for row in status.splitlines() if row.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
