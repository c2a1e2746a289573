"""The compact envelope of MemoryEvents: ``[body, sig]`` with an integer-keyed body, under a domain of its own.

Millions of these are kept and synced, so field names are integers and there is no header; everything else is as in ``wire.signed``:
id = SHA-256(domain || body), Ed25519 over the same bytes, one value has one encoding. Field numbers are frozen; new fields get new numbers
and a new version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gnus_node.records.errors import GnusError
from gnus_node.records.memory import MemoryEvent
from gnus_node.wire import cbor
from gnus_node.wire.digests import MEMORY_DOMAIN
from gnus_node.wire.signed import verify

FIELDS: tuple[str, ...] = (
    "",
    "",  # 1 is the version
    "network_id",
    "kind",
    "author",
    "author_seq",
    "prev",
    "membership_epoch",
    "tenant",
    "memory_class",
    "hlc_ms",
    "parents",
    "request_id",
    "source_type",
    "attestation_refs",
    "policy_hash",
    "content_hash",
    "payload",
    "payload_ref",
    "dek_id",
    "retention_until_ms",
    "privacy_scope",
    "replication_policy",
    "claimed_safe_to_memorize",
    "instruction_scrubbed",
    "content_key",
)
"""Field name at its wire number."""

_NUMBER = {name: number for number, name in enumerate(FIELDS) if name}
_VERSION_KEY = 1


@dataclass(frozen=True, slots=True)
class SignedMemoryEvent:
    """An opened event: signature verified against its own author; whether it is admitted is ``memory.admission``'s question."""

    body: MemoryEvent
    raw: bytes
    id: bytes


def _encode_body(event: MemoryEvent) -> bytes:
    plain = event.model_dump(exclude_none=True)
    return cbor.encode({_VERSION_KEY: MemoryEvent.VERSION, **{_NUMBER[name]: value for name, value in plain.items()}})


def event_id(body: bytes) -> bytes:
    """Id of an event from its body bytes."""
    return hashlib.sha256(MEMORY_DOMAIN + body).digest()


def seal_event(event: MemoryEvent, sign: Callable[[bytes], bytes]) -> SignedMemoryEvent:
    """Sign an event; the signing key must be ``event.author``."""
    body = _encode_body(event)
    return SignedMemoryEvent(event, cbor.encode([body, sign(MEMORY_DOMAIN + body)]), event_id(body))


def open_event(raw: bytes) -> SignedMemoryEvent:
    """Open and verify one event. Raises ``MALFORMED``, ``NON_CANONICAL``, ``UNKNOWN_KIND``, ``BAD_SIGNATURE``, ``TOO_LARGE``."""
    parts = cbor.decode(raw)
    if type(parts) is not tuple or [type(p) for p in parts] != [bytes, bytes]:
        raise GnusError("MALFORMED", "a memory event is [body, signature] as byte strings")
    content, signature = parts
    plain = cbor.decode_loose(content)
    if type(plain) is not dict or any(type(k) is not int for k in plain):
        raise GnusError("MALFORMED", "a memory event's body is an integer-keyed map")
    if plain.get(_VERSION_KEY) != MemoryEvent.VERSION or type(plain.get(_VERSION_KEY)) is not int:
        raise GnusError("UNKNOWN_KIND", "a memory event version this node does not read")
    named: dict[str, Any] = {}
    for number, value in plain.items():
        if number == _VERSION_KEY:
            continue
        if not 2 <= number < len(FIELDS):
            raise GnusError("MALFORMED", f"memory event field {number} is unknown")
        named[FIELDS[number]] = value
    try:
        event = MemoryEvent.model_validate(named)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise GnusError("MALFORMED", f"memory event: {'.'.join(map(str, fault['loc']))}: {fault['type']}") from None
    if _encode_body(event) != content:
        raise GnusError("NON_CANONICAL", "a memory event not in its canonical encoding")
    if not verify(event.author, signature, MEMORY_DOMAIN + content):
        raise GnusError("BAD_SIGNATURE", "the signature of a memory event does not verify")
    return SignedMemoryEvent(event, raw, event_id(content))
