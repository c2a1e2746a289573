"""``--help`` is answered from a table; the table is the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from gnus_node.cli import docs
from gnus_node.cli.compose import command_app
from gnus_node.cli.main import main
from gnus_node.cli.table import COMMANDS, Command, help_text
from tests.house.rules import ROOT


def test_the_table_lists_every_command_module_and_no_other():
    modules = {path.stem.removeprefix("cmd_") for path in (ROOT / "gnus_node" / "cli").glob("cmd_*.py")}
    assert modules == {command.name for command in COMMANDS}


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_the_table_says_what_the_program_says(row: Command):
    program = typer.main.get_command(command_app(row.module))
    assert program.help == row.help
    assert tuple(getattr(program, "commands", ())) == row.verbs


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_takes_json_and_explains_each_option(row: Command):
    program = typer.main.get_command(command_app(row.module))
    for command in getattr(program, "commands", {"": program}).values():
        assert command.help
        assert "--json" in {opt for param in command.params for opt in param.opts}
        assert all(getattr(param, "help", "") for param in command.params)


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"]])
def test_help_prints_the_table(args: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(args) == 0
    assert capsys.readouterr().out == help_text()
    assert main([]) == 2


def loaded_by(args: str) -> set[str]:
    """The top modules a fresh process has imported when a command line has run."""
    program = f"import sys; from gnus_node.cli.main import main; main({args!r}.split()); print('MODULES', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("MODULES ")[2].split())


def test_help_and_version_import_nothing_heavy():
    # Not timed here: what is not imported costs nothing on any machine.
    for args in ("--help", "--version"):
        assert not {"typer", "click", "rich", "pydantic", "trio", "http", "inspect", "asyncio"} & loaded_by(args)


def test_a_command_s_help_imports_neither_records_nor_rich():
    heavy = {"rich", "pydantic", "trio", "gnus_node.records", "gnus_node.config", "http"}
    for row in COMMANDS:
        assert not heavy & loaded_by(f"{row.name} --help"), row.name


def test_made_pages_are_up_to_date():
    for name, text in docs.pages().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name} differs: run make schemas"


def test_the_docs_writer_names_and_mends_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    assert docs.main(["--check"]) == 1
    assert "differs: docs/cli.md" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
