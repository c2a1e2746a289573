"""Sealing bytes at rest: XChaCha20-Poly1305 with a random nonce in front. The store's own, minimal; scopes and parcels are ``privacy``'s.

Invariants: a nonce comes from Entropy and stands beside its ciphertext (24 random bytes: no counter to lose); the associated data is
part of what must match, so a sealed value cannot be moved to another row.
"""

from __future__ import annotations

from nacl import bindings
from nacl.exceptions import CryptoError

from gnus_node.ports import Entropy
from gnus_node.records.errors import GnusError

KEY_BYTES: int = bindings.crypto_aead_xchacha20poly1305_ietf_KEYBYTES
NONCE_BYTES: int = bindings.crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
TAG_BYTES: int = bindings.crypto_aead_xchacha20poly1305_ietf_ABYTES
OVERHEAD_BYTES = NONCE_BYTES + TAG_BYTES
"""What sealing adds: 40 bytes."""


def aead_seal(key: bytes, plaintext: bytes, aad: bytes, entropy: Entropy) -> bytes:
    """``nonce || ciphertext || tag`` under a 32-byte key."""
    _check_key(key)
    nonce = entropy.token(NONCE_BYTES)
    return nonce + bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(plaintext, aad, nonce, key)


def aead_open(key: bytes, blob: bytes, aad: bytes) -> bytes:
    """The plaintext. Raises ``COMMITMENT_MISMATCH`` for a wrong key, other associated data, or bytes that were changed or cut."""
    _check_key(key)
    if len(blob) < OVERHEAD_BYTES:
        raise GnusError("COMMITMENT_MISMATCH", "a sealed value is cut short")
    try:
        return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(blob[NONCE_BYTES:], aad, blob[:NONCE_BYTES], key)
    except CryptoError as error:
        raise GnusError("COMMITMENT_MISMATCH", "a sealed value does not open with this key in this place") from error


def _check_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise GnusError("INTERNAL", f"a sealing key has {KEY_BYTES} bytes")
