"""The model engine's process: checks a GGUF file, loads it into xllamacpp, serves OpenAI-compatible HTTP on a unix socket.

A program, run by path in an interpreter of its own (``ports.servers.ServerSpec``), which imports nothing of this package. The node takes
its constants from here and never runs it, so it never imports xllamacpp. A GGUF file is hostile input: its header is read here and nowhere
else, strictly and within bounds, before the engine sees the file.

The file is the very one that was hashed: opened once, compared with what was measured, and mapped through that descriptor. Settings are
those of a request that can be repeated: one slot, no reuse of prompts, batches small enough that a cancellation is noticed soon.
"""

from __future__ import annotations

import json
import os
import stat
import struct
from typing import Any, BinaryIO

SETTINGS_VERSION = 1
"""Part of a server's identity: raise it with any change here that may change what a model says."""
BATCH = 128
"""Tokens of a prompt taken at once: a cancellation waits for at most this many."""
MAX_SETUP_BYTES = 64 * 1024
MAX_KEYS = 4096
MAX_TENSORS = 65_536
MAX_STRING = 4 * 1024 * 1024
MAX_ITEMS = 4_000_000
"""Items of all arrays of a header together."""
MAX_SHOWN = 128
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


class RefusedError(Exception):
    """Why this process serves nothing: a code of the error table, and words without any text of the file."""

    def __init__(self, code: str, what: str) -> None:
        super().__init__(code, what)
        self.code, self.what = code, what


class Header:
    """Reads the key-value part of a GGUF header, versions 2 and 3, little-endian. Raises ``RefusedError`` for anything odd."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size
        self._items = 0

    def read(self) -> dict[str, str | int | float | bool]:
        """Scalars and strings by key; of an array, its length. Keys stand once."""
        if self._take(4) != b"GGUF" or self._number("<I") not in (2, 3):
            raise RefusedError("CONFIG", "the file of weights is not GGUF of version 2 or 3")
        tensors, keys = self._number("<Q"), self._number("<Q")
        if not 0 < tensors <= MAX_TENSORS or not 0 < keys <= MAX_KEYS:
            raise self._odd()
        found: dict[str, str | int | float | bool] = {}
        for _ in range(keys):
            key = self._string(256)
            if key in found:
                raise self._odd()
            found[key] = self._value(int(self._number("<I")))
        return found

    def _odd(self) -> RefusedError:
        return RefusedError("CONFIG", "the header of the file of weights is not well-formed GGUF")

    def _take(self, size: int) -> bytes:
        if size > self._left:
            raise self._odd()
        self._left -= size
        data = self._file.read(size)
        if len(data) != size:
            raise self._odd()
        return data

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _string(self, most: int) -> str:
        size = self._number("<Q")
        if size > most:
            raise self._odd()
        return str(self._take(size), "utf-8", "replace")

    def _value(self, kind: int) -> str | int | float | bool:
        if kind == _STRING:
            return self._string(MAX_STRING)
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise self._odd()
        value: int | float | bool = self._number(_SCALARS[kind])
        return value

    def _array(self) -> int:
        """Skip an array; its length. Arrays in arrays are not used by anybody, and are refused."""
        kind, count = int(self._number("<I")), int(self._number("<Q"))
        self._items += count
        if self._items > MAX_ITEMS or (kind != _STRING and kind not in _SCALARS):
            raise self._odd()
        if kind == _STRING:
            for _ in range(count):
                self._take(self._number("<Q"))
        else:
            width = struct.calcsize(_SCALARS[kind])
            for start in range(0, count, MAX_ITEMS // 64):
                self._take(width * min(count - start, MAX_ITEMS // 64))
        return count


def facts_of(header: dict[str, str | int | float | bool]) -> dict[str, str | int | bool]:
    """What a node may know of a model. Raises ``RefusedError`` where a header lacks what every model has."""
    architecture = header.get("general.architecture")
    if not isinstance(architecture, str) or not architecture.isprintable() or not 0 < len(architecture) <= 64:
        raise RefusedError("CONFIG", "the file of weights names no architecture")
    context = header.get(f"{architecture}.context_length")
    licence = header.get("general.license", "")
    return {
        "architecture": architecture,
        "context": context if isinstance(context, int) and not isinstance(context, bool) and 0 <= context < 2**31 else 0,
        "license": licence[:MAX_SHOWN] if isinstance(licence, str) and licence.isprintable() else "",
        "chat_template": any(
            key == "tokenizer.chat_template" or key.startswith("tokenizer.chat_template.")
            for key, value in header.items()
            if isinstance(value, str) and value.strip()
        ),
    }


def open_measured(setup: dict[str, Any]) -> int:
    """The file, if it still is the one that was measured; its descriptor stays open. Raises ``RefusedError``."""
    try:
        fd = os.open(setup["path"], os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        raise RefusedError("CONFIG", "the file of weights cannot be opened") from None
    found = os.fstat(fd)
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    measured = tuple(setup[name] for name in ("device", "inode", "size", "mtime_ns", "ctime_ns"))
    if not stat.S_ISREG(found.st_mode) or state != measured:
        raise RefusedError("CONFIG", "the file of weights changed after it was checked")
    return fd


def serve(setup: dict[str, Any], fd: int) -> tuple[Any, str]:
    """The engine, serving, and its version. Raises ``RefusedError``."""
    try:
        import xllamacpp
    except ImportError:
        raise RefusedError("MISSING_DEPENDENCY", "xllamacpp cannot be imported by the node's own Python") from None
    params = xllamacpp.CommonParams()
    params.model.path = f"/proc/self/fd/{fd}"
    params.model_alias = {"embedded"}
    params.n_ctx = setup["ctx"]
    params.n_batch = params.n_ubatch = BATCH
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setup["threads"]
    params.n_gpu_layers = 0
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.ctx_shift = False
    params.warmup = False
    params.verbosity = -1
    params.offline = True
    params.hostnames = [setup["socket"]]
    params.api_keys = [setup["api_key"]]
    params.n_threads_http = 4
    params.ui = params.endpoint_slots = params.endpoint_metrics = params.endpoint_props = False
    params.cors_origins = ""
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        raise RefusedError("BACKEND_FAILED", "the engine cannot load the file of weights with these settings") from None
    return server, str(xllamacpp.__version__)


def read_setup() -> dict[str, Any]:
    """The one line of standard input. Raises ``RefusedError``."""
    line = b""
    while not line.endswith(b"\n") and len(line) <= MAX_SETUP_BYTES:
        chunk = os.read(0, MAX_SETUP_BYTES)
        if not chunk:
            break
        line += chunk
    try:
        setup = json.loads(line)
    except ValueError:
        raise RefusedError("INTERNAL", "the engine's process was started without a setup") from None
    return dict(setup)


def main() -> None:
    """Serve until standard input ends."""
    # Whatever a library prints goes to the log; the answer has a descriptor of its own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server: Any = None
    try:
        setup = read_setup()
        fd = open_measured(setup)
        with os.fdopen(os.dup(fd), "rb") as file:
            facts = facts_of(Header(file, setup["size"]).read())
        server, version = serve(setup, fd)
        answer: dict[str, Any] = {"ready": facts | {"engine_version": version}}
    except RefusedError as refusal:
        answer = {"refused": [refusal.code, refusal.what]}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    while server is not None and os.read(0, 4096):
        pass
    # Threads of the engine are in the middle of things: nothing is there to be tidied that the kernel does not.
    os._exit(0 if server is not None else 3)


if __name__ == "__main__":
    main()
