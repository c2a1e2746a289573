"""One server for the nodes of a machine: shared, watched, taken over, and closed to everybody else."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from gnus_node.host import InlineOffload, SystemEntropy, servers
from gnus_node.host.runtime import Lock, read_note, runtime_folder, write_note
from gnus_node.host.servers import NoServers, SharedServers, checked_facts, open_servers, server_id
from gnus_node.ports.servers import Endpoint, Servers, ServerSpec
from gnus_node.records.errors import GnusError

from .machine import STAND_IN, KeptLog, alive, python, until


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runtime folder with a short path."""
    made = tmp_path_factory.mktemp("r")
    made.chmod(0o700)
    return made


def spec(mode: str = "serve", name: str = "one", **more: float) -> ServerSpec:
    return ServerSpec(name, {"name": name, "mode": mode}, STAND_IN, {"mode": mode, "name": name}, memory_bytes=1024**3, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def node(folder: Path, log: KeptLog | None = None) -> AsyncIterator[SharedServers]:
    """The servers as one node sees them."""
    async with open_servers(entropy=SystemEntropy(), offload=InlineOffload(), log=log or KeptLog(), folder=folder) as made:
        yield made


def process_of(endpoint: Endpoint) -> int:
    """The process that answers on a socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(endpoint.socket)
        return int(connection.recv(32))


async def test_equal_specs_share_a_server_and_others_do_not(folder: Path) -> None:
    with trio.fail_after(60):
        async with node(folder) as first, node(folder) as second:
            one, two = await first.lease(spec()), await second.lease(spec())
            within = await first.lease(spec())
            other = await second.lease(spec(name="other"))
            endpoint = await one.endpoint()
            assert endpoint.facts == {"name": "one"}
            assert endpoint == await two.endpoint() == await within.endpoint()
            assert process_of(endpoint) != process_of(await other.endpoint())
            assert stat.S_IMODE(os.stat(endpoint.socket).st_mode) & 0o077 == 0
            note = folder / f"{server_id(spec())}.json"
            assert stat.S_IMODE(note.stat().st_mode) == 0o600
            assert endpoint.api_key not in repr(endpoint)


async def test_the_last_user_ends_it_and_nothing_is_left_that_names_it(folder: Path) -> None:
    with trio.fail_after(60):
        async with node(folder) as one:
            first, second = await one.lease(spec()), await one.lease(spec())
            pid = process_of(await first.endpoint())
            await first.aclose()
            await first.aclose()
            assert process_of(await second.endpoint()) == pid
            with pytest.raises(GnusError):
                await first.endpoint()
            await second.aclose()
            assert not alive(pid)
    assert os.listdir(folder) == [f"{server_id(spec())}.lock"]


async def test_when_the_holder_goes_the_other_node_takes_over(folder: Path) -> None:
    with trio.fail_after(60):
        async with node(folder) as survivor:
            async with node(folder) as holder:
                held = await holder.lease(spec())
                before = await held.endpoint()
                lease = await survivor.lease(spec())
                assert await lease.endpoint() == before
                pid = process_of(before)
            after = await lease.endpoint()
            assert not alive(pid)
            assert process_of(after) != pid
            assert (after.socket, after.api_key) != (before.socket, before.api_key)


async def test_it_takes_over_without_being_asked(folder: Path) -> None:
    log = KeptLog()
    with trio.fail_after(60):
        async with node(folder, log) as survivor:
            async with node(folder) as holder:
                await (await holder.lease(spec())).endpoint()
                await survivor.lease(spec())
            await until(lambda: bool(log.named("server.ready")))


async def test_a_killed_server_is_started_again(folder: Path) -> None:
    log = KeptLog()
    with trio.fail_after(60):
        async with node(folder, log) as one:
            lease = await one.lease(spec())
            first = process_of(await lease.endpoint())
            os.kill(first, signal.SIGKILL)
            await until(lambda: bool(log.named("server.process_ended")))
            second = process_of(await lease.endpoint())
            assert second != first
    assert log.named("server.process_ended")[0]["ending"] == "SIGKILL"


async def test_one_that_always_dies_is_given_up_with_a_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "FIRST_PAUSE_S", 0.001)
    log = KeptLog()
    with trio.fail_after(60):
        async with node(folder, log) as one:
            lease = await one.lease(spec("die"))
            for _ in range(2):
                with pytest.raises(GnusError) as failed:
                    await lease.endpoint()
                assert failed.value.code == "BACKEND_FAILED"
    assert len(log.named("server.process_ended")) == servers.MAX_DEATHS + 1


async def test_after_the_pause_it_is_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "COOL_S", 0.0)
    log = KeptLog()
    with trio.fail_after(60):
        async with node(folder, log) as one:
            lease = await one.lease(spec("refuse"))
            with trio.move_on_after(20):
                while len(log.named("server.process_ended")) < 2:
                    with trio.move_on_after(1):
                        await lease.endpoint()
    assert len(log.named("server.process_ended")) >= 2


async def test_what_the_program_refuses_is_said_and_not_tried_again(folder: Path) -> None:
    log = KeptLog()
    with trio.fail_after(60):
        async with node(folder, log) as one:
            lease = await one.lease(spec("refuse"))
            for _ in range(2):
                with pytest.raises(GnusError) as refused:
                    await lease.endpoint()
                assert (refused.value.code, refused.value.what) == ("CONFIG", "the stand-in refuses")
    assert len(log.named("server.process_ended")) == 1


async def test_one_that_never_becomes_ready_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "MAX_DEATHS", 0)
    log = KeptLog()
    with trio.fail_after(60):
        async with node(folder, log) as one:
            lease = await one.lease(spec("silent", start_s=0.3))
            with pytest.raises(GnusError) as late:
                await lease.endpoint()
            assert late.value.code == "BACKEND_FAILED"
    assert log.named("server.process_ended")[0]["ending"].startswith("SIG")


async def test_what_users_wrote_does_not_reach_the_log_by_standard_error(folder: Path) -> None:
    log = KeptLog()
    with trio.fail_after(60):
        async with node(folder, log) as one:
            await (await one.lease(spec())).endpoint()
            await until(lambda: any("place" in fields for fields in log.named("server.stderr")))
    assert {"server": "one", "line": "starting"} in log.named("server.stderr")
    assert {"server": "one", "place": "engine/core.c:42"} in log.named("server.stderr")
    assert "question" not in repr(log.lines)


HOLDER = """
import sys, trio
from pathlib import Path
from gnus_node.host import InlineOffload, SystemEntropy
from gnus_node.host.servers import open_servers
from tests.unit.host.machine import KeptLog
from tests.unit.host.test_servers import process_of, spec

async def main():
    async with open_servers(entropy=SystemEntropy(), offload=InlineOffload(), log=KeptLog(), folder=Path(sys.argv[1])) as servers:
        lease = await servers.lease(spec())
        print(process_of(await lease.endpoint()), flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_killed_holder_is_followed_by_the_survivor(folder: Path) -> None:
    holder = python(HOLDER, str(folder))
    try:
        assert holder.stdout is not None
        with trio.fail_after(90):
            pid = int(await trio.to_thread.run_sync(holder.stdout.readline))
            async with node(folder) as survivor:
                lease = await survivor.lease(spec())
                assert process_of(await lease.endpoint()) == pid
                holder.send_signal(signal.SIGKILL)
                await trio.to_thread.run_sync(holder.wait)
                after = process_of(await lease.endpoint())
                assert after != pid
                await until(lambda: not alive(pid))
                assert alive(after)
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda note: {**note, "socket": "../elsewhere.sock"},
        lambda note: {**note, "socket": f"{'0' * 16}-{'0' * 8}.sock"},
        lambda note: {**note, "api_key": "short"},
        lambda note: {**note, "facts": {"name": ["a list"]}},
        lambda note: {**note, "more": 1},
    ],
)
async def test_a_note_that_cannot_be_believed_is_not_followed(folder: Path, change: object) -> None:
    name = server_id(spec())
    good = {"socket": f"{name}-{'0' * 8}.sock", "api_key": "0" * 64, "facts": {"name": "one"}}
    lock = Lock(folder / f"{name}.lock")
    assert lock.take()
    try:
        async with node(folder) as one:
            lease = await one.lease(spec())
            write_note(folder / f"{name}.json", good)
            with trio.fail_after(20):
                assert (await lease.endpoint()).socket == str(folder / good["socket"])  # type: ignore[operator]
            write_note(folder / f"{name}.json", change(good))  # type: ignore[operator]
            with trio.move_on_after(0.5) as waiting:
                await lease.endpoint()
            assert waiting.cancelled_caught
    finally:
        lock.release()


