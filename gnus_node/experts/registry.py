"""From settings to backends: one table of kinds, strict options, unknown names refused with the nearest one.

Settings are plain mappings, as TOML gives them: ``{"id": ..., "kind": ..., options of the kind}``. Nothing is opened here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from gnus_node.experts.backend import BackendInfo, ExpertBackend
from gnus_node.experts.extractive.backend import ExtractiveBackend, extractive_info
from gnus_node.experts.faulty import Faults, FaultyBackend
from gnus_node.experts.file_lookup import FileLookupBackend, file_lookup_info
from gnus_node.experts.replay import RecordingBackend, ReplayBackend
from gnus_node.experts.symbolic.backend import SymbolicBackend, symbolic_info
from gnus_node.ports.host import Offload
from gnus_node.ports.servers import Servers
from gnus_node.records.base import MAX_NAME
from gnus_node.records.enums import BackendKind, Domain, ExpertRole, WireEnum
from gnus_node.records.errors import GnusError

MAX_SLOTS = 256
MAX_CTX = 4 * 1024 * 1024

E = TypeVar("E", bound=WireEnum)
T = TypeVar("T", str, int, float, bool)


@dataclass(slots=True)
class _Settings:
    """Reads one mapping; every key must be read by somebody."""

    values: Mapping[str, Any]
    where: str
    read: set[str]
    servers: Servers | None = None
    """Where a kind that needs a server of its own finds one."""

    def get(self, key: str, default: T) -> T:
        """An option of the default's type. Raises ``CONFIG``."""
        self.read.add(key)
        value = self.values.get(key, default)
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not type(default):
            raise GnusError("CONFIG", f"{self.where}: {key} is a {type(default).__name__}")
        return value

    def names(self, key: str, default: Iterable[str] = ()) -> tuple[str, ...]:
        """A list of texts. Raises ``CONFIG``."""
        self.read.add(key)
        value = self.values.get(key, list(default))
        if not isinstance(value, list | tuple) or len(value) > MAX_SLOTS or not all(isinstance(v, str) for v in value):
            raise GnusError("CONFIG", f"{self.where}: {key} is a list of names")
        return tuple(value)

    def members(self, key: str, kind: type[E], default: tuple[E, ...]) -> tuple[E, ...]:
        """A list of members of an enumeration. Raises ``CONFIG``."""
        names = self.names(key, [d.value for d in default])
        known = {str(m.value): m for m in kind}
        for name in names:
            if name not in known:
                raise GnusError("CONFIG", f"{self.where}: {key} has a value that is unknown", fix=f"one of {', '.join(known)}")
        return tuple(known[n] for n in names)

    def inner(self, key: str) -> Mapping[str, Any]:
        """A table of settings. Raises ``CONFIG``."""
        self.read.add(key)
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            raise GnusError("CONFIG", f"{self.where}: {key} is a table")
        return value

    def close(self) -> None:
        """Refuse what nobody read. Raises ``CONFIG`` with the nearest key."""
        for key in self.values:
            if key not in self.read:
                near = difflib.get_close_matches(str(key), sorted(self.read), 1)
                hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(self.read))}"
                raise GnusError("CONFIG", f"{self.where}: unknown key {str(key)[:64]}", fix=hint)


def _common(settings: _Settings, info: BackendInfo) -> BackendInfo:
    """What every kind may set about itself."""
    slots, ctx = settings.get("slots", info.slots), settings.get("ctx", info.ctx)
    if not 1 <= slots <= MAX_SLOTS or not 0 <= ctx <= MAX_CTX:
        raise GnusError("CONFIG", f"{settings.where}: slots or ctx out of range")
    return replace(
        info,
        slots=slots,
        ctx=ctx,
        domains=settings.members("domains", Domain, info.domains),
        roles=settings.members("roles", ExpertRole, info.roles),
    )


def _symbolic(settings: _Settings, backend_id: str, offload: Offload) -> ExpertBackend:
    return SymbolicBackend(_common(settings, symbolic_info(backend_id)))


def _file_lookup(settings: _Settings, backend_id: str, offload: Offload) -> ExpertBackend:
    return FileLookupBackend(_common(settings, file_lookup_info(backend_id)))


def _extractive(settings: _Settings, backend_id: str, offload: Offload) -> ExpertBackend:
    return ExtractiveBackend(_common(settings, extractive_info(backend_id)), corpora=frozenset(settings.names("corpora")))


