"""What a person meets first: README, make, the set-up script, the entry points, links that lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from gnus_node.config.policies import builtin_policies
from gnus_node.records.enums import ColocationProfile, RoleName
from tests.house.rules import ROOT

TARGETS = ["setup", "demo", "test", "p2p", "embedded", "lint", "bench", "schemas", "clean"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_readme_opens_with_demo_and_test_and_says_what_they_need():
    head = (ROOT / "README.md").read_text()[:700]
    assert head.index("make demo") < head.index("make test")
    for need in ("Debian 12", "Python 3.11", "make", "venv"):
        assert need in head


def test_plain_make_lists_the_targets():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["help", *TARGETS]


def test_what_guards_main_is_lint_then_the_readme_s_test_command():
    script = ROOT / ".ci" / "run"
    commands = [line for line in script.read_text().splitlines() if line.startswith("make ")]
    assert commands == ["make lint", "make test"]
    assert os.access(script, os.X_OK)
    assert os.access(ROOT / ".ci" / "setup", os.X_OK)


def bare_project(tmp_path: Path, *programs: str) -> dict[str, str]:
    """A copy of the set-up script, and an environment in which only the named programs exist."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "setup", tmp_path / ".ci" / "setup")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for program in programs:
        (bin_dir / program).symlink_to(shutil.which(program) or program)
    return {"PATH": str(bin_dir)}


TOOLS = ("bash", "dirname", "cat", "sha256sum", "id", "rm", "mv", "seq", "sleep", "grep", "tail", "env")


def test_set_up_without_a_python_says_what_to_install(tmp_path: Path):
    environment = bare_project(tmp_path, *TOOLS)
    done = subprocess.run(["bash", ".ci/setup"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["what", "why", "fix", "code"]
    assert "apt-get install python3" in done.stderr
    assert not (tmp_path / ".venv").exists()


FAKE_PYTHON = """#!/bin/bash
# Answers the set-up script's questions as a Python 3.11 would; "pip install" fails as often as the file "failures" has lines.
here=$(dirname "$0")
echo "$*" >> {root}/calls
case "$*" in
  *"import venv"*) exit {venv} ;;
  *"-m venv .venv"*) mkdir -p {root}/.venv/bin; cp "$0" {root}/.venv/bin/python ;;
  *"sys.prefix)"*) echo {root}/.venv ;;
  *"-m pip install"*) if [ -s {root}/failures ]; then sed -i 1d {root}/failures; echo "no network" >&2; exit 1; fi ;;
  *"%d.%d"*) echo 3.11 ;;
  *"print(sys.version"*) echo 3.11 /usr ;;
esac
exit 0
"""


@pytest.fixture
def fake(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A project whose python3 is a script, so that set-up's own steps can be watched without a network."""
    environment = bare_project(tmp_path, *TOOLS, "mkdir", "cp", "sed")
    # Waiting between tries is the script's business, not the test's.
    (tmp_path / "bin" / "sleep").unlink()
    (tmp_path / "bin" / "sleep").symlink_to(shutil.which("true") or "true")
    write_python(tmp_path, venv=0)
    return tmp_path, environment


def write_python(root: Path, *, venv: int) -> None:
    """The fake interpreter; ``venv`` is the exit code of importing venv."""
    path = root / "bin" / "python3"
    path.write_text(FAKE_PYTHON.format(root=root, venv=venv))
    path.chmod(0o755)


def set_up(root: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (root / "calls").write_text("")
    return subprocess.run(["bash", ".ci/setup"], cwd=root, env=environment, capture_output=True, text=True)


def installs(root: Path) -> int:
    return (root / "calls").read_text().count("-m pip install")


def test_set_up_runs_once_and_again_only_when_something_changed(fake: tuple[Path, dict[str, str]]):
    root, environment = fake
    first = set_up(root, environment)
    assert (first.returncode, installs(root)) == (0, 1), first.stderr
    assert first.stdout.splitlines()[-1] == "setup: ready"
    second = set_up(root, environment)
    assert (second.returncode, second.stdout, installs(root)) == (0, "", 0)
    with (root / "pyproject.toml").open("a") as file:
        file.write("\n# changed\n")
    assert "making .venv" not in set_up(root, environment).stdout
    assert installs(root) == 1


def test_set_up_tries_again_and_stamps_only_a_whole_install(fake: tuple[Path, dict[str, str]]):
    root, environment = fake
    (root / "failures").write_text("x\nx\n")
    done = set_up(root, environment)
    assert (done.returncode, installs(root)) == (0, 3)
    (root / ".venv" / ".stamp").unlink()
    (root / "failures").write_text("x\n" * 9)
    done = set_up(root, environment)
    assert done.returncode == 1
    assert "no network" in done.stderr
    assert "fix:  check the network" in done.stderr
    assert not (root / ".venv" / ".stamp").exists()


def test_set_up_makes_a_broken_environment_anew(fake: tuple[Path, dict[str, str]]):
    root, environment = fake
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "left-over").touch()
    done = set_up(root, environment)
    assert "is not whole: making it anew" in done.stdout
    assert done.returncode == 0
    assert not (root / ".venv" / "left-over").exists()


def test_set_up_without_the_venv_module_names_the_package(fake: tuple[Path, dict[str, str]]):
    root, environment = fake
    write_python(root, venv=1)
    done = set_up(root, environment)
    assert done.returncode == 1
    assert "fix:  as root: apt-get install python3.11-venv" in done.stderr


def test_the_entry_points_are_the_nine_roles_and_the_command():
    assert set(PROJECT["entry-points"]["gnus_node.roles"]) == set(RoleName)
    command = EntryPoint("gnus-node", PROJECT["scripts"]["gnus-node"], "console_scripts").load()
    assert callable(command)


def test_the_program_carries_its_policies():
    assert builtin_policies().resolve() == ROOT / "configs" / "policies"
    assert (ROOT / "gnus_node" / "config" / "shipped").is_symlink()
    for profile in ColocationProfile:
        assert (builtin_policies() / f"{profile}.toml").is_file()


def test_links_in_the_documentation_lead_somewhere():
    broken = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)(#[^)]*)?\)", page.read_text()):
            file = page.parent / target if target else page
            if not file.exists() or (anchor and f"## {anchor[1:].replace('-', ' ')}" not in file.read_text().lower().replace("-", " ")):
                broken.append(f"{page.relative_to(ROOT)}: {target}{anchor}")
    assert broken == []
