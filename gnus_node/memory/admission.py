"""Admission of memory events: cheap checks first, nothing enters the store before all of them (18.1.3.4). Pure.

An ``AdmittedEvent`` is made here and nowhere else, on every node anew; it does not travel. What is checked in this first form: bytes, network,
author's grant, signature, time, and that a payload is what its hash says. Equivocation, orphans and quorum certificates follow with replication.
"""

from __future__ import annotations

from typing import Any

from gnus_node.records.enums import MemoryEventKind, SignerRole, SourceType
from gnus_node.records.errors import GnusError
from gnus_node.trust.check import MAX_SKEW_MS
from gnus_node.trust.state import TrustState
from gnus_node.wire.digests import sha256
from gnus_node.wire.memory_event import SignedMemoryEvent, open_event

_MADE = object()
_READ_KINDS = frozenset({MemoryEventKind.CANDIDATE})


class AdmittedEvent:
    """An event that passed admission on this node. Only ``admit`` makes one; it is never serialised."""

    __slots__ = ("event",)

    def __init__(self, key: object, event: SignedMemoryEvent) -> None:
        if key is not _MADE:
            raise TypeError("AdmittedEvent is made by memory.admission.admit only")
        self.event = event

    def __reduce__(self) -> Any:
        raise TypeError("an AdmittedEvent does not travel; admit it anew on each node")


def admit(raw: bytes, trust: TrustState, now_ms: int) -> AdmittedEvent:
    """Open and admit one event. Raises ``MEMORY_REFUSED`` with the rule, or what opening raises."""
    event = open_event(raw)
    body = event.body
    if body.network_id != trust.swarm:
        raise GnusError("WRONG_SWARM", "a memory event of another swarm")
    if body.kind not in _READ_KINDS:
        raise GnusError("MEMORY_REFUSED", f"kind {body.kind} is not folded by this version")
    holder = trust.keys.get(body.author)
    if holder is None or holder.role is not SignerRole.MEMORY_INDEX or body.author in trust.revoked:
        raise GnusError("MEMORY_REFUSED", "the author is no granted memory node")
    if body.hlc_ms > now_ms + MAX_SKEW_MS:
        raise GnusError("MEMORY_REFUSED", "an event dated in the future")
    if (body.payload is None) == (body.payload_ref is None):
        raise GnusError("MEMORY_REFUSED", "an event carries its payload or refers to it")
    if body.payload is not None and sha256(body.payload) != body.content_hash:
        raise GnusError("MEMORY_REFUSED", "a payload that its hash does not fit")
    if body.source_type is SourceType.TOOL and not body.attestation_refs:
        raise GnusError("MEMORY_REFUSED", "tool content without an attestation")
    if not body.instruction_scrubbed:
        raise GnusError("MEMORY_REFUSED", "content that was not scrubbed")
    return AdmittedEvent(_MADE, event)
