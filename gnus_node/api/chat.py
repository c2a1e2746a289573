"""A chat completions body, read strictly, and the ``Ask`` it makes. Pure: bytes in, values or a typed error out.

Seed 18.1.2.1 (clients speak OpenAI's API). docs/protocol/http.md, "Chat completions".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gnus_node.api.errors import ApiError, bad_parameter
from gnus_node.api.parameters import plain_message, plain_parameters
from gnus_node.api.settings import MAX_MESSAGES, MAX_STOP_CHARS, MAX_STOPS, MAX_TOKENS
from gnus_node.ports.submit import Ask
from gnus_node.records.base import MAX_INT
from gnus_node.records.enums import AnswerType, PrivacyMode
from gnus_node.wire.jsontext import read_free

MODEL = "gnus"
"""The swarm's own model name; what every response names."""

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """A JSON object of a client: exact types, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TextPart(Strict):
    """One part of a message's content."""

    type: Literal["text"]
    text: str


class Message(Strict):
    """One turn."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def text(self) -> str:
        """The turn's text; parts are joined as they stand."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class StreamOptions(Strict):
    """``stream_options``. ``include_obfuscation`` pads chunks against length watchers; only its absence or false is honest here."""

    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class ResponseFormat(Strict):
    """``response_format``: text, or one JSON object of the form of ``form.json_text``."""

    type: Literal["text", "json_object"]


class GnusOptions(Strict):
    """The ``gnus`` object of a request: limits that may only narrow what policy allows."""

    max_wall_ms: int | None = Field(default=None, ge=1, le=MAX_INT)
    max_spend: int | None = Field(default=None, ge=0, le=MAX_INT)
    privacy_mode: PrivacyMode | None = None


Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Stop = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS)]


class ChatRequest(Strict):
    """What is left of a body once the parameters that may only stand at their default are gone."""

    model: str = Field(min_length=1, max_length=256)
    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    user: str | None = Field(default=None, max_length=512)
    safety_identifier: str | None = Field(default=None, max_length=512)
    prompt_cache_key: str | None = Field(default=None, max_length=512)
    metadata: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] | None = Field(default=None, max_length=16)
    response_format: ResponseFormat | None = None
    gnus: GnusOptions = GnusOptions()


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat request as the door acts on it."""

    ask: Ask
    model: str
    stream: bool
    include_usage: bool


def _param(location: tuple[int | str, ...]) -> str:
    """``("messages", 0, "content")`` as OpenAI writes it: ``messages[0].content``. Names of union branches are left out."""
    name = ""
    for step in location[:1] if location[:1] == ("metadata",) else location:  # below metadata every name is the client's own text
        if isinstance(step, int):
            name += f"[{step}]"
        elif step.isidentifier() and step not in ("str", "list"):
            name += f".{step}" if name else step
    return name


def read_model(model: type[Model], value: Any) -> Model:
    """Validate a JSON value. Raises a 400 that names the field; the message is the schema's, never the client's text."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    first = found[0]
    param = _param(first["loc"])
    if first["type"] == "extra_forbidden":
        raise bad_parameter(param, "an unknown parameter; param names it", openai_code="unknown_parameter", code="UNSUPPORTED")
    raise bad_parameter(param, f"a parameter is not valid: {first['msg'].removeprefix('Value error, ')}")


def read_object(body: bytes, limit: int) -> dict[str, Any]:
    """The JSON object of a body. Raises ``MALFORMED``, ``NUMBER_RANGE``, ``TOO_LARGE``."""
    value = read_free(body, limit=limit)
    if not isinstance(value, dict):
        raise ApiError("MALFORMED", "the body must be a JSON object")
    return value


def context_of(messages: list[Message]) -> str:
    """Earlier turns as one text, oldest first. A turn's further lines are indented, so that no text can pose as a turn."""
    return "\n".join(f"{m.role}: " + "\n  ".join(m.text().splitlines()) for m in messages)


def _max_tokens(request: ChatRequest) -> int | None:
    old, new = request.max_tokens, request.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise bad_parameter("max_tokens", "max_tokens and max_completion_tokens differ; send one of them")
    return new if new is not None else old


def _stops(request: ChatRequest) -> tuple[str, ...]:
    if request.stop is None:
        return ()
    return (request.stop,) if isinstance(request.stop, str) else tuple(request.stop)


def read_chat(body: bytes, limit: int, idempotency_key: str | None = None) -> Chat:
    """Read a chat completions body. Raises an ``ApiError`` or ``GnusError`` with HTTP status 400 or 413."""
    rest = plain_parameters(read_object(body, limit))
    if isinstance(rest.get("messages"), list):
        rest["messages"] = [_known_message(i, plain_message(m)) for i, m in enumerate(rest["messages"][: MAX_MESSAGES + 1])]
    for name in ("gnus", "stream_options"):
        if isinstance(rest.get(name), dict):
            rest[name] = {k: v for k, v in rest[name].items() if v is not None}
    request = read_model(ChatRequest, rest)
    if request.stream_options is not None and not request.stream:
        raise bad_parameter("stream_options", "stream_options is only allowed with stream")
    last = request.messages[-1]
    if last.role != "user":
        raise bad_parameter("messages", "the last message must be the user's", code="UNSUPPORTED", openai_code="unsupported_value")
    if not last.text().strip():
        raise bad_parameter(f"messages[{len(request.messages) - 1}].content", "the question is empty")
    ask = Ask(
        question=last.text(),
        context=context_of(request.messages[:-1]),
        answer_type=AnswerType.JSON if request.response_format and request.response_format.type == "json_object" else AnswerType.TEXT,
        max_tokens=_max_tokens(request),
        max_wall_ms=request.gnus.max_wall_ms,
        max_spend=request.gnus.max_spend,
        privacy_mode=request.gnus.privacy_mode,
        idempotency_key=idempotency_key,
        stop=_stops(request),
    )
    include_usage = request.stream_options is not None and request.stream_options.include_usage
    return Chat(ask, request.model, request.stream, include_usage)


def _known_message(index: int, message: Any) -> Any:
    """Refuse by name what OpenAI has and this API does not: tool turns and parts that are not text."""
    if not isinstance(message, Mapping):
        return message
    if message.get("role") in ("tool", "function"):
        raise _unsupported(f"messages[{index}].role", "messages of tools are not supported")
    content = message.get("content")
    if isinstance(content, list):
        for n, part in enumerate(content):
            if isinstance(part, Mapping) and part.get("type") in ("image_url", "input_audio", "file", "refusal"):
                raise _unsupported(f"messages[{index}].content[{n}]", "only text parts are supported")
    return message


def _unsupported(param: str, what: str) -> ApiError:
    return bad_parameter(param, what, openai_code="unsupported_value", code="UNSUPPORTED")
