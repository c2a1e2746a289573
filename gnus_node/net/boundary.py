"""The supervised boundary around a service handler: what it may raise becomes one ``GnusError``, and costs its own call only.

Shared by every transport. A peer's input must never end a neighbour's call or the node (reference: one raising handler ends a stock
libp2p host). Cancellation passes; ``BaseException`` is never caught.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from gnus_node.ports.host import Log
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.redact import fault_fields


async def supervise(work: Callable[[], Awaitable[None]], log: Log, service: str) -> GnusError | None:
    """Run a handler; its error, or None when it ended well. A fault of this program is logged and becomes ``INTERNAL``."""
    try:
        await work()
    except GnusError as error:
        return error
    except Exception as fault:  # noqa: BLE001 - supervised boundary: the node and other calls, from a faulty handler
        found = typed(fault)
        if found.code == "INTERNAL":
            log.error("rpc.handler_fault", service=service, **fault_fields(_deepest(fault)))
        return found
    return None


def typed(fault: Exception) -> GnusError:
    """One error for whatever a handler raised. A group of typed errors (a nursery's) gives one of them: first those after which the
    outcome is unknown, for nothing may be called definite that was not; among equals by code. Anything else is ``INTERNAL``."""
    leaves = list(_leaves(fault))
    known = [leaf for leaf in leaves if isinstance(leaf, GnusError)]
    if len(known) != len(leaves):
        return GnusError("INTERNAL", "the handler failed; see the node's log")
    return min(known, key=lambda e: (e.row.definite, e.code))


def _leaves(fault: BaseException) -> Iterator[BaseException]:
    if isinstance(fault, BaseExceptionGroup):
        for inner in fault.exceptions:
            yield from _leaves(inner)
    else:
        yield fault


def _deepest(fault: Exception) -> BaseException:
    """The first leaf that is no typed error: what went wrong, rather than the group around it."""
    return next((leaf for leaf in _leaves(fault) if not isinstance(leaf, GnusError)), fault)
