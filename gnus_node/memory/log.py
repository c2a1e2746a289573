"""The memory log of one node: admitted events in local order, their texts under per-person keys, one search index for each owner.

An *owner* is a pseudonym of (tenant, person): a keyed hash, which is also the subject of the data key. Privacy is a pre-filter by construction:
a search looks only into the index of its own owner. Indexes live in memory and are rebuilt from ciphertext when first needed.

Tables: ``mem_log`` (8-byte local seq -> envelope), ``mem_ix`` (event id -> seq), ``mem_owner`` (owner || seq -> event id).
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import trio

from gnus_node.content.normalise import fold
from gnus_node.memory.admission import AdmittedEvent, admit
from gnus_node.memory.fold import derive
from gnus_node.net.context import NodeContext
from gnus_node.ports.signer import Signer
from gnus_node.ports.store import TextIndex, Write
from gnus_node.records.enums import (
    MemoryClass,
    MemoryEventKind,
    PrivacyScope,
    ReplicationPolicy,
    SourceType,
)
from gnus_node.records.errors import GnusError
from gnus_node.records.memory import DerivedMemory, MemoryEvent
from gnus_node.store.seal import aead_open, aead_seal
from gnus_node.trust.state import TrustState
from gnus_node.wire.digests import sha256, tenant_hash
from gnus_node.wire.memory_event import open_event, seal_event

LOG, INDEX, OWNER, META = "mem_log", "mem_ix", "mem_owner", "meta"
MAX_TEXT_BYTES = 3_500
"""Longest text of one event: its ciphertext is carried inline."""
MAX_OPEN_OWNERS = 64
"""Most owners whose index is open at a time."""
MAX_EVENTS_PER_OWNER = 20_000
SEARCHED_INLINE = 64
"""Most passages of an index that is searched on the loop, in well under a millisecond; a larger one is searched in a thread."""
MAX_ADMITTED = 512
"""Most admitted events kept at hand."""
_HEAD = b"memory/head"
_AAD = b"gnus/mem/text/1\x00"


@dataclass(frozen=True, slots=True)
class Remembered:
    """One event with its text, for its own owner only."""

    event: bytes
    text: str
    derived: DerivedMemory


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is to be remembered."""

    text: str
    memory_class: MemoryClass
    source_type: SourceType
    request_id: str | None
    attestations: tuple[bytes, ...]
    policy_hash: bytes
    safe_to_memorize: bool


