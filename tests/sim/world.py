"""The questions and the node of the virtual run; run as a program it prints the outcome of a seed as JSON."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from gnus_node.config.model import NodeConfig
from gnus_node.ports.host import Clock, Entropy
from gnus_node.ports.submit import Ask
from simulations.virtual.run import Ran, run_virtual
from tests.nodes import install_hands, loading, make_node

QUESTIONS = (
    (Ask("What is seven times twelve?"), Ask("What is the release codename in notes.md?"), Ask("What is the airspeed of a swallow?")),
    (Ask("Append the tag alpha-1 to counter.txt"), Ask("In counter.txt append a tag"), Ask("What is the release date in notes.md?")),
    (Ask("What is 3 plus 4?", idempotency_key="k"), Ask("What is 3 plus 4?", idempotency_key="k")),
)


def run(seed: int, folder: Path) -> Ran:
    """One run in a folder that is emptied first: paths stand in signed policies, so runs are compared in the same folder."""

    def prepare(entropy: Entropy, clock: Clock) -> NodeConfig:
        shutil.rmtree(folder, ignore_errors=True)
        return make_node(folder, entropy, clock)

    undo = install_hands()
    try:
        return run_virtual(seed, prepare, QUESTIONS, loading=loading(folder))
    finally:
        undo()


if __name__ == "__main__":
    print(json.dumps(asdict(run(int(sys.argv[1]), Path(sys.argv[2])))))
