"""The network: transports, typed calls, services, and the directory of who hosts what (DESIGN.md section 5).

Facade: ``MemoryBus``, ``Faults``, ``Directory``, ``request``, ``serve``, ``serving``, ``SERVICES``.
"""

from gnus_node.net.directory import Directory, Offer, Peer, PeerRow, Refusal
from gnus_node.net.memory_transport import Faults, MemoryBus, MemoryTransport
from gnus_node.net.rpc import Request, request, serve, serving
from gnus_node.net.services import SERVICES, Service, service, services_table

__all__ = [
    "SERVICES",
    "Directory",
    "Faults",
    "MemoryBus",
    "MemoryTransport",
    "Offer",
    "Peer",
    "PeerRow",
    "Refusal",
    "Request",
    "Service",
    "request",
    "serve",
    "service",
    "services_table",
    "serving",
]
