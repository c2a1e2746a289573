"""Whether a trust head covers the log at hand: the answer is "valid as of trust head N" only for a complete log. Pure."""

from __future__ import annotations

from gnus_node.records.errors import GnusError
from gnus_node.trust.state import TrustState, log_digest


def require_covered(state: TrustState) -> None:
    """Raise ``CHAIN_BROKEN`` unless there is a head and the log is exactly what it covers."""
    if state.head is None:
        raise GnusError("CHAIN_BROKEN", "no trust head", link="trust head")
    body = state.head.body
    if body.log_size != len(state.log_ids) or body.log_digest != log_digest(state.log_ids):
        raise GnusError("CHAIN_BROKEN", "the trust log is not the one its head covers", link="trust head")
