"""The command table: what ``gnus-node --help`` prints without importing the program behind it.

A test holds it against the real commands; docs/cli.md is made from those. Nothing here may import more than ``typing``: the whole of
``--help`` has 0.2 s, and typer alone takes most of that.
"""

from __future__ import annotations

from typing import NamedTuple

from gnus_node import __version__


class Command(NamedTuple):
    """One command: its name, its line of help, and its verbs if it is a group."""

    name: str
    help: str
    verbs: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The module that holds it."""
        return f"gnus_node.cli.cmd_{self.name}"


COMMANDS = (
    Command("init", "Make a data directory: keys, a 1-of-1 charter, grants, a trust head, an API key."),
    Command("run", "Run the node in the foreground until it is told to stop."),
    Command("status", "Show what the running node hosts and how it is, problems first."),
    Command("ask", "Ask a question; print the answer with its sources."),
    Command("plan", "Show how a question would be routed; nothing runs."),
    Command("config", "Check or show settings; make API keys.", ("check", "show", "key")),
    Command("schema", "List, show or export the JSON Schemas of the records.", ("list", "show", "export")),
    Command("memory", "Search the swarm's memory, or propose something to remember.", ("search", "add")),
    Command("audit", "Export a request's audit bundle; verify one without a node.", ("export", "verify")),
    Command("tools", "List the tools of this node's intermediary and what each may do.", ("list",)),
    Command("trust", "Show the swarm's charter, grants and trust head as this node sees them.", ("show",)),
    Command("swarm", "Bring up, look at and stop a swarm of nodes on this machine.", ("up", "status", "down")),
    Command(
        "join",
        "Bring a further node into a swarm: it asks, the authority grants, it takes the membership home.",
        ("request", "grant", "take"),
    ),
    Command(
        "model",
        "List, install or verify weights for embedded models; licence and source are shown first.",
        ("list", "install", "verify"),
    ),
    Command("doctor", "Check machine and node; say what is missing and what is refused without it."),
)

ABOUT = "One program that joins a peer-to-peer swarm and answers questions with a record anybody can verify offline."
EXIT_CODES = "0 ok, 1 failed, 2 usage, 3 not running, 4 refused by policy"


def help_text() -> str:
    """The text of ``gnus-node --help``."""
    width = max(len(command.name) for command in COMMANDS)
    rows = "\n".join(f"  {command.name:<{width}}  {command.help}" for command in COMMANDS)
    return (
        f"gnus-node {__version__}\n{ABOUT}\n\n"
        f"Usage: gnus-node COMMAND [ARGUMENTS] [--json]\n\n"
        f"Commands:\n{rows}\n\n"
        f"Options:\n  --json     print one JSON object instead of text (every command)\n"
        f"  --help     this text; after a command, that command's\n  --version  print the version\n\n"
        f"Exit codes: {EXIT_CODES}.\n"
    )


def find(name: str) -> Command | None:
    """The command of that name."""
    return next((command for command in COMMANDS if command.name == name), None)
