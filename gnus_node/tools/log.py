"""The effect log: one durable row per effect key, and at most one run of each effect (DESIGN.md sections 3 and 6; 18.1.3.8.12).

Proposals of parallel, hedged and retried drafts carry the same effect key and meet here: whoever comes first works on the row, the others
wait for it and find what it recorded. ``open_or_get`` is that meeting; all moves happen inside it, by the table of ``tools.effects``.

Invariants:

* At most one row per key, one worker per row. A row's state changes only by the table's moves and by what the table says of a restart.
* For effects that are not reads, ``executing`` and the outcome are awaited commits; nothing else waits for the disk.
* Whoever leaves while ``executing`` leaves no open question: the row becomes ``indeterminate``, unless the run can be taken up again
  with the same idempotency key. The same after a crash (``recover``), and for a row whose commit was cut off (on opening).
* A generation below the row's is refused (``FENCED``); a key that comes with other facts than the row's is refused.
* Bounds: ``MAX_PER_REQUEST`` rows for one request, ``MAX_CLAIMS`` keys worked on at a time, ``MAX_WAITERS`` for one key.
* A row ends: settled rows after ``keep_ms``, indeterminate ones after ``keep_indeterminate_ms`` or by ``forget``. Both must outlast every
  mandate's lease, because a forgotten key could run again; the lease, checked at the door, is what prevents that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import trio

from gnus_node.ports import Clock, Entropy, Store, Write
from gnus_node.records.enums import EffectClass, EffectState
from gnus_node.records.errors import GnusError
from gnus_node.tools.effects import TERMINAL, EffectEvent, advance, after_restart, durable_before
from gnus_node.tools.rows import EffectFacts, EffectRow, check_row, decode_row, encode_row, index_key, index_prefix

TABLE = "effects"
"""Effect key (32 bytes) to row."""
INDEX = "effects_by_request"
"""Request id (16 bytes) and effect key to a mark."""
MAX_PER_REQUEST = 64
"""As many as an ``EffectReport`` lists."""
MAX_CLAIMS = 1024
MAX_WAITERS = 32
PAGE = 500
"""Rows read at a time when the whole table is walked."""
LOST = "EFFECT_INDETERMINATE"
"""Reason code of a row whose execution was lost."""
_INDEXED = b"\x01"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How long rows are kept after their last change."""

    keep_ms: int = 7 * 24 * 3_600_000
    keep_indeterminate_ms: int = 90 * 24 * 3_600_000


@dataclass(slots=True)
class _Slot:
    """The queue for one key."""

    lock: trio.Lock = field(default_factory=trio.Lock)
    users: int = 0


_PASSING = frozenset({EffectState.DRY_RUN, EffectState.AUTHORISED, EffectState.EXECUTING})
"""States a claim passes through: where they need not be durable they are written only if the claim is left in them. To a crash a row that still
says ``proposed`` is the same: nothing has happened, or only a read."""


class Claim:
    """The right to work on one row; valid inside its ``open_or_get`` block only."""

    def __init__(self, log: EffectLog, row: EffectRow, *, fresh: bool) -> None:
        self._log = log
        self._row = row
        self._live = True
        self._unsaved = False
        self.fresh = fresh
        """True where this claim made the row."""
        self.commits: list[EffectState] = []
        """States this claim waited for the disk with."""

    @property
    def row(self) -> EffectRow:
        """The row as it stands."""
        return self._row

    @property
    def resumes(self) -> bool:
        """True where an earlier run was cut off and must be taken up again, with ``row.idempotency_key``, without a new ``START``."""
        return self._row.state is EffectState.EXECUTING

    async def move(self, event: EffectEvent, *, attestation: bytes = b"", outcome: bytes = b"", reason_code: str = "") -> EffectRow:
        """Apply one event and record it; on return it is durable where it has to be.

        ``attestation`` (record id), ``outcome`` (digest of the real output) and ``reason_code`` replace the row's where given. Raises
        ``IllegalMove``, or the store's error; then the row is what it was, and nothing may be executed on the strength of it. The commit
        is not cut off by cancellation; run the effect itself in a shielded scope, with nothing to wait for between the two.
        """
        if not self._live:
            raise GnusError("INTERNAL", "an effect was moved outside its claim")
        if event is EffectEvent.SUCCEED and not outcome:
            raise GnusError("INTERNAL", "an effect succeeded without the digest of its output")
        row = replace(
            self._row,
            state=advance(self._row.state, event),
            attestation=attestation or self._row.attestation,
            outcome=outcome or self._row.outcome,
            reason_code=reason_code or self._row.reason_code,
            updated_at_ms=self._log.now_ms(),
        )
        passing = row.state in _PASSING and not durable_before(row.state, row.effect)
        self._row = row if passing else await self._log.write(row)
        self._unsaved = passing
        if durable_before(self._row.state, self._row.effect):
            self.commits.append(self._row.state)
        return self._row

    async def leave(self) -> None:
        """End the claim; an execution whose outcome was not recorded is lost, unless it can be taken up again."""
        try:
            if self._row.state is EffectState.EXECUTING and not self._row.resumable:
                await self.move(EffectEvent.LOSE, reason_code=LOST)
            if self._unsaved:
                await self._log.write(self._row)
        finally:
            self._live = False


