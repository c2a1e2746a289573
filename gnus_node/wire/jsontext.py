"""JSON at the boundary, as the rooms above know it; the code is ``records.jsontext``, beside the views it serves."""

from __future__ import annotations

from gnus_node.records.jsontext import canonical, read_free, read_view, write_view

__all__ = ["canonical", "read_free", "read_view", "write_view"]
