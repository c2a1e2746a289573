"""The one core that signs and opens records (DESIGN.md section 4).

An envelope is the CBOR array ``[header, body, sig]`` or, on authority records, ``[header, body, sig, [[key, sig], ...]]``: byte strings,
kept as received. The signature is Ed25519 over domain, header and body. Opening checks, in this order: size, strict form, known kind and
version, header and body against their schema, that both re-encode to the very bytes received (one value, one encoding), and last the
signatures. Whether the key *may* sign it is ``trust``'s question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import nacl.bindings
import nacl.exceptions
from pydantic import ValidationError

from gnus_node.records.base import Body, Part
from gnus_node.records.enums import Tier
from gnus_node.records.envelope import Header, Signed
from gnus_node.records.errors import GnusError
from gnus_node.wire import cbor
from gnus_node.wire.digests import RECORD_DOMAIN, record_id
from gnus_node.wire.kinds import COSIGNED, KINDS
from gnus_node.wire.limits import MAX_COSIGNATURES, MAX_RECORD_BYTES

B = TypeVar("B", bound=Body)
P = TypeVar("P", bound=Part)


def to_plain(part: Part) -> dict[str, Any]:
    """A body as the plain structure that is encoded: absent optionals omitted, enumerations as text, bytes raw; keys in canonical order."""
    values = part.__dict__
    plain: dict[str, Any] = {}
    for name in _key_order(type(part)):
        value = values[name]
        if type(value) in _ATOMS:
            plain[name] = value
        elif value is not None:
            plain[name] = _plain(value)
    return plain


_ATOMS = frozenset({bytes, int, str, bool})


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is tuple:
        return tuple([item if type(item) in _ATOMS else _plain(item) for item in value])
    if isinstance(value, Part):
        return to_plain(value)
    if isinstance(value, Tier):
        return value.name
    if isinstance(value, str):
        return str.__str__(value)
    raise GnusError("INTERNAL", f"a value of type {kind.__name__} in a record")


@cache
def _key_order(kind: type[Part]) -> tuple[str, ...]:
    """Field names as canonical CBOR orders them: shorter ones first, then by their bytes. One row for each class of ours."""
    return tuple(sorted(kind.model_fields, key=lambda name: (len(name), name)))


def encode_part(part: Part) -> bytes:
    """Canonical bytes of a body or header."""
    return cbor.encode_ordered(to_plain(part))


def decode_part(model: type[P], data: bytes) -> P:
    """Strictly read canonical bytes as ``model``. Raises ``MALFORMED``, ``NON_CANONICAL``, ``TOO_LARGE``."""
    plain = cbor.decode_loose(data)
    if type(plain) is not dict:
        raise GnusError("MALFORMED", f"{model.__name__}: a map expected")
    try:
        part = model.model_validate(plain)
    except ValidationError as error:
        raise GnusError("MALFORMED", f"{model.__name__}: {_explain(error)}") from None
    if encode_part(part) != data:
        raise GnusError("NON_CANONICAL", f"{model.__name__}: not the canonical encoding of its value")
    return part


def _explain(error: ValidationError) -> str:
    """The first fault, by path and rule; never the value, which may be a user's."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(str(step) for step in first["loc"]) or "value"
    return f"{where}: {first['type']}"[:200]


def seal(header: Header, body: B, sign: Callable[[bytes], bytes], *, cosign: Sequence[tuple[bytes, bytes]] = ()) -> Signed[B]:
    """Make an envelope. ``sign`` returns the 64-byte signature over the bytes it is given."""
    head, content = encode_part(header), encode_part(body)
    signature = sign(RECORD_DOMAIN + head + content)
    parts: list[Any] = [head, content, signature]
    if cosign:
        parts.append([[key, sig] for key, sig in sorted(cosign)])
    raw = cbor.encode(parts)
    if len(raw) > MAX_RECORD_BYTES:
        raise GnusError("TOO_LARGE", f"a {header.kind} of {len(raw)} bytes")
    return Signed(header, body, raw, record_id(head, content), tuple(sorted(key for key, _ in cosign)), signature)


def signing_bytes(header: Header, body: Body) -> bytes:
    """What a further authority key signs to co-sign a record."""
    return RECORD_DOMAIN + encode_part(header) + encode_part(body)


