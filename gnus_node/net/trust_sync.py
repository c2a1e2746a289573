"""Trust-log sync: two nodes compare heads and fetch what they lack, by record id (service ``trust.sync``; DESIGN.md section 5).

Works over any transport. Each side pulls; nothing is believed for its sender's sake, ``net.trust_rules`` judges every record. Fresh heads
also travel by gossip, and what a head says is missing is fetched from whoever sent it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import trio

from gnus_node.net import rpc
from gnus_node.net.context import TrustBox
from gnus_node.net.trust_rules import MAX_LOG, grow
from gnus_node.ports.host import Log
from gnus_node.ports.transport import Gossip, Transport
from gnus_node.records.authority import TrustHead
from gnus_node.records.enums import Whose
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.trust.state import head_authorised, head_order
from gnus_node.wire.limits import MAX_FRAME_BYTES, MAX_MESSAGE_RECORDS
from gnus_node.wire.message import Message
from gnus_node.wire.signed import Opener

SERVICE = "trust.sync"
TOPIC = "gnus/trust/1"
BUDGET_MS = 10_000
MAX_REPORTS = 64
_ROOM = MAX_FRAME_BYTES - 4096
"""Bytes of records in one answer."""
_PER_RECORD = 8


class TrustSync:
    """Keeps the node's ``TrustBox`` up with the swarm. ``on_change`` is awaited after each step, one at a time."""

    def __init__(self, box: TrustBox, transport: Transport, opener: Opener, log: Log, on_change: Callable[[], Awaitable[None]]) -> None:
        self._box = box
        self._transport = transport
        self._opener = opener
        self._log = log
        self._on_change = on_change
        self._changing = trio.Lock()
        self.reports: deque[GnusError] = deque(maxlen=MAX_REPORTS)
        """What was wrong with logs and heads that others offered, newest last."""

    def serve(self) -> None:
        """Answer others' questions."""
        rpc.serve(self._transport, SERVICE, self._answer)

    async def listen(self, gossip: Gossip) -> None:
        """Hear of fresh heads."""
        await gossip.subscribe(TOPIC, self._worth_hearing, self._heard)

    async def tell(self, gossip: Gossip) -> None:
        """Pass the head held on to everybody."""
        if self._box.state.head is not None:
            await gossip.publish(TOPIC, self._box.state.head.raw)

    async def pull(self, peer: bytes) -> bool:
        """Get from a peer what it has and this node lacks; whether the log here grew. Raises what a call raises, ``PROTOCOL``."""
        first = await self._ask(peer, {"op": "head"})
        mine = self._box.state.log_ids
        size = first.args.get("size")
        if size == len(mine) and first.args.get("same") is not True:
            # Equal sizes can still be different logs; the digest is in the head, ids tell for sure.
            size = None
        missing: list[bytes] = []
        if size != len(mine):
            ids = (await self._ask(peer, {"op": "ids"})).args.get("ids")
            if type(ids) is not tuple or len(ids) > MAX_LOG + 1 or any(type(i) is not bytes or len(i) != 32 for i in ids):
                raise _broken("a list of ids that is none")
            missing = [i for i in ids if i not in mine]
        raws = list(first.records[:1])
        while missing:
            reply = await self._ask(peer, {"op": "get", "ids": missing[:MAX_MESSAGE_RECORDS]})
            if not reply.records:
                raise _broken("records that it named are not given")
            got = {r.id for r in self._open(reply.records)}
            if not got & set(missing):
                raise _broken("other records than were asked for")
            raws += reply.records
            missing = [i for i in missing if i not in got]
        return await self.offer(self._open(raws), peer)

    async def offer(self, records: Iterable[Signed[Any]], peer: bytes = b"") -> bool:
        """Take records into the log as far as they may be; whether it grew."""
        growth = grow(self._box.state, self._box.records, records)
        for problem in growth.problems:
            self.reports.append(problem)
            self._log.warning("trust.refused", code=problem.code, link=problem.link, peer=peer.hex())
        if growth.state is None:
            return False
        self._box.replace(growth.state, growth.records)
        self._log.info("trust.head", epoch=growth.state.epoch, records=len(growth.state.log_ids))
        async with self._changing:
            await self._on_change()
        return True

    def _open(self, raws: Iterable[bytes]) -> list[Signed[Any]]:
        """Those that open; a record of a kind this node does not read is left out, and no head that covers it will be taken."""
        found: list[Signed[Any]] = []
        for raw in raws:
            try:
                found.append(self._opener.open(raw))
            except GnusError as error:
                self.reports.append(error)
        return found

    async def _ask(self, peer: bytes, args: dict[str, Any]) -> Message:
        head = self._box.state.head
        mine = (head.raw,) if head else ()
        return await rpc.request(self._transport, peer, SERVICE, Message(mine, args=args), budget_ms=BUDGET_MS)

    async def _answer(self, request: rpc.Request) -> Message:
        """``head``: the head, the log's size, and whether it is the log that the asker's head covers. ``ids``: all ids. ``get``: records by id,
        as many as fit."""
        await trio.lowlevel.checkpoint()
        state, op = self._box.state, request.message.args.get("op")
        head = (state.head.raw,) if state.head else ()
        if op == "head":
            theirs = self._open(request.message.records[:1])
            body = theirs[0].body if theirs else None
            same = isinstance(body, TrustHead) and state.head is not None and body.log_digest == state.head.body.log_digest
            return Message(head, args={"size": len(state.log_ids), "same": same})
        if op == "ids":
            return Message(args={"ids": sorted(state.log_ids)})
        if op == "get":
            wanted = request.message.args.get("ids")
            ids = set(wanted) if type(wanted) is tuple and all(type(i) is bytes for i in wanted) else set()
            return Message(_fitting(r.raw for r in (state.charter, *self._box.records) if r.id in ids))
        raise GnusError("UNSUPPORTED", "trust.sync knows head, ids and get")

    def _worth_hearing(self, _author: bytes, data: bytes) -> bool:
        """Whether a gossiped head is of this swarm's authority and not older than the one held. The author of the message does not matter."""
        try:
            record = self._opener.open(data)
        except GnusError:
            return False
        state = self._box.state
        if not isinstance(record.body, TrustHead) or record.header.swarm != state.swarm:
            return False
        return head_authorised(state.charter.body, record) and (state.head is None or head_order(record) >= head_order(state.head))

    async def _heard(self, author: bytes, data: bytes) -> None:
        """A fresh head: taken at once where it covers the log held, otherwise its author is asked for the rest."""
        record = self._opener.open(data)
        state = self._box.state
        if state.head is not None and record.id == state.head.id:
            return
        if record.body.log_size == len(state.log_ids):
            await self.offer([record], author)
        elif author in self._transport.peers():
            await self.pull(author)


def _fitting(raws: Iterable[bytes]) -> tuple[bytes, ...]:
    found: list[bytes] = []
    room = _ROOM
    for raw in raws:
        room -= len(raw) + _PER_RECORD
        if room < 0 or len(found) >= MAX_MESSAGE_RECORDS:
            break
        found.append(raw)
    return tuple(found)


def _broken(what: str) -> GnusError:
    return GnusError("PROTOCOL", f"trust sync: {what}", link=SERVICE, whose=Whose.REMOTE)
