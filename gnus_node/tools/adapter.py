"""What a tool adapter is: a profile, a pure validation, a dry run that touches nothing, and one real execution (18.1.3.8.2, .5, .12).

Why so narrow: the mediator must be able to judge a call completely before anything happens. So an adapter first turns arguments into a
``ValidCall`` that says what would be touched, then describes the run without running it, and only then, after attestation and any
approval, runs. The adapter never decides: checks, taint, approval and effect states are the mediator's.

Invariants: ``validate`` and ``dry_run`` are pure and deterministic, send no packet and open no file. ``execute`` happens at most once
for an effect, unless the profile says ``idempotent``. Errors are ``GnusError`` and never hold argument text; whether one is *definite*
(``CodeRow.definite``) decides between ``failed_definite`` and ``indeterminate``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from pydantic import ValidationError

from gnus_node.ports import Offload
from gnus_node.records.base import Part
from gnus_node.records.enums import DryRunKind, EffectClass
from gnus_node.records.errors import GnusError
from gnus_node.tools.paths import Root

MAX_ARGUMENT_BYTES = 16 * 1024
"""Largest arguments of one call, as JSON."""
MAX_OUTPUT_BYTES = 1024 * 1024
"""Most any adapter may return."""
MAX_TIMEOUT_MS = 120_000
MAX_PREVIEW_CHARS = 500

P = TypeVar("P", bound=Part)


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """What an adapter may use of the node."""

    offload: Offload


@dataclass(frozen=True, slots=True)
class AdapterProfile:
    """What an adapter is and may do; the operator's word, never the model's.

    ``arguments`` is the model that arguments must fit (strict, unknown fields refused). ``idempotent``: executing again with the same
    idempotency key has no second effect. ``status_query``: the adapter is ``Queryable``. ``secrets_required``: it uses credentials.
    """

    name: str
    version: str
    capability: str
    effect: EffectClass
    description: str
    arguments: type[Part]
    idempotent: bool
    status_query: bool
    dry_run_kind: DryRunKind
    secrets_required: bool
    max_output_bytes: int
    timeout_ms: int

    @property
    def resumable(self) -> bool:
        """Whether an execution that was cut off may be taken up again (``effects.after_restart``)."""
        return self.idempotent or self.status_query

    def argument_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, for prompts and for ``tools show``."""
        return self.arguments.model_json_schema()


@dataclass(frozen=True, slots=True)
class ToolScope:
    """What one call may touch at most: mandate, plan and the operator's configuration together (``paths.narrow_roots``).

    Empty means nothing. Domains are lower-case names, matched whole.
    """

    roots: tuple[Root, ...] = ()
    domains: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The allowed roots as text."""
        return tuple(root.path for root in self.roots)


@dataclass(frozen=True, slots=True)
class ValidCall:
    """Arguments that fit, and all that the call would touch. Made by ``ToolAdapter.validate`` only.

    ``read_paths``: absolute paths it may open for reading, ``write_paths``: those it may change, ``domains``: hosts it would talk to,
    ``secrets``: ids of credentials it would use.
    """

    tool: str
    arguments: Part
    read_paths: tuple[str, ...] = ()
    write_paths: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SimulatedEffects:
    """What a run would do (18.1.3.8.5): e.g. ``("GET https://docs.gnus.ai/",)``, ``("read /srv/docs/a.txt",)``."""

    network_requests: tuple[str, ...] = ()
    filesystem_access: tuple[str, ...] = ()
    secrets_required: bool = False

    def to_plain(self) -> dict[str, Any]:
        """The seed's JSON form."""
        return {
            "network_requests": list(self.network_requests),
            "filesystem_access": list(self.filesystem_access),
            "secrets_required": self.secrets_required,
        }


@dataclass(frozen=True, slots=True)
class MockOutput:
    """What stands in for the real output: a content type of ``records.tools.ContentType`` and a short preview."""

    content_type: str
    preview: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcome of a dry run. ``code`` is ``OK``, or a code of the error table where ``ok`` is False."""

    ok: bool
    kind: DryRunKind
    effects: SimulatedEffects
    mock_output: MockOutput
    code: str = "OK"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What the tool returned: raw, untrusted bytes for the sanitiser.

    ``definite`` False: there is an output, but the adapter cannot tell whether the effect happened.
    """

    content_type: str
    data: bytes
    definite: bool = True


@runtime_checkable
class ToolAdapter(Protocol):
    """One tool. An instance is shared by all requests and holds no state of any of them."""

    @property
    def profile(self) -> AdapterProfile:
        """What it is; the same value for the life of the instance."""

    def validate(self, arguments: Mapping[str, Any], scope: ToolScope) -> ValidCall:
        """Pure. Raises ``BAD_ARGUMENTS``, ``PATH_DENIED``, ``EGRESS_DENIED``."""

    def dry_run(self, call: ValidCall, scope: ToolScope) -> DryRun:
        """Pure, the same bytes for the same call; no packet, no file. A failure is ``ok=False``, not an exception."""

    async def execute(self, call: ValidCall, scope: ToolScope, *, idempotency_key: str, deadline: float) -> ToolOutput:
        """The real run. ``deadline`` is a time of trio's clock. Raises ``TOOL_FAILED`` and others, definite or not by their row."""


@runtime_checkable
class Queryable(Protocol):
    """An adapter whose system can be asked what became of an execution (``AdapterProfile.status_query``)."""

    async def status(self, call: ValidCall, *, idempotency_key: str, deadline: float) -> ToolOutput | None:
        """The recorded output, or None where nothing took effect. Raises ``EFFECT_INDETERMINATE`` where it cannot tell."""


def read_arguments(model: type[P], arguments: Mapping[str, Any]) -> P:
    """Arguments as the adapter's model. Raises ``BAD_ARGUMENTS``, naming declared fields only, never a value or an unknown name."""
    try:
        text = json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise GnusError("BAD_ARGUMENTS", "the arguments are not plain JSON") from None
    if len(text) > MAX_ARGUMENT_BYTES:
        raise GnusError("BAD_ARGUMENTS", f"the arguments are larger than {MAX_ARGUMENT_BYTES} bytes")
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        known = set(model.model_fields)
        wrong = sorted({str(e["loc"][0]) for e in error.errors(include_input=False, include_url=False) if e["loc"]} & known)
        detail = f"these arguments do not fit: {', '.join(wrong)}" if wrong else "the arguments have unknown or missing fields"
        raise GnusError("BAD_ARGUMENTS", detail) from None
