"""The end of a request's life at its ingress: after the set time its texts, keys and journal row go; what was signed stays checkable.

Only settled requests end. The signed records hold commitments and no text, so they stay, with the terminal that names them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import trio

from gnus_node.evidence.inputs import committed_of
from gnus_node.flow.archive import Archive
from gnus_node.flow.journal import IDEMPOTENCY, JOURNAL, JournalRow, Phase, decode_row, request_key
from gnus_node.net.context import NodeContext
from gnus_node.ports.store import Write
from gnus_node.records.authority import RequestMandate
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.store.payloads import PayloadStore

EVERY_S = 3600.0
PAGE = 256


class Retention:
    """Forgets settled requests older than ``keep_ms``."""

    def __init__(self, node: NodeContext, payloads: PayloadStore, archive: Archive, keep_ms: int) -> None:
        self._node = node
        self._payloads = payloads
        self._archive = archive
        self._keep_ms = keep_ms

    async def work(self) -> None:
        """Sweep now and every hour, until cancelled."""
        while True:
            forgotten = await self.sweep()
            if forgotten:
                self._node.log.info("retention.swept", requests=forgotten)
            await trio.sleep(EVERY_S)

    async def sweep(self) -> int:
        """Forget what is due; how many requests."""
        limit = self._node.clock.wall_ms() - self._keep_ms
        forgotten, after = 0, b""
        while rows := await self._node.store.scan(JOURNAL, after=after, limit=PAGE, lenient=True):
            after = rows[-1].key
            for stored in rows:
                try:
                    row = decode_row(stored.value)
                except GnusError as error:  # one damaged row must not end the node; it stays for a person to look at
                    self._node.log.error("journal.damaged", request_id=stored.key.decode("ascii", "replace"), code=error.code)
                    continue
                if row.phase is Phase.SETTLED and row.created_at_ms < limit:
                    await self._forget(row)
                    forgotten += 1
        return forgotten

    async def _forget(self, row: JournalRow) -> None:
        """Texts, request key, idempotency key and journal row of one request, in one batch."""
        writes = [Write(JOURNAL, request_key(row.request_id), None)]
        bag: Iterable[Signed[Any]] = ()
        try:
            answer = await self._archive.answer(row.request_id)
            if answer is not None:
                bag = await self._archive.bag(answer, settled=True)
        except GnusError as error:
            self._node.log.warning("retention.unreadable", request_id=row.request_id, code=error.code)
        records = tuple(bag)
        commitments = {c.commitment for record in records for c in committed_of(record)}
        writes += self._payloads.writes_to_forget(row.request_id, commitments)
        keys = {r.body.idempotency for r in records if isinstance(r.body, RequestMandate) and r.body.idempotency}
        writes += [Write(IDEMPOTENCY, key, None) for key in keys]
        await self._node.store.commit(writes)
        self._node.vaults.forget(row.request_id)