def verify(key: bytes, signature: bytes, message: bytes) -> bool:
    """Ed25519 verification (libsodium: strict, small-order keys refused)."""
    if len(key) != 32 or len(signature) != 64:
        return False
    try:
        nacl.bindings.crypto_sign_open(signature + message, key)
    except (nacl.exceptions.BadSignatureError, ValueError):
        return False
    return True


def open_record(raw: bytes) -> Signed[Any]:
    """Open and verify one envelope. Raises ``MALFORMED``, ``NON_CANONICAL``, ``UNKNOWN_KIND``, ``BAD_SIGNATURE``, ``TOO_LARGE``."""
    head, content, signature, cosigned = _split(raw)
    header = decode_part(Header, head)
    kind = KINDS.get((header.kind, header.version))
    if kind is None:
        raise GnusError("UNKNOWN_KIND", f"kind {header.kind} version {header.version} is not read here")
    if cosigned and header.kind not in COSIGNED:
        raise GnusError("MALFORMED", f"a {header.kind} takes one signature")
    body = decode_part(kind.body, content)
    message = RECORD_DOMAIN + head + content
    if not verify(header.signer, signature, message):
        raise GnusError("BAD_SIGNATURE", f"the signature of a {header.kind} does not verify")
    for key, sig in cosigned:
        if not verify(key, sig, message):
            raise GnusError("BAD_SIGNATURE", f"a co-signature of a {header.kind} does not verify")
    return Signed(header, body, raw, record_id(head, content), tuple(key for key, _ in cosigned), signature)


def peek(raw: bytes) -> tuple[Header, bytes]:
    """Header and id of an envelope without opening its body or verifying it; for opaque storage of unknown versions only."""
    head, content, _signature, _cosigned = _split(raw)
    return decode_part(Header, head), record_id(head, content)


def _split(raw: bytes) -> tuple[bytes, bytes, bytes, tuple[tuple[bytes, bytes], ...]]:
    parts = cbor.decode_loose(raw)
    if type(parts) is tuple and len(parts) == 3 and all(type(p) is bytes for p in parts):
        # The common case without encoding again: three byte strings have one shortest form, and its length tells it.
        if len(raw) != 1 + sum(cbor.bytes_length(p) for p in parts):
            raise GnusError("NON_CANONICAL", "an envelope not in its shortest form")
    elif cbor.encode(parts) != raw:
        raise GnusError("NON_CANONICAL", "an envelope not in its canonical encoding")
    if type(parts) is not tuple or len(parts) not in (3, 4) or any(type(p) is not bytes for p in parts[:3]) or len(parts[2]) != 64:
        raise GnusError("MALFORMED", "an envelope is [header, body, signature] as byte strings")
    cosigned: tuple[tuple[bytes, bytes], ...] = ()
    if len(parts) == 4:
        cosigned = parts[3]
        pairs = type(cosigned) is tuple and 0 < len(cosigned) <= MAX_COSIGNATURES
        if not pairs or any(type(c) is not tuple or [type(x) for x in c] != [bytes, bytes] for c in cosigned):
            raise GnusError("MALFORMED", "co-signatures are pairs of key and signature")
        keys = [key for key, _ in cosigned]
        if keys != sorted(set(keys)):
            raise GnusError("NON_CANONICAL", "co-signatures are sorted by key, without repeats")
    return parts[0], parts[1], parts[2], cosigned


class Opener:
    """Opens records through a bounded cache keyed by the whole envelope, so that each is verified once in a process.

    Opening costs two decodings and a signature check; a request's records are seen by several roles of one node.
    """

    def __init__(self, capacity: int = 4096) -> None:
        self._cache: OrderedDict[bytes, Signed[Any]] = OrderedDict()
        self._capacity = capacity
        self.opened = 0

    def open(self, raw: bytes) -> Signed[Any]:
        """As ``open_record``; only successes are remembered."""
        found = self._cache.get(raw)
        if found is not None:
            self._cache.move_to_end(raw)
            return found
        record = open_record(raw)
        self.opened += 1
        self.keep(record)
        return record

    def keep(self, record: Signed[Any]) -> None:
        """Remember a record that ``open_record`` gave, or ``seal`` with a key of this very node: only then is its signature known to hold.

        Other bytes of the same record, were it only another signature, are another key of the cache and go through the door.
        """
        self._cache[record.raw] = record
        if len(self._cache) > self._capacity:
            self._cache.popitem(last=False)
