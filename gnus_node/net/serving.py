"""What a node serves: one table for every way a call reaches it, so that a service's limit holds over all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gnus_node.ports.transport import ServiceHandler
from gnus_node.records.errors import GnusError

MAX_SERVICES = 64
"""Most services of one node."""


@dataclass(slots=True)
class _Service:
    handler: ServiceHandler
    limit: int
    running: int = 0


class RoleGate:
    """What a node's roles serve passes here: once ``refusing``, other nodes' calls get ``BUSY``; what the node asks itself goes on."""

    def __init__(self, local_key: bytes) -> None:
        self._local_key = local_key
        self.refusing = False

    def check(self, peer: bytes) -> None:
        """Raises ``BUSY`` for another node's call while this one is stopping."""
        if self.refusing and peer != self._local_key:
            raise GnusError("BUSY", "the node is stopping")


class ServiceTable:
    """Handlers by protocol id, each with the calls it has under way."""

    def __init__(self) -> None:
        self._services: dict[str, _Service] = {}

    @property
    def running(self) -> int:
        """Calls being answered now, all services together: the load a node reports."""
        return sum(service.running for service in self._services.values())

    def add(self, service: str, handler: ServiceHandler, limit: int) -> None:
        """Serve a protocol id. Raises ``INTERNAL`` where it is served already, or the limit is no limit."""
        if service in self._services or limit < 1 or len(self._services) >= MAX_SERVICES:
            raise GnusError("INTERNAL", "a service is served once, with a positive limit", link=service)
        self._services[service] = _Service(handler, limit)

    @contextmanager
    def slot(self, service: str) -> Iterator[ServiceHandler]:
        """One of the service's slots for the length of the block. Raises ``UNKNOWN_SERVICE``, ``BUSY``."""
        served = self._services.get(service)
        if served is None:
            raise GnusError("UNKNOWN_SERVICE", link=service)
        if served.running >= served.limit:
            raise GnusError("BUSY", "all slots of the service are taken", link=service)
        served.running += 1
        try:
            yield served.handler
        finally:
            served.running -= 1
