"""``gnus-node swarm``: a swarm of one, for the start."""

from __future__ import annotations

from typing import Annotated

import typer

from gnus_node.cli import options

app = options.application()


@app.callback(help="Bring up a swarm of one node: init if needed, then run.")
def swarm_group() -> None:
    """The group itself does nothing."""


@app.command(help="Make the data directory if it has no charter yet, then run the node in the foreground.")
def up(
    config: options.Config = None,
    data_dir: options.RunDir = None,
    listen: options.Listen = None,
    name: Annotated[str, typer.Option(help="Name of the swarm, if it is made now.")] = "local",
    as_json: options.Json = False,
) -> None:
    """The same as ``init`` and ``run``; keys that exist are kept. It makes no API key: what a node prints ends in logs."""
    options.end_at_once()
    from gnus_node.cli.compose import initialise, run_node
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import made_page

    settings = options.run_settings(config, data_dir, listen)
    # With an identity there, a missing charter is damage, and running says so; it is no reason to make another swarm.
    if not settings.charter_path.exists() and not (settings.node.data_dir / "identity").exists():
        node = settings.node
        made = dict(
            initialise()(
                node.data_dir,
                name=name,
                template=settings.policy.template,
                force=False,
                with_key=False,
                with_settings=False,
                operator=node.operator,
                profile=node.profile,
            )
        )
        emit(made, as_json, made_page(made))
    raise typer.Exit(run_node()(settings, log_json=as_json))
