"""Reads corpora: a folder of text, and the two packaged country corpora. Blocking; called through Offload.

Folders: ``.md``, ``.markdown``, ``.txt`` below the root, opened relative to directory descriptors without following links, so nothing
outside the root is read; hidden names are left out; files over ``MAX_FILE_BYTES`` or not UTF-8 are left out and counted; a folder over
``MAX_FILES`` or ``MAX_CORPUS_BYTES`` is refused. What a file holds is data: scrubbing happens when a passage is used (18.1.3.4.6).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gnus_node.cognition.documents.corpus import CorpusConfig, CorpusKind, Passage, make_passage
from gnus_node.cognition.documents.countries import countryinfo_passages, factbook_passages, package_digest
from gnus_node.cognition.documents.markdown import Section, split_markdown, split_text
from gnus_node.content.normalise import clean_controls
from gnus_node.records.errors import GnusError

MAX_FILES = 20_000
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_CORPUS_BYTES = 512 * 1024 * 1024
MAX_FOLDER_DEPTH = 16
LOADER_VERSION = 6
"""Part of every digest: raised when a loader or the analysis gives other passages or terms for the same source."""
_SUFFIXES = (".md", ".markdown", ".txt")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One readable file of a folder: path below the root with forward slashes, and its bytes."""

    place: str
    data: bytes


def load(config: CorpusConfig) -> Iterator[Passage]:
    """All passages of a corpus, in a fixed order. Raises ``CONFIG`` (no such folder), ``TOO_LARGE``, ``MISSING_DEPENDENCY``."""
    if config.kind is CorpusKind.FACTBOOK:
        yield from factbook_passages(config)
    elif config.kind is CorpusKind.COUNTRYINFO:
        yield from countryinfo_passages(config)
    else:
        for file in read_folder(config):
            yield from _file_passages(config, file)


def source_digest(config: CorpusConfig) -> bytes:
    """SHA-256 over what the corpus is made from and how: names, sizes and contents of files, or the package's version; settings too."""
    digest = hashlib.sha256(f"{LOADER_VERSION}\0{config.kind}\0{config.name}\0{config.prefix}\0{config.source_class}\0".encode())
    digest.update(f"{config.trusted}\0{config.fresh_at_ms}\0{config.tenant}\0".encode())
    if config.kind is not CorpusKind.FOLDER:
        digest.update(package_digest(config.kind))
        return digest.digest()
    for file in read_folder(config):
        digest.update(f"{file.place}\0{len(file.data)}\0".encode("utf-8", "surrogatepass"))
        digest.update(hashlib.sha256(file.data).digest())
    return digest.digest()


def read_folder(config: CorpusConfig) -> Iterator[SourceFile]:
    """The files of a folder in the order of their paths."""
    root = _root(config)
    count = size = 0
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise GnusError("CONFIG", f"corpus {config.name}: its folder cannot be opened", fix="see path in the configuration") from error
    try:
        for place, data in _walk(top, "", 0):
            count += 1
            size += len(data)
            if count > MAX_FILES or size > MAX_CORPUS_BYTES:
                raise GnusError("TOO_LARGE", f"corpus {config.name}: more than {MAX_FILES} files or {MAX_CORPUS_BYTES} bytes")
            yield SourceFile(place, data)
    finally:
        os.close(top)


def _root(config: CorpusConfig) -> Path:
    if config.path is None:
        raise GnusError("CONFIG", f"corpus {config.name}: a folder has a path")
    return config.path


def _walk(folder: int, below: str, depth: int) -> Iterator[tuple[str, bytes]]:
    for name in sorted(os.listdir(folder)):
        if name.startswith("."):
            continue
        try:
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(kind) and depth < MAX_FOLDER_DEPTH:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            elif stat.S_ISREG(kind) and name.lower().endswith(_SUFFIXES):
                data = _read(folder, name)
                if data is not None:
                    yield below + name, data
                continue
            else:
                continue
        except OSError:
            continue  # gone, replaced by a link, or not ours to read: not part of the corpus
        try:
            yield from _walk(inner, f"{below}{name}/", depth + 1)
        finally:
            os.close(inner)


def _read(folder: int, name: str) -> bytes | None:
    """A regular file's bytes; None where it is too large. O_NONBLOCK keeps a FIFO put in its place from holding us."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        data = file.read(MAX_FILE_BYTES + 1)
    return data if len(data) <= MAX_FILE_BYTES else None


def _file_passages(config: CorpusConfig, file: SourceFile) -> Iterator[Passage]:
    try:
        raw = file.data.decode("utf-8")
    except UnicodeDecodeError:
        return
    source = clean_controls(raw).text
    if file.place.lower().endswith(".txt"):
        title, sections = "", split_text(source)
    else:
        title, sections = split_markdown(source)
    seen: dict[str, int] = {}
    anchors: dict[int, str] = {}
    for section in sections:
        anchor = anchors[section.heading] if section.anchor and section.heading in anchors else _unique(section, seen)
        anchors.setdefault(section.heading, anchor)
        place = quote(file.place, safe="/-_.~") + (f"#{anchor}" if anchor else "")
        yield make_passage(config, place, (title or file.place, *section.path), section.text, span=section.span)


def _unique(section: Section, seen: dict[str, int]) -> str:
    """Anchors as readers number them: the second "usage" of a file is "usage-1"."""
    number = seen.get(section.anchor, 0)
    seen[section.anchor] = number + 1
    if not number:
        return section.anchor
    return f"{section.anchor}-{number}" if section.anchor else f"part-{number}"