def _openai(settings: _Settings, backend_id: str, offload: Offload) -> ExpertBackend:
    from gnus_node.experts.openai import FEATURES, OpenAiBackend, OpenAiOptions  # httpx only where it is used

    options = OpenAiOptions(
        base_url=settings.get("base_url", ""),
        api_key_file=settings.get("api_key_file", ""),
        api_key_env=settings.get("api_key_env", ""),
        connect_s=settings.get("connect_s", 5.0),
        idle_s=settings.get("idle_s", 60.0),
        probe_s=settings.get("probe_s", 20.0),
        probe=settings.get("probe", True),
        assume=frozenset(settings.names("assume")),
        max_line_bytes=settings.get("max_line_bytes", 256 * 1024),
        max_response_bytes=settings.get("max_response_bytes", 8 * 1024 * 1024),
    )
    if not options.assume.issubset(FEATURES) or min(options.connect_s, options.idle_s, options.probe_s) <= 0:
        raise GnusError("CONFIG", f"{settings.where}: assume or a time is out of range", fix=f"features are {', '.join(FEATURES)}")
    info = BackendInfo(
        backend_id,
        BackendKind.OPENAI,
        model_id=_required(settings, "model"),
        engine="openai-http",
        engine_version=settings.get("engine_version", "unknown"),
        artifact_sha256=_digest(settings),
        model_license=_required(settings, "model_license"),
        prompt_style=settings.get("prompt_style", "chat"),
        ctx=4096,
    )
    return OpenAiBackend(_common(settings, info), options, offload)


def _embedded(settings: _Settings, backend_id: str, offload: Offload) -> ExpertBackend:
    from gnus_node.experts.embedded.backend import EmbeddedBackend, EmbeddedOptions  # httpx only where it is used
    from gnus_node.experts.embedded.catalogue import ENGINE

    if settings.servers is None:
        raise GnusError("CONFIG", f"{settings.where}: this node starts no processes")
    path = Path(_required(settings, "path"))
    _required(settings, "sha256")
    options = EmbeddedOptions(
        path=path,
        sha256=_digest(settings, "sha256") or b"",
        threads=settings.get("threads", 1),
        start_s=settings.get("start_s", 120.0),
        idle_s=settings.get("idle_s", 120.0),
    )
    if min(options.start_s, options.idle_s) <= 0:
        raise GnusError("CONFIG", f"{settings.where}: a time is out of range")
    info = BackendInfo(
        backend_id,
        BackendKind.EMBEDDED,
        model_id=settings.get("model", path.stem),
        engine=ENGINE,
        engine_version="unknown",
        model_license=_required(settings, "model_license"),
        prompt_style=_required(settings, "prompt_style"),
        ctx=2048,
    )
    return EmbeddedBackend(_common(settings, info), options, offload, settings.servers)


def _replay(settings: _Settings, backend_id: str, offload: Offload) -> ExpertBackend:
    info = BackendInfo(
        backend_id,
        BackendKind.REPLAY,
        model_id="replay",
        engine="gnus-replay",
        engine_version="1",
        model_license=settings.get("model_license", "as recorded"),
    )
    return ReplayBackend(_common(settings, info), _required(settings, "cassette"), offload)


def _record(settings: _Settings, backend_id: str, offload: Offload) -> ExpertBackend:
    inner = build_backend({"id": backend_id, **settings.inner("inner")}, offload, settings.servers)
    return RecordingBackend(inner, _required(settings, "cassette"), offload)


def _faulty(settings: _Settings, backend_id: str, offload: Offload) -> ExpertBackend:
    inner = build_backend({"id": f"{backend_id}-inner", **settings.inner("inner")}, offload, settings.servers)
    given: dict[str, Any] = {}
    for field in fields(Faults):
        key = field.name.rstrip("_")
        if key in settings.values:
            given[field.name] = settings.get(key, "") if field.name == "wrong_answer" else settings.get(key, 0)
        settings.read.add(key)
    return FaultyBackend(inner, Faults(**given), backend_id=backend_id)


_BUILDERS: dict[str, Callable[[_Settings, str, Offload], ExpertBackend]] = {
    "embedded": _embedded,
    "extractive": _extractive,
    "faulty": _faulty,
    "file_lookup": _file_lookup,
    "openai": _openai,
    "record": _record,
    "replay": _replay,
    "symbolic": _symbolic,
}


def _required(settings: _Settings, key: str) -> str:
    value = settings.get(key, "")
    if not value or len(value) > 1024:
        raise GnusError("CONFIG", f"{settings.where}: {key} is missing or too long")
    return value


def _digest(settings: _Settings, key: str = "artifact_sha256") -> bytes | None:
    text = settings.get(key, "").removeprefix("sha256:")
    if not text:
        return None
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise GnusError("CONFIG", f"{settings.where}: {key} is 64 hex digits")
    return digest


def kinds() -> tuple[str, ...]:
    """Kinds that can be configured."""
    return tuple(_BUILDERS)


def build_backend(config: Mapping[str, Any], offload: Offload, servers: Servers | None = None) -> ExpertBackend:
    """The backend of one settings table. Raises ``CONFIG`` for an unknown kind or key, or a value of the wrong type or range."""
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in _BUILDERS:
        near = difflib.get_close_matches(str(kind), kinds(), 1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(kinds())}"
        raise GnusError("CONFIG", "an expert has an unknown kind", fix=hint)
    backend_id = config.get("id", kind.replace("_", "-"))
    if not isinstance(backend_id, str) or not 0 < len(backend_id) <= MAX_NAME or not all(33 <= ord(c) <= 126 for c in backend_id):
        raise GnusError("CONFIG", "an expert's id is printable ASCII without blanks, at most 128 characters")
    settings = _Settings(config, f"expert {backend_id}", {"kind", "id"}, servers)
    backend = _BUILDERS[kind](settings, backend_id, offload)
    settings.close()
    return backend
