"""A call to a peer of the directory: as ``rpc.request``, and the node's view of the peer's health learns how it went."""

from __future__ import annotations

from gnus_node.net import rpc
from gnus_node.net.context import NodeContext
from gnus_node.net.directory import Peer
from gnus_node.records.errors import GnusError
from gnus_node.wire.message import Message


async def call_peer(
    node: NodeContext, peer: Peer, service: str, message: Message, *, budget_ms: int, on_item: rpc.OnItem | None = None
) -> Message:
    """The peer's result. Raises what ``rpc.request`` raises, and ``UNREACHABLE`` where the peer falls silent."""
    health = node.directory.health
    try:
        with health.calling(peer.node_id, node.clock.monotonic()):
            answer = await rpc.request(node.transport, peer.transport_key, service, message, budget_ms=budget_ms, on_item=on_item)
    except GnusError as error:
        health.failed(peer.node_id, error.code, node.clock.monotonic(), budget_ms)
        raise
    health.answered(peer.node_id)
    node.directory.seen(peer.node_id, node.clock.monotonic())
    return answer
