"""The house stands, and each rule bites: a violation is planted for every one, beside a near miss that must pass."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house import lists
from tests.house.rules import ROOT, check_text, check_tree

DOC = '"""What it is."""\n'

BREACHES = [
    ("gnus_node/api/x.py", "import trio\ntrio.run_process(['ls'])", "denied"),
    ("gnus_node/api/x.py", "from trio import run_process as go", "denied"),
    ("gnus_node/api/x.py", "from trio.lowlevel import open_process", "denied"),
    ("gnus_node/net/x.py", "import trio as t\nasync def f():\n    await t.open_tcp_stream('h', 1)", "denied"),
    ("gnus_node/api/x.py", "import os\nos.system('ls')", "denied"),
    ("gnus_node/api/x.py", "import os\nos.execv('ls', [])", "denied"),
    ("roles/router.py", "from os import posix_spawn", "denied"),
    ("gnus_node/api/x.py", "exec('1')", "denied"),
    ("gnus_node/api/x.py", "x = eval", "denied"),
    ("gnus_node/api/x.py", "__import__('os')", "denied"),
    ("gnus_node/api/x.py", "import importlib", "denied"),
    ("gnus_node/api/x.py", "from importlib.metadata import entry_points", "denied"),
    ("gnus_node/api/x.py", "import subprocess", "denied"),
    ("gnus_node/api/x.py", "import pickle", "denied"),
    ("gnus_node/flow/x.py", "def f(m):\n    return m.model_construct(a=1)", "denied"),
    ("gnus_node/flow/x.py", "def f(m):\n    return m.model_copy(update={'a': 1})", "denied"),
    ("gnus_node/flow/x.py", "def f(m, k):\n    return m.model_copy(**k)", "denied"),
    ("gnus_node/flow/x.py", "import time", "ports"),
    ("gnus_node/flow/x.py", "from uuid import uuid4", "ports"),
    ("gnus_node/flow/x.py", "import secrets", "ports"),
    ("gnus_node/flow/x.py", "import random", "ports"),
    ("gnus_node/flow/x.py", "import os\nx = os.urandom(3)", "ports"),
    ("gnus_node/flow/x.py", "import datetime\nx = datetime.datetime.now()", "ports"),
    ("gnus_node/flow/x.py", "from datetime import datetime as d\nx = d.now()", "ports"),
    ("gnus_node/flow/x.py", "from datetime import date\nx = date.today()", "ports"),
    ("gnus_node/flow/x.py", "import trio\nasync def f():\n    await trio.to_thread.run_sync(int)", "ports"),
    ("gnus_node/flow/x.py", "from trio import to_thread", "ports"),
    ("gnus_node/privacy/x.py", "from nacl.utils import random as r", "ports"),
    ("gnus_node/privacy/x.py", "from nacl.signing import SigningKey\nk = SigningKey.generate()", "ports"),
    ("gnus_node/policy/x.py", "import trio", "ports"),
    ("gnus_node/flow/x.py", "# house: pure\nimport trio", "ports"),
    ("roles/router.py", "import trio", "ports"),
    ("gnus_node/api/x.py", "try:\n    f()\nexcept Exception:\n    pass", "except"),
    ("gnus_node/api/x.py", "try:\n    f()\nexcept Exception:  # supervised boundary:\n    pass", "except"),
    ("gnus_node/api/x.py", "try:\n    f()\nexcept (ValueError, Exception):\n    pass", "except"),
    ("gnus_node/api/x.py", "try:\n    f()\nexcept* Exception:\n    pass", "except"),
    ("gnus_node/api/x.py", "try:\n    f()\nexcept BaseException:  # supervised boundary: all\n    raise", "except"),
    ("gnus_node/api/x.py", "try:\n    f()\nexcept:\n    raise", "except"),
    ("gnus_node/api/x.py", "import contextlib\nwith contextlib.suppress(Exception):\n    f()", "except"),
    ("tests/unit/x.py", "import time\ntime.sleep(1)", "sleep"),
    ("tests/unit/x.py", "from trio import sleep\nasync def f():\n    await sleep(1)", "sleep"),
    ("tests/unit/x.py", "import trio\nasync def f():\n    while busy():\n        await trio.sleep(1)", "sleep"),
    ("tests/unit/x.py", "import trio\nasync def f():\n    with trio.fail_after(1):\n        await trio.sleep(1)", "sleep"),
    ("gnus_node/api/x.py", "", "docstring"),
    ("gnus_node/api/x.py", "x = 1\n" * 451, "length"),
    ("gnus_node/api/x.py", "x = f()  # type: ignore", "ignore"),
    ("gnus_node/api/x.py", "x = f()  # noqa", "ignore"),
    ("roles/router.py", "from roles.verifier import Verifier", "role"),
    ("roles/router.py", "from . import verifier", "role"),
    ("roles/router.py", "from gnus_node.tools import door", "role"),
    ("roles/elm_worker.py", "import socket", "role"),
    ("roles/semantic_core.py", "import gnus_node.egress", "role"),
    ("docs/x.md", "see /" + "root/project/file", "machine"),
    ("configs/x.toml", "index = 'https://py" + "pi.org/simple'", "machine"),
]

CLEAN = [
    ("gnus_node/api/x.py", "import re\nP = re.compile('x')\nimport os\nos.path.join('a')"),
    ("gnus_node/loader.py", "from importlib.metadata import entry_points"),
    ("gnus_node/host/x.py", "import time\nimport os\nx = os.urandom(3)\ny = time.time_ns()"),
    ("gnus_node/flow/x.py", "import trio\nasync def f():\n    await trio.sleep(1)\n    return trio.current_time()"),
    ("gnus_node/flow/x.py", "from datetime import UTC, datetime\nx = datetime.fromtimestamp(0, UTC)"),
    ("gnus_node/flow/x.py", "def f(m):\n    return m.model_copy()"),
    ("gnus_node/api/x.py", "try:\n    f()\nexcept Exception:  # supervised boundary: one request's handler\n    pass"),
    ("gnus_node/api/x.py", "x = f()  # type: ignore[arg-type]  # noqa: E501"),
    ("tests/unit/x.py", "import trio\nasync def f():\n    await trio.sleep_forever()"),
    ("tests/unit/x.py", "import trio\nasync def test_x(autojump_clock):\n    async def g():\n        await trio.sleep(1)"),
    (
        "tests/unit/x.py",
        "import trio\nasync def f():\n    with trio.fail_after(1):\n        while busy():\n            await trio.sleep(0.01)",
    ),
    ("roles/router.py", "from gnus_node.flow.coordinator import Coordinator\nfrom gnus_node.role import Role"),
    ("docs/x.md", "the folder run/work/x and ~/.gnus-node/home/x; https://example.org/"),
]


def test_the_house_is_in_order():
    assert [str(finding) for finding in check_tree(ROOT)] == []


@pytest.mark.parametrize(("path", "code", "rule"), BREACHES)
def test_a_planted_breach_is_found(path: str, code: str, rule: str):
    text = code if rule in ("docstring", "machine") else DOC + code + "\n"
    text = text or "x = 1\n"
    assert rule in {finding.rule for finding in check_text(path, text)}


@pytest.mark.parametrize(("path", "code"), CLEAN)
def test_a_near_miss_passes(path: str, code: str):
    assert check_text(path, (DOC if path.endswith(".py") else "") + code + "\n") == []


def test_the_program_prints_file_line_rule_and_fails(tmp_path: Path):
    # The checker runs on a copy of itself inside a small tree, so that a breach can be planted without touching this one.
    house = tmp_path / "tests" / "house"
    house.mkdir(parents=True)
    (tmp_path / "tests" / "__init__.py").touch()
    for name in ("__init__.py", "__main__.py", "lists.py", "rules.py"):
        (house / name).write_text((ROOT / "tests" / "house" / name).read_text())
    room = tmp_path / "gnus_node" / "flow"
    room.mkdir(parents=True)
    (room / "bad.py").write_text(DOC + "import time\n")
    done = subprocess.run([sys.executable, "-m", "tests.house"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "gnus_node/flow/bad.py:2: ports: import of time" in done.stdout
    (room / "bad.py").write_text(DOC)
    done = subprocess.run([sys.executable, "-m", "tests.house"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "house: in order\n")


def test_every_exception_names_something_that_may_exist():
    for table in (lists.PURE, lists.MAY_BE_LONG, lists.MAY_SLEEP, lists.MAY_NAME_MACHINE_PATHS):
        for path, reason in table.items():
            assert reason
            assert (ROOT / path).exists(), f"{path} is listed and does not exist"


def contracts() -> dict[str, dict]:
    """The import contracts by name."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {contract["name"]: contract for contract in table["contracts"]}


