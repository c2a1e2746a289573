"""The installed Gemma: it says something true, the same thing every time, within what is assumed of the engine, in a whole node too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from gnus_node.config import load_config
from gnus_node.experts.backend import GenRequest
from gnus_node.experts.collect import collect
from gnus_node.experts.embedded.catalogue import CATALOGUE, settings_of
from gnus_node.experts.registry import build_backend
from gnus_node.host import InlineOffload, SystemClock, SystemEntropy, ThreadOffload
from gnus_node.host.servers import open_servers
from gnus_node.init import make_data_dir
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Ports, open_node
from gnus_node.records.enums import BackendKind, UsageSource
from gnus_node.records.errors import GnusError
from gnus_node.weights import verify, weights_path
from tests.unit.host.machine import KeptLog

GEMMA = CATALOGUE[0]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def model(weights: Path) -> Path:
    """The file, which must be the pinned one."""
    path = weights_path(weights, GEMMA)
    verify(path, GEMMA.sha256)
    return path


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runtime folder with a short path."""
    made = tmp_path_factory.mktemp("r")
    made.chmod(0o700)
    return made


async def test_it_completes_the_same_way_every_time(model: Path, folder: Path) -> None:
    config = {
        "kind": "embedded",
        "path": str(model),
        "sha256": GEMMA.sha256,
        "model_license": GEMMA.license,
        "prompt_style": GEMMA.prompt_style,
        "ctx": 1024,
    }
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    texts = set()
    with trio.fail_after(500):
        async with open_servers(entropy=SystemEntropy(), offload=ThreadOffload(), log=KeptLog(), folder=folder) as servers:
            with pytest.raises(GnusError) as chat:
                await build_backend(config | {"prompt_style": "chat"}, ThreadOffload(), servers).open()
            assert chat.value.code == "CONFIG"
            backend = build_backend(config, ThreadOffload(), servers)
            await backend.open()
            try:
                for _ in range(5):
                    req = GenRequest("r", "What is the capital of France?", max_tokens=12, deadline=trio.current_time() + 100)
                    got = await collect(backend, req)
                    assert got.failure is None
                    assert got.usage.source is UsageSource.REPORTED
                    texts.add(got.draft.answer)
                req = GenRequest("r", "One or two?", max_tokens=32, json_schema=schema, deadline=trio.current_time() + 100)
                chosen = await collect(backend, req)
            finally:
                await backend.aclose()
    assert len(texts) == 1
    assert "Paris" in texts.pop()
    assert json.loads(chosen.draft.answer)["n"] in (1, 2)


async def test_a_node_signs_whose_model_it_is_and_under_which_licence(model: Path, folder: Path, tmp_path: Path) -> None:
    text = '[node]\ndata_dir = "data"\n[api]\nlisten = "off"\n' + settings_of(GEMMA, str(model)).replace("ctx = 2048", "ctx = 1024")
    (tmp_path / "node.toml").write_text(text)
    config = load_config(tmp_path / "node.toml")
    clock, entropy, log = SystemClock(), SystemEntropy(), KeptLog()
    make_data_dir(config.node.data_dir, entropy, clock)
    with trio.fail_after(500):
        async with open_servers(entropy=entropy, offload=ThreadOffload(), log=log, folder=folder, memory=config.weights_path) as servers:
            ports = Ports(clock, entropy, InlineOffload(), MemoryBus(), servers=servers)
            async with open_node(config, ports) as node:
                entries = [offer.entry.body for offer in node.context.directory.experts(node.operator.tenant)]
    entry = next(e for e in entries if e.expert_id == GEMMA.name)
    assert entry.backend_kind is BackendKind.EMBEDDED
    assert entry.model_license == GEMMA.license
    assert entry.artifact_hash is not None
    assert entry.artifact_hash.hex() == GEMMA.sha256
    assert list(json.loads(config.weights_path.read_text()).values()) == [GEMMA.sha256]
