"""The program as a person starts it: a small settings file, a process, and waiting on conditions with a deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from tests.house.rules import ROOT
from tests.nodes import CALC, CORE, folder_corpus

WAIT_S = 60.0
SETTINGS = (
    """
[node]
data_dir = "own"
[api]
listen = "127.0.0.1:0"
"""
    + CALC
    + CORE
    + folder_corpus("notes")
)
NOTES = "# Release\n\nThe release codename is Blue Heron. The release date is 12 May 2031.\n"


def settings_in(folder: Path) -> Path:
    """A settings file with one expert that calculates, one that quotes, and one document."""
    (folder / "notes").mkdir()
    (folder / "notes" / "release.md").write_text(NOTES)
    path = folder / "node.toml"
    path.write_text(SETTINGS)
    return path


def eventually(met: Callable[[], Any], what: str) -> Any:
    """The first true value of a condition; fails after ``WAIT_S``."""

    async def poll() -> Any:
        with trio.move_on_after(WAIT_S):
            while True:
                if found := met():
                    return found
                await trio.sleep(0.02)
        raise AssertionError(f"never: {what}")

    return trio.run(poll)


def spawn(*args: str, out: Path) -> subprocess.Popen[bytes]:
    """A Python process of the checkout, with Python's own buffering; its output, errors too, goes to a file."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with out.open("wb") as file:
        return subprocess.Popen([sys.executable, "-m", *args], cwd=ROOT, stdout=file, stderr=file, start_new_session=True, env=env)


def finish(process: subprocess.Popen[bytes]) -> int:
    """Its exit code; a process that does not end is killed and fails the test."""
    try:
        return process.wait(WAIT_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def gone(pid: int) -> bool:
    """Whether no such process runs (one that waits for its parent's look has ended)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True


def children(pid: int) -> list[int]:
    """The processes a process has started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def command(*args: str) -> subprocess.CompletedProcess[str]:
    """One ``gnus-node`` command, to its end."""
    return subprocess.run([sys.executable, "-m", "gnus_node", *args], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)


@contextmanager
def running_node(settings: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """``swarm up`` until it is ready: the process, and the file of all it says."""
    out = settings.parent / "out.log"
    process = spawn("gnus_node", "swarm", "up", "--config", str(settings), out=out)
    try:
        eventually(lambda: '"node.ready"' in out.read_text() or process.poll() is not None, "the node is ready")
        assert process.poll() is None, out.read_text()
        yield process, out
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
        finish(process)


def events(text: str) -> list[dict[str, Any]]:
    """The JSON lines among others."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
