"""The real engine in its process, on a model made here: answers, cancellation, death, sharing, refusals."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from gnus_node.experts.backend import ExpertBackend, GenRequest, Health
from gnus_node.experts.collect import Collected, Limiter, collect
from gnus_node.experts.registry import build_backend
from gnus_node.host import SystemEntropy, ThreadOffload
from gnus_node.host.runtime import read_note
from gnus_node.host.servers import SharedServers, open_servers
from gnus_node.records.enums import AnswerType, BackendKind, UsageSource
from gnus_node.records.errors import GnusError
from tests.embedded.tiny import CONTEXT, TEMPLATE, write_tiny
from tests.unit.host.machine import KeptLog, alive, python, until


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without a chat template."""
    return write_tiny(tmp_path_factory.mktemp("weights") / "base.gguf")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that takes seconds for its whole context."""
    return write_tiny(tmp_path_factory.mktemp("weights") / "slow.gguf", width=256, layers=3)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runtime folder with a short path."""
    made = tmp_path_factory.mktemp("r")
    made.chmod(0o700)
    return made


def read(path: Path) -> bytes:
    return path.read_bytes()


def sha(path: Path) -> str:
    return hashlib.sha256(read(path)).hexdigest()


def settings(path: Path, **more: Any) -> dict[str, Any]:
    common = {
        "kind": "embedded",
        "path": str(path),
        "sha256": sha(path),
        "model_license": "MIT",
        "prompt_style": "completion",
        "ctx": CONTEXT,
    }
    return common | more


@asynccontextmanager
async def machine(folder: Path, log: KeptLog | None = None) -> AsyncIterator[SharedServers]:
    async with open_servers(entropy=SystemEntropy(), offload=ThreadOffload(), log=log or KeptLog(), folder=folder) as servers:
        yield servers


@asynccontextmanager
async def opened(config: dict[str, Any], servers: SharedServers) -> AsyncIterator[ExpertBackend]:
    backend = build_backend(config, ThreadOffload(), servers)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.aclose()


async def ask(backend: ExpertBackend, question: str = "What?", **more: Any) -> Collected:
    return await collect(backend, GenRequest("r", question, deadline=trio.current_time() + 60, **({"max_tokens": 24} | more)))


def process_of(servers: KeptLog) -> int:
    return int(servers.named("server.ready")[-1]["pid"])


async def test_it_answers_and_says_what_it_is(base: Path, folder: Path) -> None:
    with trio.fail_after(110):
        async with machine(folder) as servers, opened(settings(base), servers) as backend:
            info = backend.info
            got = await ask(backend)
            assert await backend.health() is Health.OK
    assert got.failure is None
    assert len(got.draft.answer) == 24
    assert got.draft.answer.isalnum()
    assert (got.usage.completion, got.usage.cached, got.usage.source) == (24, 0, UsageSource.REPORTED)
    assert (info.kind, info.model_id, info.engine, info.model_license) == (BackendKind.EMBEDDED, "base", "xllamacpp", "MIT")
    assert info.artifact_sha256 is not None
    assert info.artifact_sha256.hex() == sha(base)
    assert info.engine_version != "unknown"
    assert await backend.health() is Health.CLOSED


async def test_the_same_request_gives_the_same_text(base: Path, folder: Path) -> None:
    texts, sampled = set(), set()
    with trio.fail_after(110):
        async with machine(folder) as servers, opened(settings(base), servers) as backend:
            for question in ("What?", "Something else, in between?") * 5:
                got = await ask(backend, question, max_tokens=64)
                if question == "What?":
                    texts.add(got.draft.answer)
            for _ in range(5):
                sampled.add((await ask(backend, max_tokens=64, temperature_milli=900, seed=7)).draft.answer)
            other = await ask(backend, max_tokens=64, temperature_milli=900, seed=8)
    assert len(texts) == len(sampled) == 1
    assert other.draft.answer not in sampled


async def test_json_is_what_the_schema_says(base: Path, folder: Path) -> None:
    with trio.fail_after(110):
        async with machine(folder) as servers, opened(settings(base), servers) as backend:
            got = await ask(backend, json_schema={"type": "boolean"}, max_tokens=16)
    assert got.failure is None
    assert got.draft.answer_type is AnswerType.JSON
    assert got.draft.answer in ("true", "false")


