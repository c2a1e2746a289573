"""Encrypted payloads as rows of the journal's own transaction, so that accepting a request costs one commit.

A request's texts are sealed by ``privacy`` under a request key; here that key is wrapped under its subject's data key and stands in
``request_key``, the sealed parcels in ``payload`` under their commitments. Destroying the subject's key makes every request of the
subject unreadable, while its records stay checkable.

Invariants: neither text nor subject reaches the disk in clear; a request's key is written once (``if_absent``); a wrapped key opens only
in its own request's row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gnus_node.ports import Entropy, Keys, Store, Write
from gnus_node.records.errors import GnusError
from gnus_node.store import tables
from gnus_node.store.seal import KEY_BYTES, aead_open, aead_seal

PURPOSE = "payload"
"""Purpose of the subject's data key; destroy (subject, PURPOSE) to erase a subject."""
COMMITMENT_BYTES = 32

_NODE_SUBJECT, _NODE_PURPOSE = "gnus/node", "subjects"
_WRAP_DOMAIN = b"gnus/store/request-key/1\x00"
_SUBJECT_DOMAIN = b"gnus/store/subject/1\x00"
_VERSION = b"\x01"


class PayloadStore:
    """Writes and reads encrypted payloads over the Store and Keys ports."""

    def __init__(self, store: Store, keys: Keys, entropy: Entropy) -> None:
        self._store = store
        self._keys = keys
        self._entropy = entropy

    async def writes_for_request_key(self, request_id: str, subject: str, request_key: bytes) -> list[Write]:
        """Rows that keep a request's 32-byte key under its subject's data key. The row is ``if_absent``: a second key for the same
        request refuses the whole batch ``REPLAYED``. Raises ``ERASED`` where the subject was erased."""
        if len(request_key) != KEY_BYTES:
            raise GnusError("INTERNAL", f"a request key has {KEY_BYTES} bytes")
        row_key = tables.request(request_id)
        data_key = await self._keys.key_for(subject, PURPOSE)
        node_key = await self._keys.key_for(_NODE_SUBJECT, _NODE_PURPOSE)
        sealed_subject = aead_seal(node_key, subject.encode(), _SUBJECT_DOMAIN + row_key, self._entropy)
        wrapped = aead_seal(data_key, request_key, _WRAP_DOMAIN + row_key, self._entropy)
        value = _VERSION + len(sealed_subject).to_bytes(2, "big") + sealed_subject + wrapped
        return [Write("request_key", row_key, value, if_absent=True)]

    def writes_for_parcels(self, request_id: str, parcels: Mapping[bytes, bytes]) -> list[Write]:
        """Rows for parcels that are ciphertext already, by 32-byte commitment. Each row names its request, so that it can end with it."""
        owner = tables.request(request_id)
        head = _VERSION + len(owner).to_bytes(1, "big") + owner
        return [Write("payload", _checked(commitment), head + parcel) for commitment, parcel in sorted(parcels.items())]

    def writes_to_forget(self, request_id: str, commitments: Iterable[bytes]) -> list[Write]:
        """Rows that drop a request's key and parcels."""
        drops = [Write("payload", _checked(commitment), None) for commitment in sorted(commitments)]
        return [Write("request_key", tables.request(request_id), None), *drops]

    async def request_key(self, request_id: str) -> bytes:
        """The request's key. Raises ``NOT_FOUND``, ``ERASED`` (subject erased), ``STORE_CORRUPT``."""
        row_key = tables.request(request_id)
        value = await self._store.get("request_key", row_key)
        if value is None:
            raise GnusError("NOT_FOUND", "no key of this request is stored here")
        if value[:1] != _VERSION or len(value) < 3:
            raise GnusError("STORE_CORRUPT", "a stored request key has an unknown form")
        end = 3 + int.from_bytes(value[1:3], "big")
        node_key = await self._keys.key_for(_NODE_SUBJECT, _NODE_PURPOSE)
        subject = _stored_open(node_key, value[3:end], _SUBJECT_DOMAIN + row_key).decode()
        data_key = await self._keys.key_for(subject, PURPOSE)
        return _stored_open(data_key, value[end:], _WRAP_DOMAIN + row_key)

    async def parcel(self, commitment: bytes) -> bytes | None:
        """The sealed parcel of a commitment, or None. Raises ``STORE_CORRUPT``."""
        value = await self._store.get("payload", _checked(commitment))
        if value is None:
            return None
        if value[:1] != _VERSION or len(value) < 2 or len(value) < 2 + value[1]:
            raise GnusError("STORE_CORRUPT", "a stored parcel has an unknown form")
        return value[2 + value[1] :]


def _checked(commitment: bytes) -> bytes:
    if len(commitment) != COMMITMENT_BYTES:
        raise GnusError("MALFORMED", f"a commitment has {COMMITMENT_BYTES} bytes")
    return commitment


def _stored_open(key: bytes, blob: bytes, aad: bytes) -> bytes:
    try:
        return aead_open(key, blob, aad)
    except GnusError as error:
        raise GnusError("STORE_CORRUPT", "a stored request key does not open", fix="restore store and keys of the same time") from error
