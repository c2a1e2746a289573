"""Wrong input to each verb: what is printed speaks of what the user wrote and did, names files and choices, and no library's exceptions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gnus_node.cli.table import COMMANDS
from tests.start.world import said

Capture = pytest.CaptureFixture[str]
LIBRARY = re.compile(r"[A-Z]\w*(Error|Exception)\b|pydantic|lmdb|errno|typer|click|Traceback", re.IGNORECASE)


def wrong(capsys: Capture, *args: str):
    found = said(capsys, args)
    assert found.code in (1, 2)
    assert not LIBRARY.search(found.err.replace("code: ", "")), found.err
    return found


@pytest.mark.parametrize(
    ("args", "what", "fix"),
    [
        (("ask", ""), "question", "say"),
        (("ask", " \n"), "question", "say"),
        (("plan", ""), "question", "say"),
        (("memory", "search", " "), "query", "say"),
        (("memory", "add", ""), "text", "say"),
        (("ask", "q", "--privacy-mode", "restrictd"), "--privacy-mode", "'restricted'"),
        (("ask", "q", "--answer-type", "xml"), "--answer-type", "text, json"),
        (("memory", "add", "x", "--class", "fcat"), "--class", "'fact'"),
        (("config", "key", "--mode", "liev"), "--mode", "'live'"),
        (("init", "x", "--template", "defualt"), "--template", "'default'"),
        (("init", "x", "--name", "a b"), "name", "letters"),
        (("memory", "serch", "x"), "serch", "search"),
        (("stauts",), "stauts", "status"),
        (("status", "--nope"), "--nope", "status --help"),
        (("audit", "export", "ID", "-o", "nowhere/file"), "nowhere does not exist", "folder"),
        (("schema", "export", "-o", "/proc/x"), "/proc/x", "folder"),
    ],
)
def test_wrong_input_is_answered_in_the_user_s_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, args: tuple[str, ...], what: str, fix: str
):
    monkeypatch.chdir(tmp_path)
    found = wrong(capsys, *args)
    assert (found.code, found.error["code"]) == (2, "USAGE")
    assert what in found.error["what"]
    assert fix in found.error["fix"]


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.verbs], ids=lambda c: c.name)
def test_a_group_alone_tells_its_verbs(capsys: Capture, command):
    found = wrong(capsys, command.name)
    assert all(verb in found.error["fix"] for verb in command.verbs)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.name)
def test_help_has_a_short_form_everywhere(capsys: Capture, command):
    for args in ([command.name], *([command.name, verb] for verb in command.verbs)):
        found = said(capsys, [*args, "-h"])
        assert found.code == 0
        assert found.out == said(capsys, [*args, "--help"]).out


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe\x00", b"{}", b"[1"])
@pytest.mark.parametrize("which", ["charter", "trust"])
def test_a_wrong_file_for_the_judge_is_named(ran: Path, capsys: Capture, content: bytes, which: str):
    junk = ran / "junk"
    junk.write_bytes(content)
    files = {"charter": str(ran / "data" / "charter.json"), "trust": str(ran / "data" / "trust.json"), which: str(junk)}
    found = wrong(capsys, "audit", "verify", str(junk), "--charter", files["charter"], "--trust-head", files["trust"])
    assert str(junk) in found.error["what"]
    assert f"{which}.json" in found.error["fix"]


def test_the_charter_given_as_a_trust_log_is_named(ran: Path, capsys: Capture):
    charter = str(ran / "data" / "charter.json")
    found = wrong(capsys, "audit", "verify", charter, "--charter", charter, "--trust-head", charter)
    assert "is not the trust log" in found.error["what"]
