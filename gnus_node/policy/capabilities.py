"""Capability names, as the rooms above know them; the code is ``records.capabilities``, beside the views that read them."""

from __future__ import annotations

from gnus_node.records.capabilities import canonical_set, parse

__all__ = ["canonical_set", "parse"]
