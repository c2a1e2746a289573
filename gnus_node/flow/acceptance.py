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

SUCCESSOR_POLL_S = 0.05


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
        router = self._router(caller.tenant)
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
        node.metrics.count("durable_commits", point="acceptance")
        node.probe.point("acceptance.committed", request_id=request_id)
        return Accepted(row, mandate, policies, vault, started + ceilings.max_wall_ms / 1000, started, waited, commits=1)

    async def next_generation(self, old: Accepted) -> Accepted:
        """Generation + 1 under a new mandate, by another router where there is one. Raises ``UNREACHABLE``."""
        generation = old.row.generation + 1
        body = old.mandate.body
        router = self._router(old.row.tenant, body.router_node)
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
            self._node.metrics.count("durable_commits", point="acceptance")
        else:
            self._node.store.write_behind(writes)
        return replace(old, row=row, mandate=mandate, commits=old.commits + old.recovered)

    def _router(self, tenant: str, before: str = "") -> Peer:
        """The router that answers best; another than the one before, if that one is not the only one that answers."""
        node = self._node
        hosts = node.directory.hosts(RoleName.ROUTER, tenant)
        if not hosts:
            raise GnusError("UNREACHABLE", "no router is reachable")
        others = [h for h in hosts if h.node_id != before and node.directory.health.well(h.node_id, node.clock.monotonic())]
        return (others or hosts)[0]

    async def successor(self, tenant: str, wait_s: float) -> None:
        """Wait until a router is at hand that may be expected to answer, ``wait_s`` at most: after a restart nobody is connected yet, and a
        router that died may be back in a moment."""
        node = self._node
        with trio.move_on_after(wait_s):
            while not any(  # noqa: ASYNC110  health is a matter of time, not an event
                node.directory.health.well(h.node_id, node.clock.monotonic()) for h in node.directory.hosts(RoleName.ROUTER, tenant)
            ):
                await trio.sleep(SUCCESSOR_POLL_S)

    def _pinned(self, tenant: str) -> tuple[bytes, str | None]:
        """The settlement key and the one intermediary of a request, chosen at acceptance for all its generations."""
        settlement = self._node.directory.hosts(RoleName.SETTLEMENT, tenant)
        if not settlement:
            raise GnusError("UNREACHABLE", "no settlement node is reachable")
        tools = self._node.directory.hosts(RoleName.TOOL_INTERMEDIARY, tenant)
        return settlement[0].role_key, tools[0].node_id if tools else None
