"""The node as a process: real ports, its doors, signals, and how it ends (DESIGN.md section 1).

Whatever keeps a node from starting comes up as typed errors, out of the groups that nurseries wrap them in; a fault of the program comes
up as one ``INTERNAL``, and where it happened goes to the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import trio

from gnus_node import __version__
from gnus_node.api.app import ApiDeps
from gnus_node.api.keys import KeyRing
from gnus_node.api.server import Bound, serve
from gnus_node.api.settings import ApiSettings
from gnus_node.config.model import NodeConfig
from gnus_node.foreground import address, foreground_log, log_sink, until_signal
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.host.heap import settle_heap
from gnus_node.host.offload import ThreadOffload
from gnus_node.host.servers import open_servers
from gnus_node.init import KEYS_FILE
from gnus_node.net.memory_transport import MemoryBus
from gnus_node.node import Node, Ports, open_node
from gnus_node.ports.host import Clock, Log, Probe
from gnus_node.preflight import settings_faults
from gnus_node.records.errors import GnusError, faults_of, refuse
from gnus_node.stopping import Stop, drain
from gnus_node.telemetry.log import Sink
from gnus_node.telemetry.probe import NullProbe
from gnus_node.telemetry.redact import fault_fields


async def serve_doors(node: Node, log: Log, *, task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED) -> None:
    """The unix socket and the loopback API of a node, until cancelled."""
    config = node.config
    settings = replace(
        ApiSettings(),
        max_body_bytes=config.api.max_body_bytes,
        rate_per_minute=config.api.rate_per_minute,
        rate_burst=config.api.rate_burst,
        max_streams=config.api.max_streams,
    )
    deps = ApiDeps(
        submit=node.submit,
        admin=node.admin,
        keys=KeyRing.load(config.node.data_dir / KEYS_FILE, node.context.clock),
        operator=node.operator,
        clock=node.context.clock,
        entropy=node.context.entropy,
        log=log,
        problems=node.problems,
        metrics=node.metrics.render,
        settings=settings,
    )
    tcp = None
    if config.api.listen != "off":
        host, _, port = config.api.listen.rpartition(":")
        tcp = (host.strip("[]"), int(port))
    await serve(deps, unix_path=config.socket_path, tcp=tcp, task_status=task_status)


def run_node(
    config: NodeConfig, *, probe: Probe | None = None, start_over: bool = False, log_json: bool = False, while_stdin: bool = False
) -> int:
    """``gnus-node run``: until SIGINT or SIGTERM, or with ``while_stdin`` the end of standard input; the exit code. With ``log_json`` the log
    is JSON on a terminal too.

    What keeps the node from starting, or ends it, comes out as it is, out of the nurseries' groups: one typed error, or a group of typed
    errors only."""
    refuse(settings_faults(config))
    try:
        config.node.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise GnusError(
            "CONFIG", f"cannot make the data directory {config.node.data_dir}: {error.strerror}", fix="correct data_dir"
        ) from None
    _run(partial(_guarded, config, log_sink(config), probe, start_over, log_json, while_stdin))
    return 0


async def _guarded(config: NodeConfig, sink: Sink, probe: Probe | None, start_over: bool, log_json: bool, while_stdin: bool) -> None:
    """The node and the boundary around all of it."""
    clock = SystemClock()
    log = foreground_log(config, sink, clock, as_json=log_json)
    try:
        await _main(config, clock, log, probe, start_over, while_stdin)
    except Exception as error:  # noqa: BLE001 - supervised boundary: the whole node; a fault of the program goes to the log, not to the user
        faults = faults_of(error)
        refuse(faults or [_fault(error, log)])


def _run(main: Callable[[], Awaitable[None]]) -> None:
    """``trio.run``; Ctrl-C before the node listens for it comes out as itself."""
    interrupted = False
    try:
        trio.run(main)
    except* KeyboardInterrupt:
        interrupted = True
    if interrupted:
        raise KeyboardInterrupt


def _fault(error: BaseException, log: Log) -> GnusError:
    """The typed error of a fault of this program; its place is logged, once for each exception of a group."""
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        else:
            log.error("node.fault", **fault_fields(one))
    return GnusError("INTERNAL", "the node was stopped by a fault of this program", fix="report the lines node.fault of the log")


async def _main(config: NodeConfig, clock: Clock, log: Log, probe: Probe | None, start_over: bool, while_stdin: bool) -> None:
    entropy, offload = SystemEntropy(), ThreadOffload()
    folder, memory = config.node.runtime_dir, config.weights_path
    async with (
        trio.open_nursery() as nursery,
        open_servers(entropy=entropy, offload=offload, log=log, folder=folder, memory=memory) as servers,
    ):
        stop = Stop(nursery.cancel_scope)
        await nursery.start(until_signal, stop.tell)
        if while_stdin:
            nursery.start_soon(stop.stdin)
        log.info("node.starting", software=f"gnus-node {__version__}", roles=len(config.node.roles))
        ports = Ports(clock, entropy, offload, MemoryBus(), probe or NullProbe(), log, servers=servers)
        async with open_node(config, ports, start_over=start_over) as node, trio.open_nursery() as doors:
            bound = await doors.start(partial(serve_doors, node, log))
            settle_heap()
            log.info("node.ready", node_id=node.context.node_id, roles=len(config.node.roles), api=address(bound.tcp))
            stop.gently()
            await stop.wait()
            await drain(node, config.limits.drain_s)
            nursery.cancel_scope.cancel()
