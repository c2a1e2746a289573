"""``gnus-node doctor``: what is wrong or missing here, worst first."""

from __future__ import annotations

from typing import Any

import typer

from gnus_node.cli import options

app = options.application()


@app.command(help="Check machine and node; say what is missing and what is refused without it.")
def doctor(
    config: options.Config = None, data_dir: options.DataDir = None, socket: options.Socket = None, as_json: options.Json = False
) -> None:
    """Works without a node; with one it also asks the node. Exit code 1 if there is a problem."""
    from gnus_node.cli.doctor import Check, machine_checks, node_checks, ordered, start_checks
    from gnus_node.cli.output import emit
    from gnus_node.cli.pages import doctor_page
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
    bad = any(check.state == "problem" for check in checks)
    plain = [check.plain() for check in checks]
    emit({"ok": not bad, "checks": plain}, as_json, doctor_page(plain))
    raise typer.Exit(1 if bad else 0)


def _running(node: Any) -> list[Any]:
    """The running node's own findings, and what its tables take on disk."""
    from gnus_node.cli.doctor import Check
    from gnus_node.cli.render import size

    checks = [Check("ok", "node", f"running, socket {node.path}")]
    for found in node.get("/admin/doctor").get("data", []):
        state = str(found.get("state") or _state_of(str(found.get("code", "OK"))))
        checks.append(
            Check(state, str(found.get("name") or found.get("code", "node")), str(found.get("what", "")), str(found.get("fix", "")))
        )
    tables = node.get("/admin/status").get("bytes_per_table") or {}
    checks += [Check("ok", f"table {name}", size(count)) for name, count in tables.items()]
    return checks


def _state_of(code: str) -> str:
    """How bad a finding is that does not say so itself."""
    return {"OK": "ok", "MISSING_DEPENDENCY": "missing"}.get(code, "problem")
