"""The file-lookup expert proposes exactly where a file is plainly named; the registry builds what settings say and refuses the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.content.filenames import named_files
from gnus_node.experts.backend import GenRequest, Health, ToolSpec
from gnus_node.experts.collect import collect
from gnus_node.experts.embedded.backend import EmbeddedBackend
from gnus_node.experts.extractive.backend import ExtractiveBackend
from gnus_node.experts.faulty import FaultyBackend
from gnus_node.experts.file_lookup import FileLookupBackend
from gnus_node.experts.openai import OpenAiBackend
from gnus_node.experts.registry import build_backend, kinds
from gnus_node.experts.replay import RecordingBackend, ReplayBackend
from gnus_node.experts.symbolic.backend import SymbolicBackend
from gnus_node.host.servers import NoServers
from gnus_node.records.enums import BackendKind, Domain, ExpertRole
from gnus_node.records.errors import GnusError

from .helpers import Inline, passage

READ = ToolSpec("files.read", "Reads a file.", {"type": "object"})


@pytest.mark.parametrize(
    ("question", "files"),
    [
        ("What is the version in notes/release.txt?", ("notes/release.txt",)),
        ("What does docs/guide.md say about backups?", ("docs/guide.md",)),
        ("Read /etc/motd please", ("/etc/motd",)),
        ("Summarise todo.md.", ("todo.md",)),
        ("According to the file 'plans/year two.txt', who leads?", ("plans/year two.txt",)),
        ("What is in “inventory.csv”?", ("inventory.csv",)),
        ("Which port does ./config/app.toml set?", ("./config/app.toml",)),
        ("open ../secret/keys.json", ("../secret/keys.json",)),
        ("What does the file setup.py define?", ("setup.py",)),
        ("`data/über.txt`: what is the total?", ("data/über.txt",)),
        ("What's in 'my notes.txt', the file?", ("my notes.txt",)),
        ("Compare a.txt and b.txt", ("a.txt", "b.txt")),
        ("What does a.txt say? I mean a.txt.", ("a.txt",)),
        ("What is the capital of France?", ()),
        ("What is node.js?", ()),
        ("How fast is 100 km/h and/or 3/4 of that?", ()),
        ("What does TCP/IP mean, e.g. in v1.2.3?", ()),
        ("What is the domain .fr for?", ()),
        ("Fetch https://example.com/a.txt", ()),
        ("Is example.com/index.html up?", ()),
        ("Mail me at joe@example.txt", ()),
        ("Compute 12.5 / 3.25", ()),
        ("What happened on 2024/01/31?", ()),
        ("", ()),
    ],
)
def test_files_that_are_plainly_named(question: str, files: tuple[str, ...]) -> None:
    assert named_files(question) == files


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_question_is_read(question: str) -> None:
    for name in named_files(question):
        assert name in question
        assert "\x00" not in name


async def test_one_file_one_proposal() -> None:
    backend = FileLookupBackend()
    assert (backend.info.kind, backend.info.roles) == (BackendKind.SYMBOLIC, (ExpertRole.TOOL_SUPPORT,))
    got = await collect(backend, GenRequest("r", "What is the code in box/label.txt?", tools=(READ,)))
    assert [(c.name, c.arguments) for c in got.tool_calls] == [("files.read", {"path": "box/label.txt"})]
    assert got.draft.abstained == "ABSTAINED"


@pytest.mark.parametrize(
    "more",
    [
        {"tools": ()},
        {"tools": (ToolSpec("files.write", "", {}),)},
        {"tools": (READ,), "tool_outputs": (passage(1, "box/label.txt", "code: 7"),)},
    ],
)
async def test_no_proposal_where_the_tool_is_not_offered_or_has_answered(more: dict[str, Any]) -> None:
    got = await collect(FileLookupBackend(), GenRequest("r", "What is the code in box/label.txt?", **more))
    assert got.tool_calls == ()
    assert got.draft.abstained == "ABSTAINED"


async def test_two_files_are_not_guessed_between() -> None:
    assert (await collect(FileLookupBackend(), GenRequest("r", "Is a.txt newer than b.txt?", tools=(READ,)))).tool_calls == ()


# --- registry

EMBEDDED = {"kind": "embedded", "path": "/w.gguf", "sha256": "ab" * 32, "prompt_style": "completion", "model_license": "Gemma"}
OPENAI = {"kind": "openai", "base_url": "http://127.0.0.1:8080/v1", "model": "m", "model_license": "Apache-2.0"}


def test_every_kind_is_built() -> None:
    offload = Inline()
    built = {
        "symbolic": ({"kind": "symbolic"}, SymbolicBackend),
        "extractive": ({"kind": "extractive", "corpora": ["docs"], "domains": ["general", "science"]}, ExtractiveBackend),
        "file_lookup": ({"kind": "file_lookup"}, FileLookupBackend),
        "openai": ({**OPENAI, "slots": 4, "ctx": 8192, "prompt_style": "completion", "artifact_sha256": "ab" * 32}, OpenAiBackend),
        "embedded": (EMBEDDED, EmbeddedBackend),
        "replay": ({"kind": "replay", "cassette": "a.jsonl"}, ReplayBackend),
        "record": ({"kind": "record", "cassette": "a.jsonl", "inner": {"kind": "symbolic"}}, RecordingBackend),
        "faulty": ({"kind": "faulty", "inner": {"kind": "symbolic"}, "wrong": 100, "raise": 50, "wrong_answer": "no"}, FaultyBackend),
    }
    assert set(built) == set(kinds())
    for config, kind in built.values():
        backend = build_backend({"id": "me", **config}, offload, NoServers())
        assert isinstance(backend, kind)
        assert backend.info.backend_id == "me"
    model = build_backend({"id": "big", **built["openai"][0]}, offload).info
    assert (model.slots, model.ctx, model.prompt_style, model.model_license, model.artifact_sha256) == (
        4,
        8192,
        "completion",
        "Apache-2.0",
        b"\xab" * 32,
    )
    assert build_backend(built["extractive"][0], offload).info.domains == (Domain.GENERAL, Domain.SCIENCE)


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ({}, "one of"),
        ({"kind": "symbolik"}, "did you mean symbolic"),
        ({"kind": 5}, "one of"),
        ({"kind": "symbolic", "slotz": 2}, "did you mean slots"),
        ({"kind": "symbolic", "slots": "2"}, ""),
        ({"kind": "symbolic", "slots": True}, ""),
        ({"kind": "symbolic", "slots": 0}, ""),
        ({"kind": "symbolic", "ctx": -1}, ""),
        ({"kind": "symbolic", "domains": ["cooking"]}, "one of"),
        ({"kind": "symbolic", "domains": "math"}, ""),
        ({"kind": "symbolic", "id": "two words"}, ""),
        ({"kind": "symbolic", "id": ""}, ""),
        ({k: v for k, v in OPENAI.items() if k != "model"}, ""),
        ({k: v for k, v in OPENAI.items() if k != "model_license"}, ""),
        ({k: v for k, v in OPENAI.items() if k != "base_url"}, ""),
        ({**OPENAI, "prompt_style": "poem"}, ""),
        ({**OPENAI, "idle_s": 0}, ""),
        ({**OPENAI, "assume": ["magic"]}, "features are"),
        ({**OPENAI, "artifact_sha256": "xyz"}, ""),
        ({**OPENAI, "api_key": "sk-inline"}, "did you mean api_key"),
        ({"kind": "replay"}, ""),
        ({"kind": "faulty"}, ""),
        ({"kind": "faulty", "inner": {"kind": "nothing"}}, ""),
        ({"kind": "faulty", "inner": {"kind": "symbolic"}, "wrong": 99_999}, ""),
    ],
)
def test_bad_settings_are_refused_with_a_hint(config: dict[str, Any], hint: str) -> None:
    with pytest.raises(GnusError, match="CONFIG") as caught:
        build_backend(config, Inline())
    assert hint in caught.value.fix
    assert "sk-inline" not in str(caught.value) + caught.value.fix


async def test_a_recorded_faulty_expert_from_settings(tmp_path: Path) -> None:
    tape = str(tmp_path / "tape.jsonl")
    inner = {"kind": "faulty", "wrong": 10_000, "wrong_answer": "5", "inner": {"kind": "symbolic"}}
    recorder = build_backend({"id": "x", "kind": "record", "cassette": tape, "inner": inner}, Inline())
    await recorder.open()
    assert (await collect(recorder, GenRequest("r", "2 + 2"))).draft.answer == "5"
    replay = build_backend({"kind": "replay", "cassette": tape}, Inline())
    await replay.open()
    assert (await collect(replay, GenRequest("again", "2 + 2"))).draft.answer == "5"
    assert (await collect(replay, GenRequest("r", "2 + 3"))).draft.abstained == "CASSETTE_MISS"


@pytest.mark.parametrize(
    "change",
    [
        {"path": ""},
        {"sha256": ""},
        {"sha256": "ab" * 31},
        {"prompt_style": ""},
        {"prompt_style": "poem"},
        {"model_license": ""},
        {"slots": 2},
        {"threads": 0},
        {"threads": 1000},
        {"ctx": 8},
        {"start_s": 0},
        {"base_url": "http://127.0.0.1/v1"},
    ],
)
def test_settings_of_an_embedded_model_are_strict(change: dict[str, object]) -> None:
    with pytest.raises(GnusError) as refused:
        build_backend(EMBEDDED | change, Inline(), NoServers())
    assert refused.value.code == "CONFIG"


async def test_an_embedded_model_needs_a_machine_and_its_engine() -> None:
    with pytest.raises(GnusError) as nowhere:
        build_backend(EMBEDDED, Inline())
    assert nowhere.value.code == "CONFIG"
    backend = build_backend(EMBEDDED, Inline(), NoServers())
    assert (backend.info.kind, backend.info.slots, backend.info.model_id) == (BackendKind.EMBEDDED, 1, "w")
    with pytest.raises(GnusError) as missing:
        await backend.open()
    assert missing.value.code == "MISSING_DEPENDENCY"
    assert "gnus-node[embedded]" in missing.value.fix
    assert await backend.health() is Health.CLOSED
    await backend.aclose()
