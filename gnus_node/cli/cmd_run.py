"""``gnus-node run``: the node in the foreground."""

from __future__ import annotations

import typer

from gnus_node.cli import options

app = options.application()


@app.command(help="Run the node in the foreground until it is told to stop.")
def run(config: options.Config = None, as_json: options.Json = False) -> None:
    """SIGINT and SIGTERM stop it after the requests under way have ended. With --json only errors are JSON; the log is JSON anyway."""
    from gnus_node.cli.compose import run_node

    raise typer.Exit(run_node()(options.settings(config)))
