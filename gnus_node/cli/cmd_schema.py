"""``gnus-node schema``: the JSON Schemas of the records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnus_node.cli import options

app = options.application()


@app.callback(help="List, show or export the JSON Schemas of the records.")
def schema_group() -> None:
    """The group itself does nothing."""


@app.command("list", help="List the names of all schemas.")
def list_(as_json: options.Json = False) -> None:
    """One name a line."""
    from gnus_node.cli.compose import schemas
    from gnus_node.cli.output import Page, emit

    names = list(schemas().names())
    emit({"schemas": names}, as_json, Page().line("\n".join(names)))


@app.command(help="Print one schema.")
def show(name: Annotated[str, typer.Argument(help="Its name.")], as_json: options.Json = False) -> None:
    """A schema is JSON either way."""
    from gnus_node.cli.compose import schemas
    from gnus_node.cli.output import show_json

    show_json(schemas().schema_for(name))


@app.command(help="Write every schema as NAME.json.")
def export(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder.")] = Path("schemas"),
    as_json: options.Json = False,
) -> None:
    """Makes the folder if it is not there."""
    from gnus_node.cli.compose import schemas
    from gnus_node.cli.output import Page, emit
    from gnus_node.records.errors import GnusError

    part = schemas()
    try:
        output.mkdir(parents=True, exist_ok=True)
        part.export(output)
    except OSError as error:
        raise GnusError("USAGE", f"{output} cannot be written: {error.strerror}", fix="name a folder that can be made") from None
    count = len(part.names())
    emit({"folder": str(output), "schemas": count}, as_json, Page().line(f"{count} schemas in {output}", "ok"))
