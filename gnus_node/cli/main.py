"""Entry point of ``gnus-node``: answers ``--help`` and ``--version`` from the table, otherwise imports the one command asked for.

Every failure ends here: a ``GnusError`` is printed as four lines (what, why, fix, code) and gives its row's exit code.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from gnus_node import __version__
from gnus_node.cli.table import COMMANDS, Command, find, help_text


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in args[: args.index("--") if "--" in args else len(args)]
    if args and args[0] == "--json":
        # A leading --json is every command's own --json.
        args = args[1:]
        args.insert(args.index("--") if "--" in args else len(args), "--json")
    if not args or args in (["--json"], ["help"]) or args[0] in ("--help", "-h"):
        sys.stdout.write(help_text())
        return 0 if args else 2
    if args[0] in ("--version", "-V"):
        sys.stdout.write(f"gnus-node {__version__}\n")
        return 0
    command = find(args[0])
    if command is None:
        return _unknown(args[0], as_json)
    try:
        return _run(command, args[1:], as_json)
    except KeyboardInterrupt:
        # Also while the command is still being imported.
        return _fail("CANCELLED", "", as_json)


def _unknown(name: str, as_json: bool) -> int:
    import difflib

    from gnus_node.cli.output import report
    from gnus_node.records.errors import GnusError

    close = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    fix = f"did you mean 'gnus-node {close[0]}'?" if close else "gnus-node --help lists the commands"
    what = "no such option" if name.startswith("-") else f"no command {name[:40]!r}"
    return report((GnusError("USAGE", what, fix=fix),), as_json)


def _run(command: Command, args: list[str], as_json: bool) -> int:
    import typer

    from gnus_node.cli.compose import command_app

    if isinstance(sys.stdout, io.TextIOWrapper):
        # An answer in any script must not fail on a terminal that cannot show it; and what a command says that goes on running is read now.
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    usage_error = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
    try:
        program = typer.main.get_command(command_app(command.module))
        result = program.main(args=args, prog_name=f"gnus-node {command.name}", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BrokenPipeError:
        # The reader (head, less) went away: nobody is left to tell, and Python's own flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except typer.Abort:
        return _fail("CANCELLED", "", as_json)
    except Exception as error:  # noqa: BLE001  supervised boundary: the command's process; a fault becomes an exit code and four lines
        if isinstance(error, usage_error):
            message = getattr(error, "format_message", str)()
            return _misused(command, args, " ".join(message.split()), as_json)
        return _crash(error, as_json)


def _misused(command: Command, args: list[str], message: str, as_json: bool) -> int:
    """A command called wrongly; of a group without a verb, or with an unknown one, its verbs are told."""
    import difflib

    verb = next((arg for arg in args if not arg.startswith("-")), "")
    if not command.verbs or verb in command.verbs or "No such option" in message:
        name = f"{command.name} {verb}" if verb in command.verbs else command.name
        return _fail("USAGE", message, as_json, fix=f"gnus-node {name} --help")
    near = difflib.get_close_matches(verb, command.verbs, n=1)
    what = f"gnus-node {command.name} has no command {verb[:40]!r}" if verb else f"gnus-node {command.name} needs a command"
    every = f"one of {', '.join(command.verbs)}"
    fix = f"did you mean 'gnus-node {command.name} {near[0]}'? ({every})" if near else every
    return _fail("USAGE", what, as_json, fix=fix)


def _fail(code: str, what: str, as_json: bool, *, fix: str = "") -> int:
    from gnus_node.cli.output import report
    from gnus_node.records.errors import GnusError

    return report((GnusError(code, what, fix=fix),), as_json)


def _crash(error: BaseException, as_json: bool) -> int:
    """Typed errors as they are; anything else as ``INTERNAL`` with its place in the program, never a trace."""
    from gnus_node.cli.output import report
    from gnus_node.records.errors import GnusError, faults_of

    faults = faults_of(error)
    if faults:
        return report(faults, as_json)
    from gnus_node.telemetry.redact import fault_fields

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    place = fault_fields(error)
    fault = GnusError("INTERNAL", f"the command failed: {place['fault']}", fix="report it with this place", link=place["where"])
    return report((fault,), as_json)


if __name__ == "__main__":
    sys.exit(main())
