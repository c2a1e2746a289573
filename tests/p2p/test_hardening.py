"""Each hardening patch against stock libp2p: the fault is still there without it, and gone with it.

A test that fails in its stock half says that upstream mended or moved something: look at the patch, and drop it or follow.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import libp2p
import pytest

from gnus_node.net.libp2p import hardening
from gnus_node.records.errors import GnusError
from tests.p2p.probe import CASES, GOOD

ROOT = Path(__file__).resolve().parents[2]


def probe(case: str, mode: str) -> int:
    command = [sys.executable, "-m", "tests.p2p.probe", case, mode]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(CASES))
def test_stock_is_at_fault_and_the_patch_mends_it(case: str) -> None:
    assert probe(case, "stock") != GOOD, f"upstream behaves well now: is the patch of {case} still needed?"
    assert probe(case, "patched") == GOOD


def test_every_patch_has_its_probe() -> None:
    assert {patch.__name__ for patch in hardening.PATCHES} <= {case.split("/")[0] for case in CASES}


def test_the_version_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert libp2p.__version__ == hardening.PINNED
    monkeypatch.setattr(libp2p, "__version__", "0.9.0")
    with pytest.raises(GnusError, match="MISSING_DEPENDENCY"):
        hardening.install()


def test_a_name_that_is_gone_is_noticed() -> None:
    with pytest.raises(GnusError, match="MISSING_DEPENDENCY"):
        hardening._need(hardening.swarm, "_no_such_name")


def test_installing_twice_changes_nothing() -> None:
    hardening.install()
    before = [hardening.basic_host.BasicHost._swarm_stream_handler, hardening.pubsub.Pubsub.push_msg, hardening.yamux.Yamux._write_frame]
    hardening.install()
    after = [hardening.basic_host.BasicHost._swarm_stream_handler, hardening.pubsub.Pubsub.push_msg, hardening.yamux.Yamux._write_frame]
    assert before == after


def test_libp2p_does_not_talk_past_the_node_s_log(caplog: pytest.LogCaptureFixture) -> None:
    hardening.install()
    record = logging.LogRecord("root", logging.WARNING, f"{Path(libp2p.__file__).parent}/network/swarm.py", 1, "noise", (), None)
    assert not logging.getLogger().filter(record)
    assert logging.getLogger("libp2p.network").getEffectiveLevel() == logging.CRITICAL
    ours = logging.LogRecord("root", logging.WARNING, __file__.replace("libp2p", "p2p"), 1, "ours", (), None)
    assert logging.getLogger().filter(ours)
