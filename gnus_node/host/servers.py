"""One server for all nodes of a user on a machine that want the same one (the adapter of ``ports.servers``).

Who holds a server's lock runs it as a child process and writes a note of where it listens; the others read the note. When the holder
goes, orderly or killed, the kernel lets go of the lock and ends the child, and whoever looks next holds it: on the next use, or within
``WATCH_S``.

Invariants
- A server listens on a unix socket in a folder that is this user's alone, under a name of its own for every start, and asks for a key
  made for that start: no other user reaches it, and no other process can take a place that a dead one left.
- A note is used only while another process holds the lock.
- A child that dies is started again after a pause that doubles, at most ``MAX_DEATHS`` times in a row; then every use is refused with
  the reason until ``COOL_S`` have passed. What the program itself refused (missing engine, wrong file) is not tried again before that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import metadata
from pathlib import Path

import trio

from gnus_node.host.children import Child, ChildSpec, running_child
from gnus_node.host.measure import measure
from gnus_node.host.runtime import Lock, read_note, runtime_folder, write_note
from gnus_node.ports.host import Entropy, Log, Offload
from gnus_node.ports.servers import Endpoint, Fact, FileIdentity, Lease, ServerSpec
from gnus_node.records.errors import CODES, GnusError

WATCH_S = 1.0
"""How often one that is not the holder looks whether it may be."""
POLL_S = 0.05
"""How often a waiting use looks for the holder's note."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 30.0
"""Before a restart; doubled with every death in a row."""
MAX_DEATHS = 6
"""Deaths in a row, each within ``STEADY_S`` of its start, after which a server is given up."""
STEADY_S = 60.0
COOL_S = 60.0
"""How long a server that was given up, or refused, stays so."""
MAX_SERVERS = 16
"""Different servers that one node may hold."""
MAX_FACTS = 32
MAX_ERROR_LINES = 20
"""Lines of a child's standard error that reach the log for each start."""
_SOCKET = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}\.sock")
_KEY = re.compile(r"[0-9a-f]{64}")
_PLACE = re.compile(r"[\w./-]{1,80}:\d{1,6}")


def server_id(spec: ServerSpec) -> str:
    """16 hex digits that stand for a spec's identity."""
    text = json.dumps({"identity": dict(spec.identity)}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"gnus/server/1\0" + text.encode()).hexdigest()[:16]


def checked_facts(value: object) -> dict[str, Fact] | None:
    """Facts as a program may state them, or None."""
    if not isinstance(value, dict) or len(value) > MAX_FACTS:
        return None
    fine = all(isinstance(k, str) and len(k) <= 64 and isinstance(v, str | int | bool) and len(str(v)) <= 256 for k, v in value.items())
    return value if fine else None


