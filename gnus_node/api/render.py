"""What an ``Answered`` looks like to a client: completion, chunks, request object. Pure; JSON values and text out.

docs/protocol/http.md. Invariant: the pieces of a streamed answer, joined, are the answer, code point for code point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from gnus_node.api.chat import MODEL
from gnus_node.api.errors import error_object
from gnus_node.api.form import reason_of
from gnus_node.api.settings import MAX_PIECES, MIN_PIECE_CHARS
from gnus_node.ports.submit import Answered, Source, Status
from gnus_node.records.enums import Outcome
from gnus_node.records.errors import CODES, GnusError

_TOKEN = re.compile(r"[A-Za-z0-9._:/@+-]{1,128}")
_SPLIT = re.compile(r"\s")
_STATUS = {
    Outcome.ANSWERED: "completed",
    Outcome.ABSTAINED: "completed",
    Outcome.PENDING_APPROVAL: "requires_action",
    Outcome.PARTIAL_EFFECTS: "incomplete",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "cancelled",
}
_FAILED = {Outcome.PARTIAL_EFFECTS: "PARTIAL_EFFECTS", Outcome.FAILED: "INTERNAL", Outcome.CANCELLED: "CANCELLED"}


def plain(value: Any) -> Any:
    """Mappings, sequences and enumerations as JSON has them. Raises ``TypeError`` for anything else JSON cannot hold."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def encode(value: Any) -> bytes:
    """JSON bytes, compact, UTF-8. Raises ``ValueError`` for NaN and for what is not Unicode text."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _source(source: Source) -> dict[str, Any]:
    return {
        "uri": source.uri,
        "title": source.title,
        "source_class": source.source_class,
        "span": list(source.span),
        "fresh_at_ms": source.fresh_at_ms,
        "quote": source.quote,
    }


def gnus_object(answered: Answered) -> dict[str, Any]:
    """Everything beside the answer's text."""
    return {
        "request_id": answered.request_id,
        "audit_id": answered.audit_id,
        "outcome": answered.outcome.value,
        "reason_code": answered.reason_code,
        "reason": answered.reason,
        "answer_type": answered.answer_type.value,
        "sources": [_source(s) for s in answered.sources],
        "route": plain(answered.route),
        "backends": plain(answered.backends),
        "agreement": answered.agreement,
        "latency_ms": plain(answered.latency_ms),
        "verdict": None if answered.verdict is None else answered.verdict.value,
        "pending_approvals": plain(answered.pending_approvals),
        "effects": plain(answered.effects),
    }


def usage_object(answered: Answered) -> dict[str, int]:
    """OpenAI's usage."""
    prompt, completion = answered.usage.get("prompt_tokens", 0), answered.usage.get("completion_tokens", 0)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def content_of(answered: Answered) -> str:
    """The text a client shows: the answer, or why there is none."""
    if answered.answer or answered.outcome is Outcome.ANSWERED:
        return answered.answer
    return reason_of(answered)


def failure_of(answered: Answered) -> GnusError | None:
    """The error an outcome is to a client, or None if it is an answer, an abstention, or waits for a person."""
    if answered.outcome not in _FAILED:
        return None
    code = _FAILED[answered.outcome]
    row = CODES.get(answered.reason_code)
    if answered.outcome is Outcome.FAILED and row is not None and row.http >= 400:
        code = answered.reason_code  # the other outcomes keep their own code: it says whether a client may repeat the request
    return GnusError(code, answered.reason)


def failure_facts(answered: Answered) -> dict[str, Any]:
    """What an error response adds to its ``gnus`` object for a request that was accepted."""
    return {"audit_id": answered.audit_id, "outcome": answered.outcome.value, "effects": plain(answered.effects)}


def completion(answered: Answered) -> dict[str, Any]:
    """A ``chat.completion``."""
    message = {"role": "assistant", "content": content_of(answered), "refusal": None}
    return {
        **_head(answered, "chat.completion"),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": usage_object(answered),
        "gnus": gnus_object(answered),
    }


def _head(answered: Answered, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answered.request_id}", "object": kind, "created": answered.created_at_ms // 1000, "model": MODEL}


def chunks(answered: Answered, *, include_usage: bool, extensions: bool) -> Iterator[dict[str, Any]]:
    """The ``chat.completion.chunk`` objects of an answer, in order."""
    head = _head(answered, "chat.completion.chunk")
    tail: dict[str, Any] = {"usage": None} if include_usage else {}

    def chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], **tail}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(content_of(answered)):
        yield chunk({"content": piece})
    last = chunk({}, "stop")
    yield {**last, "gnus": gnus_object(answered)} if extensions else last
    if include_usage:
        yield {**head, "choices": [], "usage": usage_object(answered)}


def pieces(text: str) -> Iterator[str]:
    """The text in at most ``MAX_PIECES`` pieces, cut after white space where there is some near."""
    size = max(MIN_PIECE_CHARS, -(-len(text) // MAX_PIECES))
    start = 0
    while start < len(text):
        end = start + size
        blank = _SPLIT.search(text, end, end + MIN_PIECE_CHARS)
        if blank is not None:
            end = blank.end()
        yield text[start:end]
        start = end


def sse_data(value: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"data: " + encode(value) + b"\n\n"


SSE_DONE = b"data: [DONE]\n\n"
SSE_KEEP_ALIVE = b": gnus.keep-alive\n\n"


def sse_status(status: Status) -> bytes:
    """One status comment: ids and counts of ordinary form only, anything else is left out."""
    pairs = [("number", str(status.number)), ("stage", status.stage), ("state", status.state)]
    pairs += sorted((key, str(value)) for key, value in status.facts.items())
    words = [f"{key}={value}" for key, value in pairs if _TOKEN.fullmatch(key) and _TOKEN.fullmatch(value)]
    return f": gnus.status {' '.join(words)}\n\n".encode("ascii")


def request_object(request_id: str, answered: Answered | None) -> dict[str, Any]:
    """A ``gnus.request``; None is a request under way."""
    head = {"id": request_id, "object": "gnus.request"}
    if answered is None:
        return {**head, "created": None, "model": MODEL, "status": "in_progress", "answer": None, "error": None, "gnus": None}
    failure = failure_of(answered)
    return {
        **head,
        "created": answered.created_at_ms // 1000,
        "model": MODEL,
        "status": _STATUS[answered.outcome],
        "answer": None if failure is not None else content_of(answered),
        "error": None if failure is None else error_object(failure, request_id, **failure_facts(answered)),
        "gnus": gnus_object(answered),
    }


def answer_object(answered: Answered) -> dict[str, Any]:
    """A ``gnus.answer``, what the command line prints."""
    return {
        "object": "gnus.answer",
        "answer": answered.answer,
        **gnus_object(answered),
        "usage": plain(answered.usage),
        "created_at_ms": answered.created_at_ms,
    }


def model_object(row: Mapping[str, Any]) -> dict[str, Any]:
    """An OpenAI ``model``; what it does not have goes under ``gnus``."""
    known = {"id", "object", "created", "owned_by"}
    extra = {k: plain(v) for k, v in row.items() if k not in known}
    created = row.get("created", 0)
    return {
        "id": str(row["id"]),
        "object": "model",
        "created": created if isinstance(created, int) else 0,
        "owned_by": str(row.get("owned_by", MODEL)),
        **({"gnus": extra} if extra else {}),
    }
