"""After the answer: memory candidates and settlement, durable and retried, off the answer path (DESIGN.md section 3, step 8).

The journal is the queue: a request that has ended and is not settled is found there again, after a restart or once there is room. The
channel only spares the scan. A request that cannot be settled now waits by itself, so it holds up no other.
"""

from __future__ import annotations

from typing import Any

import trio

from gnus_node.evidence.bag import Bag
from gnus_node.evidence.inputs import committed_of
from gnus_node.flow.accept import FlowLimits, journal_write
from gnus_node.flow.archive import Archive
from gnus_node.flow.journal import ANSWER, TASK_SUFFIX, Phase, record_rows, request_key
from gnus_node.net.boundary import supervise
from gnus_node.net.calls import call_peer
from gnus_node.net.context import RoleContext
from gnus_node.net.directory import Peer
from gnus_node.ports.store import Write
from gnus_node.privacy.parcels import Vault
from gnus_node.records.authority import RequestMandate
from gnus_node.records.enums import Outcome, RoleName
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import SynthesisResult
from gnus_node.records.settlement import TaskRecord, TaskStatus
from gnus_node.telemetry.events import emit
from gnus_node.wire import cbor
from gnus_node.wire.message import Message

SETTLE_BUDGET_MS = 10_000
WORKERS = 4


class Aftermath:
    """Settles ended requests, one after another on a few workers."""

    def __init__(self, context: RoleContext, archive: Archive, limits: FlowLimits) -> None:
        self._context = context
        self._node = context.node
        self._archive = archive
        self._limits = limits
        self._send, self._receive = trio.open_memory_channel[str](limits.max_unsettled)
        self._open: set[str] = set()
        self._deferred = False
        self._idle = trio.Event()
        self._idle.set()

    def enqueue(self, request_id: str) -> None:
        """Settle this request soon. Where ``max_unsettled`` are open it stays in the journal, and is found there when they are done."""
        if request_id in self._open:
            return
        if len(self._open) >= self._limits.max_unsettled:
            self._deferred = True
            self._node.log.warning("settlement.deferred", request_id=request_id)
            return
        self._send.send_nowait(request_id)  # the channel has room for every open one
        self._open.add(request_id)
        self._idle = trio.Event() if self._idle.is_set() else self._idle

    async def wait_idle(self) -> None:
        """Wait until nothing is left to settle."""
        await self._idle.wait()

    async def run(self) -> None:
        """Work until cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(self._worker, nursery)

    async def _worker(self, nursery: trio.Nursery) -> None:
        async for request_id in self._receive:
            await self._try(request_id, self._limits.settle_retry_ms, nursery)

    async def _again(self, request_id: str, wait_ms: int, nursery: trio.Nursery) -> None:
        await trio.sleep(wait_ms / 1000)
        await self._try(request_id, min(wait_ms * 2, self._limits.settle_retry_max_ms), nursery)

    async def _try(self, request_id: str, wait_ms: int, nursery: trio.Nursery) -> None:
        """Settle once; what may succeed later is tried again, longer apart each time, on no worker's time. A fault of this program costs
        this request's settlement only."""
        error = await supervise(lambda: self._settle(request_id), self._node.log, "settlement")
        if error is not None:
            self._node.log.warning("settlement.retry", request_id=request_id, code=error.code, link=error.link)
            if error.row.retryable or not error.row.definite:
                nursery.start_soon(self._again, request_id, wait_ms, nursery)
                return
        self._open.discard(request_id)
        if not self._open:
            await self._take_deferred()
        if not self._open:
            self._idle.set()

    async def _take_deferred(self) -> None:
        """What had no room before is still in the journal."""
        if self._deferred:
            self._deferred = False
            async for row, ended in self._archive.open_requests():
                if ended:
                    self.enqueue(row.request_id)

    async def _settle(self, request_id: str) -> None:
        row = await self._archive.row(request_id)
        answer = await self._archive.answer(request_id)
        if row is None or answer is None or row.phase is Phase.SETTLED:
            return
        bag = await self._archive.bag(answer, settled=False)
        vault = await self._archive.vault(request_id, bag)
        mandate = bag.one(RequestMandate, "mandate")
        remembered = await self._remember(bag, mandate, vault) if answer.outcome is Outcome.ANSWERED else []
        peer = self._peer(RoleName.SETTLEMENT, mandate)
        self._node.probe.point("settlement.send", request_id=request_id)
        message = Message(bag.raws(), {}, vault.box_for(peer.sealing_key), {"memory": remembered})
        reply = await call_peer(self._node, peer, "settlement.settle", message, budget_ms=SETTLE_BUDGET_MS)
        made = [self._node.opener.open(raw) for raw in reply.records]
        task = next((r for r in made if isinstance(r.body, TaskRecord)), None)
        if task is None or task.body.request_id != request_id or task.header.signer != mandate.body.settlement:
            raise GnusError("PROTOCOL", "settlement answered without this request's task record")
        await self._node.store.commit(
            [
                *record_rows([task]),
                Write(ANSWER, request_key(request_id) + TASK_SUFFIX, cbor.encode([task.id])),
                journal_write(row.at(Phase.SETTLED)),
            ]
        )
        self._node.probe.point("settlement.stored", request_id=request_id)
        self._node.metrics.count("settlements", status=str(task.body.status), reason_code=task.body.reason_code)
        emit(
            self._node.log,
            "settlement.closed",
            request_id=request_id,
            generation=row.generation,
            attestation_status="verified" if task.body.status is TaskStatus.SETTLED else "refused",
            accounting=f"{task.body.price} minions",
            reason_code=task.body.reason_code,
        )

    def _peer(self, role: RoleName, mandate: Signed[RequestMandate]) -> Peer:
        hosts = self._node.directory.hosts(role, mandate.body.tenant)
        wanted = mandate.body.settlement if role is RoleName.SETTLEMENT else None
        found = next((h for h in hosts if wanted in (None, h.role_key)), None)
        if found is None:
            raise GnusError("UNREACHABLE", f"no {role} is live")
        return found

    async def _remember(self, bag: Bag, mandate: Signed[RequestMandate], vault: Vault) -> list[bytes]:
        """Offer the synthesis's suggestions to memory; what memory refuses is not remembered, and that is no fault."""
        results = bag.of(SynthesisResult)
        if not results or not results[-1].body.memory_suggestions:
            return []
        try:
            peer = self._peer(RoleName.MEMORY_INDEX, mandate)
            texts: list[Any] = [c for r in bag for c in committed_of(r) if vault.holds(c)]
            message = Message(bag.raws(), vault.parcels(texts), vault.box_for(peer.sealing_key))
            reply = await call_peer(self._node, peer, "memory.put", message, budget_ms=SETTLE_BUDGET_MS)
        except GnusError as error:
            self._node.log.warning("memory.refused", request_id=mandate.body.request_id, code=error.code)
            return []
        events = reply.args.get("events", ())
        return [e for e in events if type(e) is bytes and len(e) == 32] if type(events) is tuple else []
