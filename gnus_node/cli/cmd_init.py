"""``gnus-node init``: make a data directory and the 1-of-1 swarm it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnus_node.cli import options

app = options.application()
TEMPLATES = ("default", "delegated", "step_by_step", "read_only")


@app.command(help="Make a data directory: keys, a 1-of-1 charter, grants, a trust head, an API key.")
def init(
    data_dir: Annotated[Path | None, typer.Argument(help="The directory to make; without it, the one in the settings.")] = None,
    config: options.Config = None,
    name: Annotated[str, typer.Option(help="Name of the swarm.")] = "local",
    template: Annotated[str, typer.Option(help="Policy template: default, delegated, step_by_step or read_only.")] = "default",
    force: Annotated[bool, typer.Option("--force", help="Replace keys and charter that are already there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Prints what was made; the API key is shown this once and stored hashed."""
    from gnus_node.cli.compose import initialise
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import made_page
    from gnus_node.config.model import NodeSettings

    options.choice(template, TEMPLATES, "--template")
    reads = config is not None or (data_dir is None and options.settings_file(None) is not None)
    node = options.settings(config).node if reads else NodeSettings()
    target = data_dir or (node.data_dir if reads else options.HOME.expanduser())
    made = dict(
        initialise()(
            target.absolute(),
            name=name,
            template=template,
            force=force,
            with_settings=not reads,
            operator=node.operator,
            profile=node.profile,
        )
    )
    emit(made, as_json, made_page(made))
