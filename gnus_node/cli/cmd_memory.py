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
    from gnus_node.cli.output import Page, emit
    from gnus_node.cli.render import flat

    found = options.node(config, data_dir, socket).post(
        "/admin/memory/search", {"query": options.filled(query, "the query"), "limit": limit}
    )
    events = found.get("data", [])
    page = Page()
    for event in events:
        page.line(flat(event))
    emit(found, as_json, page if events else Page().line("nothing found", "warn"))


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
    from gnus_node.cli.render import tree_page

    body = {"content": options.filled(content, "the text"), "memory_class": options.choice(memory_class, CLASSES, "--class")}
    made = options.node(config, data_dir, socket).post("/admin/memory", body)
    emit(made, as_json, tree_page("admitted", made))
