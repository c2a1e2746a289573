"""Chance: the operating system's, or a stream that repeats.

``SeededEntropy`` is SHA-256 in counter mode. It is for virtual runs and tests only: whoever knows the seed knows every key and nonce.
Each part of a run takes its own ``fork`` by label, so that one part drawing more does not change what another part draws.

Invariants: the stream depends on the seed and the labels alone, and on how much this very object has drawn, not on how the draws were
cut; a fork's stream does not depend on how much the parent has drawn; no two forks with different label paths share a stream.
"""

from __future__ import annotations

import secrets
import uuid
from hashlib import sha256

MAX_TOKEN_BYTES = 1 << 20
"""Longest single draw."""

_SEED_DOMAIN = b"gnus/entropy/seed/1\x00"
_FORK_DOMAIN = b"gnus/entropy/fork/1\x00"
_BLOCK_DOMAIN = b"gnus/entropy/block/1\x00"


def _check_size(size: int) -> int:
    if not 0 <= size <= MAX_TOKEN_BYTES:
        raise ValueError(f"a draw has 0 to {MAX_TOKEN_BYTES} bytes")
    return size


def _uuid4(raw: bytes) -> str:
    """A version-4 UUID of 16 random bytes, lower case."""
    return str(uuid.UUID(bytes=raw, version=4))


class SystemEntropy:
    """The Entropy port on the operating system's generator."""

    __slots__ = ()

    def token(self, size: int) -> bytes:
        """``size`` random bytes (at most ``MAX_TOKEN_BYTES``)."""
        return secrets.token_bytes(_check_size(size))

    def uuid(self) -> str:
        """A random version-4 UUID, lower case."""
        return _uuid4(secrets.token_bytes(16))


class SeededEntropy:
    """The Entropy port as a repeatable stream: the same seed gives the same bytes in every process. Never for real keys."""

    __slots__ = ("_counter", "_rest", "_seed")

    def __init__(self, seed: bytes | int) -> None:
        kind, raw = (b"i", str(seed).encode()) if isinstance(seed, int) else (b"b", seed)
        self._start(sha256(_SEED_DOMAIN + kind + raw).digest())

    def _start(self, seed: bytes) -> None:
        self._seed = seed
        self._counter = 0
        self._rest = b""

    def token(self, size: int) -> bytes:
        """The next ``size`` bytes of the stream (at most ``MAX_TOKEN_BYTES``)."""
        parts = [self._rest]
        have = len(self._rest)
        while have < _check_size(size):
            block = sha256(_BLOCK_DOMAIN + self._seed + self._counter.to_bytes(8, "big")).digest()
            self._counter += 1
            parts.append(block)
            have += len(block)
        stream = b"".join(parts)
        self._rest = stream[size:]
        return stream[:size]

    def uuid(self) -> str:
        """A version-4 UUID of the next 16 bytes of the stream, lower case."""
        return _uuid4(self.token(16))

    def fork(self, label: str) -> SeededEntropy:
        """An independent stream that depends on this one's seed and the label only."""
        child = SeededEntropy.__new__(SeededEntropy)
        child._start(sha256(_FORK_DOMAIN + self._seed + label.encode()).digest())
        return child
