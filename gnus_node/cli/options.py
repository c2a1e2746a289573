"""Options that commands share, and where the node is that a command speaks to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gnus_node.cli.client import Node
    from gnus_node.config import NodeConfig

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Config = Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="The node's settings.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", metavar="DIR", help="The node's data directory, instead of --config.")]
Socket = Annotated[Path | None, typer.Option("--socket", metavar="PATH", help="The node's unix socket, instead of --config.")]

RunDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Data directory of this run, with its socket, instead of the settings'.")
]
Listen = Annotated[
    str | None, typer.Option("--listen", metavar="ADDRESS:PORT", help="HTTP address of this run instead of the settings'; port 0: any.")
]

PLACES = (Path("node.toml"), Path("configs/node.toml"), Path("~/.gnus-node/node.toml"))
"""Where the settings are looked for when no option names them, in this order."""
HOME = Path("~/.gnus-node")


def application() -> typer.Typer:
    """A typer application with our habits: plain help (rich's costs a tenth of a second), no shell-completion options."""
    names = {"help_option_names": ["--help", "-h"]}
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False, context_settings=names
    )


def choice(value: str | None, choices: Sequence[str], option: str) -> str | None:
    """A value that must be one of a few. Raises ``USAGE`` with the nearest."""
    import difflib

    from gnus_node.records.errors import GnusError

    if value is None or value in choices:
        return value
    near = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
    every = f"one of {', '.join(choices)}"
    raise GnusError("USAGE", f"{option}: not a known value", fix=f"did you mean {near[0]!r}? ({every})" if near else every)


def filled(text: str, what: str) -> str:
    """A text that must say something. Raises ``USAGE``."""
    from gnus_node.records.errors import GnusError

    if not text.strip():
        raise GnusError("USAGE", f"{what} is empty", fix="say something")
    return text


def end_at_once() -> None:
    """Let Ctrl-C end this process as it ends any other, until the node's own receiver is there: an interrupt in the middle of an import is
    an error of whatever was imported, and nothing has begun that would have to be ended in order."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)


def settings_file(config: Path | None) -> Path | None:
    """The settings file that holds: the one named, else the first of ``PLACES`` that exists."""
    if config is not None:
        return config
    return next((place.expanduser() for place in PLACES if place.expanduser().is_file()), None)


def settings(config: Path | None) -> NodeConfig:
    """The settings. Raises ``CONFIG``, also where there are none."""
    from gnus_node.config import load_config
    from gnus_node.records.errors import GnusError

    path = settings_file(config)
    if path is None:
        raise GnusError("CONFIG", "no settings file found", fix=f"--config FILE; looked for {', '.join(map(str, PLACES))}")
    return load_config(path)


def run_settings(config: Path | None, data_dir: Path | None, listen: str | None) -> NodeConfig:
    """The settings of a run, with what its command line says instead. Raises ``CONFIG``, ``USAGE``."""
    from pydantic import ValidationError

    from gnus_node.config import NodeConfig
    from gnus_node.records.errors import GnusError

    found = settings(config)
    sections = {name: getattr(found, name) for name in NodeConfig.model_fields}
    if data_dir is not None:
        sections["node"] = {**dict(found.node), "data_dir": data_dir.absolute()}
        sections["api"] = {**dict(found.api), "unix_socket": None}
    if listen is not None:
        sections["api"] = {**dict(sections["api"]), "listen": listen}
    try:
        return NodeConfig.model_validate(sections)
    except ValidationError as error:
        reason = error.errors(include_url=False, include_input=False, include_context=False)[0]["msg"].removeprefix("Value error, ")
        raise GnusError("USAGE", f"--listen: {reason}", fix="for example --listen 127.0.0.1:0") from None


def socket_path(config: Path | None, data_dir: Path | None, socket: Path | None) -> Path:
    """The socket of the node that is meant: by option, else by settings, else the default data directory's."""
    if socket is not None:
        return socket
    if data_dir is not None:
        return data_dir / "node.sock"
    if settings_file(config) is None:
        return HOME.expanduser() / "node.sock"
    return settings(config).socket_path


def node(config: Path | None, data_dir: Path | None, socket: Path | None) -> Node:
    """The running node that is meant; nothing is sent yet."""
    from gnus_node.cli.client import Node

    return Node(socket_path(config, data_dir, socket))
