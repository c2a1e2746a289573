"""``gnus-node tools``: what the intermediary could do."""

from __future__ import annotations

from gnus_node.cli import options

app = options.application()


@app.callback(help="List the tools of this node's intermediary and what each may do.")
def tools_group() -> None:
    """The group itself does nothing."""


@app.command("list", help="List the tools and what each may do.")
def list_(
    config: options.Config = None, data_dir: options.DataDir = None, socket: options.Socket = None, as_json: options.Json = False
) -> None:
    """Everything that is not listed is refused."""
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import tools_page
    from gnus_node.cli.render import maps

    found = options.node(config, data_dir, socket).get("/admin/tools")
    emit(found, as_json, tools_page(maps(found.get("data"))))