class _Server:
    """One server as this node sees it: the holder of it, or one of the others."""

    def __init__(self, spec: ServerSpec, folder: Path, entropy: Entropy, log: Log) -> None:
        self.spec = spec
        self.users = 0
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self._id = server_id(spec)
        self._folder = folder
        self._lock = Lock(folder / f"{self._id}.lock")
        self._note = folder / f"{self._id}.json"
        self._entropy = entropy
        self._log = log
        self._own: Endpoint | None = None
        self._given_up: tuple[float, GnusError] | None = None
        self._changed = trio.Event()

    async def endpoint(self) -> Endpoint:
        """See ``Lease.endpoint``."""
        latest = trio.current_time() + self.spec.start_s + LONGEST_PAUSE_S
        while trio.current_time() < latest:
            if self.ended.is_set():
                raise GnusError("BACKEND_FAILED", f"the hold on the server {self.spec.name} was let go")
            if self._given_up is not None:
                until, reason = self._given_up
                if trio.current_time() < until:
                    raise GnusError(reason.code, reason.what, fix=reason.fix)
                self._given_up = None
                self._notify()
            if self._own is not None:
                return self._own
            if not self._lock.take():
                found = self._noted()
                if found is not None:
                    return found
            else:
                self._notify()
            with trio.move_on_after(POLL_S):
                await self._changed.wait()
        raise GnusError("UNREACHABLE", f"the server {self.spec.name} did not become ready in its time")

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _noted(self) -> Endpoint | None:
        """Where the holder says that it listens."""
        note = read_note(self._note)
        if note is None or set(note) != {"socket", "api_key", "facts"}:
            return None
        name, key, facts = note["socket"], note["api_key"], checked_facts(note["facts"])
        named = isinstance(name, str) and _SOCKET.fullmatch(name) and name.startswith(self._id)
        if not named or not isinstance(key, str) or not _KEY.fullmatch(key) or facts is None:
            return None
        return Endpoint(str(self._folder / name), key, facts)

    async def run(self) -> None:
        """Hold the server whenever nobody else does, until cancelled."""
        try:
            with self.scope:
                while True:
                    if self._mine():
                        self._log.info("server.held", server=self.spec.name, server_id=self._id)
                        await self._hold()
                        self._lock.release()
                    with trio.move_on_after(WATCH_S):
                        await self._changed.wait()
        finally:
            self._lock.release()
            self.ended.set()
            self._notify()

    def _mine(self) -> bool:
        try:
            return self._given_up is None and self._lock.take()
        except GnusError as error:
            self._give_up(error)
            return False

    def _give_up(self, reason: GnusError) -> None:
        self._given_up = (trio.current_time() + COOL_S, reason)
        self._log.error("server.given_up", server=self.spec.name, code=reason.code)
        self._notify()

    async def _hold(self) -> None:
        """Run the child, again and again; returns when it is given up."""
        deaths = 0
        while True:
            started = trio.current_time()
            reason, final = await self._one_life()
            deaths = 1 if trio.current_time() - started > STEADY_S else deaths + 1
            self._log.warning("server.ended", server=self.spec.name, deaths=deaths, code=reason.code)
            if final or deaths > MAX_DEATHS:
                self._give_up(reason)
                return
            await trio.sleep(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (deaths - 1)))

    def _tidy(self) -> None:
        """Take away the note and every socket of this server; only its holder may."""
        with suppress(OSError):
            for stale in (self._note, *self._folder.glob(f"{self._id}-*.sock")):
                stale.unlink(missing_ok=True)

    async def _one_life(self) -> tuple[GnusError, bool]:
        """One child from start to end: why it ended, and whether trying again is of no use."""
        self._tidy()
        name = f"{self._id}-{self._entropy.token(4).hex()}.sock"
        endpoint = Endpoint(str(self._folder / name), self._entropy.token(32).hex(), {})
        given = dict(self.spec.setup) | {"socket": endpoint.socket, "api_key": endpoint.api_key}
        errors = _Errors(self._log, self.spec.name)
        child: Child | None = None
        reason, final = GnusError("BACKEND_FAILED", f"the server {self.spec.name} ended"), False
        try:
            spec = ChildSpec(self.spec.program, json.dumps(given).encode() + b"\n", self.spec.memory_bytes)
            async with running_child(spec, errors.take) as child:
                with trio.move_on_after(self.spec.start_s) as starting:
                    line = await child.first_line()
                facts, refusal = (None, None) if starting.cancelled_caught else _answer(line)
                if refusal is not None:
                    reason, final = refusal, True
                elif facts is None:
                    late = "did not become ready in its time" if starting.cancelled_caught else "ended before it was ready"
                    reason = GnusError("BACKEND_FAILED", f"the server {self.spec.name} {late}")
                else:
                    errors.ready = True
                    endpoint = Endpoint(endpoint.socket, endpoint.api_key, facts)
                    write_note(self._note, {"socket": name, "api_key": endpoint.api_key, "facts": facts})
                    self._own = endpoint
                    self._notify()
                    self._log.info("server.ready", server=self.spec.name, pid=child.pid)
                    await child.exited()
        except* OSError as group:
            reason = GnusError("BACKEND_FAILED", f"the runtime folder cannot be written: {type(group.exceptions[0]).__name__}")
        except* GnusError as group:
            found = group.exceptions[0]
            reason = found if isinstance(found, GnusError) else reason
        finally:
            self._own = None
            self._tidy()
        if child is not None:
            self._log.info("server.process_ended", server=self.spec.name, ending=child.ending())
        return reason, final


