"""``gnus-node doctor``: what is wrong or missing here, worst first."""

from __future__ import annotations

from typing import Any

import typer

from gnus_node.cli import options

app = options.application()
SHOWN = {"problem": "problem", "warn": "warn", "missing": "warn", "ok": "ok"}


@app.command(help="Check machine and node; say what is missing and what is refused without it.")
def doctor(
    config: options.Config = None, data_dir: options.DataDir = None, socket: options.Socket = None, as_json: options.Json = False
) -> None:
    """Works without a node; with one it also asks the node. Exit code 1 if there is a problem."""
    from gnus_node.cli.doctor import Check, machine_checks, node_checks, ordered, start_checks
    from gnus_node.cli.output import Page, emit
    from gnus_node.records.errors import GnusError

    checks = machine_checks()
    try:
        if options.settings_file(config) is not None:
            checks += node_checks(options.settings(config)) + start_checks(options.settings(config))
        checks += _running(options.node(config, data_dir, socket))
    except GnusError as error:
        state = "warn" if error.code == "NOT_RUNNING" else "problem"
        checks.append(Check(state, "node" if state == "warn" else error.code, error.what, error.fix))
    checks = ordered(checks)
    page = Page()
    for check in checks:
        page.line(f"{check.state:<8}{check.name}: {check.what}{f'  ({check.fix})' if check.fix else ''}", SHOWN[check.state])
    bad = any(check.state == "problem" for check in checks)
    emit({"ok": not bad, "checks": [check.plain() for check in checks]}, as_json, page)
    raise typer.Exit(1 if bad else 0)


def _running(node: Any) -> list[Any]:
    """The running node's own findings, and what its tables take on disk."""
    from gnus_node.cli.doctor import Check

    checks = [Check("ok", "node", f"running, socket {node.path}")]
    for found in node.get("/admin/doctor").get("data", []):
        state = "ok" if found.get("code", "OK") == "OK" else "missing" if found["code"] == "MISSING_DEPENDENCY" else "problem"
        checks.append(Check(state, str(found.get("code", "node")), str(found.get("what", "")), str(found.get("fix", ""))))
    tables = node.get("/admin/status").get("bytes_per_table") or {}
    checks += [Check("ok", f"table {name}", f"{size} bytes") for name, size in tables.items()]
    return checks
