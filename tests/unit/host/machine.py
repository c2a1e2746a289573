"""What the tests of processes share: is a process still there, a log that keeps its lines, waiting for a condition."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

STAND_IN = Path(__file__).with_name("stand_in.py")


ROOT = Path(__file__).parents[3]


def python(text: str, *args: str) -> subprocess.Popen[bytes]:
    """A program in a Python of its own, with this tree's packages."""
    command = [sys.executable, "-c", text, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT)


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something holds."""
    with trio.fail_after(seconds):
        while True:
            if condition():
                return
            await trio.sleep(0.02)


class KeptLog:
    """A log whose lines a test reads."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = error = info

    def named(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == event]
