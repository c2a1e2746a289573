"""PeerId and transport key are the same thing said twice: an ed25519 peer id holds the key itself, and no other kind of peer is spoken to."""

from __future__ import annotations

from libp2p.peer.id import ID

from gnus_node.net.peer_text import PREFIX
from gnus_node.records.errors import GnusError

KEY_BYTES = 32


def peer_id(key: bytes) -> ID:
    """The PeerId of a transport key. Raises ``MALFORMED`` for other than 32 bytes."""
    if len(key) != KEY_BYTES:
        raise GnusError("MALFORMED", "a transport key has 32 bytes")
    return ID(PREFIX + key)


def transport_key(peer: ID) -> bytes | None:
    """The key in a PeerId, or None for a peer that is not ed25519."""
    data: bytes = peer.to_bytes()
    return data[len(PREFIX) :] if len(data) == len(PREFIX) + KEY_BYTES and data.startswith(PREFIX) else None


def parse_peer(text: str) -> bytes:
    """The key in the text form of a PeerId (base58). Raises ``CONFIG``."""
    try:
        key = transport_key(ID.from_base58(text))
    except ValueError:
        key = None
    if key is None:
        raise GnusError("CONFIG", "a peer id that is not one of an ed25519 key", fix="copy the address that the other node's status shows")
    return key
