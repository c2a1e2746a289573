"""The section [net]: addresses are checked as text, so that reading settings never needs libp2p; and nothing imports it unasked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gnus_node.config import load_config
from gnus_node.records.errors import GnusError
from gnus_node.specs import net_options

PEER = "/ip4/192.0.2.7/tcp/4001/p2p/12D3KooWDNh9KMTnHKbTW9Dud7FrWi4Y7QB8kazRnWRneVjcc75A"


def read(folder: Path, text: str):
    path = folder / "node.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def test_without_the_section_a_node_is_alone(tmp_path: Path) -> None:
    assert net_options(read(tmp_path, "")).listen == ()


def test_a_whole_section(tmp_path: Path) -> None:
    key = tmp_path / "swarm.key"
    key.write_text("ab" * 32 + "\n", encoding="ascii")
    key.chmod(0o600)
    text = f"""[net]
listen = ["/ip4/0.0.0.0/tcp/4001", "/ip6/::/tcp/0"]
announce = ["/dns4/node.example.org/tcp/4001"]
bootstrap = ["{PEER}"]
psk_file = "swarm.key"
"""
    options = net_options(read(tmp_path, text))
    assert options.listen == ("/ip4/0.0.0.0/tcp/4001", "/ip6/::/tcp/0")
    assert (options.bootstrap, options.psk, options.mdns) == ((PEER,), "ab" * 32, False)
    key.chmod(0o644)
    with pytest.raises(GnusError, match="readable by others"):
        net_options(read(tmp_path, text))
    key.unlink()
    with pytest.raises(GnusError, match="psk_file"):
        net_options(read(tmp_path, text))


@pytest.mark.parametrize(
    "line",
    [
        'listen = ["127.0.0.1:4001"]',
        'listen = ["/ip4/127.0.0.1/udp/4001/quic-v1"]',
        f'listen = ["{PEER}"]',
        'listen = ["/ip4/0.0.0.0/tcp/1", "/ip4/0.0.0.0/tcp/1"]',
        'listen = ["/ip4/0.0.0.0/tcp/1"]\nbootstrap = ["/ip4/192.0.2.7/tcp/4001"]',
        f'bootstrap = ["{PEER}"]',
        "mdns = true",
    ],
)
def test_other_addresses_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(GnusError, match="CONFIG"):
        read(tmp_path, f"[net]\n{line}\n")


def test_a_node_without_a_network_does_not_import_libp2p() -> None:
    code = "import sys, gnus_node.node, gnus_node.cli.main; sys.exit(any(m.split('.')[0] in ('libp2p', 'multiaddr') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
