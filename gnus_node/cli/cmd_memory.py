"""``gnus-node memory``: search and add."""

from __future__ import annotations

from typing import Annotated

import typer

from gnus_node.cli import options

app = options.application()
CLASSES = ("fact", "event", "policy", "bridge_block", "tenant_operational")


@app.callback(help="Search the swarm's memory, or propose something to remember.")
def memory_group() -> None:
    """The group itself does nothing."""


@app.command(help="Search memory by words.")
def search(
    query: Annotated[str, typer.Argument(help="Words to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most results.")] = 10,
    config: options.Config = None,
    data_dir: options.DataDir = None,
    socket: options.Socket = None,
    as_json: options.Json = False,
) -> None:
    """Best first."""
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import memory_page
    from gnus_node.cli.render import maps

    body = {"query": options.filled(query, "the query"), "limit": limit}
    found = options.node(config, data_dir, socket).post("/admin/memory/search", body)
    emit(found, as_json, memory_page(maps(found.get("data"))))


@app.command(help="Propose something to remember; admission and trust are the swarm's decision.")
def add(
    content: Annotated[str, typer.Argument(help="The text.")],
    memory_class: Annotated[str, typer.Option("--class", help="fact, event, policy, bridge_block or tenant_operational.")] = "fact",
    config: options.Config = None,
    data_dir: options.DataDir = None,
    socket: options.Socket = None,
    as_json: options.Json = False,
) -> None:
    """The event as admitted."""
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import remembered_page

    body = {"content": options.filled(content, "the text"), "memory_class": options.choice(memory_class, CLASSES, "--class")}
    made = options.node(config, data_dir, socket).post("/admin/memory", body)
    emit(made, as_json, remembered_page(made))