def test_the_contract_names_what_thinks_and_what_acts_once_it_exists():
    contract = next(c for name, c in contracts().items() if name.startswith("Who thinks"))
    for role in lists.THINKING_ROLES:
        exists = (ROOT / "roles" / f"{role}.py").exists() or (ROOT / "roles" / role).exists()
        assert not exists or f"roles.{role}" in contract["source_modules"], f"add roles.{role} to source_modules"
    assert not (ROOT / "gnus_node" / "egress").exists() or "gnus_node.egress" in contract["forbidden_modules"]


def floors() -> list[set[str]]:
    """The rooms of each floor of the contract, the lowest first."""
    layers = next(c for name, c in contracts().items() if name.startswith("Floors"))["layers"]
    return [{part.strip(" ()") for part in layer.replace(":", "|").split("|")} for layer in reversed(layers)]


def rooms_on_disk() -> set[str]:
    house = ROOT / "gnus_node"
    return {p.stem for p in house.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - {"__init__"}


def test_every_room_on_disk_stands_on_a_floor():
    assert rooms_on_disk() <= set().union(*floors())


def test_the_architecture_page_shows_the_floors_as_they_are():
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    shown = {int(floor): set(re.findall(r"`(\w+)`", rooms)) for floor, rooms in re.findall(r"(?m)^\| (\d) \| ([^|]*) \|", page)}
    there = rooms_on_disk() - {"__main__"}
    assert shown == {number: rooms & there for number, rooms in enumerate(floors())}
