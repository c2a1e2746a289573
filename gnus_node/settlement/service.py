"""The settlement role: verify the chain, record the task, extend the log (18.1.3.6).

Settlement takes nobody's word: it runs ``verify_chain`` on the records it is given. A chain that does not hold is recorded too, as rejected
with the code; price and payouts are a later part, here every task costs 0. A task of a request and generation is recorded once: asked
again, the same record is given.
"""

from __future__ import annotations

import trio

from gnus_node.evidence.bag import Bag
from gnus_node.evidence.chain import verify_chain
from gnus_node.net.context import RoleContext
from gnus_node.net.rpc import Request
from gnus_node.ports.store import Write
from gnus_node.records.authority import RequestMandate
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.expert import ExpertOutput
from gnus_node.records.flow import AgentResponse
from gnus_node.records.plan import ExecutionPlan
from gnus_node.records.settlement import Checkpoint, TaskRecord, TaskStatus
from gnus_node.records.tools import ToolAttestation
from gnus_node.trust.check import require_fresh
from gnus_node.wire.digests import merkle_root
from gnus_node.wire.message import Message

TASK, CHECKPOINT, META = "task", "checkpoint", "meta"
CHECKPOINT_EVERY = 64
"""Tasks between two checkpoints."""
_SIZE = b"settlement/size"
_LOG = b"log/"
_BY_REQUEST = b"request/"


class SettlementService:
    """Serves ``settlement.settle``."""

    def __init__(self, context: RoleContext) -> None:
        self._context = context
        self._node = context.node
        self._size = 0
        self._leaves: list[bytes] = []
        self._previous: bytes | None = None
        self._epoch = 0
        self._lock = trio.Lock()

    async def open(self) -> None:
        """Read the log since the last checkpoint."""
        stored = await self._node.store.get(META, _SIZE)
        if stored is not None:
            self._size, self._epoch = int.from_bytes(stored[:8], "big"), int.from_bytes(stored[8:16], "big")
            self._previous = stored[16:] or None
        first = self._epoch * CHECKPOINT_EVERY
        rows = await self._node.store.scan(TASK, _LOG, after=_LOG + first.to_bytes(8, "big"), limit=CHECKPOINT_EVERY * 2)
        self._leaves = [row.value for row in rows]

    async def settle(self, request: Request) -> Message:
        """The TaskRecord of an ended request, durable on return. Raises ``WRONG_PEER``, ``CHAIN_BROKEN`` where there is no mandate to go by."""
        node = self._node
        require_fresh(node.trust.state, node.clock.wall_ms())
        bag = Bag.read(request.message.records, node.opener.open)
        mandate = bag.one(RequestMandate, "mandate")
        if mandate.body.settlement != self._context.signer.key:
            raise GnusError("WRONG_PEER", "the mandate names another settlement node", link="mandate")
        if node.trust.state.by_transport(request.peer) != mandate.body.ingress_node:
            raise GnusError("WRONG_PEER", "only the request's ingress settles it", link="mandate")
        # By the mandate, not by what it says: a forged one must not take the place of the true one.
        key = _BY_REQUEST + mandate.id
        async with self._lock:
            known = await node.store.get(TASK, key)
            if known is not None:
                return Message((known,))
            return Message((await self._settle(request, bag, mandate, key),))

    async def _settle(self, request: Request, bag: Bag, mandate: Signed[RequestMandate], key: bytes) -> bytes:
        """Judge, sign, store; one at a time, for the log has an order."""
        node = self._node
        response = bag.one(AgentResponse, "response")
        status, code = TaskStatus.SETTLED, "OK"
        try:
            verify_chain(bag, node.trust.state, node.clock.wall_ms(), settled=False)
        except GnusError as error:
            status, code = TaskStatus.REJECTED, error.code
        events = request.message.args.get("memory", ())
        memory = tuple(e for e in events if type(e) is bytes and len(e) == 32) if type(events) is tuple else ()
        task = self._record(bag, mandate, response, memory, status, code)
        await self._store(key, task)
        return task.raw

    def _record(
        self,
        bag: Bag,
        mandate: Signed[RequestMandate],
        response: Signed[AgentResponse],
        memory: tuple[bytes, ...],
        status: TaskStatus,
        code: str,
    ) -> Signed[TaskRecord]:
        plan = bag.of(ExecutionPlan)
        body = TaskRecord(
            task_id=self._node.entropy.uuid(),
            request_id=mandate.body.request_id,
            plan_hash=plan[0].id if plan else None,
            expert_result_hashes=tuple(sorted(r.id for r in bag.of(ExpertOutput))),
            tool_attestation_hashes=tuple(sorted(r.id for r in bag.of(ToolAttestation))),
            memory_event_hashes=memory,
            final_response_hash=response.id,
            generation=mandate.body.generation,
            status=status,
            reason_code=code,
            key_mode=mandate.body.key_mode,
            price=0,
            settled_at_ms=self._node.clock.wall_ms(),
        )
        return self._context.signer.sign(body, refs=[mandate.id, response.id])

    async def _store(self, key: bytes, task: Signed[TaskRecord]) -> None:
        """One commit: the record, its place in the log, and a checkpoint where one is due."""
        size, epoch, previous, leaves = self._size + 1, self._epoch, self._previous, [*self._leaves, task.id]
        writes = [Write(TASK, key, task.raw, if_absent=True), Write(TASK, _LOG + size.to_bytes(8, "big"), task.id)]
        if len(leaves) >= CHECKPOINT_EVERY:
            body = Checkpoint(settlement_epoch=epoch, size=size, root=merkle_root([previous or b"", *leaves]), previous=previous)
            checkpoint = self._context.signer.sign(body)
            writes.append(Write(CHECKPOINT, epoch.to_bytes(8, "big"), checkpoint.raw))
            epoch, previous, leaves = epoch + 1, checkpoint.id, []
        writes.append(Write(META, _SIZE, size.to_bytes(8, "big") + epoch.to_bytes(8, "big") + (previous or b"")))
        with trio.CancelScope(shield=True):
            await self._node.store.commit(writes)
            self._size, self._epoch, self._previous, self._leaves = size, epoch, previous, leaves
