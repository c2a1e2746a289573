"""When a trust log may grow: pure judgement on records another node offers (DESIGN.md section 5).

Only forward: what is held is never given up, and no step is taken to a log that no head covers, so "valid as of trust head N" stays true at
every moment. A head that covers less than what is held, or that contradicts another, is reported and changes nothing.
"""

# house: pure

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gnus_node.records.authority import Revocation, RoleGrant, TenantGrant, TrustHead
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.trust.state import TrustState, authorised, fold, head_authorised, head_order, log_digest

MAX_LOG = 4096
"""Most records of a trust log, heads left out."""
_KINDS = (RoleGrant, TenantGrant, Revocation)


@dataclass(frozen=True, slots=True)
class Growth:
    """What became of an offer: the new state and log, or None where nothing changes, and what was wrong with the offer."""

    state: TrustState | None
    records: tuple[Signed[Any], ...]
    problems: tuple[GnusError, ...]


def grow(state: TrustState, held: Sequence[Signed[Any]], offered: Iterable[Signed[Any]]) -> Growth:
    """Judge offered records against the log held (without its charter; ``TrustBox.records``). Never raises."""
    problems: list[GnusError] = []
    log = {r.id: r for r in held if not isinstance(r.body, TrustHead)}
    heads = {r.id: r for r in held if isinstance(r.body, TrustHead)}
    known = {*log, state.charter.id}
    for record in offered:
        problem = _place(state, record, log, heads)
        if problem:
            problems.append(problem)
    if len(log) > MAX_LOG:
        return Growth(None, (), (GnusError("TOO_LARGE", f"a trust log of more than {MAX_LOG} records"),))
    problems += contradictions(heads.values())
    bad = {p.link for p in problems if p.code == "EQUIVOCATED"}
    good = [h for h in heads.values() if h.id.hex() not in bad or h.id == (state.head.id if state.head else None)]
    for ids in ({*log, state.charter.id}, known):
        head = _best(state, good, ids)
        if head is None:
            continue
        if ids == known and head == state.head:
            break
        records = (*(r for r in log.values() if r.id in ids), head)
        return Growth(fold(state.charter, records), records, (*problems, *_shrinking(state, good, known)))
    problems += _shrinking(state, good, known)
    if len(log) + 1 > len(known):
        problems.append(GnusError("CHAIN_BROKEN", "records of a trust log that no head covers yet", link="trust log"))
    return Growth(None, (), tuple(problems))


def contradictions(heads: Iterable[Signed[TrustHead]]) -> list[GnusError]:
    """Pairs of heads that no honest key signs: two under one number, or two logs of one size in one epoch. One error for each head."""
    found: list[GnusError] = []
    by_number: dict[tuple[bytes, int], bytes] = {}
    by_log: dict[tuple[int, int], tuple[bytes, bytes]] = {}
    for head in sorted(heads, key=head_order):
        number = (head.header.signer, head.header.seq)
        size = (head.body.head_epoch, head.body.log_size)
        twin = by_number.setdefault(number, head.id)
        fork = by_log.setdefault(size, (head.body.log_digest, head.id))
        if twin != head.id:
            found += [_two_heads(twin), _two_heads(head.id)]
        if fork[0] != head.body.log_digest:
            found += [_two_heads(fork[1]), _two_heads(head.id)]
    return found


def _two_heads(head: bytes) -> GnusError:
    return GnusError("EQUIVOCATED", "two trust heads that contradict each other", link=head.hex())


def _place(
    state: TrustState, record: Signed[Any], log: dict[bytes, Signed[Any]], heads: dict[bytes, Signed[TrustHead]]
) -> GnusError | None:
    """Put an offered record where it belongs, or say why it belongs nowhere."""
    charter = state.charter.body
    if record.header.swarm != state.swarm:
        return GnusError("WRONG_SWARM", "a trust record of another swarm", link=record.header.kind)
    if record.id == state.charter.id:
        return None
    if isinstance(record.body, TrustHead):
        if not head_authorised(charter, record):
            return GnusError("UNKNOWN_KEY", "a trust head that the authority did not sign", link="trust head")
        heads[record.id] = record
        return None
    if not isinstance(record.body, _KINDS) or not authorised(charter, record):
        return GnusError("UNKNOWN_KEY", "a trust record that the authority did not sign", link=record.header.kind)
    log[record.id] = record
    return None


def _best(state: TrustState, heads: Iterable[Signed[TrustHead]], ids: set[bytes]) -> Signed[TrustHead] | None:
    """The newest head that covers exactly these ids and is not older than the one held."""
    digest = log_digest(ids)
    oldest = head_order(state.head) if state.head else (0, 0, b"")
    fits = (h for h in heads if h.body.log_size == len(ids) and h.body.log_digest == digest and head_order(h) >= oldest)
    return max(fits, key=head_order, default=None)


def _shrinking(state: TrustState, heads: Iterable[Signed[TrustHead]], known: set[bytes]) -> list[GnusError]:
    """Newer heads over fewer records than are held: somebody would have records forgotten."""
    if state.head is None:
        return []
    newer = [h for h in heads if head_order(h) > head_order(state.head) and h.body.log_size < len(known)]
    return [GnusError("CHAIN_BROKEN", "a newer trust head that drops records", link=h.id.hex()) for h in newer]
