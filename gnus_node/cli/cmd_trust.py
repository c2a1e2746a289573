"""``gnus-node trust``: the swarm's authority as this node sees it."""

from __future__ import annotations

from gnus_node.cli import options

app = options.application()


@app.callback(help="Show the swarm's charter, grants and trust head as this node sees them.")
def trust_group() -> None:
    """The group itself does nothing."""


@app.command(help="Show charter, grants and trust head.")
def show(
    config: options.Config = None, data_dir: options.DataDir = None, socket: options.Socket = None, as_json: options.Json = False
) -> None:
    """The ``trust`` part of the node's status."""
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import trust_page

    value = options.node(config, data_dir, socket).get("/admin/status").get("trust") or {}
    emit(value, as_json, trust_page(value))
