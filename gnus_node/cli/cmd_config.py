"""``gnus-node config``: check and show settings, make API keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from gnus_node.cli import options

app = options.application()
SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE)


@app.callback(help="Check or show settings; make API keys.")
def config_group() -> None:
    """The group itself does nothing."""


@app.command(help="Read a settings file; say what is wrong with it, or that it is in order.")
def check(file: Annotated[Path | None, typer.Argument(help="The file.")] = None, as_json: options.Json = False) -> None:
    """Checks all that ``run`` would refuse of them: policies, roles, adapters, experts, corpora, folders, extras. Starts nothing."""
    from gnus_node.cli.compose import preflight
    from gnus_node.cli.output import Page, emit
    from gnus_node.config.load import located
    from gnus_node.records.errors import refuse

    settings = options.settings(file)
    path = options.settings_file(file) or Path()
    refuse(located(path, preflight().settings_faults(settings)))
    name = str(path)
    emit({"ok": True, "file": name}, as_json, Page().line(f"{name}: in order", "ok"))


@app.command(help="Print the settings that hold, defaults included; secrets are masked.")
def show(file: Annotated[Path | None, typer.Argument(help="The file.")] = None, as_json: options.Json = False) -> None:
    """Options of experts whose name looks like a secret's are shown as stars."""
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import settings_page

    plain = options.settings(file).model_dump(mode="json")
    masked = {**plain, "experts": {name: _masked(expert) for name, expert in plain["experts"].items()}}
    emit(masked, as_json, settings_page(str(options.settings_file(file)), masked))


@app.command(help="Make an API key; it is printed once and stored hashed.")
def key(
    tenant: Annotated[str, typer.Option(help="Tenant of the key.")] = "local",
    project: Annotated[str, typer.Option(help="Project of the key.")] = "default",
    principal: Annotated[str, typer.Option(help="Who uses it.")] = "operator",
    mode: Annotated[str, typer.Option(help="live or test.")] = "live",
    scope: Annotated[list[str] | None, typer.Option(help="What it may do; repeat for more. Default: ask.")] = None,
    config: options.Config = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """A running node reads the new key by itself."""
    from gnus_node.cli.compose import make_api_key
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import key_page

    options.choice(mode, ("live", "test"), "--mode")
    directory = data_dir or options.settings(config).node.data_dir
    made = dict(
        make_api_key()(directory.absolute(), tenant=tenant, project=project, principal=principal, mode=mode, scopes=scope or ["ask"])
    )
    emit(made, as_json, key_page(made))


def _masked(expert: dict[str, Any]) -> dict[str, Any]:
    hidden = {name: "********" if SECRET.search(name) else value for name, value in expert["options"].items()}
    return {**expert, "options": hidden}
