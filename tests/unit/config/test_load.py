"""What an operator sees of a settings file: the values that hold, or one refusal that points at the line."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from gnus_node.config import load_config
from gnus_node.config.describe import describe_config
from gnus_node.config.model import NodeConfig
from gnus_node.records.enums import Domain, ExpertRole, RoleName
from gnus_node.records.errors import EXIT_USAGE, GnusError
from tests.house.rules import ROOT


def refused(tmp_path: Path, text: str | bytes) -> GnusError:
    """The error that a file with this text gives."""
    path = tmp_path / "node.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GnusError) as caught:
        load_config(path)
    assert caught.value.code == "CONFIG"
    assert caught.value.row.exit == EXIT_USAGE
    assert str(path) in caught.value.what
    return caught.value


def test_the_demo_file_holds_nine_roles_and_real_experts():
    config = load_config(ROOT / "configs" / "node.toml")
    assert config.node.roles == tuple(RoleName)
    assert {name: expert.kind for name, expert in config.experts.items()} == {
        "core": "extractive",
        "calc": "symbolic",
        "factbook_reader": "extractive",
        "country_reader": "extractive",
        "files": "file_lookup",
    }
    assert config.experts["core"].role is ExpertRole.SEMANTIC_CORE
    assert config.experts["calc"].domains == (Domain.MATH,)
    assert [corpus.kind for corpus in config.corpora] == ["folder", "factbook", "countryinfo"]
    assert config.corpora[0].path == ROOT / "docs"
    assert config.tools.roots == (ROOT / "configs" / "demo_files",)
    assert config.tools.roots[0].is_dir()


def test_an_empty_file_gives_defaults_with_paths_from_its_folder(tmp_path: Path):
    path = tmp_path / "node.toml"
    path.touch()
    config = load_config(path)
    assert config.node.data_dir == tmp_path / "data"
    assert config.socket_path == tmp_path / "data" / "node.sock"
    assert config.charter_path == tmp_path / "data" / "charter.json"


def test_paths_are_relative_to_the_file_not_to_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "sub" / "node.toml"
    path.parent.mkdir()
    path.write_text('[node]\ndata_dir = "../d"\n[tools]\nroots = ["r", "/abs"]\n[telemetry]\nlog_file = "n.log"\n')
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("sub/node.toml"))
    assert config.node.data_dir == tmp_path / "d"
    assert config.tools.roots == (tmp_path / "sub" / "r", Path("/abs"))
    assert config.telemetry.log_file == tmp_path / "sub" / "n.log"


@pytest.mark.parametrize(("written", "minions"), [("1", 1_000_000), ("0.000001", 1), ("0.25", 250_000), ("2.5", 2_500_000)])
def test_spend_is_gnus_in_the_file_and_minions_in_memory(tmp_path: Path, written: str, minions: int):
    path = tmp_path / "node.toml"
    path.write_text(f"[limits]\nmax_spend = {written}\n")
    assert load_config(path).limits.max_spend == minions


def test_an_unknown_key_names_file_line_and_nearest(tmp_path: Path):
    error = refused(tmp_path, '# c\n[node]\noperator = "x"\ndatadir = "y"\n')
    assert "node.toml:4: unknown key 'node.datadir'" in error.what
    assert error.fix == "did you mean 'data_dir'?"


@pytest.mark.parametrize(
    ("text", "line", "fix"),
    [
        ("[nod]\n", 1, "did you mean 'node'?"),
        ("\n[api]\nmax_wall_ms = 5\n", 3, "'max_wall_ms' belongs in [limits]"),
        ('[experts.a]\nkind = "symbolic"\nlicence = "MIT"\n', 3, "did you mean 'license'?"),
        ('[[corpora]]\nname = "a"\nkind = "factbook"\nuri_prefix = "a:b"\n[[corpora]]\nnmae = "b"\n', 6, "did you mean 'name'?"),
    ],
)
def test_the_nearest_key_is_found_in_every_kind_of_section(tmp_path: Path, text: str, line: int, fix: str):
    error = refused(tmp_path, text)
    assert f"node.toml:{line}: unknown key" in error.what
    assert error.fix == fix


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[api]\n\nmax_body_bytes = 10\n", 3),
        ('[api]\nmax_body_bytes = "1024"\n', 2),
        ("[api]\nmax_body_bytes = 2048.0\n", 2),
        ('[api]\nlisten = "0.0.0.0:80"\n', 2),
        ('[api]\nlisten = "localhost:1"\n', 2),
        ('[api]\nlisten = "127.0.0.1:70000"\n', 2),
        ('[api]\nlisten = "[::]:80"\n', 2),
        ("[limits]\nmax_spend = 0.0000001\n", 2),
        ("[limits]\nmax_spend = nan\n", 2),
        ("[limits]\nmax_spend = -1\n", 2),
        ("[limits]\nmax_spend = true\n", 2),
        ('[node]\nroles = ["router", "router"]\n', 2),
        ('[node]\nroles = ["captain"]\n', 2),
        ("[node]\nroles = []\n", 2),
        ('[node]\nnode_id = "A B"\n', 2),
        ('[node]\ndata_dir = ""\n', 2),
        ('[experts.a]\nkind = "oracle"\n', 2),
        ('[experts.a]\nkind = "symbolic"\n[experts.a.options]\nx = { y = 1 }\n', 4),
        ('[experts."a b"]\nkind = "symbolic"\n', 1),
        ('[[corpora]]\nname = "a"\nkind = "folder"\nuri_prefix = "a:b"\n', 1),
        ('[[corpora]]\nname = "a"\nkind = "factbook"\npath = "x"\nuri_prefix = "a:b"\n', 1),
        ('[tools]\nadapter_paths = ["os.system"]\n', 2),
        ("[experts.a]\n", 1),
        ("a = 1\na = 2\n", 2),
        ("[node\n", 1),
        ("x = [1,\n\n", 3),
        (b"[node]\noperator = '\xff'\n", 2),
    ],
)
def test_a_bad_value_is_refused_at_its_line(tmp_path: Path, text: str | bytes, line: int):
    assert f"node.toml:{line}: " in refused(tmp_path, text).what


def test_the_first_fault_in_the_file_is_the_one_reported(tmp_path: Path):
    assert "node.toml:2:" in refused(tmp_path, "[api]\nx1 = 1\n[node]\nx2 = 2\n").what


def test_a_refusal_does_not_repeat_the_value(tmp_path: Path):
    error = refused(tmp_path, '[experts.a]\nkind = "sk-canary-value"\n')
    assert "canary" not in error.what + error.fix


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ('[experts.a]\nkind = "symbolci"\n', "symbolic"),
        ('[experts.a]\nkind = "symbolic"\nrole = "semantic-core"\n', "semantic_core"),
        ('[experts.a]\nkind = "symbolic"\ndomains = ["maths"]\n', "math"),
        ('[node]\nroles = ["ruoter"]\n', "router"),
        ('[node]\nprofile = "smal_swarm"\n', "small_swarm"),
        ('[policy]\ntemplate = "readonly"\n', "read_only"),
        ('[telemetry]\nlog_level = "warn"\n', "warning"),
        ('[[corpora]]\nname = "a"\nuri_prefix = "doc://a/"\nkind = "foldr"\npath = "a"\n', "folder"),
        ('[[corpora]]\nname = "a"\nuri_prefix = "doc://a/"\nkind = "folder"\npath = "a"\nsource_class = "publik"\n', "public"),
    ],
)
def test_a_mistyped_value_is_answered_with_the_nearest_one(tmp_path: Path, text: str, near: str):
    error = refused(tmp_path, text)
    assert f"did you mean {near!r}?" in error.fix
    assert "not a known value" in error.what


def test_the_api_listens_on_loopback_only(tmp_path: Path):
    path = tmp_path / "node.toml"
    path.write_text('[api]\nlisten = "[::1]:0"\n')
    assert load_config(path).api.listen == "[::1]:0"
    for listen in ("0.0.0.0:80", "192.0.2.1:80", "127.0.0.2:80"):
        assert (
            "loopback" in refused(tmp_path, f'[api]\nlisten = "{listen}"\n').what
            or "plain HTTP" in refused(tmp_path, f'[api]\nlisten = "{listen}"\n').what
        )


def test_a_missing_file_and_an_endless_one_are_refused(tmp_path: Path):
    with pytest.raises(GnusError, match="cannot be read"):
        load_config(tmp_path / "none.toml")
    assert "larger than" in refused(tmp_path, "#" * 1_100_000).what


def test_deep_nesting_is_a_refusal_not_a_crash(tmp_path: Path):
    refused(tmp_path, "a = " + "[" * 5000 + "]" * 5000)


def test_the_environment_overrides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("NODE__OPERATOR", "GNUS_NODE_OPERATOR", "OPERATOR", "GNUS_NODE__OPERATOR"):
        monkeypatch.setenv(name, "intruder")
    path = tmp_path / "node.toml"
    path.touch()
    assert load_config(path).node.operator == "local"


def test_options_keep_exact_numbers(tmp_path: Path):
    path = tmp_path / "node.toml"
    path.write_text('[experts.a]\nkind = "replay"\noptions = { rate = 0.1, many = ["x"], on = true, n = 3 }\n')
    assert load_config(path).experts["a"].options == {"rate": Decimal("0.1"), "many": ("x",), "on": True, "n": 3}


def test_the_page_names_every_key():
    page = describe_config()
    for field in NodeConfig.model_fields:
        assert f"{field}" in page
    for key in ("data_dir", "listen", "map_size_bytes", "max_spend", "uri_prefix", "adapter_paths", "log_file"):
        row = next(line for line in page.splitlines() if line.startswith(f"| `{key}`"))
        assert not row.endswith("|  |"), f"{key} has no meaning written below it"