class _Errors:
    """A child's standard error on its way to the log: whole lines while it starts; once it has seen what users write, places in its own
    source at most, such as that of a failed assertion."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._name = name
        self._lines = 0
        self.ready = False

    def take(self, line: str) -> None:
        """One line."""
        self._lines += 1
        if self._lines > MAX_ERROR_LINES or not line.strip():
            return
        if not self.ready:
            self._log.warning("server.stderr", server=self._name, line=line.strip()[:200])
        elif found := _PLACE.search(line):
            self._log.warning("server.stderr", server=self._name, place=found[0])


def _answer(line: bytes) -> tuple[dict[str, Fact] | None, GnusError | None]:
    """A child's first line: its facts, or its refusal, or neither."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(value, dict):
        return None, None
    refused = value.get("refused")
    if isinstance(refused, list) and len(refused) == 2 and all(isinstance(part, str) for part in refused) and refused[0] in CODES:
        return None, GnusError(refused[0], refused[1])
    return checked_facts(value.get("ready")), None


class _Lease:
    """One user's hold."""

    def __init__(self, server: _Server, servers: SharedServers) -> None:
        self._server: _Server | None = server
        self._servers = servers

    async def endpoint(self) -> Endpoint:
        """See ``Lease``."""
        if self._server is None:
            raise GnusError("BACKEND_FAILED", "the hold on the server was let go")
        return await self._server.endpoint()

    async def aclose(self) -> None:
        """See ``Lease``."""
        server, self._server = self._server, None
        if server is not None:
            await self._servers.let_go(server)


class SharedServers:
    """The Servers port of a real machine; made by ``open_servers``."""

    def __init__(
        self, nursery: trio.Nursery, folder: Path | None, memory: Path | None, entropy: Entropy, offload: Offload, log: Log
    ) -> None:
        self._nursery = nursery
        self._chosen = folder
        self._memory = memory
        self._entropy = entropy
        self._offload = offload
        self._log = log
        self._servers: dict[str, _Server] = {}

    def installed(self, package: str) -> str | None:
        """See ``Servers``."""
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    async def measure(self, path: Path, max_bytes: int) -> tuple[bytes, FileIdentity]:
        """See ``Servers``."""
        return await self._offload.run(measure, path, max_bytes, self._memory)

    async def lease(self, spec: ServerSpec) -> Lease:
        """See ``Servers``."""
        name = server_id(spec)
        server = self._servers.get(name)
        if server is None:
            if len(self._servers) >= MAX_SERVERS:
                raise GnusError("CONFIG", f"more than {MAX_SERVERS} different servers on one node")
            folder = await self._offload.run(runtime_folder, self._chosen)
            server = self._servers.setdefault(name, _Server(spec, folder, self._entropy, self._log))
            if not server.users:
                self._nursery.start_soon(server.run)
        server.users += 1
        return _Lease(server, self)

    async def let_go(self, server: _Server) -> None:
        """One user fewer; the last one ends it, or its part in it."""
        server.users -= 1
        if server.users == 0:
            self._servers.pop(server_id(server.spec), None)
            server.scope.cancel()
            with trio.CancelScope(shield=True):
                await server.ended.wait()


@asynccontextmanager
async def open_servers(
    *, entropy: Entropy, offload: Offload, log: Log, folder: Path | None = None, memory: Path | None = None
) -> AsyncIterator[SharedServers]:
    """The servers of this machine for the length of the block. ``folder`` is the runtime folder if the operator chose one, ``memory`` the
    file in which digests are remembered."""
    async with trio.open_nursery() as nursery:
        yield SharedServers(nursery, folder, memory, entropy, offload, log)
        nursery.cancel_scope.cancel()


class NoServers:
    """The Servers port where there is no real machine: nothing is installed, and nothing can be started."""

    def installed(self, package: str) -> str | None:
        """Nothing is."""
        return None

    async def measure(self, path: Path, max_bytes: int) -> tuple[bytes, FileIdentity]:
        """Refused."""
        raise GnusError("CONFIG", "this node has no files of weights")

    async def lease(self, spec: ServerSpec) -> Lease:
        """Refused."""
        raise GnusError("CONFIG", "this node starts no processes")
