"""Whether a record counts: swarm, key, role, epoch, time (DESIGN.md section 5). Pure; every refusal has a code.

``now_ms`` is the judge's own clock: an auditor passes the time of judging, a node its wall clock. A record counts at its own epoch and
time: the key must have been granted by then, and not be cut by then. Expiry of the record itself is judged only where ``live`` is set, for
an audit looks at yesterday's mandates.
"""

from __future__ import annotations

from typing import Any

from gnus_node.records.enums import SignerRole
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.trust.state import KeyHolder, TrustState, authorised
from gnus_node.wire.kinds import may_sign

MAX_SKEW_MS = 120_000
"""How far in the future a record may be dated, for clocks that differ."""


def check_signer(state: TrustState, record: Signed[Any], now_ms: int, *, live: bool) -> KeyHolder:
    """Who stands behind a record. Raises ``WRONG_SWARM``, ``WRONG_ROLE``, ``DUPLICATE_KEY``, ``UNKNOWN_KEY``, ``NOT_YET_VALID``,
    ``EXPIRED``, ``REVOKED``."""
    header = record.header
    link = f"{header.kind}"
    if header.swarm != state.swarm:
        raise GnusError("WRONG_SWARM", f"a {header.kind} of another swarm", link=link)
    if not may_sign(header.kind, header.version, header.role):
        raise GnusError("WRONG_ROLE", f"role {header.role} does not sign a {header.kind}", link=link)
    if header.signer in state.duplicates:
        raise GnusError("DUPLICATE_KEY", f"the key of a {header.kind} stands in two places", link=link)
    holder = state.keys.get(header.signer)
    if holder is None:
        raise GnusError("UNKNOWN_KEY", f"the key of a {header.kind} has no grant", link=link)
    if holder.role is not header.role:
        raise GnusError("WRONG_ROLE", f"a {holder.role} key signed as {header.role}", link=link)
    if holder.role is SignerRole.AUTHORITY and not authorised(state.charter.body, record):
        raise GnusError("WRONG_ROLE", f"a {header.kind} with fewer authority signatures than the charter asks for", link=link)
    if header.epoch < holder.since_epoch or header.issued_at_ms < holder.not_before_ms:
        raise GnusError("NOT_YET_VALID", f"a {header.kind} older than its key's grant", link=link)
    if header.issued_at_ms > holder.not_after_ms:
        raise GnusError("EXPIRED", f"a {header.kind} later than its key's grant", link=link)
    if header.issued_at_ms > now_ms + MAX_SKEW_MS:
        raise GnusError("NOT_YET_VALID", f"a {header.kind} dated in the future", link=link)
    if live and header.expires_at_ms is not None and now_ms > header.expires_at_ms:
        raise GnusError("EXPIRED", f"a {header.kind} past its own end", link=link)
    cut = state.revoked.get(header.signer)
    if cut is not None:
        # The signer's epoch is its own claim, so a revoked key is refused whole; older records return through checkpoints (later issue).
        raise GnusError("REVOKED", f"the key of a {header.kind} was revoked at epoch {cut}", link=link)
    return holder


def check_role_record(state: TrustState, record: Signed[Any], now_ms: int, role: SignerRole, *, live: bool) -> KeyHolder:
    """As ``check_signer``, for one expected role. Raises ``WRONG_ROLE`` for another."""
    holder = check_signer(state, record, now_ms, live=live)
    if holder.role is not role:
        raise GnusError("WRONG_ROLE", f"a {record.header.kind} signed by {holder.role}, expected {role}", link=record.header.kind)
    return holder


def head_fresh(state: TrustState, now_ms: int) -> bool:
    """Whether the newest head is young enough for writes (charter ``head_max_age_ms``)."""
    if state.head is None:
        return False
    age = now_ms - state.head.header.issued_at_ms
    limit = state.charter.body.head_max_age_ms
    expires = state.head.header.expires_at_ms
    return -MAX_SKEW_MS <= age <= limit and (expires is None or now_ms <= expires)


def require_fresh(state: TrustState, now_ms: int) -> None:
    """Raise ``TRUST_STALE`` unless writes are allowed by a fresh head."""
    if not head_fresh(state, now_ms):
        raise GnusError("TRUST_STALE", "the newest trust head is missing or too old for writes")
