"""Texts and their commitments: the vault of one request (DESIGN.md section 4, 18.1.3.7).

Signed bodies hold commitments; the texts travel as *parcels*: salt and text under XChaCha20-Poly1305 with the request's key, found by
commitment. The key itself travels sealed to each chosen node. Parcels go to disk as they are, so nothing durable holds a text in clear,
and destroying the request's key erases all of them.

Invariant: a text leaves ``text`` only if it matches the commitment it was asked by.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping

import nacl.bindings
import nacl.exceptions

from gnus_node.ports.host import Entropy
from gnus_node.records.base import Committed
from gnus_node.records.errors import GnusError
from gnus_node.wire.digests import SALT_BYTES, commitment
from gnus_node.wire.limits import MAX_TEXT_BYTES

KEY_BYTES = 32
_NONCE = 24
_BOX_DOMAIN = b"gnus/keybox/1\x00"
_EFFECT = b"gnus/effect-secret/1"


class Vault:
    """Texts of one request on one node: opened lazily, checked always.

    ``request_key`` is made once by the ingress at acceptance and stays the same across generations.
    """

    def __init__(self, request_id: str, request_key: bytes, entropy: Entropy) -> None:
        if len(request_key) != KEY_BYTES:
            raise GnusError("MALFORMED", "a request key has 32 bytes")
        self.request_id = request_id
        self._key = request_key
        self._entropy = entropy
        self._parcels: dict[bytes, bytes] = {}
        self._opened: dict[bytes, tuple[bytes, str]] = {}
        self._boxes: dict[bytes, bytes] = {}

    @property
    def request_key(self) -> bytes:
        """The request's key, for storing it wrapped."""
        return self._key

    def effect_secret(self) -> bytes:
        """Secret of the request's effect keys: equal on every node and generation of the request."""
        return hmac.new(self._key, _EFFECT, hashlib.sha256).digest()

    def commit(self, text: str) -> Committed:
        """Take a text in under a fresh salt. Raises ``TOO_LARGE``."""
        data = text.encode("utf-8")
        if len(data) > MAX_TEXT_BYTES:
            raise GnusError("TOO_LARGE", f"a text of {len(data)} bytes where at most {MAX_TEXT_BYTES} are taken")
        salt = self._entropy.token(SALT_BYTES)
        digest = commitment(salt, data)
        nonce = self._entropy.token(_NONCE)
        self._parcels[digest] = nonce + nacl.bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(salt + data, digest, nonce, self._key)
        self._opened[digest] = (salt, text)
        return Committed(commitment=digest, size=len(data))

    def add(self, parcels: Mapping[bytes, bytes]) -> None:
        """Take in parcels of a message, unopened. A parcel already held stays, unless it turns out not to open: a bad one blocks nobody."""
        for digest, parcel in parcels.items():
            held = self._parcels.setdefault(digest, parcel)
            if held != parcel and digest not in self._opened:
                try:
                    self._opened[digest] = open_parcel(self._key, digest, held)
                except GnusError:
                    self._parcels[digest] = parcel

    def holds(self, committed: Committed) -> bool:
        """Whether the text can be opened here."""
        return committed.commitment in self._parcels

    def text(self, committed: Committed) -> str:
        """The text of a commitment. Raises ``NOT_FOUND``, ``COMMITMENT_MISMATCH``."""
        return self.salted(committed)[1]

    def salted(self, committed: Committed) -> tuple[bytes, str]:
        """Salt and text of a commitment, for bundles with payloads."""
        digest = committed.commitment
        found = self._opened.get(digest)
        if found is None:
            parcel = self._parcels.get(digest)
            if parcel is None:
                raise GnusError("NOT_FOUND", "a committed text is not at hand")
            found = open_parcel(self._key, digest, parcel)
            self._opened[digest] = found
        if len(found[1].encode("utf-8")) != committed.size:
            raise GnusError("COMMITMENT_MISMATCH", "a text whose size is not the committed one")
        return found

    def parcels(self, wanted: Iterable[Committed]) -> dict[bytes, bytes]:
        """The parcels of some commitments, as they travel. Raises ``NOT_FOUND``."""
        found: dict[bytes, bytes] = {}
        for committed in wanted:
            parcel = self._parcels.get(committed.commitment)
            if parcel is None:
                raise GnusError("NOT_FOUND", "a committed text is not at hand")
            found[committed.commitment] = parcel
        return found

    def all_parcels(self) -> dict[bytes, bytes]:
        """Every parcel held, for the store."""
        return dict(self._parcels)

    def box_for(self, sealing_key: bytes) -> bytes:
        """The request's key sealed to one node."""
        box = self._boxes.get(sealing_key)
        if box is None:
            box = seal_key(self._key, sealing_key, self.request_id, self._entropy)
            self._boxes[sealing_key] = box
        return box


def open_parcel(key: bytes, digest: bytes, parcel: bytes) -> tuple[bytes, str]:
    """Salt and text of one parcel, checked against its commitment. Raises ``COMMITMENT_MISMATCH``, ``MALFORMED``."""
    try:
        plain = nacl.bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(parcel[_NONCE:], digest, parcel[:_NONCE], key)
    except (nacl.exceptions.CryptoError, ValueError):
        raise GnusError("COMMITMENT_MISMATCH", "a parcel does not open with the request's key") from None
    salt, data = plain[:SALT_BYTES], plain[SALT_BYTES:]
    if len(salt) != SALT_BYTES or not hmac.compare_digest(commitment(salt, data), digest):
        raise GnusError("COMMITMENT_MISMATCH", "a text does not match its commitment")
    try:
        return salt, data.decode("utf-8")
    except UnicodeDecodeError:
        raise GnusError("MALFORMED", "a text that is not UTF-8") from None


def _box_nonce(ephemeral: bytes, recipient: bytes) -> bytes:
    return hashlib.blake2b(_BOX_DOMAIN + ephemeral + recipient, digest_size=24).digest()


def seal_key(key: bytes, sealing_key: bytes, request_id: str, entropy: Entropy) -> bytes:
    """Seal a request's key to an X25519 key, with an ephemeral key from Entropy so that virtual runs repeat (DECISIONS, Bytes)."""
    secret = entropy.token(32)
    ephemeral = nacl.bindings.crypto_scalarmult_base(secret)
    message = request_id.encode("ascii") + key
    return ephemeral + nacl.bindings.crypto_box_easy(message, _box_nonce(ephemeral, sealing_key), sealing_key, secret)


def open_key(box: bytes, sealing_secret: bytes, request_id: str) -> bytes:
    """Open a key box addressed to this node for this request. Raises ``COMMITMENT_MISMATCH``, ``MALFORMED``."""
    if len(box) < 32 + 16 + KEY_BYTES:
        raise GnusError("MALFORMED", "a key box is too short")
    ephemeral = box[:32]
    mine = nacl.bindings.crypto_scalarmult_base(sealing_secret)
    try:
        plain = nacl.bindings.crypto_box_open_easy(box[32:], _box_nonce(ephemeral, mine), ephemeral, sealing_secret)
    except (nacl.exceptions.CryptoError, ValueError):
        raise GnusError("COMMITMENT_MISMATCH", "a key box is not sealed to this node") from None
    if plain[:-KEY_BYTES] != request_id.encode("ascii"):
        raise GnusError("COMMITMENT_MISMATCH", "a key box of another request")
    return plain[-KEY_BYTES:]
