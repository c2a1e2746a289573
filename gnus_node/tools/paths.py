"""What a path argument may look like, and which allowed roots it names: pure text, no file system (DESIGN.md section 6).

This is the first of two walls. Here a path is refused for its spelling, before a dry run and without touching a disk; at the real run
the kernel resolves it below a directory handle and refuses whatever leaves it (``adapters.beneath``). Neither relies on the other.

Invariants: no path that passes holds a parent step, an empty step, a NUL, a control character, a backslash, or a spelling that some
decoder would turn into one of these. An absolute path passes only where it is lexically below an allowed root; a relative one is tried
below each root, in their order. Errors never repeat the path: it is text of a model or a user.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from gnus_node.records.errors import GnusError

MAX_PATH_BYTES = 1024
MAX_STEP_BYTES = 255
MAX_ROOTS = 32
"""Most allowed roots of one scope."""

_ENCODED = re.compile(r"%(?:2e|2f|5c|00|25|c0|c1|e0%80|f0%80|u)", re.IGNORECASE)
"""Percent spellings of dot, slash, backslash, NUL, percent, and overlong forms of them."""
_SLASHES = frozenset("\\\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe68\uff0f\uff3c")
"""Characters that are or look like a separator, the true one aside."""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories no path may hold: controls, invisible and direction characters, surrogates, line ends."""
_JOINERS = "\u200c\u200d"
"""Invisible characters that real names need (Persian, Indic scripts, emoji); they pass where something visible is left beside them."""
_NO_JOINERS = dict.fromkeys(map(ord, _JOINERS))
_FORBIDDEN_BASES = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class Root:
    """An allowed directory: ``below`` steps down from ``base``.

    ``base`` is a directory of the operator's configuration, opened as it is named. ``below`` is where mandate and plan narrow it; the
    kernel opens it beneath the base, without following links, so that a narrower grant never leads to a wider place.
    """

    base: str
    below: str = ""

    @property
    def path(self) -> str:
        """The whole path, as text."""
        return f"{self.base}/{self.below}" if self.below else self.base


@dataclass(frozen=True, slots=True)
class Target:
    """One place a path may mean: ``relative`` below ``root``."""

    root: Root
    relative: str

    @property
    def path(self) -> str:
        """The whole path, as text."""
        return f"{self.root.path}/{self.relative}"


def is_below(path: str, root: str) -> bool:
    """Whether an absolute, plainly spelled path is ``root`` or lexically below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def plain_steps(path: str) -> tuple[str, ...]:
    """The steps of a path, ``.`` left out. Raises ``PATH_DENIED`` for a spelling that is not allowed, ``BAD_ARGUMENTS`` for no path."""
    if not path:
        raise GnusError("BAD_ARGUMENTS", "the path is empty")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise GnusError("PATH_DENIED", "the path is not valid text") from None
    if size > MAX_PATH_BYTES:
        raise GnusError("PATH_DENIED", f"the path is longer than {MAX_PATH_BYTES} bytes")
    if any(unicodedata.category(c) in _HIDDEN and c not in _JOINERS for c in path):
        raise GnusError("PATH_DENIED", "the path holds control or invisible characters")
    if _ENCODED.search(path):
        raise GnusError("PATH_DENIED", "the path holds encoded separators or dots")
    if not _SLASHES.isdisjoint(path):
        raise GnusError("PATH_DENIED", "the path holds a separator other than '/'")
    steps = path.removeprefix("/").split("/")
    for step in steps:
        _check_step(step)
    kept = tuple(step for step in steps if step != ".")
    if not kept:
        raise GnusError("PATH_DENIED", "the path names a directory")
    return kept


def _check_step(step: str) -> None:
    folded = unicodedata.normalize("NFKC", step.translate(_NO_JOINERS)).strip()
    if not step:
        raise GnusError("PATH_DENIED", "the path holds an empty step")
    if step != "." and (folded in {"", ".", ".."} or "/" in folded or "\\" in folded):
        raise GnusError("PATH_DENIED", "the path holds a parent step or a disguised one")
    if len(step.encode()) > MAX_STEP_BYTES:
        raise GnusError("PATH_DENIED", f"a step of the path is longer than {MAX_STEP_BYTES} bytes")


def targets_of(path: str, roots: tuple[Root, ...]) -> tuple[Target, ...]:
    """The places ``path`` may mean, in the order to try them; never empty.

    Raises ``PATH_DENIED`` for a forbidden spelling, or where no allowed root holds it; ``BAD_ARGUMENTS`` for an empty path.
    """
    steps = plain_steps(path)
    relative = "/".join(steps)
    if not path.startswith("/"):
        found = tuple(Target(root, relative) for root in roots[:MAX_ROOTS])
    else:
        whole = f"/{relative}"
        found = tuple(
            Target(root, whole.removeprefix(root.path.rstrip("/") + "/"))
            for root in roots[:MAX_ROOTS]
            if is_below(whole, root.path) and whole != root.path
        )
    if not found:
        raise GnusError("PATH_DENIED", "no allowed root holds the path")
    return found


def clean_root(path: str) -> str:
    """A configured or granted root in its one spelling: absolute, no parent or empty steps, no slash at the end.

    Raises ``PATH_DENIED`` for anything else, for the whole file system, and for the kernel's own trees.
    """
    if not path.startswith("/"):
        raise GnusError("PATH_DENIED", "an allowed root is not an absolute path")
    if not path.rstrip("/"):
        raise GnusError("PATH_DENIED", "the whole file system is no allowed root")
    clean = "/" + "/".join(plain_steps(path.rstrip("/")))
    if any(is_below(clean, each) for each in _FORBIDDEN_BASES):
        raise GnusError("PATH_DENIED", "an allowed root is a tree of the kernel or of devices")
    return clean


def narrow_roots(bases: Iterable[str], *grants: Iterable[str]) -> tuple[Root, ...]:
    """The roots that the operator's ``bases`` and every grant (mandate, plan) allow, in the order of the bases.

    Of two nested roots the inner one is meant by both. A path in none of the bases, or missing from one grant, is allowed by nobody.
    Raises ``PATH_DENIED`` for an ill-spelled root, and where more than ``MAX_ROOTS`` remain.
    """
    roots = [Root(clean_root(base)) for base in bases]
    for grant in grants:
        allowed = [clean_root(each) for each in grant]
        roots = [inner for root in roots for each in allowed if (inner := _inner(root, each)) is not None]
    unique = tuple(dict.fromkeys(roots))
    if len(unique) > MAX_ROOTS:
        raise GnusError("PATH_DENIED", f"more than {MAX_ROOTS} allowed roots")
    return unique


def _inner(root: Root, granted: str) -> Root | None:
    if is_below(root.path, granted):
        return root
    if is_below(granted, root.path):
        return Root(root.base, granted.removeprefix(root.base + "/"))
    return None
