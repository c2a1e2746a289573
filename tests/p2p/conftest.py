"""These tests need libp2p (extra ``p2p``). Where it is missing they are not collected, unless GNUS_REQUIRE_P2P=1 says that it must be here."""

from __future__ import annotations

import importlib.util
import os

import pytest

HERE = importlib.util.find_spec("libp2p") is not None

if not HERE and os.environ.get("GNUS_REQUIRE_P2P") == "1":
    raise pytest.UsageError("GNUS_REQUIRE_P2P=1 and libp2p is not installed: pip install -e '.[p2p]'")

collect_ignore_glob = [] if HERE else ["test_*.py"]
