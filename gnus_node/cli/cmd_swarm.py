"""``gnus-node swarm``: several nodes on this machine, each a process of its own; or a swarm of one, for the start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnus_node.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping

app = options.application()
PLACES = (Path("swarm.toml"), Path("configs/swarm.toml"))
File = Annotated[Path | None, typer.Argument(help="The swarm's file; without it, swarm.toml or configs/swarm.toml.")]


@app.callback(help="Bring up, look at and stop a swarm of nodes on this machine.")
def swarm_group() -> None:
    """The group itself does nothing."""


@app.command(help="Bring up the swarm of FILE, a process for each node; without FILE a swarm of one: init if needed, then run.")
def up(
    file: Annotated[Path | None, typer.Argument(help="The swarm's file (configs/swarm.toml is one); without it, one node.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when all is ready; the swarm goes on by itself.")] = False,
    config: options.Config = None,
    data_dir: options.RunDir = None,
    listen: options.Listen = None,
    name: Annotated[str, typer.Option(help="Name of the swarm of one, if it is made now.")] = "local",
    as_json: options.Json = False,
) -> None:
    """In the foreground until Ctrl-C, with what happens on standard error; keys that exist are kept. It makes no API key for a swarm of one:
    what a node prints ends in logs."""
    if file is None:
        _alone(config, data_dir, listen, name, as_json)
        return
    from gnus_node.cli.output import Page, emit, one_line
    from gnus_node.swarm.commands import bring_up, bring_up_detached

    def say(text: str) -> None:
        typer.echo(one_line(text) if "\n" not in text else text, err=True)

    def ready(facts: Mapping[str, Any]) -> None:
        value = dict(facts)
        emit(value, as_json, Page().line("ready", "ok").pairs(value.items(), indent=2).line("Ctrl-C stops all nodes", "dim"))

    if detach:
        value = dict(bring_up_detached(file, say))
        emit(value, as_json, Page().line("ready", "ok").pairs(value.items(), indent=2))
    else:
        bring_up(file, say, ready)


def _alone(config: Path | None, data_dir: Path | None, listen: str | None, name: str, as_json: bool) -> None:
    """The same as ``init`` and ``run``."""
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


@app.command(help="Show every node of a swarm: process, roles, peers, problems first.")
def status(file: File = None, as_json: options.Json = False) -> None:
    """Exit code 1 where a node is not well, 3 where the swarm is not up."""
    from gnus_node.cli.output import Page, emit, one_line
    from gnus_node.swarm.commands import swarm_status

    value = swarm_status(_file(file))
    page = Page()
    for problem in value["problems"]:
        page.line(f"problem: {one_line(problem)}", "problem")
    if not value["problems"]:
        page.line("all nodes are ready", "ok")
    width = max(len(node["name"]) for node in value["nodes"])
    for node in value["nodes"]:
        pid = f"pid {node['pid']}" if node["pid"] else "no process"
        facts = f"{node['state']:<8} {pid:<12} {node['peers']:>2} peers  {', '.join(node['roles'])}"
        page.line(f"{node['name']:<{width}}  {facts}", "" if not node["problems"] else "warn")
    emit(value, as_json, page)
    raise typer.Exit(0 if value["ready"] else 1)


@app.command(help="Stop the swarm of FILE: the ingress first, each node after what is under way.")
def down(file: File = None, as_json: options.Json = False) -> None:
    """Waits until every process has ended."""
    from gnus_node.cli.output import Page, emit
    from gnus_node.swarm.commands import bring_down

    value = dict(bring_down(_file(file)))
    emit(value, as_json, Page().line("down", "ok").pairs(value.items(), indent=2))


def _file(file: Path | None) -> Path:
    from gnus_node.records.errors import GnusError

    found = file or next((place for place in PLACES if place.is_file()), None)
    if found is None:
        raise GnusError("CONFIG", "no swarm file found", fix=f"name it; looked for {', '.join(map(str, PLACES))}")
    return found
