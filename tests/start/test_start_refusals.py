"""What a person reads when a node does not start: every error by itself, its fix, its exit code; never a traceback, never silence."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest
import trio

import gnus_node.process as process
from gnus_node.config import load_config
from gnus_node.records.enums import RoleName
from tests.start.world import command, flip, free_port, halve, running, said, write_settings

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, folder: Path, *more: str):
    return said(capsys, ["run", "--config", str(folder / "node.toml"), *more])


# -- the store and the key store ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["store/data.mdb", "keys/data.mdb", "keys/master.key"])
@pytest.mark.parametrize("how", ["gone", "empty", "half"])
def test_a_lost_store_is_refused_not_replaced(ran: Path, capsys: Capture, file: str, how: str):
    path = ran / "data" / file
    {"gone": path.unlink, "empty": lambda: os.truncate(path, 0), "half": lambda: halve(path)}[how]()
    before = path.read_bytes() if path.exists() else None
    found = refused(capsys, ran)
    assert (found.code, found.error["code"]) == (1, "STORE_CORRUPT")
    assert str(path) in found.error["what"]
    assert (path.read_bytes() if path.exists() else None) == before
    if how == "gone":
        doctor = said(capsys, ["doctor", "--json", "--config", str(ran / "node.toml")])
        assert any(c["state"] == "problem" and str(path) in c["what"] for c in json.loads(doctor.out)["checks"])


def test_whole_folders_deleted_are_a_loss_too(ran: Path, capsys: Capture):
    shutil.rmtree(ran / "data" / "store")
    shutil.rmtree(ran / "data" / "keys")
    assert refused(capsys, ran).error["code"] == "STORE_CORRUPT"
    assert not (ran / "data" / "store").exists()


def test_a_broken_tree_of_pages_is_refused(ran: Path, capsys: Capture):
    path = ran / "data" / "store" / "data.mdb"
    data = bytearray(path.read_bytes())
    for page in range(2 * 4096, len(data), 4096):
        data[page + 12 : page + 16] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)
    assert refused(capsys, ran).error["code"] == "STORE_CORRUPT"


def test_starting_over_is_asked_for_and_keeps_what_is_left(ran: Path):
    config = load_config(ran / "node.toml")
    halve(ran / "data" / "store" / "data.mdb")
    left = (ran / "data" / "store" / "data.mdb").read_bytes()
    starts = []

    async def main() -> None:
        from gnus_node.host.clock import SystemClock
        from gnus_node.host.entropy import SystemEntropy
        from gnus_node.host.offload import ThreadOffload
        from gnus_node.net.memory_transport import MemoryBus
        from gnus_node.node import Ports, open_node
        from gnus_node.ports.submit import Ask

        ports = Ports(SystemClock(), SystemEntropy(), ThreadOffload(), MemoryBus())
        for _ in range(2):
            async with open_node(config, ports, start_over=True) as node:
                answered = await node.submit.ask(node.operator, Ask("what is two plus two?"))
                assert "4" in answered.answer
                assert node.problems() == []
                starts.append(int((ran / "data" / "identity" / "incarnation").read_text()))

    trio.run(main)
    # The second start found a good store and left it alone. Numbers go on: no key signs one sequence number twice.
    assert starts == [2, 3]
    assert (ran / "data" / "store.lost-1" / "data.mdb").read_bytes() == left
    assert (ran / "data" / "keys.lost-1" / "master.key").exists()
    assert not (ran / "data" / "store.lost-2").exists()


def test_an_older_store_does_not_make_numbers_repeat(ran: Path, tmp_path: Path):
    config = load_config(ran / "node.toml")
    old = tmp_path / "old"
    shutil.copytree(ran / "data" / "store", old)

    async def start() -> int:
        from gnus_node.host.clock import SystemClock
        from gnus_node.host.entropy import SystemEntropy
        from gnus_node.host.offload import ThreadOffload
        from gnus_node.net.memory_transport import MemoryBus
        from gnus_node.node import Ports, open_node

        async with open_node(config, Ports(SystemClock(), SystemEntropy(), ThreadOffload(), MemoryBus())) as node:
            head = node.context.trust.state.head
            assert head is not None
            return head.header.seq >> 32

    first = trio.run(start)
    shutil.rmtree(ran / "data" / "store")
    shutil.copytree(old, ran / "data" / "store")
    assert trio.run(start) == first + 1


# -- keys -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*(f"role-{role}" for role in RoleName), "transport", "sealing", "authority", "policy", "approver"])
def test_one_flipped_bit_in_a_key_is_named(ran: Path, capsys: Capture, name: str):
    flip(ran / "data" / "identity" / f"{name}.seed", 7)
    found = refused(capsys, ran)
    assert (found.code, found.error["code"]) == (2, "CONFIG")
    assert f"identity/{name}.seed" in found.error["what"]
    assert name.removeprefix("role-").split("_")[0] in found.error["what"]


@pytest.mark.parametrize("name", ["role-router.seed", "transport.seed", "node_id"])
@pytest.mark.parametrize("how", ["gone", "half", "open"])
def test_a_key_file_that_is_missing_cut_or_open_to_others_is_named(ran: Path, capsys: Capture, name: str, how: str):
    path = ran / "data" / "identity" / name
    {"gone": path.unlink, "half": lambda: halve(path), "open": lambda: path.chmod(0o640)}[how]()
    found = refused(capsys, ran)
    assert found.code == 2
    assert str(path) in found.error["what"]


def test_every_damaged_key_is_told_at_once(ran: Path, capsys: Capture):
    for name in ("role-router", "role-grounding"):
        flip(ran / "data" / "identity" / f"{name}.seed", 3)
    found = refused(capsys, ran)
    assert found.code == 2
    assert [e["code"] for e in found.errors] == ["CONFIG", "CONFIG"]
    as_json = json.loads(refused(capsys, ran, "--json").out)
    assert as_json["error"] == as_json["errors"][0]
    assert len(as_json["errors"]) == 2


def test_roles_that_are_not_granted_are_refused(ran: Path, capsys: Capture):
    from gnus_node.host.entropy import SystemEntropy
    from gnus_node.membership import make_member

    shutil.rmtree(ran / "data" / "identity")
    other = ran / "other"
    make_member(other, SystemEntropy(), [RoleName.ROUTER])
    shutil.move(other / "identity", ran / "data" / "identity")
    found = refused(capsys, ran)
    assert "grants nothing to this node" in found.error["what"]


# -- other files of the data directory ------------------------------------------------------------------------------------------------


DAMAGES = [
    (file, how) for file in ("charter.json", "trust.json", "api_keys.json") for how in ("gone", "half", "empty", "folder", "bytes", "flip")
]
HARMLESS = {("api_keys.json", "gone"), ("api_keys.json", "flip")}
"""No file is no keys, and a changed hash is another key: it opens nothing."""


@pytest.mark.parametrize(("file", "how"), [damage for damage in DAMAGES if damage not in HARMLESS])
def test_damaged_files_are_named(ran: Path, capsys: Capture, file: str, how: str):
    path = ran / "data" / file
    if how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "bytes":
        path.write_bytes(b"\xff\xfe" * 40)
        path.chmod(0o600)
    elif how == "flip":
        flip(path, path.read_bytes().rindex(b'"') - 20)
    else:
        {"gone": path.unlink, "half": lambda: halve(path), "empty": lambda: os.truncate(path, 0)}[how]()
    found = refused(capsys, ran)
    assert (found.code, found.error["code"]) == (2, "CONFIG")
    assert str(path) in found.error["what"]
    for word in ("JSONDecodeError", "UnicodeDecodeError", "pydantic", "Errno"):
        assert word not in found.err


def test_without_an_identity_the_fix_is_init(tmp_path: Path, capsys: Capture):
    write_settings(tmp_path)
    found = said(capsys, ["run", "--config", str(tmp_path / "node.toml")])
    assert (found.code, found.error["code"]) == (2, "CONFIG")
    assert "init" in found.error["fix"]


def test_a_data_directory_that_others_can_enter_is_refused(ran: Path, capsys: Capture):
    (ran / "data").chmod(0o755)
    found = refused(capsys, ran)
    assert (found.code, found.error["code"]) == (2, "CONFIG")
    assert found.error["fix"] == f"chmod 700 {ran / 'data'}"


def test_init_closes_an_empty_directory_and_refuses_a_used_one(tmp_path: Path, capsys: Capture):
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o755)
    assert said(capsys, ["init", str(empty)]).code == 0
    assert empty.stat().st_mode & 0o777 == 0o700
    used = tmp_path / "used"
    used.mkdir(mode=0o755)
    (used / "file").touch()
    found = said(capsys, ["init", str(used)])
    assert (found.code, found.error["code"]) == (2, "CONFIG")
    assert list(used.iterdir()) == [used / "file"]


# -- what else is in the way ----------------------------------------------------------------------------------------------------------


def test_a_second_node_on_one_directory(ran: Path, capsys: Capture):
    with running(ran / "node.toml"):
        second = command("run", "--config", str(ran / "node.toml"))
        _, err = second.communicate(timeout=30)
        assert second.returncode == 1
        lines = [line for line in err.splitlines() if not line.startswith("{")]
        assert [line.split(":")[0] for line in lines] == ["what", "why", "fix", "code"]
        assert lines[-1].endswith("ALREADY_RUNNING")
        # Nor may its keys be replaced under it.
        forced = said(capsys, ["init", str(ran / "data"), "--force"])
        assert forced.error["code"] == "ALREADY_RUNNING"
        assert (ran / "data" / "identity" / "node_id").exists()


def test_a_port_that_is_taken(ran: Path, capsys: Capture):
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        write_settings(ran, listen=f"127.0.0.1:{port}")
        found = refused(capsys, ran)
    assert (found.code, found.error["code"]) == (2, "CONFIG")
    assert str(port) in found.error["what"]


def test_a_fault_of_the_program_goes_to_the_log_and_its_name_to_the_user(ran: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    async def broken(*_args: object, **_kw: object) -> None:
        async with trio.open_nursery():
            raise ZeroDivisionError("something private")

    monkeypatch.setattr(process, "_main", broken)
    found = refused(capsys, ran)
    assert (found.code, found.error["code"]) == (1, "INTERNAL")
    logged = [json.loads(line) for line in found.err.splitlines() if line.startswith("{")]
    assert [(row["event"], row["fault"]) for row in logged] == [("node.fault", "ZeroDivisionError")]
    assert "broken" in logged[0]["where"]
    assert "private" not in found.err + found.out
