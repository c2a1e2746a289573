"""Child processes: started confined, watched by pidfd, ended with their group. General: a model engine or a sandbox is a program to it.

Invariants
- A child never outlives this process, however it ends (``host.launch``), nor the block that started it.
- It inherits three pipes and nothing else: no file, no environment but ``ENVIRONMENT``, no terminal, a process group of its own.
- What it writes is read always, so that it never blocks on us, and kept only within bounds.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from gnus_node.records.errors import GnusError

LAUNCH = Path(__file__).with_name("launch.py")
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
GRACE_S = 2.0
"""Between asking a child to end and ending it."""
REAP_S = 5.0
"""Longest wait for a killed process to be gone; after it the kernel has it stuck, and waiting would not help."""
DRAIN_S = 0.5
"""Longest wait for the last words of a child that has ended."""
MAX_FIRST_LINE = 64 * 1024
MAX_ERROR_LINE = 400
"""Bytes kept of one line of standard error."""
_CHUNK = 16 * 1024


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A Python program to run in an interpreter of its own, and what it is given on standard input (kept open after it)."""

    program: Path
    given: bytes
    memory_bytes: int


class Child:
    """A running child."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("a child has three pipes")
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        self._given, self._said, self._errors = (
            trio.lowlevel.FdStream(os.dup(pipe.fileno())) for pipe in (process.stdin, process.stdout, process.stderr)
        )
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        self._line = b""
        self._spoke = trio.Event()
        self.silent = trio.Event()
        """Its standard error was read to the end."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def first_line(self) -> bytes:
        """The first line it writes, without its end; empty where it ends without one, or the line is over its bound."""
        await self._spoke.wait()
        return self._line

    async def exited(self) -> None:
        """Wait until it has ended; it is not reaped yet, so its process id is still its own."""
        await trio.lowlevel.wait_readable(self._pidfd)

    def over(self) -> bool:
        """Whether it has ended."""
        return bool(select.select([self._pidfd], [], [], 0)[0])

    def ending(self) -> str:
        """How it ended, in words for a log; after the block only."""
        code = self._process.returncode
        return "still running" if code is None else how_ended(code)

    async def _feed(self, given: bytes) -> None:
        with suppress(trio.BrokenResourceError):
            await self._given.send_all(given)

    async def _listen(self) -> None:
        """Keep the first line, and go on reading: a full pipe would stop the child."""
        line = b""
        while chunk := await self._said.receive_some(_CHUNK):
            if self._spoke.is_set():
                continue
            line += chunk
            if b"\n" in line or len(line) > MAX_FIRST_LINE:
                first, end, _ = line.partition(b"\n")
                self._line = first if end and len(first) <= MAX_FIRST_LINE else b""
                self._spoke.set()
        self._spoke.set()

    async def _pump(self, on_error: Callable[[str], None]) -> None:
        line = b""
        while chunk := await self._errors.receive_some(_CHUNK):
            *whole, rest = chunk.split(b"\n")
            for part in whole:
                on_error((line + part)[:MAX_ERROR_LINE].decode("utf-8", "replace"))
                line = b""
            line = (line + rest)[:MAX_ERROR_LINE]
        if line:
            on_error(line.decode("utf-8", "replace"))
        self.silent.set()

    def signal(self, number: signal.Signals) -> None:
        """A signal to its whole group; nothing once it was reaped."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def _end(self) -> None:
        """End the group, reap the child, let go of every descriptor."""
        with trio.CancelScope(shield=True):
            await self._given.aclose()
            self.signal(signal.SIGTERM)
            with trio.move_on_after(GRACE_S):
                await self.exited()
            self.signal(signal.SIGKILL)
            with trio.move_on_after(REAP_S) as late:
                await self.exited()
            if not late.cancelled_caught:
                self._process.wait()
            os.close(self._pidfd)
            await self._said.aclose()
            await self._errors.aclose()


def _spawn(spec: ChildSpec) -> Child:
    """Start it from this very thread: the kernel ends the child with the thread that made it."""
    launch = [sys.executable, "-I", "-B", str(LAUNCH), str(os.getpid()), str(spec.memory_bytes)]
    command = [*launch, sys.executable, "-I", "-B", str(spec.program)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd="/",
        start_new_session=True,
    )
    try:
        return Child(process)
    except OSError:
        process.kill()
        process.wait()
        raise


@asynccontextmanager
async def running_child(spec: ChildSpec, on_error: Callable[[str], None]) -> AsyncIterator[Child]:
    """Run a child for the length of the block; ``on_error`` gets each line of its standard error, cut. Raises ``BACKEND_FAILED`` where
    the machine cannot start one."""
    try:
        child = _spawn(spec)
    except OSError as error:
        raise GnusError("BACKEND_FAILED", f"a child process cannot be started: {type(error).__name__}") from None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child._listen)
            nursery.start_soon(child._pump, on_error)
            nursery.start_soon(child._feed, spec.given)
            yield child
            if child.over():
                with trio.move_on_after(DRAIN_S):
                    await child.silent.wait()
            nursery.cancel_scope.cancel()
    finally:
        await child._end()


def how_ended(code: int) -> str:
    """A process's return code in words: ``exit 1``, or the signal's name."""
    if code >= 0:
        return f"exit {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def run_tool(command: Sequence[str], *, timeout_s: float) -> int:
    """Run a program in the foreground with this process's own environment and terminal, for commands a person typed; its exit code.
    Raises ``MISSING_DEPENDENCY`` where it cannot be started, ``DEADLINE``."""
    try:
        return subprocess.run(list(command), stdin=subprocess.DEVNULL, timeout=timeout_s, check=False).returncode
    except OSError as error:
        raise GnusError("MISSING_DEPENDENCY", f"a program cannot be started: {type(error).__name__}") from None
    except subprocess.TimeoutExpired:
        raise GnusError("DEADLINE", "the program did not end in its time") from None
