"""A corpus's files below the data directory: derived data, so what is damaged is thrown away and built again from the documents.

Two SQLite files a corpus, ``NAME.passages`` and ``NAME.terms``, and ``NAME.sum`` with the digest of both as they were when the build was
complete and both were closed. Nothing writes to them between two builds, so at every start the digest tells a flipped bit, a cut file, or
a build that was broken off from what was built. Blocking; called through Offload.

Invariant: passages are served only from files whose digest was right when they were opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from gnus_node.cognition.documents.corpus import CorpusConfig
from gnus_node.cognition.documents.index import BuildReport, CorpusIndex, PassageStore
from gnus_node.ports.store import ClosableIndex
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import replace_file

_PARTS = ("passages", "terms")
_BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a file."""


@dataclass(frozen=True, slots=True)
class OpenCorpus:
    """A corpus ready to be searched. ``damaged``: its files were there and did not hold."""

    index: CorpusIndex
    report: BuildReport
    damaged: bool
    close: Callable[[], None]


def private_folder(path: Path) -> None:
    """Make the folder of all corpora. Raises ``CONFIG`` where it cannot be used."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise GnusError("CONFIG", f"the folder {path} cannot be made: {error.strerror}", fix="check the data directory") from None


def open_corpus(config: CorpusConfig, folder: Path, make_index: Callable[[Path | None], ClosableIndex]) -> OpenCorpus:
    """Open a corpus's files and bring them up to its documents; files that do not hold are made anew. Raises what loading raises."""
    return next(step for step in opening_steps(config, folder, make_index) if isinstance(step, OpenCorpus))


def opening_steps(
    config: CorpusConfig, folder: Path, make_index: Callable[[Path | None], ClosableIndex]
) -> Generator[int | OpenCorpus, None, None]:
    """``open_corpus`` a batch at a time: the passages so far after each, then the corpus. To give up is to close the generator, which
    closes the files; what was built of them is built again."""
    damaged = False
    sums = folder / f"{config.name}.sum"
    if not _holds(sums, folder, config.name):
        damaged = sums.exists()
        _remove(folder, config.name)
    try:
        opened = yield from _build(config, folder, make_index)
    except GnusError as error:
        if error.code != "STORE_CORRUPT":
            raise
        damaged = True
        _remove(folder, config.name)
        opened = yield from _build(config, folder, make_index)
    if opened.report.rebuilt or not sums.exists():
        # Closing brings all into the two files; only then is there something to take the digest of.
        opened.close()
        replace_file(sums, _digest(folder, config.name) + "\n")
        reopened = yield from _build(config, folder, make_index)
        opened = OpenCorpus(reopened.index, opened.report, damaged, reopened.close)
    yield OpenCorpus(opened.index, opened.report, damaged, opened.close)


def _build(config: CorpusConfig, folder: Path, make_index: Callable[[Path | None], ClosableIndex]) -> Generator[int, None, OpenCorpus]:
    store = PassageStore(folder / f"{config.name}.passages")
    try:
        index = make_index(folder / f"{config.name}.terms")
    except GnusError:
        store.close()
        raise

    def close() -> None:
        index.close()
        store.close()

    built = False
    try:
        corpus = CorpusIndex(config, index, store)
        # From here on the old digest is no longer of these files, should the build be broken off.
        for step in corpus.build_steps(changing=lambda: (folder / f"{config.name}.sum").unlink(missing_ok=True)):
            if isinstance(step, BuildReport):
                report = step
                built = True
            else:
                yield step
    finally:
        if not built:
            close()
    return OpenCorpus(corpus, report, False, close)


def _holds(sums: Path, folder: Path, name: str) -> bool:
    """Whether the files are those the digest was taken of, or there are none at all."""
    try:
        return sums.read_text(encoding="ascii").strip() == _digest(folder, name)
    except FileNotFoundError:
        return not any((folder / f"{name}.{part}{beside}").exists() for part in _PARTS for beside in _BESIDE)
    except (OSError, UnicodeDecodeError):
        return False


def _digest(folder: Path, name: str) -> str:
    """Digest of both files. What lies beside them was not there when it was taken, and is refused by a mark of its own."""
    digest = hashlib.blake2b(digest_size=32)
    for part in _PARTS:
        with (folder / f"{name}.{part}").open("rb") as file:
            digest.update(hashlib.file_digest(file, hashlib.blake2b).digest())
        wal = folder / f"{name}.{part}-wal"
        if wal.exists() and wal.stat().st_size:
            digest.update(b"unfinished")
    return digest.hexdigest()


def _remove(folder: Path, name: str) -> None:
    for part in _PARTS:
        for beside in _BESIDE:
            (folder / f"{name}.{part}{beside}").unlink(missing_ok=True)
    (folder / f"{name}.sum").unlink(missing_ok=True)
