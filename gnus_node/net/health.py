"""How well peers answer this node: a breaker for each, what they said of themselves, the calls under way to them, and the retry budget.

Grants nothing and forbids nothing: it only orders. A peer whose breaker is open, that is leaving or not connected comes after all others and is
still called where there is no other, so a mistake here costs time and never an answer. By node id, monotonic seconds; bounded by the grants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio

from gnus_node.records.errors import GnusError

TRIPS = 3
"""Failures in a row that open a breaker; not being reached at all counts as many."""
OPEN_S = 0.5
"""How long a breaker is open first; doubled with each further failure, until an answer."""
MAX_OPEN_S = 15.0
BUSY_S = 0.25
"""How long a peer that was busy comes after others."""
PROBE_AFTER_S = 2.0
"""A call that takes longer has its peer asked for a sign of life."""
SILENT_PROBES = 2
"""Signs of life that may stay out in a row; then the peer's calls are given up."""
FAIR_BUDGET_MS = 1_000
"""A call with less time that runs out of it says nothing of the peer."""
MAX_TOKENS = 10.0
TOKENS_PER_CALL = 0.1
"""Retries take at most this part of the calls (DESIGN.md section 5)."""
UNANSWERED = frozenset({"UNREACHABLE", "PROTOCOL", "INTERNAL", "DEADLINE"})
"""Errors of a call that speak against the peer; any other one is an answer."""


@dataclass(slots=True)
class _Peer:
    failures: int = 0
    open_until: float = 0.0
    busy_until: float = 0.0
    leaving: bool = False
    gone: bool = False
    probes: int = 0
    calls: dict[trio.CancelScope, float] = field(default_factory=dict)


class Health:
    """What one node found of the others."""

    def __init__(self) -> None:
        self._peers: dict[str, _Peer] = {}
        self._tokens = MAX_TOKENS

    # -- what happened --------------------------------------------------------------------------------------------------------

    @contextmanager
    def calling(self, node_id: str, now: float) -> Iterator[None]:
        """Count a call for the length of the block. Raises ``UNREACHABLE`` where the peer falls silent meanwhile."""
        self._tokens = min(MAX_TOKENS, self._tokens + TOKENS_PER_CALL)
        calls = self._of(node_id).calls
        with trio.CancelScope() as scope:
            calls[scope] = now
            try:
                yield
            finally:
                calls.pop(scope, None)
        if scope.cancelled_caught:
            raise GnusError("UNREACHABLE", "the peer fell silent during the call")

    def answered(self, node_id: str) -> None:
        """It answered a call."""
        peer = self._of(node_id)
        peer.failures = peer.probes = 0
        peer.open_until = 0.0

    def failed(self, node_id: str, code: str, now: float, budget_ms: int) -> None:
        """A call ended with an error."""
        peer = self._of(node_id)
        if code == "BUSY":
            peer.busy_until = now + BUSY_S
        if code not in UNANSWERED:
            if code != "BUSY":
                self.answered(node_id)
            return
        if code == "DEADLINE" and budget_ms < FAIR_BUDGET_MS:
            return
        peer.failures = max(peer.failures + 1, TRIPS if code == "UNREACHABLE" else 0)
        if peer.failures >= TRIPS:
            peer.open_until = now + min(MAX_OPEN_S, OPEN_S * 2.0 ** min(peer.failures - TRIPS, 8))

    def said(self, node_id: str, *, leaving: bool) -> None:
        """A sign of life came from it."""
        peer = self._of(node_id)
        peer.leaving = leaving
        peer.probes = 0

    def connected(self, node_ids: Iterable[str]) -> None:
        """Who is connected now; all others are gone. One that comes back starts anew."""
        there = set(node_ids)
        for node_id in there:
            peer = self._of(node_id)
            if peer.gone:
                peer.gone = peer.leaving = False
                self.answered(node_id)
        for node_id, peer in self._peers.items():
            if node_id not in there:
                peer.gone = True

    # -- what follows ---------------------------------------------------------------------------------------------------------

    def rank(self, node_id: str, now: float) -> tuple[int, int]:
        """The smaller, the rather it is called: its state, then the calls under way to it."""
        peer = self._peers.get(node_id)
        if peer is None:
            return 0, 0
        state = 3 if self._out(peer, now) else 2 if peer.leaving else 1 if peer.busy_until > now else 0
        return state, len(peer.calls)

    def well(self, node_id: str, now: float) -> bool:
        """Whether a call may be expected to arrive."""
        peer = self._peers.get(node_id)
        return peer is None or not self._out(peer, now)

    def may_retry(self) -> bool:
        """Take one retry from the budget; False where it is used up."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def waiting(self, now: float) -> tuple[str, ...]:
        """Peers that owe an answer for so long that they are asked for a sign of life, by node id."""
        slow = (n for n, peer in self._peers.items() if any(now - since > PROBE_AFTER_S for since in peer.calls.values()))
        return tuple(sorted(slow))

    def no_sign(self, node_id: str, now: float) -> None:
        """It did not answer a sign of life while calls wait for it; after some of these they are given up."""
        peer = self._of(node_id)
        peer.probes += 1
        if peer.probes >= SILENT_PROBES:
            self.failed(node_id, "UNREACHABLE", now, FAIR_BUDGET_MS)
            for scope in tuple(peer.calls):
                scope.cancel()

    def keep(self, node_ids: Iterable[str]) -> None:
        """Forget all but these, unless a call is under way."""
        kept = set(node_ids)
        self._peers = {n: p for n, p in self._peers.items() if n in kept or p.calls}

    @staticmethod
    def _out(peer: _Peer, now: float) -> bool:
        return peer.gone or peer.open_until > now

    def _of(self, node_id: str) -> _Peer:
        return self._peers.setdefault(node_id, _Peer())