class MemoryLog:
    """Events of this node. ``signer`` is the memory role's; its raw signature makes the author's."""

    def __init__(self, node: NodeContext, signer: Signer, sign: Callable[[bytes], bytes], make_index: Callable[[], TextIndex]) -> None:
        self._node = node
        self._signer = signer
        self._sign = sign
        self._make_index = make_index
        self._owners: OrderedDict[bytes, TextIndex] = OrderedDict()
        self._seq = 0
        self._author_seq = 0
        self._prev: bytes | None = None
        self._lock = trio.Lock()
        self._judged: TrustState | None = None
        self._admitted: dict[bytes, tuple[AdmittedEvent, int]] = {}

    async def open(self) -> None:
        """Read where the log ends."""
        head = await self._node.store.get(META, _HEAD)
        if head is not None:
            self._seq, self._author_seq = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:16], "big")
            self._prev = head[16:] or None

    async def owner(self, tenant: str, principal: str) -> bytes:
        """The owner's 16-byte pseudonym: the same on this node only, and nothing without the node's key."""
        secret = await self._node.keys.key_for(f"tenant/{tenant}", "memory-owner")
        return hmac.new(secret, principal.encode(), hashlib.sha256).digest()[:16]

    async def put(self, tenant: str, principal: str, candidate: Candidate) -> Remembered:
        """Make, admit and store one event durably. Raises ``TOO_LARGE``, ``MEMORY_REFUSED``, ``ERASED``."""
        data = candidate.text.encode("utf-8")
        if len(data) > MAX_TEXT_BYTES:
            raise GnusError("TOO_LARGE", f"a memory of {len(data)} bytes where at most {MAX_TEXT_BYTES} are kept")
        async with self._lock:
            return await self._put(tenant, principal, candidate, data)

    async def _put(self, tenant: str, principal: str, candidate: Candidate, data: bytes) -> Remembered:
        """One at a time: each event names the author's one before it."""
        node = self._node
        owner = await self.owner(tenant, principal)
        key = await node.keys.key_for(owner.hex(), "memory")
        payload = aead_seal(key, data, _AAD + owner, node.entropy)
        event = MemoryEvent(
            network_id=node.trust.state.swarm,
            kind=MemoryEventKind.CANDIDATE,
            author=self._signer.key,
            author_seq=self._author_seq + 1,
            prev=self._prev,
            membership_epoch=node.trust.epoch(),
            tenant=tenant_hash(node.trust.state.swarm, tenant),
            memory_class=candidate.memory_class,
            hlc_ms=node.clock.wall_ms(),
            parents=(),
            request_id=candidate.request_id,
            source_type=candidate.source_type,
            attestation_refs=candidate.attestations[:16],
            policy_hash=candidate.policy_hash,
            content_hash=sha256(payload),
            payload=payload,
            dek_id=owner,
            privacy_scope=PrivacyScope.USER_PRIVATE,
            replication_policy=ReplicationPolicy.TENANT_NODES,
            claimed_safe_to_memorize=candidate.safe_to_memorize,
            instruction_scrubbed=True,
            content_key=self.content_key(key, candidate.text),
        )
        signed = seal_event(event, self._sign)
        admitted = admit(signed.raw, node.trust.state, node.clock.wall_ms())
        index = await self._index(owner)
        seq = (self._seq + 1).to_bytes(8, "big")
        head = seq + (self._author_seq + 1).to_bytes(8, "big") + signed.id
        with trio.CancelScope(shield=True):
            await node.store.commit(
                [
                    Write(LOG, seq, signed.raw, if_absent=True),
                    Write(INDEX, signed.id, seq),
                    Write(OWNER, owner + seq, signed.id),
                    Write(META, _HEAD, head),
                ]
            )
            self._seq, self._author_seq, self._prev = self._seq + 1, self._author_seq + 1, signed.id
        index.put(signed.id.hex(), "", candidate.text)
        return Remembered(signed.id, candidate.text, derive(admitted, self._seq))

    @staticmethod
    def content_key(key: bytes, text: str) -> bytes:
        """Keyed digest of a normalised text, for finding repeats."""
        return hmac.new(key, b"content\x00" + fold(text).encode("utf-8"), hashlib.sha256).digest()

    async def known(self, tenant: str, principal: str, text: str) -> bool:
        """Whether the owner has this very text already."""
        owner = await self.owner(tenant, principal)
        key = await self._node.keys.key_for(owner.hex(), "memory")
        wanted = self.content_key(key, text)
        hits = (await self._index(owner)).search(fold(text).split()[:12], 8)
        for hit in hits:
            found = await self._load(bytes.fromhex(hit.doc_id))
            if found is not None and found[0].event.body.content_key == wanted:
                return True
        return False

    async def search(self, tenant: str, principal: str, query: str, limit: int) -> list[Remembered]:
        """The owner's memories that fit a query, best first."""
        owner = await self.owner(tenant, principal)
        index = await self._index(owner)
        if not index.count():
            return []
        found = []
        terms = fold(query).split()[:24]
        if index.count() > SEARCHED_INLINE:
            hits = await self._node.offload.run(index.search, terms, limit)
        else:
            hits = index.search(terms, limit)
        for hit in hits:
            loaded = await self._load(bytes.fromhex(hit.doc_id))
            if loaded is not None:
                admitted, seq = loaded
                found.append(Remembered(admitted.event.id, await self._text(admitted), derive(admitted, seq)))
        return found

    async def _load(self, event_id: bytes) -> tuple[AdmittedEvent, int] | None:
        """An event admitted under the present trust state; what was admitted under it already is not judged again."""
        trust = self._node.trust.state
        if self._judged is not trust:
            self._judged = trust
            self._admitted.clear()
        known = self._admitted.get(event_id)
        if known is not None:
            return known
        seq = await self._node.store.get(INDEX, event_id)
        raw = await self._node.store.get(LOG, seq) if seq is not None else None
        if raw is None or seq is None:
            return None
        found = admit(raw, trust, self._node.clock.wall_ms()), int.from_bytes(seq, "big")
        if len(self._admitted) >= MAX_ADMITTED:
            self._admitted.pop(next(iter(self._admitted)))
        self._admitted[event_id] = found
        return found

    async def _text(self, admitted: AdmittedEvent) -> str:
        body = admitted.event.body
        key = await self._node.keys.key_for(body.dek_id.hex(), "memory")
        return aead_open(key, body.payload or b"", _AAD + body.dek_id).decode("utf-8")

    async def _index(self, owner: bytes) -> TextIndex:
        """The owner's index, rebuilt from ciphertext where it is not open."""
        index = self._owners.get(owner)
        if index is None:
            index = self._make_index()
            after = b""
            total = 0
            while (rows := await self._node.store.scan(OWNER, owner, after=after, limit=500)) and total < MAX_EVENTS_PER_OWNER:
                after = rows[-1].key
                total += len(rows)
                for row in rows:
                    raw = await self._node.store.get(LOG, row.key[16:])
                    if raw is not None:
                        admitted = admit(open_event(raw).raw, self._node.trust.state, self._node.clock.wall_ms())
                        index.put(row.value.hex(), "", await self._text(admitted))
            self._owners[owner] = index
        self._owners.move_to_end(owner)
        if len(self._owners) > MAX_OPEN_OWNERS:
            self._owners.popitem(last=False)
        return index
