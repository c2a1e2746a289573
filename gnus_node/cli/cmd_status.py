"""``gnus-node status``: how the running node is."""

from __future__ import annotations

from gnus_node.cli import options

app = options.application()


@app.command(help="Show what the running node hosts and how it is, problems first.")
def status(
    config: options.Config = None, data_dir: options.DataDir = None, socket: options.Socket = None, as_json: options.Json = False
) -> None:
    """The node's own status object."""
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import status_page

    value = options.node(config, data_dir, socket).get("/admin/status")
    emit(value, as_json, status_page(value))
