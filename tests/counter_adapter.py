"""The counter adapter: each real run appends one line to a file, so that a test counts runs at the side effect itself.

It lives in the tests, is no part of the wheel, and is enabled by the adapter allow-list only (DECISIONS, Audit):
``AllowedAdapter("counter.append", "tests.counter_adapter:CounterAdapter", {"file": "/path"})``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from gnus_node.ports import Offload
from gnus_node.records.base import Part
from gnus_node.records.enums import DryRunKind, EffectClass
from gnus_node.records.errors import GnusError
from gnus_node.tools.adapter import (
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

CAPABILITY = "tool.counter.append.execute"


class Arguments(Part):
    """``tag`` is written with each run."""

    tag: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")]


class Settings(Part):
    """``file`` receives a line per run; ``effect`` and ``idempotent`` say what the adapter claims to be."""

    file: str
    effect: EffectClass = EffectClass.WRITE
    idempotent: bool = False
    simulated: bool = False


class CounterAdapter:
    """Appends ``tag idempotency_key`` and returns the tag."""

    def __init__(self, offload: Offload, settings: Settings) -> None:
        self._offload, self._settings = offload, settings
        self._profile = AdapterProfile(
            name="counter.append",
            version="1.0.0",
            capability=CAPABILITY,
            effect=settings.effect,
            description="Append a tag to the test's file.",
            arguments=Arguments,
            idempotent=settings.idempotent,
            status_query=False,
            dry_run_kind=DryRunKind.SIMULATED if settings.simulated else DryRunKind.VALIDATED_ONLY,
            secrets_required=False,
            max_output_bytes=4096,
            timeout_ms=5000,
        )

    @classmethod
    def build(cls, context: AdapterContext, settings: Mapping[str, Any]) -> CounterAdapter:
        try:
            return cls(context.offload, Settings.model_validate(dict(settings)))
        except ValidationError:
            raise GnusError("CONFIG", "settings of counter.append are not valid") from None

    @property
    def profile(self) -> AdapterProfile:
        return self._profile

    def validate(self, arguments: Mapping[str, Any], scope: ToolScope) -> ValidCall:
        return ValidCall("counter.append", read_arguments(Arguments, arguments))

    def dry_run(self, call: ValidCall, scope: ToolScope) -> DryRun:
        return DryRun(True, self._profile.dry_run_kind, SimulatedEffects(), MockOutput("text/plain", "one line would be appended"))

    async def execute(self, call: ValidCall, scope: ToolScope, *, idempotency_key: str, deadline: float) -> ToolOutput:
        assert isinstance(call.arguments, Arguments)
        await self._offload.run(_append, self._settings.file, f"{call.arguments.tag} {idempotency_key}\n", lane="files")
        return ToolOutput("text/plain", call.arguments.tag.encode())


def _append(file: str, line: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line.encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def runs(file: str) -> list[str]:
    """The lines written so far; empty before the first run."""
    if not os.path.exists(file):
        return []
    with open(file, encoding="utf-8") as lines:
        return lines.read().splitlines()
