"""A model that this machine runs itself (DESIGN.md section 9): a GGUF file, checked against its pinned hash, served by a process that the
machine's nodes share, and spoken to by the OpenAI adapter like any other server.

What is pinned: the bytes of the weights (SHA-256, before anything maps them), the engine and its version, one slot, no reuse of prompts.
So the same request with temperature 0 gives the same text on every node of one engine build. Logits differ between builds.

A server that dies ends what it was doing with ``BACKEND_FAILED``; it is started again meanwhile, and the next request finds it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import trio

from gnus_node.experts.backend import BackendInfo, Generation, GenRequest, Health
from gnus_node.experts.embedded import child
from gnus_node.experts.embedded.catalogue import ENGINE, engine_missing
from gnus_node.experts.openai import OpenAiBackend, OpenAiOptions
from gnus_node.ports.host import Offload
from gnus_node.ports.servers import Endpoint, Fact, Lease, Servers, ServerSpec
from gnus_node.records.enums import BackendKind
from gnus_node.records.errors import GnusError

MAX_WEIGHTS_BYTES = 64 * 1024**3
MAX_THREADS = 64
SLOTS = 1
"""More slots on one engine change what it says (batches of other sizes round otherwise), and are no faster."""
FEATURES = frozenset({"usage", "seed", "json_schema"})
"""What this engine supports in both prompt styles, pinned by the tests with real weights."""
HEALTH_S = 5.0
_BESIDE_WEIGHTS = 8 * 1024**3
"""Address space beside twice the weights: interpreter, engine, threads, context."""


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """Which weights, and how they are run. Times in seconds."""

    path: Path
    sha256: bytes
    threads: int = 1
    start_s: float = 120.0
    idle_s: float = 120.0
    """Longest silence within a stream; requests of other nodes that share the server come first."""


class EmbeddedBackend:
    """One GGUF model."""

    def __init__(self, info: BackendInfo, options: EmbeddedOptions, offload: Offload, servers: Servers) -> None:
        if info.prompt_style not in ("chat", "completion"):
            raise GnusError("CONFIG", "prompt_style of an embedded backend is chat or completion")
        if info.slots != SLOTS or not 1 <= options.threads <= MAX_THREADS or len(options.sha256) != 32 or info.ctx < child.BATCH:
            raise GnusError("CONFIG", f"an embedded backend has {SLOTS} slot, 1 to {MAX_THREADS} threads and ctx from {child.BATCH}")
        self._info = replace(info, kind=BackendKind.EMBEDDED, engine=ENGINE, artifact_sha256=options.sha256, supports=FEATURES | {"cancel"})
        self._options = options
        self._offload = offload
        self._servers = servers
        self._lease: Lease | None = None
        self._connected: tuple[Endpoint, OpenAiBackend] | None = None
        self._connecting = trio.Lock()

    @property
    def info(self) -> BackendInfo:
        """Who this is; the engine's version is known once opened."""
        return self._info

    async def open(self) -> None:
        """Check the weights, start or join the server. Raises ``MISSING_DEPENDENCY``, ``CONFIG`` (weights, prompt style, ctx),
        ``BACKEND_FAILED``, ``UNREACHABLE``."""
        version = self._servers.installed(ENGINE)
        if version is None:
            raise engine_missing()
        options, ctx = self._options, self._info.ctx
        digest, file = await self._servers.measure(options.path, MAX_WEIGHTS_BYTES)
        if digest != options.sha256:
            raise GnusError("CONFIG", "the file of weights is not the one that sha256 names", fix="gnus-node model verify")
        identity: dict[str, Fact] = {
            "sha256": digest.hex(),
            "ctx": ctx,
            "threads": options.threads,
            "slots": SLOTS,
            "engine": f"{ENGINE} {version}",
            "settings": child.SETTINGS_VERSION,
        }
        spec = ServerSpec(
            name=self._info.backend_id,
            identity=identity,
            program=Path(child.__file__),
            setup={"ctx": ctx, "threads": options.threads, **asdict(file)},
            start_s=options.start_s,
            memory_bytes=2 * file.size + _BESIDE_WEIGHTS,
        )
        self._lease = await self._servers.lease(spec)
        opened = False
        try:
            self._check((await self._lease.endpoint()).facts, version)
            await self._current()
            opened = True
        finally:
            if not opened:
                with trio.CancelScope(shield=True):
                    await self.aclose()
        self._info = replace(self._info, engine_version=version)

    def _check(self, facts: object, version: str) -> None:
        known = facts if isinstance(facts, dict) else {}
        if known.get("engine_version") != version:
            raise GnusError(
                "BACKEND_FAILED", "the model server runs another version of the engine", fix="restart the nodes of this machine"
            )
        if self._info.prompt_style == "chat" and known.get("chat_template") is not True:
            raise GnusError("CONFIG", "these weights have no chat template: they are a base model", fix='prompt_style = "completion"')
        trained = known.get("context")
        if isinstance(trained, int) and 0 < trained < self._info.ctx:
            raise GnusError("CONFIG", f"these weights have a context of {trained} tokens", fix=f"ctx = {trained}")

    async def _current(self) -> OpenAiBackend:
        """The adapter on where the server listens now. Raises what ``Lease.endpoint`` raises."""
        if self._lease is None:
            raise GnusError("BACKEND_FAILED", "the backend is not open")
        endpoint = await self._lease.endpoint()
        async with self._connecting:
            if self._connected is not None and self._connected[0] == endpoint:
                return self._connected[1]
            await self._disconnect()
            options = OpenAiOptions(
                "http://localhost/v1",
                socket_path=endpoint.socket,
                api_key=endpoint.api_key,
                idle_s=self._options.idle_s,
                probe=False,
                assume=FEATURES,
            )
            adapter = OpenAiBackend(replace(self._info, model_id="embedded"), options, self._offload)
            await adapter.open()
            self._connected = (endpoint, adapter)
            return adapter

    async def _disconnect(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected[1].aclose()

    async def aclose(self) -> None:
        """Let go of the server; it ends with its last user."""
        lease, self._lease = self._lease, None
        await self._disconnect()
        if lease is not None:
            await lease.aclose()

    async def health(self) -> Health:
        """Whether the server would answer now."""
        if self._lease is None:
            return Health.CLOSED
        found = Health.UNREACHABLE
        with trio.move_on_after(HEALTH_S):
            try:
                found = await (await self._current()).health()
            except GnusError as error:
                found = Health.UNREACHABLE if error.code == "UNREACHABLE" else Health.FAILING
        return found

    def generate(self, req: GenRequest) -> AbstractAsyncContextManager[Generation]:
        """One streamed generation; leaving the block frees the slot."""
        return self._generation(req)

    @asynccontextmanager
    async def _generation(self, req: GenRequest) -> AsyncIterator[Generation]:
        adapter = await self._current()
        async with adapter.generate(req) as generation:
            yield generation
