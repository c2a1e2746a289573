"""GossipSub as ``ports.Gossip``: our options, content ids, and a check that is quick, synchronous and never raises.

The id of a message covers its author: upstream remembers what failed a check by id, and with the content alone a stranger could send a
node's own announcement under another name first and have the real one refused everywhere.
"""

from __future__ import annotations

import hashlib
from typing import Any

import trio
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub

from gnus_node.net.inbox import MAX_TOPICS, Inbox, Rates, check_size, content_id
from gnus_node.net.libp2p.peers import transport_key
from gnus_node.ports.host import Log
from gnus_node.ports.transport import GossipCheck, GossipHandler
from gnus_node.records.errors import GnusError

PROTOCOLS = ("/meshsub/1.2.0", "/meshsub/1.1.0")
FORWARD_PER_S = 100.0
"""Messages taken from one neighbour, whoever wrote them."""
FORWARD_BURST = 1024.0
MAX_RPC_BYTES = 1024 * 1024
SEEN_S = 120


def message_id(message: Any) -> bytes:
    """Id of a message by topic, author and content; the author's counter, which a restart repeats, is left out. Never raises."""
    topics = "\0".join(message.topicIDs)
    return hashlib.sha256(content_id(topics, message.data) + message.from_id).digest()


def make_router() -> Any:
    """GossipSub for a swarm of tens of nodes. Its own spam filter would drop a node's own messages too: rates are judged by ``Inbox``."""
    return GossipSub(
        protocols=[TProtocol(name) for name in PROTOCOLS],
        degree=6,
        degree_low=4,
        degree_high=12,
        heartbeat_interval=1,
        heartbeat_initial_delay=0.1,
        prune_back_off=10,
        unsubscribe_back_off=5,
        spam_protection_enabled=False,
        adaptive_gossip_enabled=False,
        eclipse_protection_enabled=False,
    )


def make_pubsub(host: Any, router: Any) -> Any:
    """The service that carries messages: signed by their authors, small, each once."""
    return Pubsub(
        host,
        router,
        strict_signing=True,
        msg_id_constructor=message_id,
        seen_ttl=SEEN_S,
        max_inbound_rpc_size=MAX_RPC_BYTES,
        max_subscriptions_per_rpc=MAX_TOPICS * 4,
        max_subscriptions_per_peer=MAX_TOPICS * 4,
    )


class Libp2pGossip:
    """Implements ``ports.Gossip`` over a running ``Pubsub``."""

    def __init__(self, pubsub: Any, local_key: bytes, nursery: trio.Nursery, log: Log) -> None:
        self._pubsub = pubsub
        self._local = local_key
        self._nursery = nursery
        self._log = log
        self._inboxes: dict[str, Inbox] = {}
        self._forwarders = Rates(FORWARD_PER_S, FORWARD_BURST)

    async def subscribe(self, topic: str, check: GossipCheck, handler: GossipHandler) -> None:
        """See the port."""
        if topic in self._inboxes or len(self._inboxes) >= MAX_TOPICS:
            raise GnusError("INTERNAL", "a topic is listened to once", link=topic)
        self._inboxes[topic] = inbox = Inbox(topic, check, handler, self._log)
        self._pubsub.set_topic_validator(topic, lambda forwarder, message: self._judge(inbox, forwarder, message), False)
        subscription = await self._pubsub.subscribe(topic)
        self._nursery.start_soon(inbox.run)
        self._nursery.start_soon(self._listen, inbox, subscription)

    async def publish(self, topic: str, data: bytes) -> None:
        """See the port."""
        check_size(data)
        await self._pubsub.publish(topic, data)

    def _judge(self, inbox: Inbox, forwarder: ID, message: Any) -> bool:
        """Whether a message counts. Never raises: what can is behind ``Inbox.judge``."""
        author = _author(message)
        if author == self._local:
            return True
        if author is None or list(message.topicIDs) != [inbox.topic]:
            return False
        via = transport_key(forwarder)
        return via is not None and self._forwarders.take(via, trio.current_time()) and inbox.judge(author, message.data)

    async def _listen(self, inbox: Inbox, subscription: Any) -> None:
        while True:
            message = await subscription.get()
            author = _author(message)
            if author is not None and author != self._local:
                inbox.take(author, message.data)


def _author(message: Any) -> bytes | None:
    """The key of whoever signed the message, as upstream has verified it; None where that is no ed25519 peer."""
    return transport_key(ID(message.from_id))
