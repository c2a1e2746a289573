"""The demo's node: a process of its own that never outlives the demo, and whose death is noticed and explained.

Invariants: nobody else's node is ever asked. The data directory is claimed by a lock that the child inherits, so a node that another demo
left behind keeps its directory and this one takes the next. The child has its own session, so that Ctrl-C reaches the demo alone and
the demo stops the child in order; the kernel tells the child when the demo ends in any other way.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gnus_node.cli.client import Node
from gnus_node.records.errors import GnusError

ROOT = Path(__file__).resolve().parents[2]
MAX_DEMOS = 8
"""Demos that may run at the same time below one folder."""
STOP_S = 20.0
SILENT_S = 180.0
"""How long a starting node may say nothing in its log before it is given up."""
DYING_S = 2.0
"""How long a broken connection may be the first sign of a node's death."""
MAX_TAIL_BYTES = 4096
PR_SET_PDEATHSIG = 1


class NodeDied(Exception):
    """The demo's node ended by itself; the text says why."""


def claim(parent: Path) -> tuple[Path, int]:
    """A data directory below ``parent`` that nobody uses (``demo``, ``demo-2``, ...), and the lock that holds it. Raises ``SystemExit``."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(1, MAX_DEMOS + 1):
        folder = parent / ("demo" if number == 1 else f"demo-{number}")
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(folder / ".demo-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder, lock
        except BlockingIOError:
            os.close(lock)
    raise SystemExit(f"{MAX_DEMOS} demos run already below {parent}")


class Child:
    """A running node of the demo."""

    def __init__(self, process: subprocess.Popen[bytes], data_dir: Path, log: Path) -> None:
        self.node = Node(data_dir / "node.sock")
        self.process = process
        self.log = log
        self._read = 0

    def events(self) -> list[dict[str, Any]]:
        """The lines that were added to its log since the last call, of those that are JSON."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        found = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                found += [value] if isinstance(value, dict) else []
        return found

    def check(self, *, within_s: float = 0.0) -> None:
        """Raises ``NodeDied`` if it has ended, or ends within that time."""
        try:
            code = self.process.wait(within_s) if within_s else self.process.poll()
        except subprocess.TimeoutExpired:
            return
        if code is not None:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise NodeDied(f"the demo's node {how}\n{self.tail()}")

    def tail(self) -> str:
        """The end of its log, which says why."""
        text = self.log.read_bytes()[-MAX_TAIL_BYTES:].decode("utf-8", "replace")
        lines = text.splitlines()[-12:]
        return "\n".join([f"the end of {self.log}:", *(f"  {line}" for line in lines)])

    def starting(self) -> Iterator[dict[str, Any]]:
        """Its log's events while it starts, up to the last one, ``node.ready``. Raises ``NodeDied``."""
        heard = time.monotonic()
        while True:
            self.check()
            for event in self.events():
                heard = time.monotonic()
                yield event
                if event.get("event") == "node.ready":
                    return
            if time.monotonic() - heard > SILENT_S:
                raise NodeDied(f"the demo's node has said nothing for {SILENT_S:.0f} s while it started\n{self.tail()}")
            time.sleep(0.05)

    def answering(self, error: GnusError) -> None:
        """After a call that failed: raises ``NodeDied`` if the node's death is why."""
        self.check(within_s=DYING_S if error.code in ("NOT_RUNNING", "PROTOCOL") else 0.0)


@contextlib.contextmanager
def running(config: Path, data_dir: Path, lock: int) -> Iterator[Child]:
    """The node for the length of the block; its log is ``demo.log`` in its data directory."""
    log = data_dir / "demo.log"
    parent = os.getpid()

    def end_with_the_demo() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    command = [sys.executable, "-m", "gnus_node.cli.main", "swarm", "up", "--json", "--listen", "127.0.0.1:0"]
    command += ["--config", str(config), "--data-dir", str(data_dir)]
    log.unlink(missing_ok=True)
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=ROOT,
            pass_fds=(lock,),
            start_new_session=True,
            preexec_fn=end_with_the_demo,
        )
    try:
        yield Child(process, data_dir, log)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it in order; at once where that takes too long, or where the person has pressed Ctrl-C again."""
    try:
        process.terminate()
        process.wait(STOP_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
