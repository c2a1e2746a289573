"""A server program for tests: the contract of ``ports.servers.ServerSpec`` with the standard library, and ways to break it.

``mode`` of the setup: ``serve``, ``refuse``, ``die`` (before it is ready), ``silent`` (never ready), ``report`` (what the process was
given, as its first line). Run by path in an interpreter of its own.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import threading


def report() -> dict[str, object]:
    fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    alive = [fd for fd in fds if os.path.exists(f"/proc/self/fd/{fd}")]
    limits = {name: resource.getrlimit(getattr(resource, name))[0] for name in ("RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_FSIZE")}
    with open("/proc/self/status") as status:
        new = next(line for line in status if line.startswith("NoNewPrivs"))
    return {
        "fds": alive,
        "environment": dict(os.environ),
        "session": os.getsid(0) == os.getpid() == os.getpgrp(),
        "limits": limits,
        "no_new_privileges": new.split()[1],
        "folder": os.getcwd(),
    }


def serve(setup: dict[str, str]) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(setup["socket"])
    listener.listen()
    print(json.dumps({"ready": {"name": setup.get("name", "?")}}), flush=True)

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(str(os.getpid()).encode())

    threading.Thread(target=answer, daemon=True).start()
    sys.stderr.write("a question that somebody asked\nengine/core.c:42: assertion failed: a question that somebody asked\n")
    sys.stderr.flush()
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> None:
    setup = json.loads(sys.stdin.buffer.raw.readline())  # type: ignore[attr-defined]
    mode = setup.get("mode", "serve")
    if mode == "serve":
        sys.stderr.write("starting\n")
        serve(setup)
    elif mode == "refuse":
        print(json.dumps({"refused": ["CONFIG", "the stand-in refuses"]}), flush=True)
    elif mode == "die":
        sys.exit(7)
    elif mode == "report":
        print(json.dumps(report()), flush=True)
    elif mode == "flood":
        os.write(1, b"first\n")
        for _ in range(300):
            os.write(1, b"x" * 4096)
            os.write(2, b"y" * 4096 + b"\n")
        sys.exit(0)
    elif mode == "long":
        os.write(1, b"z" * 1_000_000 + b"\n")
    elif mode == "stubborn":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        helper = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(60)"], stderr=subprocess.DEVNULL)
        print(helper.pid, flush=True)
        signal.pause()
    while True:
        threading.Event().wait(60)


main()
