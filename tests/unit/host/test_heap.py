"""The collector set for a long-running process: what stays is left alone, cycles that come are still collected."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, weakref
from gnus_node.host.heap import THRESHOLDS, settle_heap
class Node:
    pass
stays = Node()
settle_heap()
assert gc.get_threshold() == THRESHOLDS and gc.isenabled()
assert gc.get_freeze_count() > 0 and not any(o is stays for o in gc.get_objects())
one, two = Node(), Node()
one.other, two.other = two, one
gone = weakref.ref(one)
del one, two
for _ in range(10 * THRESHOLDS[0]):
    if gone() is None:
        break
    stays.kept = [stays, getattr(stays, "kept", None)]
assert gone() is None, "a cycle was collected without being asked for"
"""


def test_the_heap_of_a_process_is_settled() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
