"""Servers of this machine: programs in processes of their own that several nodes may share, through a port.

A room that needs one (a model engine) describes it; starting, watching, sharing and stopping processes is the host's affair. Equal
``identity`` means the same server, so it names everything that changes what the server says or costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

Fact = str | int | bool


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file, and which state of it, was measured. While all fields are equal its bytes are taken to be."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One server. ``program`` is a Python file run in an interpreter of its own; it reads one line of JSON from standard input
    (``setup`` with ``socket`` and ``api_key`` added) and answers one line on standard output, ``{"ready": FACTS}`` once it listens on
    the socket, or ``{"refused": [CODE, WHAT]}``; it ends when its standard input does."""

    name: str
    """For the log."""
    identity: Mapping[str, Fact]
    """What makes two servers the same."""
    program: Path
    setup: Mapping[str, Fact]
    start_s: float = 120.0
    """Longest time from start to ready."""
    memory_bytes: int = 8 * 1024**3
    """Most address space of the process."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens now: a unix socket of this user's, the key it asks for, and what it says of itself."""

    socket: str
    api_key: str = field(repr=False)
    facts: Mapping[str, Fact]


class Lease(Protocol):
    """One user's hold on a server; the server lives while somebody holds it."""

    async def endpoint(self) -> Endpoint:
        """Where it listens; waits while it starts or restarts. Raises ``UNREACHABLE``, ``BACKEND_FAILED``, and what the program refused
        with."""

    async def aclose(self) -> None:
        """Let go; safe to call twice."""


class Servers(Protocol):
    """The servers of this machine."""

    def installed(self, package: str) -> str | None:
        """Version of an installed package, without importing it."""

    async def measure(self, path: Path, max_bytes: int) -> tuple[bytes, FileIdentity]:
        """SHA-256 and identity of a file. Raises ``CONFIG`` where it cannot be read or is over ``max_bytes``."""

    async def lease(self, spec: ServerSpec) -> Lease:
        """Hold the server of this spec, started if nobody has. Raises ``CONFIG`` where this machine has no safe place for it."""
