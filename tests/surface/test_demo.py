"""``make demo``'s promises: its own node only, everything shown, honest exit codes, nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from simulations.demo.child import MAX_DEMOS, claim
from simulations.demo.run import read_questions
from tests.house.rules import ROOT
from tests.surface.program import children, eventually, finish, gone, settings_in, spawn
from tests.unit.cli.door import open_door

QUESTIONS = "# a comment\nWhat is 12 times 11?\n\nWhat is the release codename?\nWho painted the ceiling of Hollow Ridge?\n"


def demo(folder: Path, settings: Path, questions: str = QUESTIONS) -> tuple[subprocess.Popen[bytes], Path]:
    file = folder / "questions.txt"
    file.write_text(questions)
    out = folder / "demo.out"
    args = ["--config", str(settings), "--run-dir", str(folder / "run"), "--questions", str(file)]
    return spawn("simulations.demo", *args, out=out), out


def asking(process: subprocess.Popen[bytes], out: Path) -> int:
    """Wait until it asks; the process id of its node."""
    eventually(lambda: "[1] " in out.read_text() or process.poll() is not None, "the demo asks")
    assert process.poll() is None, out.read_text()
    (child,) = children(process.pid)
    return child


def test_it_asks_its_own_node_shows_everything_and_writes_no_key(tmp_path: Path):
    settings = settings_in(tmp_path)
    (tmp_path / "own").mkdir(mode=0o700)
    with open_door(tmp_path / "own" / "node.sock") as other:
        process, out = demo(tmp_path, settings)
        code = finish(process)
        text = out.read_text()
        assert (code, other.asked) == (0, []), text
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["node.sock"]
    assert "  indexing notes (1 of 1 collections): " in text
    first, second, third = re.split(r"^\[\d\] ", text, flags=re.MULTILINE)[1:]
    assert first.startswith("What is 12 times 11?\n\n    132\n")
    for part in (first, second, third):
        assert re.search(r"^    route +\w+ question, ", part, re.MULTILINE)
        assert re.search(r"^    experts +.*\((symbolic|extractive), ", part, re.MULTILINE)
        assert re.search(r"by stage, in ms: .*synthesis \d", part)
        assert re.search(r"^    audit +[0-9a-f-]{36}, verified offline, a bundle of ", part, re.MULTILINE)
    assert "doc://notes/release.md" in second
    assert "Blue Heron" in second
    assert "\n    abstained: " in third
    assert "3 questions: 1 abstained, 2 answered; audits verified 3 of 3;" in third
    said = text + "".join(path.read_text(errors="replace") for path in (tmp_path / "run" / "demo").glob("*.log"))
    assert '"node.ready"' in said
    assert "gnus_live_" not in said
    process, out = demo(tmp_path, settings, "What is 2 + 2?\n")
    assert finish(process) == 0
    assert "passages, was indexed already" in out.read_text()


def test_a_node_that_dies_is_noticed_and_explained(tmp_path: Path):
    process, out = demo(tmp_path, settings_in(tmp_path), "What is 12 times 11?\n" * 5000)
    os.kill(asking(process, out), signal.SIGKILL)
    assert finish(process) == 1
    text = out.read_text()
    assert "the demo's node was ended by SIGKILL" in text
    assert "the end of " in text
    assert "Traceback" not in text


def test_a_node_that_cannot_start_is_explained(tmp_path: Path):
    settings = settings_in(tmp_path)
    settings.write_text(settings.read_text().replace('path = "notes"', 'path = "no-such-folder"'))
    process, out = demo(tmp_path, settings)
    assert finish(process) == 1
    text = out.read_text()
    assert "the demo's node ended with exit code " in text
    assert "audits verified 0 of 3" in text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)])
def test_it_leaves_no_node_behind_however_it_ends(tmp_path: Path, number: signal.Signals, code: int):
    process, out = demo(tmp_path, settings_in(tmp_path), "What is 12 times 11?\n" * 5000)
    node = asking(process, out)
    process.send_signal(number)
    assert finish(process) == code
    eventually(lambda: gone(node), "the node is gone")
    assert "Traceback" not in out.read_text()
    assert "Traceback" not in (tmp_path / "run" / "demo" / "demo.log").read_text()


def test_each_demo_claims_a_folder_of_its_own_and_gives_it_back(tmp_path: Path):
    held = [claim(tmp_path) for _ in range(MAX_DEMOS)]
    assert [folder.name for folder, _ in held] == ["demo", *(f"demo-{n}" for n in range(2, MAX_DEMOS + 1))]
    with pytest.raises(SystemExit, match="demos run already"):
        claim(tmp_path)
    os.close(held[2][1])
    folder, lock = claim(tmp_path)
    assert folder.name == "demo-3"
    for handle in (lock, *(lock for n, (_, lock) in enumerate(held) if n != 2)):
        os.close(handle)


def test_a_questions_file_that_is_no_use_is_named(tmp_path: Path):
    (tmp_path / "empty").write_text("# nothing\n\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, why in (("empty", "holds no question"), ("binary", "not UTF-8"), ("missing", "cannot be read")):
        with pytest.raises(SystemExit, match=why):
            read_questions(tmp_path / name)


def test_make_demo_hands_the_questions_over_and_leaves_no_settings_behind():
    shown = subprocess.run(
        ["make", "-n", "demo", "QUESTIONS=my questions.txt"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert '-m simulations.demo --questions "my questions.txt"' in shown
    assert not list((ROOT / "configs").glob(".demo*"))
