"""Nothing that a user wrote, that a tool read, that was answered or remembered stands in clear in the data directory or the log: not after a
run, not after a crash, not after the restart. The search itself is proved on a node whose sealing is broken on purpose.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gnus_node.net.context as net_context
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.offload import ThreadOffload
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Ports, open_node
from gnus_node.ports.submit import Ask
from gnus_node.privacy.parcels import Vault
from gnus_node.records.base import Committed
from gnus_node.telemetry.log import FileSink, make_log
from tests.cluster.test_kill import Launcher
from tests.nodes import install_hands, loading, make_node

ASKED, EARLIER, READ, REMEMBERED, KEY, TAG = "quetzalq7x1", "kakapok2v9", "hoatzinh5w3", "capercaillie8d", "idempotenti4s", "tag-toucan6j"
CANARIES = (ASKED, EARLIER, READ, REMEMBERED, KEY, TAG)
NOTES = f"# Notes\n\nThe release codename is {READ}. The release date is 12 May 2031.\n"
QUESTIONS: list[dict[str, Any]] = [
    {"text": "What is the release codename in notes.md?", "context": f"user: I asked about {EARLIER} before", "key": KEY},
    {"text": f"What is the airspeed of a {ASKED}?"},
    {"text": f"Append the tag {TAG} to counter.txt"},
]


def forms(text: str) -> dict[str, bytes]:
    """How a text may stand in a file. Of base64 the part that does not depend on what stands beside it, for each of three places."""
    raw = text.encode()
    found = {
        "raw": raw,
        "utf-16": text.encode("utf-16-le"),
        "utf-16 be": text.encode("utf-16-be"),
        "utf-32": text.encode("utf-32-le"),
        "hex": raw.hex().encode(),
        "json": "".join(f"\\u{ord(c):04x}" for c in text).encode(),
        "reversed": raw[::-1],
    }
    for shift in range(3):
        padded = base64.b64encode(b"\0" * shift + raw)
        found[f"base64 {shift}"] = padded[4 if shift else 0 : (shift + len(raw)) // 3 * 4]
    return found


def leaks(folder: Path) -> list[str]:
    """Where a canary stands in the data directory or in the log, in any form, in either case."""
    files = [p for p in (folder / "data").rglob("*") if p.is_file()] + list(folder.glob("node.log*"))
    assert {"data.mdb", "api_keys.json"} <= {p.name for p in files}, "the search looks at nothing"
    return [f"{name} as {form} in {path.name}" for path in files for name, form in _found(path)]


def _found(path: Path) -> Iterator[tuple[str, str]]:
    data = path.read_bytes()
    folded = data.lower()
    for name in CANARIES:
        for form, wanted in forms(name).items():
            if wanted in data or (not form.startswith("base64") and wanted.lower() in folded):
                yield name, form


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    found = Launcher()
    try:
        yield found
    finally:
        found.close()


def test_after_a_run_nothing_stands_in_clear(launcher: Launcher, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    result = launcher.run(folder, questions=QUESTIONS, notes=NOTES, remember=[f"My bird is called {REMEMBERED}."], log_level="debug")
    assert result["status"] == 0, result["said"][-1]
    rows = {row["text"]: row for row in result["said"][-1]["terminals"]}
    assert rows[QUESTIONS[0]["text"]]["answer"] == f"The release codename is {READ}."
    assert set(rows) == {q["text"] for q in QUESTIONS}, "the texts can be read, by whoever has the keys"
    assert leaks(folder) == []


@pytest.mark.parametrize("point", ["acceptance.committed", "effect.executed", "ingress.own_verify", "answer.queued", "settlement.send"])
def test_after_a_crash_and_after_the_restart_nothing_stands_in_clear(launcher: Launcher, tmp_path: Path, point: str) -> None:
    folder = tmp_path / "node"
    hit = 3 if point == "acceptance.committed" else 1
    note = [f"My bird is called {REMEMBERED}."]
    died = launcher.run(folder, questions=QUESTIONS, notes=NOTES, remember=note, log_level="debug", point=point, hit=hit)
    assert died["status"] == -9
    assert leaks(folder) == []
    healed = launcher.run(folder, log_level="debug")
    assert healed["status"] == 0
    assert leaks(folder) == []


class ClearVault(Vault):
    """Broken on purpose: its parcels carry the text beside the ciphertext."""

    def commit(self, text: str) -> Committed:
        made = super().commit(text)
        self._parcels[made.commitment] += text.encode()
        return made


async def test_the_search_finds_what_is_not_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_context, "Vault", ClearVault)
    undo = install_hands()
    folder = tmp_path / "node"
    clock, entropy = SystemClock(), SystemEntropy()
    config = make_node(folder, entropy, clock, notes=NOTES)
    log = make_log(FileSink(folder / "node.log"), clock=clock, level="debug")
    try:
        ports = Ports(clock, entropy, ThreadOffload(), MemoryBus(), log=log, load_class=loading(folder))
        async with open_node(config, ports) as node:
            for question in QUESTIONS:
                await node.submit.ask(node.operator, Ask(question["text"], question.get("context", "")))
    finally:
        undo()
    found = leaks(folder)
    for name in (ASKED, EARLIER, READ, TAG):
        assert f"{name} as raw in data.mdb" in found


@pytest.mark.parametrize("form", sorted(forms(ASKED)))
def test_the_search_finds_every_form(tmp_path: Path, form: str) -> None:
    for name, text in (("data.mdb", ""), ("api_keys.json", "{}")):
        (tmp_path / "data" / "store").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "store" / name).write_text(text)
    (tmp_path / "node.log").write_bytes(b"before" + forms(ASKED)[form] + b"after")
    assert f"{ASKED} as {form} in node.log" in leaks(tmp_path)


def test_json_with_the_canary_is_found(tmp_path: Path) -> None:
    for name in ("data.mdb", "api_keys.json"):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_text(json.dumps({"question": ASKED.upper()}))
    assert len(leaks(tmp_path)) == 2