def test_a_note_open_to_others_or_behind_a_link_is_none(folder: Path) -> None:
    note = folder / "note.json"
    write_note(note, {"a": 1})
    assert read_note(note) == {"a": 1}
    (folder / "link.json").symlink_to(note)
    assert read_note(folder / "link.json") is None
    note.chmod(0o640)
    assert read_note(note) is None
    assert read_note(folder / "missing.json") is None
    assert read_note(folder) is None
    write_note(note, {"a": "x" * 100_000})
    assert read_note(note) is None
    os.mkfifo(folder / "pipe.json", 0o600)
    assert read_note(folder / "pipe.json") is None


def test_a_runtime_folder_is_ours_alone_or_refused(folder: Path) -> None:
    made = folder / "new"
    assert runtime_folder(made) == made
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    made.chmod(0o750)
    (folder / "link").symlink_to(folder)
    (folder / "file").touch(0o600)
    for wrong in (made, folder / "link", folder / "file", folder / "no" / "parent", folder / ("x" * 80)):
        with pytest.raises(GnusError) as refused:
            runtime_folder(wrong)
        assert refused.value.code == "CONFIG"


def test_the_default_runtime_folder_is_private() -> None:
    found = runtime_folder(None)
    try:
        assert stat.S_IMODE(found.stat().st_mode) == 0o700
        assert found.stat().st_uid == os.geteuid()
    finally:
        with suppress(OSError):
            found.rmdir()  # unless nodes of this user are using it


def test_a_lock_is_held_by_one_and_let_go_with_it(folder: Path) -> None:
    one, two = Lock(folder / "l"), Lock(folder / "l")
    assert one.take()
    assert one.take()
    assert not two.take()
    one.release()
    assert two.take()
    two.release()
    (folder / "open").touch()
    (folder / "open").chmod(0o666)
    with pytest.raises(GnusError):
        Lock(folder / "open").take()


def test_facts_are_small_and_flat() -> None:
    assert checked_facts({"a": 1, "b": "x", "c": True}) == {"a": 1, "b": "x", "c": True}
    for wrong in ([], {"a": None}, {"a": "x" * 300}, {"a": 1.5}, {str(n): n for n in range(40)}, {"k" * 65: 1}):
        assert checked_facts(json.loads(json.dumps(wrong))) is None


async def test_without_a_machine_nothing_is_started(tmp_path: Path) -> None:
    none: Servers = NoServers()
    assert none.installed("pytest") is None
    for work in (none.measure(tmp_path, 1), none.lease(spec())):
        with pytest.raises(GnusError):
            await work


async def test_versions_of_packages(folder: Path) -> None:
    async with node(folder) as one:
        assert one.installed("pytest") == pytest.__version__
        assert one.installed("no-such-package-at-all") is None
