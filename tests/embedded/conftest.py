"""These tests run a real engine (extra ``embedded``), some on real weights. Where one is missing they are skipped and say so, unless
GNUS_REQUIRE_EMBEDDED=1 says that both must be here; GNUS_MODELS names the folder of installed weights."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

REQUIRED = os.environ.get("GNUS_REQUIRE_EMBEDDED") == "1"
ENGINE = importlib.util.find_spec("xllamacpp") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here."""
    here = Path(__file__).parent
    if ENGINE or not any(here in item.path.parents for item in items):
        return
    if REQUIRED:
        raise pytest.UsageError("GNUS_REQUIRE_EMBEDDED=1 and xllamacpp is not installed: pip install -e '.[embedded]'")
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="needs the extra embedded (xllamacpp); make embedded has it"))


@pytest.fixture(scope="session")
def weights() -> Path:
    """The folder of real weights."""
    folder = Path(os.environ.get("GNUS_MODELS", "run/models")).resolve()
    if not any(folder.glob("*.gguf")):
        if REQUIRED:
            pytest.fail("GNUS_REQUIRE_EMBEDDED=1 and no weights are installed: gnus-node model install")
        pytest.skip("needs real weights; make embedded installs them")
    return folder
