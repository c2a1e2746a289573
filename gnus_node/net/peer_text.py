"""A transport key as other programs write it: the PeerId of an ed25519 key in base58. Here so that a setting can be made without libp2p."""

# house: pure

from __future__ import annotations

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
PREFIX = bytes.fromhex("002408011220")
"""Identity multihash (0x00) of 36 bytes (0x24): the protobuf of a public key of type Ed25519 (0801) with 32 bytes (1220)."""


def peer_text(key: bytes) -> str:
    """The PeerId of a transport key, as addresses end with it."""
    return base58(PREFIX + key)


def base58(data: bytes) -> str:
    """Base58 as Bitcoin has it: each leading zero byte is a ``1``."""
    number, digits = int.from_bytes(data, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        digits = _ALPHABET[rest] + digits
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + digits
