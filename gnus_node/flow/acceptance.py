"""Acceptance: the mandate of a request and the one durable commit before anything else happens; later generations (DESIGN.md section 3)."""

from __future__ import annotations

from dataclasses import replace

import trio

from gnus_node.flow import accept
from gnus_node.flow.accept import Accepted
from gnus_node.flow.journal import JournalRow, Phase, record_rows
from gnus_node.net.context import RoleContext
from gnus_node.net.directory import Peer
from gnus_node.ports.submit import Ask, Caller
from gnus_node.records.authority import Ceilings, Policy
from gnus_node.records.enums import RoleName
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.store.payloads import PayloadStore


class Acceptance:
    """Makes requests durable, for one ingress."""

    def __init__(self, context: RoleContext, payloads: PayloadStore, idempotency_secret: bytes) -> None:
        self._context = context
        self._node = context.node
        self._payloads = payloads
        self._secret = idempotency_secret

    async def accept(
        self, request_id: str, caller: Caller, ask: Ask, policies: tuple[Signed[Policy], ...], ceilings: Ceilings, started: float
    ) -> Accepted:
        """The mandate, and one durable commit; nothing else has happened before it. A caller that leaves meanwhile finds the request
        accepted or not: the commit is not left half waited for, so every accepted request has somebody who carries it."""
        node = self._node
        now = node.clock.wall_ms()
        router = self._router(caller.tenant, 1)
        settlement, intermediary = self._pinned(caller.tenant)
        vault = node.vaults.make(request_id, node.entropy.token(32))
        query = vault.commit(ask.question)
        extra = vault.commit(ask.context) if ask.context else None
        idem = accept.idempotency_key(caller, ask.idempotency_key) if ask.idempotency_key is not None else None
        row = JournalRow(
            request_id,
            Phase.ACCEPTED,
            1,
            caller.tenant,
            caller.project,
            caller.principal,
            caller.key_mode,
            now,
            ceilings.max_wall_ms,
            bytes(32),
        )
        mandate = accept.make_mandate(self._context, row, query, extra, policies, ceilings, router, settlement, intermediary, idem)
        row = row.at(Phase.ACCEPTED, mandate=mandate.id)
        writes = await self._payloads.writes_for_request_key(request_id, accept.subject_of(row.tenant, row.principal), vault.request_key)
        writes += self._payloads.writes_for_parcels(request_id, vault.all_parcels())
        writes += [accept.journal_write(row), *record_rows([mandate, *policies])]
        if idem is not None:
            writes.append(accept.idempotency_row(idem, request_id, accept.question_digest(self._secret, ask)))
        node.probe.point("acceptance.commit", request_id=request_id)
        before = node.clock.monotonic()
        with trio.CancelScope(shield=True):
            await node.store.commit(writes)
        waited = node.clock.monotonic() - before
        node.metrics.observe("commit_wait_ms", waited * 1000)
        node.probe.point("acceptance.committed", request_id=request_id)
        return Accepted(row, mandate, policies, vault, started + ceilings.max_wall_ms / 1000, started, waited)

    async def next_generation(self, old: Accepted) -> Accepted:
        """Generation + 1 under a new mandate, by another router where there is one. Raises ``UNREACHABLE``."""
        generation = old.row.generation + 1
        router = self._router(old.row.tenant, generation)
        body = old.mandate.body
        row = old.row.at(Phase.ACCEPTED, generation)
        mandate = accept.make_mandate(
            self._context,
            row,
            body.query,
            body.context,
            old.policies,
            body.ceilings,
            router,
            body.settlement,
            body.intermediary_id,
            body.idempotency,
        )
        row = row.at(Phase.ACCEPTED, mandate=mandate.id)
        writes = [accept.journal_write(row), *record_rows([mandate])]
        if old.recovered:  # durable, so that a request that brings the node down each time is seen to
            await self._node.store.commit(writes)
        else:
            self._node.store.write_behind(writes)
        return replace(old, row=row, mandate=mandate)

    def _router(self, tenant: str, generation: int) -> Peer:
        hosts = self._node.directory.hosts(RoleName.ROUTER, tenant)
        if not hosts:
            raise GnusError("UNREACHABLE", "no router is reachable")
        return hosts[(generation - 1) % len(hosts)]

    def _pinned(self, tenant: str) -> tuple[bytes, str | None]:
        """The settlement key and the one intermediary of a request, chosen at acceptance for all its generations."""
        settlement = self._node.directory.hosts(RoleName.SETTLEMENT, tenant)
        if not settlement:
            raise GnusError("UNREACHABLE", "no settlement node is reachable")
        tools = self._node.directory.hosts(RoleName.TOOL_INTERMEDIARY, tenant)
        return settlement[0].role_key, tools[0].node_id if tools else None
