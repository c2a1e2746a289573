"""The demo's front: nothing heavy is imported before Ctrl-C is taken care of."""

from __future__ import annotations

import signal
import sys
from types import FrameType

INTERRUPTED = 130


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(argv: list[str]) -> int:
    """Run the demo. Ctrl-C, SIGTERM and a closed terminal stop the node too; a second Ctrl-C ends it at once."""
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                signal.signal(number, _end)
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt inside an import is an error of whatever is imported
        from simulations.demo.run import run

        signal.signal(signal.SIGINT, before)
        return run(argv)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
