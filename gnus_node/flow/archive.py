"""What the ingress has stored of its requests: journal rows, answers, records, texts; looking them up and bundling them.

Reading never opens a text unless it is asked for one: a bundle of digests needs no key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from gnus_node.evidence.bag import Bag
from gnus_node.evidence.bundle import write_bundle
from gnus_node.evidence.inputs import committed_of
from gnus_node.flow.journal import (
    ANSWER,
    JOURNAL,
    RECORD,
    TASK_SUFFIX,
    AnswerRow,
    JournalRow,
    Phase,
    decode_answer,
    decode_row,
    request_key,
)
from gnus_node.flow.present import present
from gnus_node.net.context import NodeContext
from gnus_node.ports.submit import Answered
from gnus_node.privacy.parcels import Vault
from gnus_node.records.authority import Policy, RequestMandate
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.flow import AgentResponse
from gnus_node.store.payloads import PayloadStore
from gnus_node.wire import cbor

SCAN = 256


class Archive:
    """Stored requests of this ingress."""

    def __init__(self, node: NodeContext, payloads: PayloadStore) -> None:
        self._node = node
        self._payloads = payloads

    async def row(self, request_id: str) -> JournalRow | None:
        """The journal row of a request."""
        stored = await self._node.store.get(JOURNAL, request_key(request_id))
        return decode_row(stored) if stored is not None else None

    async def answer(self, request_id: str) -> AnswerRow | None:
        """The stored terminal of a request."""
        stored = await self._node.store.get(ANSWER, request_key(request_id))
        return decode_answer(stored) if stored is not None else None

    async def record(self, record_id: bytes) -> Signed[Any]:
        """A stored record. Raises ``STORE_CORRUPT`` where it is missing."""
        raw = await self._node.store.get(RECORD, record_id)
        if raw is None:
            raise GnusError("STORE_CORRUPT", "a record of a stored request is missing")
        return self._node.opener.open(raw)

    async def mandate(self, row: JournalRow) -> tuple[Signed[RequestMandate], tuple[Signed[Policy], ...]]:
        """The newest mandate of an open request, with its policies."""
        mandate = await self.record(row.mandate)
        return mandate, tuple([await self.record(p) for p in mandate.body.policies])

    async def bag(self, answer: AnswerRow, *, settled: bool) -> Bag:
        """Every record of an ended request; ``settled`` adds what settlement made of it."""
        bag = Bag([await self.record(r) for r in answer.records])
        if settled:
            request_id = bag.one(RequestMandate, "mandate").body.request_id
            stored = await self._node.store.get(ANSWER, request_key(request_id) + TASK_SUFFIX)
            if stored is not None:
                bag.add([await self.record(r) for r in cbor.decode(stored)])
        return bag

    async def vault(self, request_id: str, records: Iterable[Signed[Any]]) -> Vault:
        """The vault of a stored request, with the parcels of some records. Raises ``ERASED``, ``NOT_FOUND``."""
        vault = self._node.vaults.make(request_id, await self._payloads.request_key(request_id))
        found: dict[bytes, bytes] = {}
        for committed in (c for r in records for c in committed_of(r)):
            if not vault.holds(committed):
                parcel = await self._payloads.parcel(committed.commitment)
                if parcel is not None:
                    found[committed.commitment] = parcel
        vault.add(found)
        return vault

    async def lookup(self, tenant: str, request_id: str) -> Answered | None:
        """The terminal of a tenant's request, None while it runs. Raises ``NOT_FOUND``, ``ERASED``."""
        row = await self.row(request_id)
        if row is None or row.tenant != tenant:
            raise GnusError("NOT_FOUND", "no such request of this tenant")
        answer = await self.answer(request_id)
        if answer is None:
            return None
        bag = await self.bag(answer, settled=False)
        response = bag.get(answer.response, AgentResponse, "response")
        latency = {name: us / 1000 for name, us in answer.latency_us.items()}
        return present(bag, await self.vault(request_id, bag), response, latency, row.created_at_ms)

    async def bundle(self, request_id: str, charter: bytes, trust: Iterable[bytes], *, payloads: bool) -> bytes:
        """The audit bundle of an ended request. Raises ``NOT_FOUND``; with ``payloads`` also ``ERASED``."""
        answer = await self.answer(request_id)
        if answer is None:
            raise GnusError("NOT_FOUND", "no such request, or it has not ended")
        bag = await self.bag(answer, settled=True)
        texts: dict[bytes, tuple[bytes, str]] = {}
        if payloads:
            vault = await self.vault(request_id, bag)
            for committed in (c for r in bag for c in committed_of(r)):
                if vault.holds(committed):
                    texts[committed.commitment] = vault.salted(committed)
        return write_bundle(charter, trust, bag.raws(), texts)

    async def open_requests(self) -> AsyncIterator[tuple[JournalRow, bool]]:
        """Every request that is not settled: its row, and whether it has a stored terminal. A row that does not read is logged and passed
        over: one damaged row must not keep all other requests from their end."""
        after = b""
        while rows := await self._node.store.scan(JOURNAL, after=after, limit=SCAN, lenient=True):
            after = rows[-1].key
            for stored in rows:
                try:
                    row = decode_row(stored.value)
                except GnusError as error:
                    self._node.log.error("journal.damaged", request_id=stored.key.decode("ascii", "replace"), code=error.code)
                    continue
                if row.phase is not Phase.SETTLED:
                    ended = await self._node.store.get(ANSWER, stored.key)
                    yield row, ended is not None
