"""Child processes: what they inherit, what they may use, and that none outlives the block or the process that started it."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest
import trio

from gnus_node.host.children import MAX_ERROR_LINE, ChildSpec, run_tool, running_child
from gnus_node.records.errors import GnusError

from .machine import STAND_IN, alive, python, until

MEMORY = 1024**3


def spec(mode: str, **more: str) -> ChildSpec:
    return ChildSpec(STAND_IN, json.dumps({"mode": mode, **more}).encode() + b"\n", MEMORY)


async def test_a_child_inherits_three_pipes_and_limits_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "of the parent")
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        with trio.fail_after(30):
            async with running_child(spec("report"), lambda line: None) as child:
                found = json.loads(await child.first_line())
    finally:
        os.close(inherited)
    assert found["fds"] == [0, 1, 2]
    assert set(found["environment"]) <= {"PATH", "LC_ALL"}
    assert found["session"] is True
    assert found["limits"] == {"RLIMIT_AS": MEMORY, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    assert found["no_new_privileges"] == "1"
    assert found["folder"] == "/"


async def test_leaving_the_block_ends_a_stubborn_child_and_its_helpers() -> None:
    with trio.fail_after(60):
        async with running_child(spec("stubborn"), lambda line: None) as child:
            helper = int(await child.first_line())
            assert alive(child.pid)
            assert alive(helper)
        assert not alive(child.pid)
        assert child.ending() == "SIGKILL"
        await until(lambda: not alive(helper))


async def test_cancelling_the_block_ends_the_child() -> None:
    with trio.CancelScope() as scope:
        async with running_child(spec("silent"), lambda line: None) as child:
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not alive(child.pid)


async def test_a_flood_neither_blocks_the_child_nor_fills_the_parent() -> None:
    lines: list[str] = []
    with trio.fail_after(60):
        async with running_child(spec("flood"), lines.append) as child:
            assert await child.first_line() == b"first"
            await child.exited()
    assert child.ending() == "exit 0"
    assert lines
    assert max(map(len, lines)) <= MAX_ERROR_LINE


async def test_a_first_line_over_its_bound_counts_for_nothing() -> None:
    with trio.fail_after(30):
        async with running_child(spec("long"), lambda line: None) as child:
            assert await child.first_line() == b""


async def test_a_child_that_ends_without_a_word_says_nothing() -> None:
    with trio.fail_after(30):
        async with running_child(spec("die"), lambda line: None) as child:
            assert await child.first_line() == b""
            await child.exited()
    assert child.ending() == "exit 7"


PARENT = """
import sys, trio
from pathlib import Path
from gnus_node.host.children import ChildSpec, running_child

async def main():
    spec = ChildSpec(Path(sys.argv[1]), b'{"mode": "silent"}\\n', 1024**3)
    async with running_child(spec, lambda line: None) as child:
        print(child.pid, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_killed_parent_takes_its_child_with_it() -> None:
    parent = python(PARENT, str(STAND_IN))
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait(30)
        await until(lambda: not alive(child))
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()


def test_a_tool_gives_its_exit_code_or_a_typed_error() -> None:
    assert run_tool([sys.executable, "-c", "import sys; sys.exit(5)"], timeout_s=60) == 5
    with pytest.raises(GnusError) as missing:
        run_tool(["/nonexistent/tool"], timeout_s=5)
    assert missing.value.code == "MISSING_DEPENDENCY"
    with pytest.raises(GnusError) as late:
        run_tool([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.2)
    assert late.value.code == "DEADLINE"
