"""``make demo``: a node with nine roles answers real questions from real documents, and every answer is audited offline.

Starts the program as a user would, asks over the node's own socket, exports each audit bundle, and verifies it in this process from the
bundle and the charter alone. Exits 0 only if every audit holds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnus_node.cli.client import Node
from gnus_node.config import NodeConfig, load_config
from gnus_node.evidence.bundle import import_charter, verify_bundle
from gnus_node.records.errors import GnusError

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "configs" / "node.toml"
READY_S = 180.0
QUESTIONS = (
    "What does an audit bundle hold?",
    "Who signs the mandate?",
    "What is twelve times seven plus the square root of eighty one?",
    "How many kilometres are 26.2 miles?",
    "What is the capital of Burkina Faso?",
    "What is the total area of Mongolia in square kilometres?",
    "What is the capital of Kazakhstan?",
    "At what voltage is the battery warning raised, according to release-notes.txt?",
    "What colour are the curtains in the reading room of Hollow Ridge?",
)
"""Of different kinds: the system itself from its docs, arithmetic in words, a unit, facts only documents hold, one on which two real
collections disagree, one that needs a tool, one nobody can answer."""


@dataclass(slots=True)
class Totals:
    """What the demo counts."""

    outcomes: dict[str, int] = field(default_factory=dict)
    verified: int = 0
    refused: int = 0
    overhead_ms: list[float] = field(default_factory=list)


def main(argv: list[str]) -> int:
    """Run the demo; 0 if every audit was verified."""
    parser = argparse.ArgumentParser(prog="simulations.demo", description="A node with nine roles answers questions and is audited.")
    parser.add_argument("--questions", type=Path, help="a file of questions, one a line, instead of the built-in ones")
    args = parser.parse_args(argv)
    questions = read_questions(args.questions) if args.questions else list(QUESTIONS)
    config_path = usable_config(CONFIG)
    config = load_config(config_path)
    started = time.monotonic()
    totals = Totals()
    with running_node(config_path, config) as node:
        charter = import_charter(config.charter_path.read_bytes())
        say(f"ready after {time.monotonic() - started:.1f} s\n")
        for number, question in enumerate(questions, 1):
            one(node, charter, number, question, totals)
    return finish(totals, len(questions), time.monotonic() - started)


def read_questions(path: Path) -> list[str]:
    """The questions of a file, one a line; empty lines and lines that begin with # are left out."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise SystemExit(f"{path} holds no question")
    return found


def usable_config(path: Path) -> Path:
    """The settings file; where its port is taken by another program, a copy beside it with any free port."""
    config = load_config(path)
    if config.api.listen == "off":
        return path
    host, _, port = config.api.listen.rpartition(":")
    with socket.socket() as probe:
        try:
            probe.bind((host, int(port)))
            return path
        except OSError:
            say(f"port {port} is taken; the demo uses a free one")
    copy = path.with_name(".demo-node.toml")
    copy.write_text(path.read_text(encoding="utf-8").replace(config.api.listen, f"{host}:0"), encoding="utf-8")
    return copy


@contextlib.contextmanager
def running_node(config_path: Path, config: NodeConfig) -> Iterator[Node]:
    """The node as a process of its own, for the length of the block; its log is in the data directory."""
    config.node.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    log_path = config.node.data_dir / "demo.log"
    say("starting one node with nine roles (the first start indexes the documents) ...")
    with log_path.open("wb") as log:
        os.chmod(log_path, 0o600)
        command = [sys.executable, "-m", "gnus_node.cli.main", "swarm", "up", "--config", str(config_path)]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        try:
            node = Node(config.socket_path)
            wait_ready(node, process, log_path)
            yield node
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_ready(node: Node, process: subprocess.Popen[bytes], log_path: Path) -> None:
    """Wait until all roles are up. Exits with the log's end where the node does not start."""
    deadline = time.monotonic() + READY_S
    shown = time.monotonic()
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            node.get("/readyz", timeout_s=5)
            return
        except GnusError:
            pass
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            say("  still starting ...")
        time.sleep(0.1)
    tail = log_path.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise SystemExit(f"the node did not become ready; the end of {log_path.name}:\n{tail}")


def one(node: Node, charter: bytes, number: int, question: str, totals: Totals) -> None:
    """Ask, show, audit one question."""
    say(f"[{number}] {question}")
    try:
        answer = node.post("/admin/ask", {"question": question}, timeout_s=120)
        bundle = node.call("GET", f"/admin/audit/{answer['audit_id']}?payloads=1", timeout_s=60)
    except GnusError as error:
        say(f"    error      {error.code}: {error.what}\n")
        totals.refused += 1
        return
    verdict = verify_bundle(bundle, charter, time.time_ns() // 1_000_000)
    totals.outcomes[answer["outcome"]] = totals.outcomes.get(answer["outcome"], 0) + 1
    totals.verified += verdict.ok
    totals.refused += not verdict.ok
    totals.overhead_ms.append(answer["latency_ms"].get("overhead", 0.0))
    show(answer, len(bundle), "verified" if verdict.ok else f"REFUSED at {verdict.error.link if verdict.error else '?'}")


def show(answer: dict[str, Any], size: int, audit: str) -> None:
    """One answer in a few lines."""
    route = answer.get("route") or {}
    text = answer["answer"] if answer["outcome"] == "answered" else f"{answer['outcome']}: {answer.get('reason') or answer['reason_code']}"
    say(f"    answer     {' '.join(text.split())[:300]}")
    if answer.get("agreement") is not None:
        say(f"    agreement  {answer['agreement']:.2f}")
    for source in answer.get("sources", [])[:4]:
        say(f"    source     {source['uri']}  ({source['title'][:80]})")
    say(f"    route      {route.get('intent')} -> {route.get('mode')}, {route.get('topology')}: {', '.join(route.get('experts', []))}")
    say(f"    backends   {', '.join(sorted({b['kind'] + ' ' + b['model'] for b in answer.get('backends', [])})) or 'none'}")
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in answer["latency_ms"].items())
    say(f"    ms         {stages}")
    say(f"    audit      {audit}, {size} bytes\n")


def finish(totals: Totals, asked: int, seconds: float) -> int:
    """The totals, and the exit code."""
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(totals.outcomes.items()))
    overhead = sorted(totals.overhead_ms)
    middle = overhead[len(overhead) // 2] if overhead else 0.0
    say(
        f"{asked} questions: {outcomes}; audits verified {totals.verified} of {asked}; overhead median {middle:.1f} ms; {seconds:.0f} s in all"
    )
    return 0 if totals.verified == asked and not totals.refused else 1


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
