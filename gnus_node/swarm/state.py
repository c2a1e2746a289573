"""What a running swarm writes down for others: who keeps it, and each node's process. And how they find out whether it still runs.

The keeper holds a lock as long as it lives, so a stale file deceives nobody: without the lock, nothing runs. Written whole each time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from gnus_node.records.errors import GnusError
from gnus_node.store.disk import DirectoryLock, private_directory, replace_file
from gnus_node.swarm.settings import Place
from gnus_node.wire import jsontext

STATE_FILE = "swarm.json"
PLACES_FILE = "places.json"
LOCK_FOLDER = "keeper"


class NodeState(StrEnum):
    """How a node's process is."""

    STARTING = "starting"
    READY = "ready"
    DIED = "died"
    STOPPED = "stopped"


@dataclass(slots=True)
class NodeRow:
    """One node's process as its keeper sees it."""

    name: str
    roles: tuple[str, ...]
    listen: str
    pid: int = 0
    state: NodeState = NodeState.STARTING
    ended: str = ""
    """How its last process ended, if one did."""
    starts: int = 0


def hold(data_dir: Path) -> DirectoryLock:
    """Become the keeper of the swarm in this folder. Raises ``ALREADY_RUNNING``."""
    folder = data_dir / LOCK_FOLDER
    private_directory(folder)
    try:
        return DirectoryLock(folder)
    except GnusError as error:
        if error.code != "ALREADY_RUNNING":
            raise
        raise GnusError("ALREADY_RUNNING", "this swarm is up already", fix="gnus-node swarm status, or gnus-node swarm down") from None


def write_state(data_dir: Path, rows: list[NodeRow], *, ready: bool) -> None:
    """Write down how all nodes are."""
    nodes = [{**asdict(row), "state": str(row.state), "roles": list(row.roles)} for row in rows]
    view = {"pid": os.getpid(), "ready": ready, "nodes": nodes}
    replace_file(data_dir / STATE_FILE, jsontext.write_view(view, indent=2) + "\n")


def forget_state(data_dir: Path) -> None:
    """The swarm is down: nothing is written of it any more."""
    (data_dir / STATE_FILE).unlink(missing_ok=True)


def read_state(data_dir: Path) -> dict[str, Any]:
    """What the keeper wrote, while it lives. Raises ``NOT_RUNNING``."""
    if not running(data_dir):
        raise GnusError("NOT_RUNNING", "this swarm is not up", fix="gnus-node swarm up FILE")
    try:
        plain = jsontext.read_view((data_dir / STATE_FILE).read_bytes())
    except OSError:
        plain = None
    if not isinstance(plain, dict) or not isinstance(plain.get("pid"), int) or not isinstance(plain.get("nodes"), list):
        raise GnusError("NOT_RUNNING", "this swarm is only just starting", fix="try again in a moment")
    return plain


def running(data_dir: Path) -> bool:
    """Whether somebody keeps this swarm."""
    if not (data_dir / LOCK_FOLDER).is_dir():
        return False
    try:
        hold(data_dir).release()
    except GnusError as error:
        if error.code == "ALREADY_RUNNING":
            return True
        raise
    return False


def tell_keeper(data_dir: Path, number: signal.Signals) -> int:
    """Send the keeper a signal; its process id. Raises ``NOT_RUNNING``."""
    pid = int(read_state(data_dir)["pid"])
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise GnusError("NOT_RUNNING", "this swarm is not up") from None
    except PermissionError:
        raise GnusError("FORBIDDEN", "the swarm was started by another user", fix="run the command as that user") from None
    return pid


def write_places(data_dir: Path, places: Mapping[str, Place]) -> None:
    """Write down where each node listens, for the nodes themselves."""
    view = {name: {"listen": place.listen, "peer": place.peer} for name, place in places.items()}
    replace_file(data_dir / PLACES_FILE, jsontext.write_view(view, indent=2) + "\n")


def read_places(data_dir: Path) -> dict[str, Place]:
    """Where each node listens. Raises ``CONFIG`` where nobody has brought the swarm up yet."""
    try:
        plain = jsontext.read_view((data_dir / PLACES_FILE).read_bytes())
        return {name: Place(str(place["listen"]), str(place["peer"])) for name, place in plain.items()}
    except (OSError, KeyError, TypeError, AttributeError):
        raise GnusError("CONFIG", "the places of this swarm's nodes are not known", fix="gnus-node swarm up FILE") from None
