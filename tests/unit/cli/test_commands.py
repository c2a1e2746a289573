"""What a user sees of each command: text, JSON, four-line errors and exit codes, over a real unix socket."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socket as sockets
import stat
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.cli.main import main
from gnus_node.cli.output import clean
from gnus_node.records.errors import CODES
from tests.house.rules import ROOT
from tests.unit.cli.door import ANSWER, Door, open_door

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with open_door(tmp_path / "node.sock") as opened:
        yield opened


def four_lines(text: str) -> dict[str, str]:
    """The error on standard error, which must be exactly the four lines."""
    lines = text.splitlines()
    assert [line.split(":")[0] for line in lines] == ["what", "why", "fix", "code"]
    return {line.split(":")[0]: line.split(":", 1)[1].strip() for line in lines}


def test_ask_prints_the_answer_first_and_then_what_it_rests_on(door: Door, capsys: Capture):
    door.replies["POST", "/admin/ask"] = (200, ANSWER)
    assert main(["ask", "capital of Kenya?", "--max-spend", "0.5", "--max-wall-ms", "900", "--socket", str(door.socket)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Nairobi"
    assert lines[1:5] == ["", "Sources", "  [1] Kenya  factbook://kenya", '      "capital: Nairobi"']
    assert lines[6:] == [
        "route      fact question",
        "experts    core (extractive)",
        "           reader (not needed)",
        "agreement  100 %",
        "time       4.0 ms in all",
        "           by stage, in ms: ground 3.5",
        "audit      2b1f6f5e-0f2c-4b9e-9a51-6c1f0a6a7f10, every link holds (proved)",
    ]
    assert door.asked == [("POST", "/admin/ask", {"question": "capital of Kenya?", "max_wall_ms": 900, "max_spend": 500_000})]


@pytest.mark.parametrize("args", [["ask", "q", "--json"], ["--json", "ask", "q"]])
def test_ask_json_is_the_node_s_own_object(door: Door, capsys: Capture, args: list[str]):
    door.replies["POST", "/admin/ask"] = (200, ANSWER)
    assert main([*args, "--socket", str(door.socket)]) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER


@pytest.mark.parametrize(
    ("outcome", "code", "expected"),
    [
        ("abstained", "NO_EVIDENCE", 0),
        ("pending_approval", "APPROVAL_REQUIRED", 0),
        ("failed", "BACKEND_FAILED", 1),
        ("failed", "CAPABILITY_DENIED", 4),
        ("partial_effects", "PARTIAL_EFFECTS", 1),
        ("cancelled", "CANCELLED", 1),
        ("failed", "SOMETHING_NEW", 1),
    ],
)
def test_the_exit_code_says_how_the_request_ended(door: Door, capsys: Capture, outcome: str, code: str, expected: int):
    door.replies["POST", "/admin/ask"] = (200, {**ANSWER, "answer": "", "outcome": outcome, "reason_code": code, "reason": "why so"})
    assert main(["ask", "q", "--socket", str(door.socket)]) == expected
    assert capsys.readouterr().out.splitlines()[0] == f"{outcome.replace('_', ' ')}: why so"


def test_a_typed_error_of_the_node_keeps_its_code_and_exit(door: Door, capsys: Capture):
    error = {"message": "the key may not", "gnus": {"code": "FORBIDDEN", "fix": "use another"}}
    door.replies["POST", "/admin/ask"] = (403, {"error": error})
    assert main(["ask", "q", "--socket", str(door.socket)]) == 4
    assert four_lines(capsys.readouterr().err) == {
        "what": "the key may not",
        "why": CODES["FORBIDDEN"].meaning,
        "fix": "use another",
        "code": "FORBIDDEN",
    }
    assert main(["ask", "q", "--json", "--socket", str(door.socket)]) == 4
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out)["error"]["code"] == "FORBIDDEN"


@pytest.mark.parametrize(
    "reply", [(500, b"<html>"), (500, {"error": "x"}), (502, {"error": {"message": 1, "gnus": {}}}), (200, b"not json")]
)
def test_an_answer_that_is_not_the_node_s_is_a_protocol_error(door: Door, capsys: Capture, reply: tuple[int, object]):
    door.replies["GET", "/admin/status"] = reply
    assert main(["status", "--socket", str(door.socket)]) == 1
    assert four_lines(capsys.readouterr().err)["code"] == "PROTOCOL"


def test_no_socket_and_a_dead_socket_are_not_running(tmp_path: Path, capsys: Capture):
    path = tmp_path / "node.sock"
    assert main(["status", "--data-dir", str(tmp_path)]) == 3
    dead = sockets.socket(sockets.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    assert main(["status", "--data-dir", str(tmp_path)]) == 3
    path.unlink()
    path.write_text("no socket")
    assert main(["status", "--socket", str(path)]) == 3
    assert capsys.readouterr().err.count("code: NOT_RUNNING") == 3


def test_a_node_that_hangs_up_is_told_from_one_that_is_not_there(tmp_path: Path, capsys: Capture):
    import threading

    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "node.sock"))
        listener.listen()

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert main(["status", "--data-dir", str(tmp_path)]) == 1
        thread.join()
    assert four_lines(capsys.readouterr().err)["code"] == "PROTOCOL"


def test_a_socket_path_longer_than_the_kernel_takes_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture):
    deep = tmp_path.joinpath(*["a" * 40] * 4)
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    with open_door(Path("node.sock")) as opened:
        opened.replies["GET", "/admin/status"] = (200, {"problems": [], "node_id": "n1"})
        monkeypatch.chdir(ROOT)
        assert main(["status", "--data-dir", str(deep)]) == 0
    assert "n1" in capsys.readouterr().out


def test_status_shows_problems_first(door: Door, capsys: Capture):
    door.replies["GET", "/admin/status"] = (200, {"node_id": "n1", "problems": ["trust head is stale"], "roles": ["router"]})
    assert main(["status", "--socket", str(door.socket)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "problem: trust head is stale"


def test_the_other_admin_commands_ask_the_documented_paths(door: Door, capsys: Capture):
    where = ["--socket", str(door.socket)]
    door.replies["POST", "/admin/plan"] = (200, {"mode": "elm_assisted", "experts": [{"id": "core"}]})
    door.replies["POST", "/admin/memory/search"] = (200, {"object": "list", "data": [{"content": "tea at four"}]})
    door.replies["POST", "/admin/memory"] = (200, {"id": "e1"})
    door.replies["GET", "/admin/tools"] = (200, {"object": "list", "data": [{"name": "files.read"}]})
    door.replies["GET", "/admin/status"] = (200, {"trust": {"epoch": 3}})
    assert main(["plan", "q", *where]) == 0
    assert main(["memory", "search", "tea", "--limit", "3", *where]) == 0
    assert main(["memory", "add", "tea at four", *where]) == 0
    assert main(["tools", "list", *where]) == 0
    assert main(["trust", "show", *where]) == 0
    out = capsys.readouterr().out
    for text in ("elm assisted", "[1] tea at four", "event  e1", "files.read", "trust head  3"):
        assert text in out
    assert [body for _, _, body in door.asked] == [
        {"question": "q"},
        {"query": "tea", "limit": 3},
        {"content": "tea at four", "memory_class": "fact"},
        None,
        None,
    ]


def test_an_exported_bundle_is_private_whole_and_never_overwrites(door: Door, tmp_path: Path, capsys: Capture):
    target = tmp_path / "b.bundle"
    door.replies["GET", "/admin/audit/id-1?payloads=0"] = (200, b"\x00raw")
    args = ["audit", "export", "id-1", "-o", str(target), "--socket", str(door.socket)]
    assert main(args) == 0
    assert target.read_bytes() == b"\x00raw"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert main(args) == 2
    assert "exists already" in four_lines(capsys.readouterr().err)["what"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.bundle", "node.sock"]
    assert main(["audit", "export", "../x?y", "-o", str(tmp_path / "c"), "--socket", str(door.socket)]) == 1
    assert door.asked[-1][1] == "/admin/audit/..%2Fx%3Fy?payloads=0"


@pytest.mark.parametrize(
    "args",
    [
        ["ask"],
        ["ask", "q", "--bogus"],
        ["ask", "q", "--max-spend", "1e-9"],
        ["ask", "q", "--max-spend", "nan"],
        ["ask", "q", "--max-wall-ms", "0"],
        ["memory"],
        ["memory", "serch", "x"],
        ["memory", "add", "x", "--class", "gossip"],
        ["ask", "q", "--answer-type", "xml"],
        ["ask", "q", "--privacy-mode", "none"],
        ["stattus"],
        ["--bogus"],
        ["audit", "verify", "/nonexistent", "--charter", "/nonexistent"],
        ["config", "key", "--mode", "dead"],
    ],
)
def test_wrong_use_is_exit_two_in_four_lines(args: list[str], capsys: Capture):
    assert main(args) == 2
    assert four_lines(capsys.readouterr().err)["code"] == "USAGE"


def test_a_mistyped_command_gets_the_nearest(capsys: Capture):
    main(["statsu"])
    assert "gnus-node status" in four_lines(capsys.readouterr().err)["fix"]


def test_config_check_points_at_the_line(tmp_path: Path, capsys: Capture):
    path = tmp_path / "node.toml"
    path.write_text("[api]\nlistten = 1\n")
    assert main(["config", "check", str(path)]) == 2
    error = four_lines(capsys.readouterr().err)
    assert f"{path}:2:" in error["what"]
    assert error["fix"] == "did you mean 'listen'?"
    assert main(["config", "check", str(ROOT / "configs" / "node.toml")]) == 0


def test_config_check_refuses_roles_the_profile_forbids(tmp_path: Path, capsys: Capture):
    path = tmp_path / "node.toml"
    path.write_text('[node]\nprofile = "high_trust"\n')
    assert main(["config", "check", str(path)]) == 4
    assert four_lines(capsys.readouterr().err)["code"] == "COLOCATION"


def test_config_show_masks_secrets(tmp_path: Path, capsys: Capture):
    path = tmp_path / "node.toml"
    path.write_text(
        '[experts.a]\nkind = "openai"\nlicense = "MIT"\noptions = { api_key = "sk-canary", base_url = "http://127.0.0.1:1/v1" }\n'
    )
    for extra in ([], ["--json"]):
        assert main(["config", "show", str(path), *extra]) == 0
        out = capsys.readouterr().out
        assert "canary" not in out
        assert "http://127.0.0.1:1/v1" in out


def test_doctor_works_without_a_node_and_lists_the_worst_first(tmp_path: Path, capsys: Capture):
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    path = tmp_path / "node.toml"
    path.write_text(f'[node]\ndata_dir = "{data}"\n')
    assert main(["doctor", "--config", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 problem to mend"
    assert lines[1].split()[:2] == ["problem", "data_dir"]
    assert lines[2].strip() == f"chmod 700 {data}"
    data.chmod(0o700)
    assert main(["doctor", "--config", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    states = [check["state"] for check in report["checks"]]
    assert states == sorted(states, key=["problem", "warn", "missing", "note", "ok"].index)
    assert {"python", "sqlite", "lmdb", "openat2", "data_dir", "space", "node"} <= {check["name"] for check in report["checks"]}


def test_doctor_shows_what_the_running_node_reports(door: Door, capsys: Capture):
    finding = {"what": "head key is on the node", "why": "profile dev", "fix": "delegate it", "code": "TRUST_STALE"}
    door.replies["GET", "/admin/doctor"] = (200, {"object": "list", "data": [finding]})
    door.replies["GET", "/admin/status"] = (200, {"bytes_per_table": {"journal": 4096}})
    assert main(["doctor", "--socket", str(door.socket)]) == 1
    out = capsys.readouterr().out
    assert "head key is on the node" in out.splitlines()[1]
    assert out.splitlines()[-1].split() == ["ok", "tables", "journal", "4.0", "KiB"]


def test_nothing_from_outside_acts_on_the_terminal(door: Door, capsys: Capture):
    door.replies["POST", "/admin/ask"] = (
        200,
        {**ANSWER, "answer": "a\x1b[2Jb\x9bc\u202ed\rhidden", "sources": [{"title": "\x1b]0;t\x07"}]},
    )
    assert main(["ask", "q", "--socket", str(door.socket)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "a[2Jbcdhidden"
    assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(out)


@given(st.text())
def test_clean_text_has_no_controls_and_loses_nothing_else(text: str):
    cleaned = clean(text)
    assert all(c in "\n\t" or c.isprintable() or ord(c) > 0x9F for c in cleaned)
    assert [c for c in text if c.isalnum() or c in " \n\t.,"] == [c for c in cleaned if c.isalnum() or c in " \n\t.,"]


def test_a_question_comes_from_standard_input(door: Door):
    door.replies["POST", "/admin/ask"] = (200, ANSWER)
    command = [sys.executable, "-m", "gnus_node", "ask", "-", "--socket", str(door.socket)]
    done = subprocess.run(command, input=b"what is tea?\n", cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"Nairobi\n")
    assert door.asked[-1][2] == {"question": "what is tea?"}
    assert subprocess.run(command, input=b"\xff", cwd=ROOT, capture_output=True).returncode == 2


def test_a_reader_that_goes_away_is_no_traceback(door: Door):
    door.replies["POST", "/admin/ask"] = (200, {**ANSWER, "answer": "x" * 1_000_000})
    command = [sys.executable, "-m", "gnus_node", "ask", "q", "--socket", str(door.socket)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    with child:
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 1


def on_a_terminal(args: list[str], columns: int = 80, **environment: str) -> bytes:
    """What a command prints on a terminal of that width; it must end well."""
    main_end, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [sys.executable, "-m", "gnus_node", *args]
    environment = {**{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}, "TERM": "xterm-256color", **environment}
    with subprocess.Popen(command, cwd=ROOT, stdout=side, stderr=side, env=environment) as child:
        os.close(side)
        shown = b""
        try:
            while part := os.read(main_end, 65536):
                shown += part
        except OSError:
            pass  # A pty reports the end of its other side as EIO.
    os.close(main_end)
    assert child.returncode == 0
    return shown


def test_styled_output_appears_on_a_terminal_only(door: Door):
    door.replies["POST", "/admin/ask"] = (200, ANSWER)
    args = ["ask", "q", "--socket", str(door.socket)]
    assert b"\x1b[1mNairobi\x1b[0m" in on_a_terminal(args)
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        shown = on_a_terminal(args, **plain)
        assert shown.startswith(b"Nairobi\r\n")
        assert b"\x1b" not in shown


@pytest.mark.parametrize("columns", [80, 120])
def test_an_answer_fits_the_terminal(door: Door, columns: int):
    long = {**ANSWER, "answer": "word " * 200 + "\n\nSources disagree.", "route": {"intent": "fact", "experts": ["expert"] * 40}}
    door.replies["POST", "/admin/ask"] = (200, long)
    lines = on_a_terminal(["ask", "q", "--socket", str(door.socket)], columns, NO_COLOR="1").decode().splitlines()
    assert max(map(len, lines)) <= min(columns, 100)
    at = lines.index("Sources disagree.")
    assert lines[at - 1] == ""
