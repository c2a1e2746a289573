"""``config check`` says of settings what ``run`` says: one list of checks, each fault by file and line; derived data is made anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from gnus_node.config import load_config
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Ports, open_node
from tests.api.world import ListLog
from tests.start.world import flip, free_port, halve, said, write_settings

Capture = pytest.CaptureFixture[str]

REFUSED = {
    "an adapter nobody has": ('[tools]\nallow = ["files.raed"]\n', "files.read"),
    "an adapter that is no class": ('[tools]\nallow = ["x.y"]\nadapter_paths = ["os:system"]\n', "module:Class"),
    "an adapter not installed": ('[tools]\nallow = ["x.y"]\nadapter_paths = ["no_such_module:Tool"]\n', "install"),
    "a path without a name": ('[tools]\nallow = ["files.read"]\nadapter_paths = ["os:system"]\n', "tools.allow"),
    "a root that is not there": ('[tools]\nallow = ["files.read"]\nroots = ["nowhere"]\n', "path"),
    "a folder that is not there": ('[[corpora]]\nname = "b"\nkind = "folder"\npath = "nowhere"\nuri_prefix = "doc://b/"\n', "path"),
    "a corpus nobody has": ('[experts.e]\nkind = "extractive"\noptions = { corpora = ["note"] }\n', "notes"),
    "a model without a URL": ('[experts.e]\nkind = "openai"\noptions = { model = "m", model_license = "x" }\n', "experts.e"),
    "a URL that is none": (
        '[experts.e]\nkind = "openai"\noptions = { base_url = "http://[::", model = "m", model_license = "x" }\n',
        "experts.e",
    ),
    "an option nobody reads": ('[experts.e]\nkind = "symbolic"\noptions = { slot = 2 }\n', "slots"),
    "a cassette that is not there": ('[experts.e]\nkind = "replay"\noptions = { cassette = "nowhere" }\n', "path"),
    "a policy that is not there": ('[policy]\nfiles = ["nowhere.toml"]\n', "path"),
    "a log in no folder": ('[telemetry]\nlog_file = "nowhere/node.log"\n', "path"),
    "a key file that is not there": ('[net]\nlisten = ["/ip4/127.0.0.1/tcp/18190"]\npsk_file = "nowhere"\n', "64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_check_run_and_doctor_say_the_same(ran: Path, capsys: Capture, case: str):
    more, hint = REFUSED[case]
    file = write_settings(ran, more=more)
    checked = said(capsys, ["config", "check", str(file)])
    started = said(capsys, ["run", "--config", str(file)])
    doctor = json.loads(said(capsys, ["doctor", "--json", "--config", str(file)]).out)
    assert checked.code == started.code == 2
    assert [e["what"].split(": ", 1)[1] for e in checked.errors] == [e["what"] for e in started.errors] or more.startswith("[policy]")
    first = checked.errors[0]
    assert first["what"].startswith(f"{file}:")
    assert hint in first["fix"]
    assert all(any(e["what"] in c["what"] for c in doctor["checks"] if c["state"] == "problem") for e in started.errors)


def test_everything_wrong_is_told_at_once(ran: Path, capsys: Capture):
    file = write_settings(ran, more=REFUSED["an adapter nobody has"][0] + REFUSED["an option nobody reads"][0])
    assert [e["code"] for e in said(capsys, ["config", "check", str(file)]).errors] == ["CONFIG", "CONFIG"]
    assert len(said(capsys, ["run", "--config", str(file)]).errors) == 2


def test_what_check_passes_starts(ran: Path, capsys: Capture):
    file = write_settings(ran)
    assert said(capsys, ["config", "check", str(file)]).code == 0
    doctor = json.loads(said(capsys, ["doctor", "--json", "--config", str(file)]).out)
    assert ("start", "ok") in [(c["name"], c["state"]) for c in doctor["checks"]]


def test_a_model_server_that_is_down_is_one_error(ran: Path, capsys: Capture):
    url = f"http://127.0.0.1:{free_port()}/v1"
    file = write_settings(
        ran, more=f'[experts.e]\nkind = "openai"\noptions = {{ base_url = "{url}", model = "m", model_license = "x", connect_s = 1 }}\n'
    )
    found = said(capsys, ["run", "--config", str(file)])
    assert (found.code, found.error["code"]) == (1, "UNREACHABLE")


def started(settings: Path) -> tuple[list[tuple[str, str]], str]:
    """Start once; what the log says became of the corpora, and an answer from one."""
    log = ListLog()
    config = load_config(settings)

    async def once() -> str:
        from gnus_node.ports.submit import Ask

        async with open_node(config, Ports(SystemClock(), SystemEntropy(), ThreadOffload(), MemoryBus(), log=log)) as node:
            return (await node.submit.ask(node.operator, Ask("When does the ferry leave?"))).answer

    answer = trio.run(once)
    return [(level, event) for level, event, _ in log.lines if event in ("corpus.damaged", "corpus.ready")], answer


@pytest.mark.parametrize("part", ["passages", "terms"])
@pytest.mark.parametrize("how", ["half", "empty", "flip", "gone", "noise"])
def test_a_damaged_index_is_built_again(ran: Path, part: str, how: str):
    file = ran / "data" / "corpora" / f"notes.{part}"
    whole = file.stat().st_size
    damage: dict[str, Callable[[], object]] = {
        "half": lambda: halve(file),
        "empty": lambda: os.truncate(file, 0),
        "flip": lambda: flip(file, whole - 40),
        "gone": file.unlink,
        "noise": lambda: file.write_bytes(b"\x5a" * whole),
    }
    damage[how]()
    lines, answer = started(ran / "node.toml")
    assert lines == [("warning", "corpus.damaged"), ("info", "corpus.ready")]
    assert "07:40" in answer
    # And now it holds: nothing is built or complained of again.
    assert started(ran / "node.toml")[0] == [("info", "corpus.ready")]


def test_new_documents_are_no_damage(ran: Path):
    assert started(ran / "node.toml")[0] == [("info", "corpus.ready")]
    (ran / "notes" / "a.md").write_text("# Ferry\n\nThe ferry leaves at 09:15.\n")
    lines, answer = started(ran / "node.toml")
    assert lines == [("info", "corpus.ready")]
    assert "09:15" in answer
