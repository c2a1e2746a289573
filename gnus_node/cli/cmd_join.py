"""``gnus-node join``: a further node of a swarm, on its own machine. No secret travels: a request holds public keys, a membership signed records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnus_node.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping

app = options.application()
MAX_FILE_BYTES = 4 * 1024 * 1024
CHARTER, TRUST = "charter.json", "trust.json"


@app.callback(help="Bring a further node into a swarm: it asks, the authority grants, it takes the membership home.")
def join_group() -> None:
    """The group itself does nothing."""


@app.command(help="On the new machine: make the node's keys, and join.json for the swarm's authority.")
def request(config: options.Config = None, as_json: options.Json = False) -> None:
    """The settings say where the keys go and which roles are asked for."""
    from gnus_node.cli.output import Page, emit
    from gnus_node.membership import request_membership

    settings = options.settings(config)
    made = dict(request_membership(settings.node.data_dir, sorted(settings.node.roles)))
    page = Page().line("made", "ok").pairs(made.items(), indent=2)
    emit(made, as_json, page.line("next: gnus-node join grant join.json --out DIR, where the swarm was founded", "dim"))


@app.command(help="Where the swarm was founded: grant a join.json; charter and trust log go into a folder for the new node.")
def grant(
    file: Annotated[Path, typer.Argument(help="The new node's join.json.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for charter.json and trust.json.")],
    operator: Annotated[str, typer.Option(help="Who runs the new node; the unit of independence.")] = "local",
    tier: Annotated[str, typer.Option(help="A, B, C or D.")] = "A",
    config: options.Config = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """A running founder grants by itself, and its peers hear of it at once; a stopped one's key is used here."""
    from gnus_node.cli.output import Page, emit

    if tier not in ("A", "B", "C", "D"):
        raise typer.BadParameter("A, B, C or D", param_hint="--tier")
    charter, trust = _granted(_text(file), operator, tier, config, data_dir)
    out.mkdir(parents=True, exist_ok=True)
    (out / CHARTER).write_text(charter, encoding="utf-8")
    (out / TRUST).write_text(trust, encoding="utf-8")
    made = {"charter": str(out / CHARTER), "trust": str(out / TRUST)}
    page = Page().line("granted", "ok").pairs(made.items(), indent=2)
    emit(made, as_json, page.line("next: gnus-node join take DIR, on the new machine", "dim"))


def _granted(text: str, operator: str, tier: str, config: Path | None, data_dir: Path | None) -> tuple[str, str]:
    from gnus_node.membership import grant_stopped
    from gnus_node.records.enums import Tier
    from gnus_node.records.errors import GnusError

    folder = data_dir or options.settings(config).node.data_dir
    try:
        body = {"request": text, "operator": operator, "tier": tier}
        answer: Mapping[str, Any] = options.node(config, data_dir, None).post("/admin/grant", body)
    except GnusError as error:
        if error.code != "NOT_RUNNING":
            raise
        return grant_stopped(folder, text, operator=operator, tier=Tier[tier])
    return str(answer["charter"]), str(answer["trust"])


@app.command(help="On the new machine: take charter and trust log home, once they grant this node.")
def take(
    folder: Annotated[Path, typer.Argument(help="The folder that join grant wrote.")],
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Then gnus-node run, with the address of another node in net.bootstrap."""
    from gnus_node.cli.output import Page, emit
    from gnus_node.membership import join_swarm

    data_dir = options.settings(config).node.data_dir
    join_swarm(data_dir, _text(folder / CHARTER), _text(folder / TRUST))
    made = {"data_dir": str(data_dir), "charter": str(data_dir / CHARTER)}
    emit(made, as_json, Page().line("joined", "ok").pairs(made.items(), indent=2).line("next: gnus-node run", "dim"))


def _text(path: Path) -> str:
    """A bounded text file. Raises ``CONFIG``."""
    from gnus_node.records.errors import GnusError

    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise GnusError("TOO_LARGE", f"{path} is larger than {MAX_FILE_BYTES} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise GnusError("CONFIG", f"{path} cannot be read: {error.strerror}", fix="name the right file") from None
    except UnicodeDecodeError:
        raise GnusError("MALFORMED", f"{path} is not UTF-8") from None
