"""A data directory of a node that ran, made once and copied for each test, and the real command line over it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from gnus_node.cli.main import main
from gnus_node.config import load_config
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.init import make_data_dir
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Ports, open_node
from gnus_node.ports.submit import Ask
from tests.house.rules import ROOT
from tests.nodes import CALC, CORE, folder_corpus

SETTINGS = (
    """
[node]
data_dir = "data"
[api]
listen = "{listen}"
"""
    + CALC
    + CORE
    + folder_corpus("notes")
)
START_S = 30.0


def write_settings(folder: Path, *, listen: str = "off", more: str = "") -> Path:
    """The settings of the tests, with further lines at the end."""
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / "a.md").write_text("# Ferry\n\nThe ferry leaves at 07:40.\n")
    file = folder / "node.toml"
    file.write_text(SETTINGS.format(listen=listen) + more)
    return file


def make_ran(folder: Path) -> Path:
    """A node that was started once, answered a question, and stopped."""
    config = load_config(write_settings(folder))

    async def once() -> None:
        clock, entropy = SystemClock(), SystemEntropy()
        make_data_dir(config.node.data_dir, entropy, clock)
        async with open_node(config, Ports(clock, entropy, ThreadOffload(), MemoryBus())) as node:
            answered = await node.submit.ask(node.operator, Ask("what is twelve times eleven?"))
            assert "132" in answered.answer
            await node.store.flush()

    trio.run(once)
    return folder


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once for a module; never changed."""
    return make_ran(tmp_path_factory.mktemp("ran"))


@pytest.fixture
def ran(ran_once: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    folder = tmp_path / "n"
    shutil.copytree(ran_once, folder)
    return folder


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed and returned."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[dict[str, str]]:
        """The errors on standard error; the log's JSON lines are left out, and nothing else may be there."""
        found: list[dict[str, str]] = []
        for line in self.err.splitlines():
            if not line or line.startswith("{"):
                continue
            name, _, text = line.partition(":")
            assert name in ("what", "why", "fix", "code"), self.err
            if name == "what":
                found.append({})
            found[-1][name] = text.strip()
        assert all(list(error) == ["what", "why", "fix", "code"] for error in found), self.err
        return found

    @property
    def error(self) -> dict[str, str]:
        """The one error."""
        (only,) = self.errors
        return only


def said(capsys: pytest.CaptureFixture[str], args: Sequence[str]) -> Said:
    """A command line in this process; one that would start a node for good hangs, and fails by the timeout."""
    capsys.readouterr()
    code = main(list(args))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return Said(code, out, err)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def command(*args: str) -> subprocess.Popen[str]:
    """The real program as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "gnus_node.cli.main", *args], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@contextmanager
def running(settings: Path) -> Any:
    """A node that is up, as a process; stopped at the end."""
    process = command("run", "--config", str(settings))
    assert process.stderr is not None
    deadline = time.monotonic() + START_S
    try:
        for line in process.stderr:
            if line.startswith("{") and json.loads(line)["event"] == "node.ready":
                break
            assert time.monotonic() < deadline, line
        else:
            raise AssertionError("the node ended before it was ready")
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=START_S)


def flip(path: Path, place: int) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def halve(path: Path) -> None:
    """Cut a file in half."""
    os.truncate(path, path.stat().st_size // 2)


def eventually(look: Any, holds: Any) -> Any:
    """Look again and again until it holds; the value."""
    deadline = time.monotonic() + START_S
    while not holds(value := look()):
        assert time.monotonic() < deadline, value
    return value
