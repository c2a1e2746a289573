"""``files.read`` on a real file system: the kernel's wall alone, the adapter, and somebody who swaps links while it opens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest
import trio

from gnus_node.records.errors import CODES, GnusError
from gnus_node.tools.adapter import AdapterContext, ToolOutput, ToolScope
from gnus_node.tools.adapters.beneath import probe, read_first
from gnus_node.tools.adapters.files_read import LANE, FilesRead
from gnus_node.tools.paths import Root, Target
from tests.unit.tools.kit import ThreadOffload
from tests.unit.tools.traversal import traversal_strings

SECRET = b"the secret outside\n"
INSIDE = b"a line inside\n"
LIMIT = 64 * 1024


class Tree:
    """``root`` may be read, ``outside`` may not; ``root`` is full of traps that lead there."""

    def __init__(self, top: Path) -> None:
        self.root, self.outside = top / "root", top / "outside"
        (self.root / "in" / "sub").mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "secret.txt").write_bytes(SECRET)
        (top / "secret.txt").write_bytes(SECRET)
        for name in ("a.txt", "in/b.txt", "in/sub/c.txt"):
            (self.root / name).write_bytes(INSIDE)
        links = {
            "out_file": str(self.outside / "secret.txt"),
            "out_relative": "../outside/secret.txt",
            "out_dir": str(self.outside),
            "out_chain": "out_file",
            "up": "..",
            "in/up2": "../..",
            "magic": "/proc/self/root",
            "magic_fd": "/proc/self/fd",
            "loop": "loop",
            "dangling": "nothing",
            "ok_file": "in/b.txt",
            "in/ok_up": "../a.txt",
            "ok_dir": "in/sub",
        }
        for name, aim in links.items():
            os.symlink(aim, self.root / name)
        os.mkfifo(self.root / "fifo")
        (self.outside / "linked.txt").write_bytes(SECRET)  # a file of its own: the other traps must not fall for their second name
        os.link(self.outside / "linked.txt", self.root / "hard.txt")
        self._socket = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(self.root)
        self._socket.bind("sock")
        os.chdir(here)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def tree(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = Tree(tmp_path)
    yield made
    made.close()


def kernel(tree: Tree, relative: str, *, below: str = "", hard_links: bool = False) -> bytes | str:
    """The second wall alone, with a path that no first wall has seen: content, or the code of the refusal."""
    try:
        return read_first((Target(Root(str(tree.root), below), relative),), LIMIT, hard_links=hard_links)
    except GnusError as error:
        refused = error
    assert str(tree.root) not in str(refused)
    return refused.code


def adapter(**settings: object) -> FilesRead:
    return FilesRead.build(AdapterContext(ThreadOffload()), settings)


async def read(tree: Tree, path: str, *, scope: ToolScope | None = None, **settings: object) -> ToolOutput | str:
    """Through the whole adapter: the output, or the code of the refusal."""
    tool, roots = adapter(**settings), scope or ToolScope((Root(str(tree.root)),))
    try:
        call = tool.validate({"path": path}, roots)
        return await tool.execute(call, roots, idempotency_key="k", deadline=trio.current_time() + 60)
    except GnusError as error:
        refused = error
    assert CODES[refused.code].definite, "a read leaves no open question"
    return refused.code


@pytest.mark.parametrize("path", ["a.txt", "in/b.txt", "in/sub/c.txt", "ok_file", "in/ok_up", "ok_dir/c.txt"])
async def test_what_is_beneath_the_root_is_read_links_included(tree: Tree, path: str) -> None:
    assert kernel(tree, path) == INSIDE
    found = await read(tree, path)
    assert isinstance(found, ToolOutput)
    assert (found.content_type, found.data, found.definite) == ("text/plain", INSIDE, True)
    assert isinstance(await read(tree, str(tree.root / path)), ToolOutput)


OUT = ["out_file", "out_relative", "out_dir/secret.txt", "out_chain", "up/outside/secret.txt", "in/up2/secret.txt", "magic/etc/passwd"]
NOT_FILES = ["fifo", "sock", "in", "ok_dir", "loop", "magic_fd/0", "hard.txt"]


@pytest.mark.parametrize("path", OUT + NOT_FILES)
async def test_what_leaves_or_is_no_plain_file_is_denied(tree: Tree, path: str) -> None:
    assert kernel(tree, path) == "PATH_DENIED"
    assert await read(tree, path) == "PATH_DENIED"
    assert await read(tree, str(tree.root / path)) == "PATH_DENIED"


@pytest.mark.parametrize(
    "path", ["../outside/secret.txt", "in/../../outside/secret.txt", "/etc/passwd", "in/../a.txt/../../secret.txt", "."]
)
async def test_the_kernel_alone_stops_steps_out(tree: Tree, path: str) -> None:
    assert kernel(tree, path) in {"PATH_DENIED", "NOT_FOUND"}
    assert await read(tree, path) == "PATH_DENIED"


async def test_traversal_strings_reach_nothing_through_either_wall(tree: Tree) -> None:
    reached = []
    strings = [s.replace("/srv/docs", str(tree.root)) for s in traversal_strings(Random(3), 1500)]
    tool, scope = adapter(), ToolScope((Root(str(tree.root)),))
    for text in strings:
        if "\ud800" not in text:
            found = kernel(tree, text)
            if isinstance(found, bytes) and found != INSIDE:
                reached.append(text)
        with pytest.raises(GnusError) as refused:
            tool.validate({"path": text}, scope)
        assert refused.value.code in {"PATH_DENIED", "BAD_ARGUMENTS"}
    assert len(strings) >= 1500
    assert reached == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
async def test_a_device_is_denied(tree: Tree) -> None:
    os.mknod(tree.root / "zero", 0o020666, os.makedev(1, 5))
    assert await read(tree, "zero") == "PATH_DENIED"


def test_a_fifo_with_a_waiting_writer_is_left_alone(tree: Tree) -> None:
    """Opening a FIFO for reading would wake its writer: an effect of a call that only reads."""
    script = "import os, sys; print('ready', flush=True); os.open(sys.argv[1], os.O_WRONLY); print('woken', flush=True)"
    writer = subprocess.Popen([sys.executable, "-c", script, str(tree.root / "fifo")], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        until = time.monotonic() + 20
        while Path(f"/proc/{writer.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < until, "the writer never came to wait"
        for _ in range(200):
            assert kernel(tree, "fifo") == "PATH_DENIED"
        assert writer.poll() is None
        # The writer still waits: only now does a reader wake it.
        reader = os.open(tree.root / "fifo", os.O_RDONLY)
        assert writer.stdout.readline() == b"woken\n"
        os.close(reader)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()  # type: ignore[union-attr]


async def test_absent_files_are_a_definite_failure(tree: Tree) -> None:
    for path in ("nothing.txt", "nowhere/a.txt", "a.txt/b", "dangling", "x" * 255):
        assert await read(tree, path) == "NOT_FOUND"


async def test_hard_links_are_a_setting(tree: Tree) -> None:
    found = await read(tree, "hard.txt", allow_hard_links=True)
    assert isinstance(found, ToolOutput)
    assert found.data == SECRET


async def test_sizes_are_bounded_and_nothing_is_cut(tree: Tree) -> None:
    (tree.root / "ten.txt").write_bytes(b"0123456789")
    assert await read(tree, "ten.txt", max_bytes=9) == "TOO_LARGE"
    found = await read(tree, "ten.txt", max_bytes=10)
    assert isinstance(found, ToolOutput)
    assert found.data == b"0123456789"
    (tree.root / "empty.txt").write_bytes(b"")
    empty = await read(tree, "empty.txt")
    assert isinstance(empty, ToolOutput)
    assert empty.data == b""


def test_a_file_that_is_longer_than_it_says_is_not_cut_either() -> None:
    """Files of procfs say that they are empty, as one that grows while it is read once did."""
    with pytest.raises(GnusError) as refused:
        read_first((Target(Root("/proc/self"), "status"),), 10, hard_links=False)
    assert refused.value.code == "TOO_LARGE"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.md", b"# x", "text/markdown"),
        ("a.JSON", b"{}", "application/json"),
        ("a.html", b"<p>", "text/html"),
        ("a.svg", b"<svg/>", "image/svg+xml"),
        ("noext", b"x", "text/plain"),
        ("a.txt2", b"x", "text/plain"),
        ("bin.txt", b"\xff\xfe\x00", "application/octet-stream"),
        ("nul.md", b"a\0b", "application/octet-stream"),
    ],
)
async def test_content_types(tree: Tree, name: str, data: bytes, kind: str) -> None:
    (tree.root / name).write_bytes(data)
    found = await read(tree, name)
    assert isinstance(found, ToolOutput)
    assert (found.content_type, found.data) == (kind, data)


async def test_roots_are_tried_in_order_and_a_denial_ends_the_search(tree: Tree, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "only.txt").write_bytes(b"second root")
    (other / "a.txt").write_bytes(b"hidden by the first")
    (other / "out_file").write_bytes(b"must not make up for the first")
    scope = ToolScope((Root(str(tmp_path / "gone")), Root(str(tree.root)), Root(str(other))))
    for path, data in {"a.txt": INSIDE, "only.txt": b"second root"}.items():
        found = await read(tree, path, scope=scope)
        assert isinstance(found, ToolOutput)
        assert found.data == data
    assert await read(tree, "out_file", scope=scope) == "PATH_DENIED"


async def test_a_narrower_root_is_never_reached_over_a_link(tree: Tree) -> None:
    """A mandate for ``root/public`` is no mandate for what ``public`` points to, inside the base or outside."""
    os.symlink("in", tree.root / "public")
    os.symlink(str(tree.outside), tree.root / "public_out")
    assert kernel(tree, "b.txt", below="public") == "PATH_DENIED"
    assert kernel(tree, "secret.txt", below="public_out") == "PATH_DENIED"
    assert kernel(tree, "b.txt", below="in") == INSIDE
    assert kernel(tree, "ok_up", below="in") == "PATH_DENIED"  # leaves the narrower root
    assert kernel(tree, "a.txt", below="a.txt") == "NOT_FOUND"


async def test_time_is_checked_before_the_disk(tree: Tree) -> None:
    tool, scope = adapter(), ToolScope((Root(str(tree.root)),))
    call = tool.validate({"path": "a.txt"}, scope)
    with pytest.raises(GnusError) as refused:
        await tool.execute(call, scope, idempotency_key="k", deadline=trio.current_time())
    assert refused.value.code == "TOOL_FAILED"


async def test_the_scope_of_the_run_counts_not_the_one_of_the_dry_run(tree: Tree) -> None:
    tool, wide = adapter(), ToolScope((Root(str(tree.root)),))
    call = tool.validate({"path": str(tree.root / "a.txt")}, wide)
    with pytest.raises(GnusError) as refused:
        await tool.execute(call, ToolScope((Root(str(tree.root), "in"),)), idempotency_key="k", deadline=trio.current_time() + 9)
    assert refused.value.code == "PATH_DENIED"


async def test_blocking_work_goes_to_its_lane_and_leaves_no_descriptor(tree: Tree) -> None:
    offload = ThreadOffload()
    tool, scope = FilesRead.build(AdapterContext(offload), {}), ToolScope((Root(str(tree.root)),))
    call = tool.validate({"path": "a.txt"}, scope)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await tool.execute(call, scope, idempotency_key="k", deadline=trio.current_time() + 9)
    for name in ("out_file", "fifo", "hard.txt", "nothing", "in"):
        kernel(tree, name)
        kernel(tree, "b.txt", below=name)
    assert len(os.listdir("/proc/self/fd")) == before
    assert offload.lanes == [LANE] * 5


@pytest.mark.parametrize("arguments", [{}, {"path": 1}, {"path": ["a"]}, {"path": "a", "secret-field": 1}, {"path": ""}, {"path": None}])
def test_bad_arguments(arguments: dict[str, object]) -> None:
    with pytest.raises(GnusError) as refused:
        adapter().validate(arguments, ToolScope((Root("/srv"),)))
    assert refused.value.code == "BAD_ARGUMENTS"
    assert "secret-field" not in str(refused.value)


@pytest.mark.parametrize("settings", [{"max_bytes": 0}, {"max_bytes": 2**40}, {"unknown": 1}, {"allow_hard_links": "yes"}])
def test_bad_settings_are_a_configuration_error(settings: dict[str, object]) -> None:
    with pytest.raises(GnusError) as refused:
        adapter(**settings)
    assert refused.value.code == "CONFIG"


def test_a_dry_run_is_the_same_twice_and_touches_nothing(tmp_path: Path) -> None:
    """Counted by the interpreter's own audit of every open, socket and child, in a process of its own."""
    script = """
import sys
from gnus_node.tools.adapter import AdapterContext, ToolScope
from gnus_node.tools.adapters.files_read import FilesRead
from gnus_node.tools.paths import Root
tool = FilesRead.build(AdapterContext(None), {})
scope = ToolScope((Root(sys.argv[1]), Root("/srv")))
tool.dry_run(tool.validate({"path": "warm"}, scope), scope)
seen = []
sys.addaudithook(lambda event, args: seen.append(event))
runs = [repr(tool.dry_run(tool.validate({"path": "a.txt"}, scope), scope)) for _ in range(2)]
touched = [e for e in seen if e.split(".")[0] in {"open", "os", "socket", "subprocess", "ctypes", "shutil", "glob"}]
print(touched, runs[0] == runs[1], "read " + sys.argv[1] + "/a.txt" in runs[0], "ok=True" in runs[0])
"""
    (tmp_path / "a.txt").write_bytes(SECRET)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[] True True True", 0), done.stderr