async def test_chat_needs_a_template(base: Path, folder: Path, tmp_path: Path) -> None:
    talker = write_tiny(tmp_path / "chat.gguf", template=TEMPLATE)
    with trio.fail_after(110):
        async with machine(folder) as servers:
            with pytest.raises(GnusError) as refused:
                await build_backend(settings(base, prompt_style="chat"), ThreadOffload(), servers).open()
            assert refused.value.code == "CONFIG"
            assert "chat template" in refused.value.what
            async with opened(settings(talker, prompt_style="chat"), servers) as backend:
                got = await ask(backend)
    assert got.failure is None
    assert got.draft.answer


async def test_weights_that_are_not_the_pinned_ones_never_reach_the_engine(base: Path, folder: Path, tmp_path: Path) -> None:
    log = KeptLog()
    damaged, cut, noise = tmp_path / "damaged.gguf", tmp_path / "cut.gguf", tmp_path / "noise.gguf"
    whole = read(base)
    damaged.write_bytes(whole[:-1] + b"\x01")
    cut.write_bytes(whole[:5000])
    noise.write_bytes(b"GGUF" + bytes(500))
    with trio.fail_after(110):
        async with machine(folder, log) as servers:
            with pytest.raises(GnusError) as wrong:
                await build_backend(settings(damaged, sha256=sha(base)), ThreadOffload(), servers).open()
            assert wrong.value.code == "CONFIG"
            assert not log.named("server.held")
            for bad in (cut, noise):
                with pytest.raises(GnusError) as refused:
                    await build_backend(settings(bad), ThreadOffload(), servers).open()
                assert refused.value.code in ("CONFIG", "BACKEND_FAILED")
    assert not log.named("server.ready")


async def test_a_context_larger_than_the_model_s_is_refused(base: Path, folder: Path) -> None:
    with trio.fail_after(110):
        async with machine(folder) as servers:
            with pytest.raises(GnusError) as refused:
                await build_backend(settings(base, ctx=2 * CONTEXT), ThreadOffload(), servers).open()
    assert refused.value.code == "CONFIG"
    assert str(CONTEXT) in refused.value.what


async def test_cancelling_frees_the_slot(slow: Path, folder: Path) -> None:
    """The next request would wait for thousands of tokens, and reach no deadline, if the slot were not free."""
    limiter = Limiter(1)
    with trio.fail_after(110):
        async with machine(folder) as servers, opened(settings(slow), servers) as backend:
            for _ in range(3):
                begun = trio.Event()
                request = GenRequest("r", "Go on.", max_tokens=CONTEXT, deadline=trio.current_time() + 100)
                async with trio.open_nursery() as nursery:

                    async def endless(request: GenRequest = request, begun: trio.Event = begun) -> None:
                        await collect(backend, request, limiter=limiter, on_token=lambda _: begun.set())

                    nursery.start_soon(endless)
                    await begun.wait()
                    nursery.cancel_scope.cancel()
                next_one = GenRequest("r", "Short.", max_tokens=1, deadline=trio.current_time() + 5)
                got = await collect(backend, next_one, limiter=limiter)
                assert got.failure is None


async def test_cancelling_while_the_prompt_is_read_frees_the_slot(slow: Path, folder: Path) -> None:
    """A long prompt, and a deadline that ends within its reading."""
    with trio.fail_after(110):
        async with machine(folder) as servers, opened(settings(slow), servers) as backend:
            long = "x" * 6500
            late = await collect(backend, GenRequest("r", long, max_tokens=1, deadline=trio.current_time() + 0.3))
            assert late.failure is not None
            assert late.failure.code == "DEADLINE"
            got = await collect(backend, GenRequest("r", "Short.", max_tokens=1, deadline=trio.current_time() + 10))
            assert got.failure is None


