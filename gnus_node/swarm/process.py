"""A node as a child process: started, told to stop, killed if it does not. The only file of the room that starts processes.

A child has a session of its own, so that Ctrl-C reaches its keeper only, which stops the nodes in order. And it holds a pipe as standard
input that nobody writes to: when the keeper is gone, however it went, the pipe ends, and so does the node (``--while-stdin``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from gnus_node.host.children import how_ended

MAX_TAIL_BYTES = 4096


class Child:
    """One process. ``log`` receives its standard output and error."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def wait(self) -> str:
        """Wait for its end; how it ended, in words."""
        return how_ended(await self._process.wait())

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def stop(self, patience_s: float) -> str:
        """SIGTERM, then after ``patience_s`` SIGKILL; how it ended."""
        self.tell(signal.SIGTERM)
        with trio.move_on_after(patience_s):
            return await self.wait()
        self.tell(signal.SIGKILL)
        return await self.wait()


async def start(arguments: Sequence[str], log: Path) -> Child:
    """Start this program with other arguments. Cancelling does not end it: ``Child.stop`` does."""
    with _log(log) as handle:
        process = await trio.lowlevel.open_process(
            _command(arguments), stdin=subprocess.PIPE, stdout=handle, stderr=handle, start_new_session=True
        )
    return Child(process)


def detach(arguments: Sequence[str], log: Path) -> tuple[int, Callable[[], bool]]:
    """Start this program to go on by itself, without this terminal; its process id, and whether it has ended."""
    with _log(log) as handle:
        process = subprocess.Popen(_command(arguments), stdin=subprocess.DEVNULL, stdout=handle, stderr=handle, start_new_session=True)
    return process.pid, lambda: process.poll() is not None


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "gnus_node.cli.main", *arguments]


@contextmanager
def _log(path: Path) -> Iterator[int]:
    """The log to append to, 0600, never through a link."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def last_reason(log: Path) -> str:
    """What a program that ended with a typed error said last, or that its log tells more."""
    said = [line.removeprefix("what:").strip() for line in tail(log).splitlines() if line.startswith("what:")]
    return said[-1] if said else "its log tells more"


def tail(log: Path) -> str:
    """The end of a log, for a person."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_TAIL_BYTES))
            return file.read(MAX_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
