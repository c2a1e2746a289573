"""``python -m tests.house``: print every breach as ``file:line: rule: message``; exit 1 if there is one."""

from __future__ import annotations

import sys

from tests.house.rules import ROOT, check_tree


def main() -> int:
    """Check the whole tree; returns the exit code."""
    findings = check_tree(ROOT)
    for finding in findings:
        print(finding)
    print(f"house: {len(findings)} breach{'' if len(findings) == 1 else 'es'}" if findings else "house: in order")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
