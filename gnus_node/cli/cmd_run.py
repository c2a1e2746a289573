"""``gnus-node run``: the node in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from gnus_node.cli import options

app = options.application()


@app.command(help="Run the node in the foreground until it is told to stop.")
def run(
    config: options.Config = None,
    data_dir: options.RunDir = None,
    listen: options.Listen = None,
    start_over: Annotated[
        bool, typer.Option("--start-over", help="Make a new store where it is lost or damaged; what is left of it is moved aside.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """SIGINT and SIGTERM stop it after the requests under way have ended; a second one ends it at once. The log is readable on a terminal,
    JSON lines in a pipe and with --json."""
    options.end_at_once()
    from gnus_node.cli.compose import run_node

    settings = options.run_settings(config, data_dir, listen)
    raise typer.Exit(run_node()(settings, start_over=start_over, log_json=as_json))