# A real seccomp filter: openat2 answers with an error, all else is allowed.
FILTERED = """
import ctypes, errno, os, struct, sys
from gnus_node.records.errors import GnusError
from gnus_node.tools.adapters.beneath import probe, read_first
from gnus_node.tools.paths import Root, Target
answer = getattr(errno, sys.argv[2])
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x00050000 | answer), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(fprog), 0, 0) == 0
for work in (probe, lambda: read_first((Target(Root(sys.argv[1]), "a.txt"),), 100, hard_links=False)):
    try:
        print("read", work())
    except GnusError as error:
        print(error.code)
"""


@pytest.mark.parametrize(
    ("answer", "codes"), [("ENOSYS", "ISOLATION_UNAVAILABLE"), ("EPERM", "PATH_DENIED"), ("EINVAL", "ISOLATION_UNAVAILABLE")]
)
def test_without_openat2_nothing_is_read_in_a_weaker_way(tree: Tree, answer: str, codes: str) -> None:
    done = subprocess.run([sys.executable, "-c", FILTERED, str(tree.root), answer], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["ISOLATION_UNAVAILABLE", codes], done.stderr


def test_this_kernel_has_openat2() -> None:
    probe()


# --- the swapper ---


def exchange(place: str, good: str, bad: str) -> None:
    """``place`` becomes the link, then the real thing again."""
    os.rename(place, good)
    os.rename(bad, place)
    os.rename(place, bad)
    os.rename(good, place)


@pytest.mark.parametrize("what", ["file", "directory", "root"])
def test_nothing_escapes_while_somebody_swaps_links(tree: Tree, what: str) -> None:
    """Seven thousand opens each against a swap of the file, of a directory on the way, and of the narrowed root itself."""
    place, aim, path, below = {
        "file": ("in/b.txt", tree.outside / "secret.txt", "in/b.txt", ""),
        "directory": ("in", tree.outside, "in/secret.txt", ""),
        "root": ("in", tree.outside, "secret.txt", "in"),
    }[what]
    (tree.root / "in" / "secret.txt").write_bytes(INSIDE)
    good, bad = str(tree.root / "kept"), str(tree.root / "trap")
    os.symlink(aim, bad)
    stop = threading.Event()
    swaps = 0

    def swapper() -> None:
        nonlocal swaps
        while not stop.is_set():
            exchange(str(tree.root / place), good, bad)
            swaps += 1

    thread = threading.Thread(target=swapper)
    thread.start()
    counts: dict[str, int] = {}
    try:
        opened, rounds = 0, 0
        while opened < 7000 or (rounds < 100_000 and len(counts) < 2):
            found = kernel(tree, path, below=below)
            assert found != SECRET, "escaped"
            label = "inside" if found == INSIDE else str(found)
            counts[label] = counts.get(label, 0) + 1
            opened, rounds = opened + 1, rounds + 1
    finally:
        stop.set()
        thread.join()
    assert swaps > 100
    assert counts.get("inside", 0) > 0
    assert counts.get("PATH_DENIED", 0) + counts.get("NOT_FOUND", 0) + counts.get("TOOL_FAILED", 0) > 0
    assert set(counts) <= {"inside", "PATH_DENIED", "NOT_FOUND", "TOOL_FAILED"}
