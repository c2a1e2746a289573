"""``gnus-node audit``: take a request's bundle out, and check one without any node."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from gnus_node.cli import options

app = options.application()


@app.callback(help="Export a request's audit bundle; verify one without a node.")
def audit_group() -> None:
    """The group itself does nothing."""


@app.command(help="Write the audit bundle of a request to a file.")
def export(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="Request or audit id.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file; never overwritten.")],
    with_payloads: Annotated[bool, typer.Option("--with-payloads", help="Put texts and salts in, not only their commitments.")] = False,
    config: options.Config = None,
    data_dir: options.DataDir = None,
    socket: options.Socket = None,
    as_json: options.Json = False,
) -> None:
    """The file has mode 0600 and appears whole or not at all."""
    from urllib.parse import quote

    from gnus_node.cli.output import Page, emit

    folder = output.absolute().parent
    if output.exists() or not folder.is_dir() or not os.access(folder, os.W_OK):
        write_new(output, b"")  # raises what is in the way, before the node is asked
    node = options.node(config, data_dir, socket)
    data = node.call("GET", f"/admin/audit/{quote(request_id, safe='')}?payloads={int(with_payloads)}", timeout_s=60.0)
    write_new(output, data)
    value = {"file": str(output), "size_bytes": len(data), "payloads": with_payloads}
    emit(value, as_json, Page().line(f"{len(data)} bytes in {output}", "ok"))


@app.command(help="Verify a bundle against a swarm's charter; no node is needed.")
def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The bundle.")],
    charter: Annotated[Path, typer.Option(help="The swarm's charter: all that is taken on trust.")],
    trust_head: Annotated[Path | None, typer.Option(help="The newest trust head you know.")] = None,
    as_json: options.Json = False,
) -> None:
    """Exit code 0 only if every link holds."""
    from gnus_node.cli.compose import verify_bundle
    from gnus_node.cli.output import emit
    from gnus_node.cli.render import verdict_page

    for path in (bundle, charter, trust_head):
        if path is not None and not path.exists():
            raise typer.BadParameter(f"{path} does not exist")
    verdict = dict(verify_bundle()(bundle, charter, trust_head))
    emit(verdict, as_json, verdict_page(verdict))
    raise typer.Exit(0 if verdict.get("ok") is True else 1)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist yet, mode 0600, whole or not at all. Raises ``USAGE``."""
    from gnus_node.records.errors import GnusError

    try:
        handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=".bundle-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, refuses to replace what is there.
            os.link(name, path)
        finally:
            os.unlink(name)
    except FileExistsError:
        raise GnusError("USAGE", f"{path} exists already", fix="choose another file") from None
    except OSError as error:
        folder = path.absolute().parent
        why = f"the folder {folder} does not exist" if not folder.is_dir() else f"{error.strerror} in {folder}"
        raise GnusError("USAGE", f"{path} cannot be written: {why}", fix="name a file in a folder that you may write to") from None
