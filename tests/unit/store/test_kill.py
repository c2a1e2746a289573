"""kill -9 in the middle of writing: every acknowledged batch is there, whole, and in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gnus_node.host import InlineOffload, SystemEntropy, ThreadOffload
from gnus_node.records.errors import GnusError
from gnus_node.store import KeyStore, StoreLimits, open_keys, open_store

WRITERS = 4
LIMITS = StoreLimits(map_size_bytes=1 << 30)

WRITING_CHILD = f"""
import sys, trio
from pathlib import Path
from gnus_node.host import ThreadOffload
from gnus_node.ports import Write
from gnus_node.store import StoreLimits, open_store

async def main():
    async with open_store(Path(sys.argv[1]), ThreadOffload({{}}), limits=StoreLimits(map_size_bytes=1 << 30)) as store:
        async def client(name):
            number = int(await store.get("meta", b"%d" % name) or b"-1")
            while True:
                number += 1
                value = b"%d" % number
                key = b"%d/%08d" % (name, number)
                store.write_behind([Write("answer", key, value)])
                rows = [Write("journal", key, value, if_absent=True), Write("payload", key, value * 500)]
                await store.commit([Write("meta", b"%d" % name, value), *rows])
                sys.stdout.write(f"{{name}} {{number}}\\n")
                sys.stdout.flush()
        async with trio.open_nursery() as nursery:
            for name in range({WRITERS}):
                nursery.start_soon(client, name)

trio.run(main)
"""

KEYS_CHILD = """
import sys, trio
from pathlib import Path
from gnus_node.host import SystemEntropy, ThreadOffload
from gnus_node.store import open_keys

async def main():
    async with open_keys(Path(sys.argv[1]), SystemEntropy(), ThreadOffload({})) as keys:
        for number in range(int(sys.argv[2]), 1_000_000):
            key = await keys.key_for(f"subject-{number}", "payload")
            print(number, key.hex(), flush=True)
            if number % 3 == 0:
                await keys.destroy(f"subject-{number}", "payload")
                print(number, "gone", flush=True)

trio.run(main)
"""


def killed_after(program: str, args: list[str], lines: int) -> list[list[str]]:
    """Run a child, kill it when it has written so many lines, and give every whole line that it wrote."""
    with subprocess.Popen([sys.executable, "-c", program, *args], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()) as child:
        assert child.stdout is not None
        read = [child.stdout.readline() for _ in range(lines)]
        os.kill(child.pid, signal.SIGKILL)
        read += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    return [line.split() for line in read if line.endswith("\n")]


@pytest.mark.parametrize("lines", [1, 23, 60])
async def test_no_acknowledged_batch_is_lost(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "store"
    acked = dict.fromkeys(range(WRITERS), -1)
    for _ in range(2):
        for who, what in killed_after(WRITING_CHILD, [str(path)], lines):
            acked[int(who)] = max(acked[int(who)], int(what))
        async with open_store(path, ThreadOffload({}), limits=LIMITS) as store:
            for name, number in acked.items():
                stored = int(await store.get("meta", b"%d" % name) or b"-1")
                assert stored >= number, "an acknowledged batch is gone"
                assert stored <= number + 1, "a batch nobody could have sent"
                expected = [b"%d/%08d" % (name, n) for n in range(stored + 1)]
                for table in ("journal", "payload"):
                    rows = await store.scan(table, b"%d/" % name, limit=10_000)
                    assert [row.key for row in rows] == expected, "a batch was torn"
                behind = [row.key for row in await store.scan("answer", b"%d/" % name, limit=10_000)]
                assert behind[: len(expected)] == expected, "what was queued before an acknowledged commit is stored"
                acked[name] = stored


async def key_or_code(keys: KeyStore, number: str) -> str:
    """The key in hex, or the code of the refusal."""
    try:
        return (await keys.key_for(f"subject-{number}", "payload")).hex()
    except GnusError as error:
        return error.code


@pytest.mark.parametrize("lines", [2, 9])
async def test_no_key_that_was_given_out_is_lost_and_no_destroyed_key_returns(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "keys"
    given: dict[str, str] = {}
    gone: set[str] = set()
    for turn in range(2):
        for number, what in killed_after(KEYS_CHILD, [str(path), str(turn * 1000)], lines):
            if what == "gone":
                gone.add(number)
            else:
                given[number] = what
        async with open_keys(path, SystemEntropy(), InlineOffload()) as keys:
            for number, key in given.items():
                found = await key_or_code(keys, number)
                if int(number) % 3 == 0 and number not in gone:
                    assert found in (key, "ERASED"), "destruction may have got half way"
                else:
                    assert found == ("ERASED" if number in gone else key)
