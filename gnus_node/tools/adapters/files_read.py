"""``files.read``: one text file from below the allowed roots (DESIGN.md section 6; 18.1.3.8).

Paths are judged twice: as text, before the dry run (``tools.paths``), and by the kernel, at the real run (``adapters.beneath``). A link
inside a root is followed as long as it stays beneath it. There is no listing: a model names a file or gets nothing.

The content is untrusted bytes for the sanitiser. Its type is what the name suggests, and only for text; bytes that are not text are
``application/octet-stream``, which no sanitiser of text takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import trio
from pydantic import Field, ValidationError

from gnus_node.ports import Offload
from gnus_node.records.base import Part
from gnus_node.records.enums import DryRunKind, EffectClass
from gnus_node.records.errors import GnusError
from gnus_node.tools.adapter import (
    MAX_OUTPUT_BYTES,
    MAX_PREVIEW_CHARS,
    AdapterContext,
    AdapterProfile,
    DryRun,
    MockOutput,
    SimulatedEffects,
    ToolOutput,
    ToolScope,
    ValidCall,
    read_arguments,
)
from gnus_node.tools.adapters.beneath import probe, read_first
from gnus_node.tools.paths import Target, targets_of

NAME = "files.read"
CAPABILITY = "tool.files.read.readonly"
VERSION = "1.0.0"
LANE = "files"
"""The offload lane of its blocking reads."""

_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".json": "application/json",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".xml": "application/xml",
    ".svg": "image/svg+xml",
}


class Arguments(Part):
    """``path``: absolute below an allowed root, or relative to the first root that has it."""

    path: Annotated[str, Field(min_length=1, max_length=1024)]


class Settings(Part):
    """The operator's settings of this adapter."""

    max_bytes: Annotated[int, Field(ge=1, le=MAX_OUTPUT_BYTES)] = 256 * 1024
    allow_hard_links: bool = False
    """Read files with more than one name; such a name may have been made to bring a file from elsewhere into a root."""
    timeout_ms: Annotated[int, Field(ge=1, le=60_000)] = 5_000


class FilesRead:
    """The adapter. Blocking work runs on the offload's lane ``files``, in steps bounded by ``max_bytes``."""

    def __init__(self, offload: Offload, settings: Settings) -> None:
        self._offload = offload
        self._settings = settings
        self._profile = AdapterProfile(
            name=NAME,
            version=VERSION,
            capability=CAPABILITY,
            effect=EffectClass.READ,
            description="Read one text file from below the allowed directories. Give its path; directories are not listed.",
            arguments=Arguments,
            idempotent=True,
            status_query=False,
            dry_run_kind=DryRunKind.VALIDATED_ONLY,
            secrets_required=False,
            max_output_bytes=settings.max_bytes,
            timeout_ms=settings.timeout_ms,
        )

    @classmethod
    def build(cls, context: AdapterContext, settings: Mapping[str, Any]) -> FilesRead:
        """Make it from the configuration. Raises ``CONFIG``, and ``ISOLATION_UNAVAILABLE`` where the kernel cannot hold the promise."""
        try:
            read = Settings.model_validate(dict(settings))
        except ValidationError as error:
            wrong = ", ".join(sorted({".".join(map(str, e["loc"])) for e in error.errors(include_input=False)}))
            raise GnusError(
                "CONFIG", f"settings of {NAME} are not valid: {wrong}", fix=f"known: {', '.join(Settings.model_fields)}"
            ) from None
        probe()
        return cls(context.offload, read)

    @property
    def profile(self) -> AdapterProfile:
        """What it is and may do."""
        return self._profile

    def validate(self, arguments: Mapping[str, Any], scope: ToolScope) -> ValidCall:
        """Pure. Raises ``BAD_ARGUMENTS``, or ``PATH_DENIED`` for a path that is ill-spelled or below no allowed root."""
        read = read_arguments(Arguments, arguments)
        return ValidCall(NAME, read, read_paths=tuple(target.path for target in targets_of(read.path, scope.roots)))

    def dry_run(self, call: ValidCall, scope: ToolScope) -> DryRun:
        """What would be read, in the order of trying; whether it exists is not looked up."""
        preview = f"the text of the file, at most {self._settings.max_bytes} bytes"[:MAX_PREVIEW_CHARS]
        access = tuple(f"read {path}" for path in call.read_paths)
        return DryRun(
            ok=bool(access),
            kind=DryRunKind.VALIDATED_ONLY,
            effects=SimulatedEffects(filesystem_access=access),
            mock_output=MockOutput("text/plain", preview),
            code="OK" if access else "PATH_DENIED",
        )

    async def execute(self, call: ValidCall, scope: ToolScope, *, idempotency_key: str, deadline: float) -> ToolOutput:
        """Read the file. Raises what ``beneath.read_first`` raises; all of it is definite, reading leaves no trace."""
        if not isinstance(call.arguments, Arguments):
            raise GnusError("BAD_ARGUMENTS", "not a call of this tool")
        if trio.current_time() >= deadline:
            raise GnusError("TOOL_FAILED", "no time was left to read the file")
        targets = targets_of(call.arguments.path, scope.roots)
        data = await self._offload.run(_read, targets, self._settings.max_bytes, self._settings.allow_hard_links, lane=LANE)
        return ToolOutput(content_type_of(call.arguments.path, data), data)


def _read(targets: tuple[Target, ...], limit: int, hard_links: bool) -> bytes:
    return read_first(targets, limit, hard_links=hard_links)


def content_type_of(path: str, data: bytes) -> str:
    """The type to give the sanitiser. Text is UTF-8 without NUL; its kind goes by the name's ending."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    if "\0" in text:
        return "application/octet-stream"
    dot = path.rfind(".")
    return _TYPES.get(path[dot:].lower(), "text/plain") if dot >= 0 else "text/plain"