class EffectLog:
    """The log of one intermediary. Call ``recover`` once before anything else; until then every claim is refused."""

    def __init__(self, store: Store, clock: Clock, entropy: Entropy, settings: LogSettings | None = None) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._settings = settings or LogSettings()
        self._slots: dict[bytes, _Slot] = {}
        self._opening = trio.Lock()
        self._recovered = False

    def now_ms(self) -> int:
        """Wall time."""
        return self._clock.wall_ms()

    async def recover(self, resumable: Callable[[str], bool]) -> list[EffectRow]:
        """Settle what the last run of the node left ``executing``; returns the rows that changed, durable.

        ``resumable(tool)``: whether the adapter as installed now can take up a run. A row stays ``executing`` only where the adapter
        that started it said so too. Raises ``STORE_CORRUPT`` for a row that does not read.
        """
        changed: list[EffectRow] = []
        after = b""
        while page := await self._page(after):
            after = page[-1].effect_key
            for row in page:
                state = after_restart(row.state, resumable=row.resumable and resumable(row.tool))
                if state is not row.state:
                    lost = replace(row, state=state, reason_code=LOST, updated_at_ms=self.now_ms())
                    changed.append(await self.write(lost, durable=False))
        if changed:
            await self._store.flush()
        self._recovered = True
        return changed

    @asynccontextmanager
    async def open_or_get(self, effect_key: bytes, facts: EffectFacts) -> AsyncIterator[Claim]:
        """Wait for the key, then work on its row: a new one in ``proposed``, or the one that is there.

        Read ``claim.row.state`` first: a settled row is answered from what it records, ``awaiting_approval`` is left by leaving the block
        (never wait for a person inside), ``claim.resumes`` is taken up. Raises ``FENCED``, ``BUSY`` (too many keys, waiters, or effects of
        one request), ``COMMITMENT_MISMATCH`` (the key stands for another call), ``STORE_CORRUPT``.
        """
        async with self._turn(effect_key):
            claim = await self._claim(effect_key, facts)
            try:
                yield claim
            finally:
                await claim.leave()

    async def move(self, effect_key: bytes, event: EffectEvent, *, attestation: bytes = b"", reason_code: str = "") -> EffectRow:
        """One event from outside a claim: an approval, a denial, an expiry. Waits for the key. Raises ``NOT_FOUND``, ``IllegalMove``.

        An effect is started only inside a claim: its owner must be there to record the outcome.
        """
        if event is EffectEvent.START:
            raise GnusError("INTERNAL", "an effect was started outside a claim")
        async with self._turn(effect_key):
            row = await self._load(effect_key)
            if row is None:
                raise GnusError("NOT_FOUND", "no such effect")
            claim = Claim(self, row, fresh=False)
            return await claim.move(event, attestation=attestation, reason_code=reason_code)

    async def get(self, effect_key: bytes) -> EffectRow | None:
        """The row of a key, or None. Without a claim it may be changing."""
        raw = await self._store.get(TABLE, effect_key)
        return None if raw is None else decode_row(raw, effect_key)

    async def for_request(self, request_id: str) -> list[EffectRow]:
        """All rows of a request, by turn and key; at most ``MAX_PER_REQUEST``."""
        prefix = index_prefix(request_id)
        rows: list[EffectRow] = []
        for entry in await self._store.scan(INDEX, prefix, limit=MAX_PER_REQUEST):
            row = await self.get(entry.key[len(prefix) :])
            if row is None or row.request_id != request_id:
                raise GnusError("STORE_CORRUPT", "the effect log's index does not fit its rows")
            rows.append(row)
        return sorted(rows, key=lambda row: (row.turn, row.effect_key))

    async def close_request(self, request_id: str, reason_code: str) -> list[EffectRow]:
        """A request ended: refuse what had not started, and give up what waits to be taken up; returns its rows as they stand then."""
        for row in await self.for_request(request_id):
            async with self._turn(row.effect_key):
                now = await self._load(row.effect_key)
                if now is None or now.state in TERMINAL:
                    continue
                event = EffectEvent.LOSE if now.state is EffectState.EXECUTING else EffectEvent.REFUSE
                await Claim(self, now, fresh=False).move(event, reason_code=reason_code)
        return await self.for_request(request_id)

    async def sweep(self) -> int:
        """Delete rows whose time is over; returns how many. A row somebody works on is left for the next time.

        An execution that nobody took up in that time is lost first, and then kept as long as every indeterminate one.
        """
        swept, after = 0, b""
        while page := await self._page(after):
            after = page[-1].effect_key
            for row in page:
                if row.effect_key not in self._slots and self.now_ms() - row.updated_at_ms >= self._settings.keep_ms:
                    swept += await self._expire(row.effect_key)
        return swept

    async def _expire(self, effect_key: bytes) -> bool:
        async with self._turn(effect_key):
            row = await self._load(effect_key)
            age = 0 if row is None else self.now_ms() - row.updated_at_ms
            if row is None or age < self._settings.keep_ms:
                return False
            if row.state is EffectState.EXECUTING:
                await Claim(self, row, fresh=False).move(EffectEvent.LOSE, reason_code=LOST)
                return False
            if row.state is EffectState.INDETERMINATE and age < self._settings.keep_indeterminate_ms:
                return False
            self._delete(row)
            return True

    async def forget(self, effect_key: bytes) -> bool:
        """Delete a settled row by hand (an indeterminate one that a person has looked into); False where there is none to delete."""
        async with self._turn(effect_key):
            row = await self._load(effect_key)
            if row is None or row.state not in TERMINAL:
                return False
            self._delete(row)
            return True

    async def write(self, row: EffectRow, *, durable: bool | None = None) -> EffectRow:
        """Record a row as it is now; for ``Claim`` and this class."""
        change = [Write(TABLE, row.effect_key, encode_row(row))]
        if durable_before(row.state, row.effect) if durable is None else durable:
            with trio.CancelScope(shield=True):
                await self._store.commit(change)
        else:
            self._store.write_behind(change)
        return row

    @asynccontextmanager
    async def _turn(self, effect_key: bytes) -> AsyncIterator[None]:
        """Hold the key. One task at a time, in the order of coming."""
        if not self._recovered:
            raise GnusError("INTERNAL", "the effect log was used before it had recovered")
        slot = self._slots.get(effect_key)
        if slot is None:
            if len(self._slots) >= MAX_CLAIMS:
                raise GnusError("BUSY", f"{MAX_CLAIMS} effects are being worked on")
            slot = self._slots[effect_key] = _Slot()
        if slot.users > MAX_WAITERS:
            raise GnusError("BUSY", f"{MAX_WAITERS} proposals wait for the same effect")
        slot.users += 1
        try:
            async with slot.lock:
                yield
        finally:
            slot.users -= 1
            if not slot.users:
                del self._slots[effect_key]

    async def _claim(self, effect_key: bytes, facts: EffectFacts) -> Claim:
        row = await self._load(effect_key)
        if row is None:
            return Claim(self, await self._make(effect_key, facts), fresh=True)
        if not facts.same_call(row):
            raise GnusError("COMMITMENT_MISMATCH", "the effect key stands for another call")
        if facts.generation < row.generation:
            raise GnusError("FENCED", "a newer generation works on this effect")
        if facts.generation > row.generation and row.state not in TERMINAL:
            row = await self.write(replace(row, generation=facts.generation, updated_at_ms=self.now_ms()), durable=False)
        return Claim(self, row, fresh=False)

    async def _load(self, effect_key: bytes) -> EffectRow | None:
        """The row, with the key held: so whoever was executing is gone."""
        row = await self.get(effect_key)
        if row is None:
            return None
        state = after_restart(row.state, resumable=row.resumable)
        if state is row.state:
            return row
        return await self.write(replace(row, state=state, reason_code=LOST, updated_at_ms=self.now_ms()))

    async def _make(self, effect_key: bytes, facts: EffectFacts) -> EffectRow:
        now = self.now_ms()
        row = check_row(
            EffectRow(
                effect_key=effect_key,
                request_id=facts.request_id,
                tool_call_id=facts.tool_call_id,
                generation=facts.generation,
                turn=facts.turn,
                tool=facts.tool,
                effect=facts.effect,
                resumable=facts.resumable,
                arguments=facts.arguments,
                state=EffectState.PROPOSED,
                idempotency_key=self._entropy.uuid(),
                attestation=b"",
                outcome=b"",
                reason_code="OK",
                created_at_ms=now,
                updated_at_ms=now,
            )
        )
        async with self._opening:
            prefix = index_prefix(facts.request_id)
            if len(await self._store.scan(INDEX, prefix, limit=MAX_PER_REQUEST)) >= MAX_PER_REQUEST:
                raise GnusError("BUSY", f"the request has {MAX_PER_REQUEST} effects already")
            self._store.write_behind([Write(TABLE, effect_key, encode_row(row)), Write(INDEX, index_key(row), _INDEXED)])
        return row

    async def _page(self, after: bytes) -> list[EffectRow]:
        """The next rows of the whole table, by key; empty at its end."""
        return [decode_row(entry.value, entry.key) for entry in await self._store.scan(TABLE, after=after, limit=PAGE)]

    def _delete(self, row: EffectRow) -> None:
        self._store.write_behind([Write(TABLE, row.effect_key, None), Write(INDEX, index_key(row), None)])


def highest_turn(rows: list[EffectRow]) -> int | None:
    """The highest turn of a request's rows; a successor router starts above it (DECISIONS, Flow)."""
    return max((row.turn for row in rows), default=None)


def replannable(rows: list[EffectRow]) -> list[tuple[EffectState, EffectClass]]:
    """A request's rows as ``effects.may_replan`` takes them."""
    return [(row.state, row.effect) for row in rows]
