"""What each service takes and gives: request, response, error and attestation (18.1.5.1), as data.

A request and a response are messages: records that carry the authority, and small ``args`` that carry none. This table says which record
kinds a message must carry, which it may carry besides, and of which it must carry at least one; ``check_kinds`` and ``read_args`` hold a
message to it, at both ends. Whether the records *hold* is ``evidence``'s question. Every error is the one Error; the attestation is the
signed record by which the service answers for what it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from gnus_node.records.base import Count, Generation, Part, ReasonCode, RecordId, SortedSet, Uuid
from gnus_node.records.catalog import BY_KIND
from gnus_node.records.enums import MemoryClass, PrivacyScope
from gnus_node.records.errors import GnusError

MAX_IDS = 64
"""Most record ids one ``records.get`` asks for."""


class NoArgs(Part):
    """No arguments: the records say it all."""


class RouteArgs(Part):
    """``resume_turn`` is the highest turn in the effect log that the router must start above; 0 for a first generation."""

    resume_turn: Annotated[int, Field(ge=0, le=16)]


class RetrieveArgs(Part):
    """How many items at most; the peer may give fewer."""

    limit: Annotated[int, Field(ge=1, le=64)]


class PutArgs(Part):
    """How a candidate is to be filed where the message carries a text instead of a sealed event; events say it themselves."""

    memory_class: MemoryClass
    privacy_scope: PrivacyScope


class PutAnswer(Part):
    """What became of a candidate."""

    event: RecordId | None = None
    admitted: bool
    reason_code: ReasonCode


class MediateArgs(Part):
    """Which proposal of the ExpertOutput; an unselected one is attested ``NOT_SELECTED`` without a dry run."""

    tool_call_id: Uuid
    selected: bool


class EffectsArgs(Part):
    """Whose effects: of all generations up to this one."""

    request_id: Uuid
    generation: Generation


class GetArgs(Part):
    """Ids of records asked for."""

    ids: Annotated[SortedSet[RecordId], Field(min_length=1, max_length=MAX_IDS)]


class GetAnswer(Part):
    """Ids of those the peer does not have."""

    missing: Annotated[SortedSet[RecordId], Field(max_length=MAX_IDS)]


class ItemArgs(Part):
    """A streamed item's number, from 1."""

    number: Count


@dataclass(frozen=True, slots=True)
class Shape:
    """What one message of a service carries. ``streamed`` messages repeat until the end; the rules then hold for all of them together."""

    args: type[Part] = NoArgs
    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    streamed: bool = False

    def kinds(self) -> tuple[str, ...]:
        """Every kind the message may hold."""
        return tuple(dict.fromkeys((*self.must, *self.one_of, *self.may)))


@dataclass(frozen=True, slots=True)
class Service:
    """One service. ``attestation`` is the record kind that answers for the work, empty where there is none."""

    name: str
    what: str
    request: Shape
    response: Shape
    attestation: str = ""


MEMORY_EVENT = "memory_event"
ANY: tuple[str, ...] = (*BY_KIND, MEMORY_EVENT)
_EVIDENCE = ("retrieval_result", "grounding_evidence")
_TOOL_CHAIN = ("dry_run_result", "sanitized_data", "tool_attestation", "approval_decision")
_CHAIN = (
    "policy",
    "agent_request",
    "capability_manifest",
    "expert_entry",
    "dispatch",
    "expert_output",
    "absence",
    *_EVIDENCE,
    *_TOOL_CHAIN,
    "effect_report",
    "task_attestation",
)

SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        Service(
            "router.route",
            "plan a request and run the plan",
            Shape(RouteArgs, must=("request_mandate",), may=("policy", "agent_request", "effect_report", *_TOOL_CHAIN)),
            Shape(ItemArgs, may=("status_event", "execution_plan", "synthesis_result", "parked", *_CHAIN), streamed=True),
            "execution_plan",
        ),
        Service(
            "memory.retrieve",
            "context from memory, after privacy, tenant and trust filters",
            Shape(RetrieveArgs, must=("request_mandate", "dispatch"), may=("policy", "execution_plan")),
            Shape(must=("retrieval_result", "task_attestation")),
            "task_attestation",
        ),
        Service(
            "memory.put",
            "offer memory candidates for admission",
            Shape(
                PutArgs, may=(MEMORY_EVENT, "request_mandate", "execution_plan", "synthesis_result", "sanitized_data", "tool_attestation")
            ),
            Shape(PutAnswer),
        ),
        Service(
            "grounding.retrieve",
            "passages that bear on the question or on claims",
            Shape(RetrieveArgs, must=("request_mandate", "dispatch"), may=("policy", "execution_plan", "expert_output")),
            Shape(must=("grounding_evidence", "task_attestation")),
            "task_attestation",
        ),
        Service(
            "expert.run",
            "one expert's output for one dispatch",
            Shape(must=("request_mandate", "execution_plan", "dispatch"), may=("policy", "expert_output", *_EVIDENCE, *_TOOL_CHAIN)),
            Shape(one_of=("expert_output", "absence"), may=("task_attestation",)),
            "task_attestation",
        ),
        Service(
            "tools.mediate",
            "decide, dry-run, attest and perhaps execute one proposed call",
            Shape(
                MediateArgs,
                must=("request_mandate", "execution_plan", "dispatch", "expert_output"),
                may=("policy", "capability_manifest", "expert_entry", *_EVIDENCE, *_TOOL_CHAIN),
            ),
            Shape(must=("tool_attestation",), may=("dry_run_result", "sanitized_data", "task_attestation")),
            "tool_attestation",
        ),
        Service(
            "tools.effects",
            "all effects of a request, for a successor router",
            Shape(EffectsArgs, must=("request_mandate",)),
            Shape(must=("effect_report",), may=("tool_attestation", "sanitized_data")),
            "effect_report",
        ),
        Service(
            "verifier.synthesize",
            "check the outputs against the evidence and sign the answer",
            Shape(must=("request_mandate", "execution_plan", "dispatch"), may=_CHAIN),
            Shape(must=("synthesis_result", "task_attestation")),
            "task_attestation",
        ),
        Service(
            "settlement.settle",
            "verify the chain and record the task",
            Shape(must=("request_mandate", "agent_response"), may=("execution_plan", "synthesis_result", MEMORY_EVENT, "parked", *_CHAIN)),
            Shape(must=("task_record",), may=("checkpoint", "learning_event")),
            "task_record",
        ),
        Service(
            "records.get",
            "signed records by id",
            Shape(GetArgs),
            Shape(GetAnswer, may=ANY, streamed=True),
        ),
    )
}
"""Every service by name; its stream is ``/gnus/<name>/1``."""

P = TypeVar("P", bound=Part)


def service(name: str) -> Service:
    """A service's row. Raises ``UNKNOWN_SERVICE``."""
    found = SERVICES.get(name)
    if found is None:
        raise GnusError("UNKNOWN_SERVICE", "no service of this name")
    return found


def check_kinds(shape: Shape, kinds: Iterable[str]) -> None:
    """Hold the record kinds of a message to its shape. Raises ``MALFORMED`` with the kind at fault."""
    given = set(kinds)
    for kind in shape.must:
        if kind not in given:
            raise GnusError("MALFORMED", f"the message must carry a {kind}")
    if shape.one_of and given.isdisjoint(shape.one_of):
        raise GnusError("MALFORMED", f"the message must carry one of {', '.join(shape.one_of)}")
    for kind in sorted(given - set(shape.kinds())):
        raise GnusError("MALFORMED", f"the message may not carry a {kind}" if kind in ANY else "the message carries an unknown kind")


def read_args(model: type[P], args: Mapping[str, Any]) -> P:
    """Read a message's ``args`` strictly. Raises ``MALFORMED`` with path and rule, never the value."""
    try:
        return model.model_validate(dict(args))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "args"
        raise GnusError("MALFORMED", f"{model.__name__}: {where}: {first['type']}"[:200]) from None


def write_args(args: Part) -> dict[str, Any]:
    """The plain ``args`` of a message; absent optionals left out."""
    return args.model_dump(exclude_none=True)


__all__ = [
    "ANY",
    "MAX_IDS",
    "SERVICES",
    "EffectsArgs",
    "GetAnswer",
    "GetArgs",
    "ItemArgs",
    "MediateArgs",
    "NoArgs",
    "PutAnswer",
    "PutArgs",
    "RetrieveArgs",
    "RouteArgs",
    "Service",
    "Shape",
    "check_kinds",
    "read_args",
    "service",
    "write_args",
]
