"""Which OpenAI parameters are read, which only at their default, and which are refused. Data and one pure function.

A parameter that would change what the client expects is never ignored: it is accepted only at the value that changes nothing
(docs/protocol/http.md, "Chat completions").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gnus_node.api.errors import bad_parameter

ONLY: Mapping[str, tuple[Any, ...]] = {
    "temperature": (1, 1.0),
    "top_p": (1, 1.0),
    "n": (1,),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "logprobs": (False,),
    "store": (False,),
    "parallel_tool_calls": (True,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
}
"""Parameters accepted at these values only; they are then the same as absent."""

UNSUPPORTED = frozenset(
    {
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "seed",
        "top_logprobs",
        "audio",
        "prediction",
        "reasoning_effort",
        "web_search_options",
        "prompt_cache_retention",
        "moderation",
    }
)
"""Known parameters that no value makes harmless."""

ECHOED = frozenset({"refusal", "annotations", "audio", "tool_calls", "function_call"})
"""Fields of an assistant message that official clients send back empty."""


def _same(given: Any, allowed: Any) -> bool:
    """Equal in value and kind: ``True`` is not 1."""
    return type(given) is type(allowed) and bool(given == allowed)


def plain_parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are left to read, nulls gone. Raises a 400 that names the first parameter that is not supported."""
    rest: dict[str, Any] = {}
    for name, value in body.items():
        if value is None:
            continue
        if name in UNSUPPORTED:
            raise bad_parameter(name, f"the parameter {name} is not supported", openai_code="unsupported_parameter", code="UNSUPPORTED")
        if name not in ONLY:
            rest[name] = value
        elif not any(_same(value, allowed) for allowed in ONLY[name]):
            words = " or ".join(dict.fromkeys(json.dumps(v) for v in ONLY[name] if not (isinstance(v, float) and int(v) in ONLY[name])))
            what = f"the parameter {name} is supported only as {words}"
            raise bad_parameter(name, what, openai_code="unsupported_value", code="UNSUPPORTED")
    return rest


def plain_message(message: Any) -> Any:
    """A message without what an official client echoes empty, and without nulls where null means absent."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    return {k: v for k, v in message.items() if not (k in ECHOED and (v is None or v == []))}
