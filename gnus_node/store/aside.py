"""Starting over where the store or the key store is lost or damaged: both are moved aside, so that new ones can be made.

Only on the operator's word (``gnus-node run --start-over``), for what they held is then gone: accepted requests, the log of effects that
keeps a write from running twice, memory, answers. What still opens is never moved. Nothing is deleted: a better copy, or a person with the
right tools, may still read it.
"""

from __future__ import annotations

from pathlib import Path

from gnus_node.records.errors import GnusError
from gnus_node.store.disk import DirectoryLock, open_tables, sync_directory
from gnus_node.store.keyfile import MASTER_BYTES, KeyFile, KeyLimits

MAX_ASIDE = 1000
"""Most folders that were moved aside, of one name."""


def set_aside(store: Path, keys: Path, map_size_bytes: int) -> tuple[Path, ...]:
    """Move both folders to ``NAME.lost-N`` unless both open; where they are now, () where nothing was moved.

    Blocking. Raises what is no loss: ``ALREADY_RUNNING``, ``CONFIG``, ``STORE_FULL``.
    """
    if _opens(store, keys, map_size_bytes):
        return ()
    moved = []
    for folder in (store, keys):
        if folder.is_dir():
            lock = DirectoryLock(folder)
            try:
                target = _free(folder)
                folder.rename(target)
                sync_directory(folder.parent)
            finally:
                lock.release()
            moved.append(target)
    return tuple(moved)


def _opens(store: Path, keys: Path, map_size_bytes: int) -> bool:
    try:
        open_tables(store, map_size_bytes, True).close()
        KeyFile(keys, KeyLimits(), lambda: bytes(MASTER_BYTES), True).close()
    except GnusError as error:
        if error.code != "STORE_CORRUPT":
            raise
        return False
    return True


def _free(folder: Path) -> Path:
    for number in range(1, MAX_ASIDE):
        target = folder.with_name(f"{folder.name}.lost-{number}")
        if not target.exists():
            return target
    raise GnusError("CONFIG", f"{folder} was moved aside {MAX_ASIDE} times", fix="delete the old ones")