async def test_a_killed_engine_is_a_typed_error_and_then_it_recovers(slow: Path, folder: Path) -> None:
    log = KeptLog()
    with trio.fail_after(110):
        async with machine(folder, log) as servers, opened(settings(slow), servers) as backend:
            first = process_of(log)
            found: list[Collected] = []
            begun = trio.Event()

            async def endless() -> None:
                request = GenRequest("r", "Go on.", max_tokens=CONTEXT, deadline=trio.current_time() + 60)
                found.append(await collect(backend, request, on_token=lambda _: begun.set()))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(endless)
                await begun.wait()
                os.kill(first, signal.SIGKILL)
            failure = found[0].failure
            assert failure is not None
            assert failure.code in ("BACKEND_FAILED", "UNREACHABLE")
            assert found[0].usage.completion > 0
            await until(lambda: len(log.named("server.ready")) == 2)
            got = await ask(backend)
            assert got.failure is None
            assert process_of(log) != first


async def test_two_nodes_share_one_engine_and_the_survivor_takes_over(base: Path, folder: Path) -> None:
    log, other_log = KeptLog(), KeptLog()
    with trio.fail_after(110):
        async with machine(folder, log) as survivor:
            async with machine(folder, other_log) as holder, opened(settings(base), holder) as first:
                second = build_backend(settings(base), ThreadOffload(), survivor)
                await second.open()
                before = (await ask(first)).draft.answer
                assert (await ask(second)).draft.answer == before
                assert len(other_log.named("server.ready")) == 1
                assert not log.named("server.ready")
                engine = process_of(other_log)
            assert not alive(engine)
            assert (await ask(second)).draft.answer == before
            assert len(log.named("server.ready")) == 1
            await second.aclose()


async def test_a_stranger_without_the_key_gets_nothing(base: Path, folder: Path) -> None:
    with trio.fail_after(110):
        async with machine(folder) as servers, opened(settings(base), servers):
            socket = noted_socket(folder)
            async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=socket), base_url="http://localhost") as client:
                for path in ("/v1/models", "/props", "/slots", "/lora-adapters"):
                    assert (await client.get(path)).status_code == 401
                assert (await client.post("/v1/completions", json={"prompt": "x", "max_tokens": 1})).status_code == 401
                wrong = {"authorization": f"Bearer {'0' * 64}"}
                assert (await client.post("/v1/completions", json={"prompt": "x"}, headers=wrong)).status_code == 401
            # It listens nowhere else: no address of any network has a listener of this process.
            assert _listening_inodes().isdisjoint(_inodes(_process_with(socket)))


def noted_socket(folder: Path) -> str:
    """Where the one server of a runtime folder listens."""
    note = read_note(next(folder.glob("*.json")))
    assert note is not None
    return str(folder / note["socket"])


def _process_with(socket: str) -> Path:
    return next(p for p in Path("/proc").iterdir() if p.name.isdigit() and _has_socket(p, socket))


def _has_socket(process: Path, socket: str) -> bool:
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines() if line.endswith(socket)]
    return bool({row[6] for row in rows} & _inodes(process))


def _inodes(process: Path) -> set[str]:
    try:
        links = [os.readlink(fd) for fd in (process / "fd").iterdir()]
    except OSError:
        return set()
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def _listening_inodes() -> set[str]:
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[3] == "0A"}


NODE = """
import sys, trio
from pathlib import Path
from tests.embedded.test_engine import ask, machine, opened, process_of, settings
from tests.unit.host.machine import KeptLog

async def main():
    log = KeptLog()
    async with machine(Path(sys.argv[1]), log) as servers, opened(settings(Path(sys.argv[2])), servers) as backend:
        print(process_of(log), (await ask(backend)).draft.answer, flush=True)
        assert "xllamacpp" not in sys.modules
        print("ready", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_killed_node_takes_its_engine_with_it(base: Path, folder: Path) -> None:
    process = python(NODE, str(folder), str(base))
    try:
        assert process.stdout is not None
        with trio.fail_after(110):
            pid, answer = (await trio.to_thread.run_sync(process.stdout.readline)).split()
            assert await trio.to_thread.run_sync(process.stdout.readline) == b"ready\n"
            async with machine(folder) as servers, opened(settings(base), servers) as survivor:
                assert (await ask(survivor)).draft.answer == answer.decode()
                process.send_signal(signal.SIGKILL)
                await trio.to_thread.run_sync(process.wait)
                await until(lambda: not alive(int(pid)))
                assert (await ask(survivor)).draft.answer == answer.decode()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
