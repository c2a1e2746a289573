"""What a corpus is and what a passage of it carries: the evidence fields of grounding (18.1.3.5.1).

Invariants: a passage's id depends on its corpus, place and text alone, so a rebuilt corpus gives the same ids; its ``title`` is the path
from the whole to the part; its span counts characters of the source file, (0, 0) where a file has no meaning.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gnus_node.records.enums import SourceClass
from gnus_node.records.errors import GnusError

TITLE_SEPARATOR = " > "
MAX_PASSAGE_CHARS = 2400
"""Longest passage: a few paragraphs, so that a hit points at its place."""
MAX_TITLE_CHARS = 400
MAX_NAMES = 48
MAX_URI = 1000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_PREFIX = re.compile(r"[a-z][a-z0-9+.-]{0,30}:")


class CorpusKind(StrEnum):
    """Which loader reads a corpus."""

    FOLDER = "folder"
    FACTBOOK = "factbook"
    COUNTRYINFO = "countryinfo"


@dataclass(frozen=True, slots=True)
class CorpusConfig:
    """One corpus as the operator configured it.

    ``path`` is the root of a folder and None for the packaged kinds. ``fresh_at_ms`` is when its content was last known to hold (None:
    the loader's own date, or unknown). ``tenant`` None means every tenant may see it. Raises ``CONFIG`` where the settings do not fit.
    """

    name: str
    kind: CorpusKind
    source_class: SourceClass = SourceClass.PUBLIC
    trusted: bool = False
    path: Path | None = None
    fresh_at_ms: int | None = None
    uri_prefix: str = ""
    tenant: str | None = None

    def __post_init__(self) -> None:
        """Check what the type does not."""
        if not _NAME.fullmatch(self.name):
            raise GnusError("CONFIG", "a corpus name is lower case: letters, digits, dot, dash")
        if (self.path is None) == (self.kind is CorpusKind.FOLDER):
            raise GnusError("CONFIG", f"corpus {self.name}: a folder has a path, a packaged corpus has none")
        if self.source_class is SourceClass.PRIVATE_TENANT and self.tenant is None:
            raise GnusError("CONFIG", f"corpus {self.name}: a private corpus names its tenant")
        if self.uri_prefix and not _PREFIX.match(self.uri_prefix):
            raise GnusError("CONFIG", f"corpus {self.name}: uri_prefix starts with a scheme, like doc:")

    @property
    def prefix(self) -> str:
        """What every URI of this corpus starts with."""
        return self.uri_prefix or ("doc:" if self.kind is CorpusKind.FOLDER else f"{self.kind}:")


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable piece. ``names`` are the names its subject goes by (the first segment of the path and its aliases)."""

    evidence_id: str
    uri: str
    title: str
    text: str
    corpus: str
    source_class: SourceClass
    trusted: bool
    fresh_at_ms: int
    sha256: str
    span: tuple[int, int] = (0, 0)
    names: tuple[str, ...] = ()
    terms: tuple[str, ...] = field(default=(), repr=False)
    """The analysed form, filled by the index: one text of terms for each segment of the path, then one for the passage's own text."""

    @property
    def path(self) -> tuple[str, ...]:
        """The title path's segments."""
        return tuple(self.title.split(TITLE_SEPARATOR))


def make_passage(
    config: CorpusConfig,
    place: str,
    path: tuple[str, ...],
    text: str,
    *,
    span: tuple[int, int] = (0, 0),
    names: tuple[str, ...] = (),
    fresh_at_ms: int = 0,
) -> Passage:
    """A passage with its derived fields. ``place`` follows the corpus's prefix in the URI; ``fresh_at_ms`` yields to the corpus's own."""
    text = text[:MAX_PASSAGE_CHARS]
    title = TITLE_SEPARATOR.join(part.replace(">", "/").strip() for part in path)[:MAX_TITLE_CHARS]
    uri = (config.prefix + place)[:MAX_URI]
    key = hashlib.sha256("\0".join((config.name, uri, text)).encode("utf-8", "surrogatepass")).hexdigest()
    return Passage(
        evidence_id=f"{config.name}:{key[:24]}",
        uri=uri,
        title=title,
        text=text,
        corpus=config.name,
        source_class=config.source_class,
        trusted=config.trusted,
        fresh_at_ms=config.fresh_at_ms if config.fresh_at_ms is not None else fresh_at_ms,
        sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        span=span,
        names=names[:MAX_NAMES],
    )
