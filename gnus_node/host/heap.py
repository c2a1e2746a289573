"""The collector of cycles, set for a long-running process.

A node that is open holds some hundred thousand objects that live as long as it does: classes, schemas, grants, indexes. The collector's
defaults walk them again and again for the garbage of a request, of which little is cyclic: 6 % of the time of a node's first hundred
requests, 1 % of later ones; with these settings 1 % of both.
Process-wide, so the program calls it and a library never does.
"""

from __future__ import annotations

import gc

THRESHOLDS = (20_000, 20, 50)
"""New containers before the youngest generation is walked (default 700), and walks of one generation before one of the next."""


def settle_heap() -> None:
    """Call once, when everything that stays was built: what is alive now is never walked again, and what comes is walked less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
