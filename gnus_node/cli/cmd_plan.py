"""``gnus-node plan``: how a question would be routed."""

from __future__ import annotations

from typing import Annotated

import typer

from gnus_node.cli import options

app = options.application()


@app.command(help="Show how a question would be routed; nothing runs.")
def plan(
    question: Annotated[str, typer.Argument(help="The question.")],
    config: options.Config = None,
    data_dir: options.DataDir = None,
    socket: options.Socket = None,
    as_json: options.Json = False,
) -> None:
    """The execution plan as the router would sign it."""
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import plan_page

    body = {"question": options.filled(question, "the question")}
    value = options.node(config, data_dir, socket).post("/admin/plan", body, timeout_s=60.0)
    emit(value, as_json, plan_page(value))
