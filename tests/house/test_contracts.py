"""The import contracts hold, as import-linter itself judges them."""

from __future__ import annotations

import subprocess
import sys

from tests.house.rules import ROOT


def test_the_import_contracts_hold():
    program = "import sys; from importlinter.cli import lint_imports_command; sys.argv[0] = 'lint-imports'; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", program, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
