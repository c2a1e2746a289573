"""The first thing a child process runs: ties its life to its parent's, lowers its limits, then becomes the program it was asked for.

A program of its own (``python -I launch.py PARENT MEMORY PROGRAM...``), since nothing may run between fork and exec in a process that has
threads. What it sets survives the exec. Standard library only, and nothing of this package.

- The kernel kills the child when the thread that made it ends, so it must be made by the parent's main loop, never by a worker thread.
- No core files (memory holds what users wrote), no written files, no new privileges by exec, files it makes are the user's alone.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
MAX_FILES = 256


def confine(parent: int, memory_bytes: int) -> None:
    """Apply the limits to this process. Raises ``OSError`` where one cannot be set, or the parent is gone already."""
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((PR_SET_PDEATHSIG, int(signal.SIGKILL)), (PR_SET_NO_NEW_PRIVS, 1)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        raise OSError("the parent has ended")
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, MAX_FILES),
    ):
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    os.umask(0o077)


if __name__ == "__main__":
    confine(int(sys.argv[1]), int(sys.argv[2]))
    os.execv(sys.argv[3], sys.argv[3:])
