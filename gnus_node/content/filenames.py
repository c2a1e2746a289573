"""Which files a question names. Pure, and the one place that says so: who plans, proposes, reads and verifies must mean the same files.

A name counts only if it looks like a file: quoted, or a bare path with a slash or a file extension. Web addresses, version numbers, dates
and fractions are none.
"""

from __future__ import annotations

import re

MAX_PATH = 512
_QUOTED = re.compile(r"(?<!\w)[\"'`“‘«]([^\"'`“”‘’«»\n]{1,512})[\"'`”’»](?!\w)")
_BARE = re.compile(r"(?<![\w/.:@~-])(?:file://)?(~?\.{0,2}/?[\w.+@-]+(?:/[\w.+@-]+)*/?)", re.UNICODE)
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+|\bwww\.\S+|\S+@\S+", re.IGNORECASE)
_HOST_ENDINGS = frozenset({"com", "org", "net", "edu", "gov", "io", "ai", "dev", "app", "co", "uk", "de", "eu"})
_PLAIN_ENDINGS = frozenset({"txt", "md", "rst", "log", "csv", "json", "jsonl", "toml", "yaml", "yml", "ini", "cfg", "conf", "xml"})
"""Extensions of text files: a bare name with one needs no word like "file" beside it, "node.js" does."""
_FILE_WORDS = re.compile(r"\b(file|files|document|path|read|open|contents?|log|says?|according)\b", re.IGNORECASE)


def named_files(question: str) -> tuple[str, ...]:
    """The files a question names, in order, without repeats: pure."""
    found: dict[str, None] = {}
    text = _URL.sub(lambda m: m[0] if m[0].lower().startswith("file:///") else " ", question[:10_000])
    file_words = _FILE_WORDS.search(question) is not None
    for match in _QUOTED.finditer(text):
        if _is_path(match[1].strip(), quoted=True, file_words=file_words):
            found[match[1].strip()] = None
    rest = _QUOTED.sub(lambda m: " " if m[1].strip() in found else m[0], text)
    for match in _BARE.finditer(rest):
        name = match[1].rstrip(".")
        if _is_path(name, quoted=False, file_words=file_words):
            found[name] = None
    return tuple(found)


def _is_path(name: str, *, quoted: bool, file_words: bool) -> bool:
    """Whether a name plainly is a file's."""
    if not name or len(name) > MAX_PATH or name.endswith("/") or not name.isprintable() or not any(c.isalpha() for c in name):
        return False
    first, last = name.split("/", 1)[0], name.rsplit("/", 1)[-1]
    rooted = first in ("", ".", "..", "~") and "/" in name
    found = _EXTENSION.search(last)
    if found is None:
        # "and/or", "km/h" and "TCP/IP" are no paths: without an extension it starts at a root, or is quoted and called a file
        return (rooted and (quoted or name.count("/") > 1)) or (quoted and file_words and "/" in name)
    ending, stem = found[0][1:], last[: found.start()]
    host = first.rsplit(".", 1)[-1].casefold() in _HOST_ENDINGS and "." in first and not rooted
    if host and not (quoted and file_words):
        return False
    if "/" in name:
        return True
    if not stem or (" " in name and not file_words):
        return False  # ".fr" is a domain
    return ending in _PLAIN_ENDINGS or (file_words and len(stem) > 1 and (len(ending) > 1 or ending.islower()))  # "e.g" is no file


def is_of_file(uri: str, names: tuple[str, ...]) -> bool:
    """Whether a document's address is one of the named files: the same path, or the end of it."""
    place = uri.partition("#")[0].partition("://")[2] or uri.partition("#")[0]
    return any(f"/{place}".endswith("/" + name.removeprefix("file://").lstrip("./")) for name in names if name.strip("./~"))
