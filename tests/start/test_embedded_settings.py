"""What is said of an embedded model before a node starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnus_node import preflight
from gnus_node.config import load_config
from gnus_node.preflight import settings_faults

SETTINGS = """
[experts.model]
kind = "embedded"
license = "Some Terms"
options = { path = "weights.gguf", sha256 = "SHA", prompt_style = "completion" }
"""


def faults(folder: Path, sha256: str = "ab" * 32) -> list[tuple[str, str]]:
    (folder / "node.toml").write_text(SETTINGS.replace("SHA", sha256))
    found = settings_faults(load_config(folder / "node.toml"))
    return [(fault.code, fault.link) for fault in found if fault.link == "experts.model"]


@pytest.mark.parametrize("here", [True, False])
def test_a_missing_engine_and_missing_weights_are_said_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool) -> None:
    monkeypatch.setattr(preflight, "installed", lambda module: here)
    engine = [] if here else [("MISSING_DEPENDENCY", "experts.model")]
    assert faults(tmp_path) == [*engine, ("CONFIG", "experts.model")]
    (tmp_path / "weights.gguf").touch()
    assert faults(tmp_path) == engine
    assert faults(tmp_path, "not hexadecimal") == [("CONFIG", "experts.model"), *engine]
