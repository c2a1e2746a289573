"""The machine's side of the ports: clock, entropy, offload. Floor 4.

Each port has a real adapter and one that repeats: ``SystemClock`` under trio's MockClock gives virtual wall time, ``SeededEntropy``
gives the same bytes for the same seed, ``InlineOffload`` does blocking work on the loop in a fixed order. A node built from the second
set has the same trace for the same seed (DESIGN.md section 1, rule 4).
"""

from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SeededEntropy, SystemEntropy
from gnus_node.host.offload import InlineOffload, ThreadOffload

__all__ = ["InlineOffload", "SeededEntropy", "SystemClock", "SystemEntropy", "ThreadOffload"]
