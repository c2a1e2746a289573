"""A node as a program in the foreground: how it is told to stop, and how its log looks to a person.

Invariants: the first SIGINT or SIGTERM ends the node in good order, whatever it is doing; the next one ends the process at once (what is
stored is whole at every moment, so nothing is lost that was promised). No address, name or object of the program's inside is in a line.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import trio

from gnus_node.config.model import NodeConfig
from gnus_node.ports.host import Clock, Log
from gnus_node.telemetry.log import FileSink, LogForm, Sink, StreamSink, make_log

STOP = (signal.SIGINT, signal.SIGTERM)


async def until_signal(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Cancel ``scope`` at the first of ``STOP``; from then on each of them has its default effect again, the end of the process."""
    with trio.open_signal_receiver(*STOP) as signals:
        task_status.started()
        async for _ in signals:
            break
    for number in STOP:
        signal.signal(number, signal.SIG_DFL)
    scope.cancel()


def log_sink(config: NodeConfig) -> Sink:
    """Where the log of the settings goes. Raises ``CONFIG``."""
    return FileSink(config.telemetry.log_file) if config.telemetry.log_file else StreamSink(sys.stderr)


def foreground_log(config: NodeConfig, sink: Sink, clock: Clock, *, as_json: bool = False) -> Log:
    """The log of the settings. On a terminal it is for reading, unless JSON is asked for; in a file or a pipe it is JSON lines."""
    readable = config.telemetry.log_file is None and sys.stderr.isatty() and not as_json
    return make_log(sink, clock=clock, level=config.telemetry.log_level, form=LogForm.TERMINAL if readable else LogForm.JSON)


def address(bound: tuple[Any, ...] | None) -> str:
    """``("::1", 80)`` as ``[::1]:80``; "off" where there is none."""
    if bound is None:
        return "off"
    host, port = bound[0], bound[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
