"""``gnus-node status``: how the running node is."""

from __future__ import annotations

from gnus_node.cli import options

app = options.application()


@app.command(help="Show what the running node hosts and how it is, problems first.")
def status(
    config: options.Config = None, data_dir: options.DataDir = None, socket: options.Socket = None, as_json: options.Json = False
) -> None:
    """The node's own status object."""
    from gnus_node.cli.output import Page, emit, one_line
    from gnus_node.cli.render import flat

    value = options.node(config, data_dir, socket).get("/admin/status")
    problems = value.get("problems") or []
    page = Page()
    for problem in problems:
        page.line(f"problem: {one_line(flat(problem))}", "problem")
    if not problems:
        page.line("no problems", "ok")
    page.pairs([(key, flat(entry)) for key, entry in value.items() if key != "problems"])
    emit(value, as_json, page)
