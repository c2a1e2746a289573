"""Which OpenAI parameters are read, which only at their default, and which are refused. Data and one pure function.

A parameter that would change what the client expects is never ignored: it is accepted only at the value that changes nothing
(docs/protocol/http.md, "Chat completions").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gnus_node.api.errors import ApiError, bad_parameter

ONLY: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "store": (False,),
    "parallel_tool_calls": (True, False),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
}
"""Parameters accepted at these values only; they are then the same as absent."""

AT_MOST_ONE = frozenset({"temperature", "top_p"})
"""How much an answer may vary from one time to the next, 0 to 1. An answer composed from evidence does not vary, which every such value
allows; a temperature above 1 asks for variety that is not to be had."""

HINTS: Mapping[str, type] = {"seed": int}
"""Parameters that ask for what holds anyway, with the type of their value: the same question over the same evidence has the same answer."""

UNSUPPORTED = frozenset({"audio", "prediction", "reasoning_effort", "web_search_options", "prompt_cache_retention", "moderation"})
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
            raise _unsupported(name)
        if name in AT_MOST_ONE or name in HINTS:
            _check_harmless(name, value)
        elif name == "response_format":
            rest[name] = _format(value)
        elif name not in ONLY:
            rest[name] = value
        elif not any(_same(value, allowed) for allowed in ONLY[name]):
            if name in ("tools", "functions") and isinstance(value, list):
                raise _unsupported(name)
            words = " or ".join(dict.fromkeys(json.dumps(v) for v in ONLY[name] if not (isinstance(v, float) and int(v) in ONLY[name])))
            raise _only_as(name, words)
    return rest


def _check_harmless(name: str, value: Any) -> None:
    """Raises a 400 for a value of another type, or one that would change what is expected."""
    if name in HINTS:
        if type(value) is not HINTS[name]:
            raise bad_parameter(name, f"the parameter {name} must be an integer")
    elif type(value) not in (int, float):
        raise bad_parameter(name, f"the parameter {name} must be a number")
    elif not 0 <= value <= 1:
        raise _only_as(name, "0 to 1")


def _format(value: Any) -> Any:
    """``response_format``; a schema of the client's own is refused by name, since no answer is made to fit one."""
    if isinstance(value, Mapping) and value.get("type") == "json_schema":
        raise bad_parameter(
            "response_format",
            'a JSON schema cannot be promised; {"type": "json_object"} gives the documented form',
            openai_code="unsupported_value",
            code="UNSUPPORTED",
        )
    return value


def _unsupported(name: str) -> ApiError:
    return bad_parameter(name, f"the parameter {name} is not supported", openai_code="unsupported_parameter", code="UNSUPPORTED")


def _only_as(name: str, words: str) -> ApiError:
    what = f"the parameter {name} is supported only as {words}"
    return bad_parameter(name, what, openai_code="unsupported_value", code="UNSUPPORTED")


def plain_message(message: Any) -> Any:
    """A message without what an official client echoes empty, and without nulls where null means absent."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    return {k: v for k, v in message.items() if not (k in ECHOED and (v is None or v == []))}
