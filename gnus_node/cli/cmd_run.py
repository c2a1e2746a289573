"""``gnus-node run``: the node in the foreground."""

from __future__ import annotations

import typer

from gnus_node.cli import options

app = options.application()


@app.command(help="Run the node in the foreground until it is told to stop.")
def run(
    config: options.Config = None, data_dir: options.RunDir = None, listen: options.Listen = None, as_json: options.Json = False
) -> None:
    """SIGINT and SIGTERM stop it after the requests under way have ended; a second one ends it at once. The log is readable on a terminal,
    JSON lines in a pipe and with --json."""
    options.end_at_once()
    from gnus_node.cli.compose import run_node

    raise typer.Exit(run_node()(options.run_settings(config, data_dir, listen), log_json=as_json))
