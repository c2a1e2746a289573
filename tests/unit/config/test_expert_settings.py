"""Experts in the settings: a model's licence is never assumed, and its files are found where the settings file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnus_node.config import load_config
from gnus_node.config.model import ExpertSettings
from gnus_node.records.errors import GnusError


def expert(tmp_path: Path, text: str) -> ExpertSettings:
    file = tmp_path / "node.toml"
    file.write_text("[experts.one]\n" + text)
    return load_config(file).experts["one"]


@pytest.mark.parametrize("kind", ["openai", "embedded"])
def test_a_model_without_a_licence_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(GnusError) as refused:
        expert(tmp_path, f'kind = "{kind}"\n')
    assert refused.value.code == "CONFIG"
    assert "licence" in refused.value.what


@pytest.mark.parametrize(
    "text",
    [
        'license = "Apache-2.0"\n',
        'options = { model_license = "Apache-2.0" }\n',
        'license = "Apache-2.0"\noptions = { model_license = "Apache-2.0" }\n',
    ],
)
def test_a_licence_may_stand_in_either_place(tmp_path: Path, text: str) -> None:
    found = expert(tmp_path, 'kind = "openai"\n' + text)
    assert found.model_license == "Apache-2.0"
    assert found.backend["model_license"] == "Apache-2.0"


def test_two_licences_that_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GnusError, match="differ"):
        expert(tmp_path, 'kind = "openai"\nlicense = "MIT"\noptions = { model_license = "Apache-2.0" }\n')


def test_rules_speak_for_themselves(tmp_path: Path) -> None:
    found = expert(tmp_path, 'kind = "symbolic"\n')
    assert found.model_license == ""
    assert found.backend == {"kind": "symbolic"}


def test_files_of_options_are_relative_to_the_settings_file(tmp_path: Path) -> None:
    text = 'kind = "embedded"\nlicense = "MIT"\noptions = { path = "models/a.gguf", sha256 = "00", model = "models/b" }\n'
    backend = expert(tmp_path, text).backend
    assert backend["path"] == str(tmp_path / "models" / "a.gguf")
    assert backend["model"] == "models/b"
    assert expert(tmp_path, 'kind = "replay"\noptions = { cassette = "../tape" }\n').backend["cassette"] == str(tmp_path.parent / "tape")
    with pytest.raises(GnusError):
        expert(tmp_path, 'kind = "replay"\noptions = { cassette = "a\\u0000b" }\n')
