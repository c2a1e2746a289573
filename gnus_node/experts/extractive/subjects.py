"""Whether a passage is about what the question names: exact subjects, other names, unclear names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gnus_node.experts.backend import Passage
from gnus_node.experts.extractive.pieces import path_of
from gnus_node.experts.extractive.question import Question
from gnus_node.experts.extractive.words import stem, stems

_FORM_WORDS = frozenset(stems("republic federal federated federation states state kingdom islands island commonwealth union the"))
_COMMON = frozenset(stems("united new saint great north south east west northern southern eastern western central"))
"""Words of many names: no name by themselves."""
_NAME = stem("name")
MAX_ALIAS = 200
_DOCUMENT = re.compile(r"\.(?:md|markdown|txt|csv|json|toml|ya?ml|rst|log|ini|cfg)(?:#|$)", re.I)


def aliases(passages: Sequence[Passage]) -> dict[str, tuple[frozenset[str], ...]]:
    """Other names of a root, as its own passages about names give them ("X > Country name > local short form": "Y")."""
    found: dict[str, list[frozenset[str]]] = {}
    for passage in passages:
        path = path_of(passage.title)
        about_names = any(_NAME in found_in and len(found_in) > 1 for found_in in map(stems, path[1:]))
        if about_names and len(passage.text) <= MAX_ALIAS:
            value = stems(re.split(r"[;(/\n]", passage.text.split(":")[-1], maxsplit=1)[0])
            if value:
                found.setdefault(path[0], []).append(value)
    return {root: tuple(values) for root, values in found.items()}


def is_document(passage: Passage) -> bool:
    """Whether the root of a passage's title is a document, and no thing that the passage is about."""
    root = passage.title.split(" > ", 1)[0]
    return bool(_DOCUMENT.search(passage.uri) or re.search(r"[./]", root)) or passage.corpus in ("tool", "memory")


@lru_cache(maxsize=4096)
def main_stems(root: str) -> frozenset[str]:
    """The stems of a root before comma or brackets."""
    return stems(re.sub(r"\([^)]*\)", " ", root).partition(",")[0])


def unclear_roots(passages: Sequence[Passage]) -> frozenset[str]:
    """Roots that differ only after a comma or in brackets ("Korea, North" and "Korea, South"): their short name says neither."""
    seen: dict[frozenset[str], set[str]] = {}
    for passage in passages:
        if path := path_of(passage.title):
            seen.setdefault(main_stems(path[0]), set()).add(path[0])
    return frozenset(root for roots in seen.values() if len(roots) > 1 for root in roots)


def subject_stems(root: str, question: Question, names: Iterable[frozenset[str]] = (), *, unclear: bool = False) -> frozenset[str]:
    """The stems a root may stand for: none unless the question names exactly this root.

    "Guinea" is not "Guinea-Bissau", "Georgia" not "South Georgia". What follows a comma or stands in brackets may be left out where it is
    only the form of a state, or a list of parts, and no other root shares the short name. ``names`` are other names of the root.
    """
    main, every, named = main_stems(root), stems(root), question.own
    telling = main - _FORM_WORDS
    if main and (main <= named or (telling <= named and telling - _COMMON)):
        tail = root.partition(",")[2]
        rest = stems(re.sub(r"\([^)]*\)", " ", tail)) - named - _FORM_WORDS
        if every <= named or (not unclear and (not rest or re.search(r"\band\b", tail))):
            return every
    found: frozenset[str] = frozenset()
    for alias in names:
        if alias <= named:
            found |= alias | main
    return found
