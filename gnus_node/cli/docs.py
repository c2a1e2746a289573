"""Makes the documentation pages that are tables of the program: ``python -m gnus_node.cli.docs [--check]``.

A page that is made cannot lag behind; a test compares what is in the tree with what this makes now.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from gnus_node.cli.compose import command_app
from gnus_node.cli.table import ABOUT, COMMANDS, EXIT_CODES, Command
from gnus_node.config.describe import describe_config
from gnus_node.flow.table import COORDINATOR, OWNER, table_text
from gnus_node.net.services import services_table
from gnus_node.records import extensions
from gnus_node.records.errors import CODES
from gnus_node.records.glossary import glossary_page
from gnus_node.telemetry.declared import metrics_table
from gnus_node.telemetry.events import events_table
from gnus_node.tools.decide import checks_table
from gnus_node.tools.effects import effects_table
from gnus_node.wire.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]


def cli_page() -> str:
    """docs/cli.md: every command with its arguments and options."""
    parts = [
        "# Command line\n",
        "<!-- Made from the program by `make schemas`; do not edit. -->\n",
        f"`gnus-node`: {ABOUT}\n",
        f"Every command takes `--json` and then prints one JSON object. Exit codes: {EXIT_CODES}. An error is four lines on standard "
        "error, *what*, *why*, *fix*, *code* (the code's row is in [protocol/errors.md](protocol/errors.md)); with `--json` it is an "
        "object on standard output.\n",
        "Commands that speak to a running node find it by `--socket`, `--data-dir` or `--config`; without one of them by the first "
        "settings file there is of `node.toml`, `configs/node.toml`, `~/.gnus-node/node.toml`. They use the node's unix socket, which has "
        "mode 0600, so they need no key but must run as the node's user.\n",
        "| command | meaning |\n| --- | --- |",
    ]
    sections: list[str] = []
    for row in COMMANDS:
        for name, command in _leaves(row):
            parts.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {command.help} |")
            sections.append(_section(name, command))
    return "\n".join(parts) + "\n\n" + "\n".join(sections)


def _leaves(row: Command) -> list[tuple[str, Any]]:
    """A command, or the verbs of a group, by their full names."""
    program: Any = typer.main.get_command(command_app(row.module))
    if not row.verbs:
        return [(f"gnus-node {row.name}", program)]
    return [(f"gnus-node {row.name} {verb}", program.commands[verb]) for verb in row.verbs]


def _section(name: str, command: Any) -> str:
    lines = [f"## {name}\n", f"{command.help}\n", "| argument or option | default | meaning |", "| --- | --- | --- |"]
    for param in command.params:
        shown = f"`{param.name.upper()}`" if param.param_type_name == "argument" else ", ".join(f"`{opt}`" for opt in param.opts)
        if param.name == "help":
            continue
        default = "*required*" if param.required else "" if param.default in (None, False) else f"`{param.default}`"
        lines.append(f"| {shown} | {default} | {param.help} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """docs/protocol/errors.md: every code."""
    head = (
        "# Errors\n\n<!-- Made from gnus_node/records/errors.py by `make schemas`; do not edit. -->\n\n"
        "Every failure that crosses a boundary carries one of these codes. *Definite* means that the operation certainly did not take "
        "effect; where it says no, it may have. *Whose* says whose fault it is unless the error itself says otherwise. *HTTP* is the "
        "status, *exit* the exit code of the command line.\n\n"
        "| code | meaning | what to do | definite | retryable | whose | HTTP | exit |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    )
    rows = []
    for code, row in CODES.items():
        flags = " | ".join("yes" if flag else "no" for flag in (row.definite, row.retryable))
        rows.append(f"| `{code}` | {row.meaning} | {row.fix} | {flags} | {row.whose} | {row.http} | {row.exit} |")
    return head + "\n".join(rows) + "\n"


_MADE = "<!-- Made from the program by `make schemas`; do not edit. -->\n\n"


def flow_page() -> str:
    """docs/protocol/flow.md: both state machines."""
    return (
        f"# Flow\n\n{_MADE}"
        "A request has two state machines. The *owner* at the ingress holds a request from its durable acceptance to its one signed "
        "terminal; the *coordinator* at the router carries one generation of it through its stages, under a lease. Each state has a share "
        "of the time that remains; when it is over, the event is `deadline`. Following `deadline` alone always ends.\n\n"
        "Durable before anything goes on: the acceptance, `executing`, and the outcome of an effect that is not a read. Nothing else "
        "waits for the disk.\n\n"
        f"## Coordinator\n\nStarts at `remember`.\n\n{table_text(COORDINATOR)}\n\n"
        f"## Owner\n\nStarts at `own_accept`; a restart enters at `own_effects` with the next generation.\n\n{table_text(OWNER)}\n"
    )


def tools_page() -> str:
    """docs/protocol/tools.md: checks and effect states."""
    return (
        f"# Tool mediation\n\n{_MADE}"
        "Experts propose; the tool intermediary decides. Every proposal runs through these checks in this order; the first that fails "
        "gives the reason code of the signed attestation. There is no other way to a tool.\n\n"
        f"## Checks\n\n{checks_table()}\n## Effect states\n\n{effects_table()}"
    )


def services_page() -> str:
    """docs/protocol/services.md: what nodes ask of each other."""
    return (
        f"# Services\n\n{_MADE}"
        "A service is a stream protocol. A request is one message of signed records, sealed texts and small arguments; the answer is any "
        "number of progress items, then one result, or an error. A record in a message is checked by whoever acts on it; arguments carry "
        f"no authority.\n\n{services_table()}\n"
    )


def observability_page() -> str:
    """docs/protocol/observability.md: metrics and events."""
    return (
        f"# Metrics and events\n\n{_MADE}"
        "Metrics are served in Prometheus form at `/metrics`, under the prefix `gnus_`. Inference is never inside overhead. Events are "
        f"lines of the structured log.\n\n## Metrics\n\n{metrics_table()}\n## Events\n\n{events_table()}"
    )


def records_page() -> str:
    """docs/protocol/records.md: every record kind, what it says and who signs it."""
    parts = [
        f"# Records\n\n{_MADE}"
        "Every record that crosses a boundary. The JSON view of each is described by a schema in `schemas/`; the bytes are in "
        "[wire.md](wire.md).\n"
    ]
    for (name, version), kind in sorted(KINDS.items()):
        words = name.replace("_", " ")
        signers = sorted(str(role).replace("_", " ") for role in kind.signers)
        who = " or ".join(f"the {role}" for role in signers)
        about = " ".join((kind.body.__doc__ or "").split())
        seed = f" Specification: {kind.body.SEED}." if kind.body.SEED else ""
        article = "An" if words[0] in "aeiou" else "A"
        parts.append(f"## {words.capitalize()}\n\n{article} {words} is signed by {who}. {about}{seed} Kind `{name}`, version {version}.\n")
    parts.append(
        "## Memory event\n\nA memory event is signed by the memory node that made it, in a compact envelope of its own. One immutable, "
        "content-addressed event; its text is encrypted under its owner's key.\n"
    )
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """Every made page by its path in the project."""
    return {
        "docs/protocol/records.md": records_page(),
        "docs/protocol/flow.md": flow_page(),
        "docs/protocol/tools.md": tools_page(),
        "docs/protocol/services.md": services_page(),
        "docs/protocol/observability.md": observability_page(),
        "docs/cli.md": cli_page(),
        "docs/configuration.md": describe_config(),
        "docs/glossary.md": glossary_page(),
        "docs/protocol/errors.md": errors_page(),
        "docs/protocol/extensions.md": extensions.markdown(),
    }


def main(argv: list[str]) -> int:
    """Write the pages that differ; with ``--check`` only name them. Returns 1 if ``--check`` found one."""
    stale = [name for name, text in pages().items() if not (ROOT / name).is_file() or (ROOT / name).read_text(encoding="utf-8") != text]
    for name in stale:
        print(f"{'differs' if '--check' in argv else 'written'}: {name}")
        if "--check" not in argv:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(pages()[name], encoding="utf-8")
    return 1 if stale and "--check" in argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
