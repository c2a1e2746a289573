"""Errors as HTTP: OpenAI's form outside, our code, fix and definiteness inside. Pure.

Every failure at a door is a ``GnusError``; ``ApiError`` adds what only HTTP knows (a status of its own, the parameter at fault, a time
to wait). Invariant: no text of the client is in a message; ``param`` is a name of this program, or of ordinary form.

docs/protocol/http.md, "Errors".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gnus_node.api.settings import RETRY_AFTER_S
from gnus_node.records.enums import Whose
from gnus_node.records.errors import GnusError

_OPENAI_CODES = {"UNAUTHENTICATED": "invalid_api_key", "RATE_LIMITED": "rate_limit_exceeded"}
_PARAM = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]-]{0,79}")


class ApiError(GnusError):
    """A ``GnusError`` with what HTTP adds. ``status`` overrides the code's own; ``openai_code`` is OpenAI's word for it."""

    def __init__(
        self,
        code: str,
        what: str = "",
        *,
        fix: str = "",
        status: int | None = None,
        param: str | None = None,
        openai_code: str | None = None,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, what, fix=fix)
        self.status = status
        self.param = param if param is not None and _PARAM.fullmatch(param) else None
        self.openai_code = openai_code
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})


def bad_parameter(param: str, what: str, *, openai_code: str | None = None, code: str = "MALFORMED") -> ApiError:
    """A 400 that names the parameter at fault."""
    return ApiError(code, what, param=param, openai_code=openai_code, fix="see docs/protocol/http.md, Chat completions")


def status_of(error: GnusError) -> int:
    """The HTTP status: the error's own, the code's, and never a client's fault for a fault of this node.

    A code whose row says 200 (an abstention) is only an error here if somebody raised it, which is a fault of this program.
    """
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return status
    status = error.row.http
    if status < 400 or (error.whose is Whose.LOCAL and status < 500):
        return 500
    return status


def _type_of(status: int) -> str:
    if status >= 500:
        return "server_error"
    return {403: "permission_error", 429: "requests"}.get(status, "invalid_request_error")


def error_object(error: GnusError, request_id: str, **more: Any) -> dict[str, Any]:
    """The inner object of an error response. ``more`` joins the ``gnus`` object."""
    openai_code = getattr(error, "openai_code", None) or _OPENAI_CODES.get(error.code, error.code)
    return {
        "message": error.what,
        "type": _type_of(status_of(error)),
        "param": getattr(error, "param", None),
        "code": openai_code,
        "gnus": {
            "code": error.code,
            "fix": error.fix,
            "definite": error.row.definite,
            "retryable": error.row.retryable,
            "request_id": request_id,
            **more,
        },
    }


def error_headers(error: GnusError, *, idempotent: bool) -> dict[str, str]:
    """Headers of an error response. Official clients obey ``x-should-retry``: what may have had effects is not repeated blindly."""
    headers = dict(getattr(error, "headers", {}))
    if error.code == "UNAUTHENTICATED":
        headers["www-authenticate"] = "Bearer"
    wait = getattr(error, "retry_after_s", None)
    if wait is None and error.code in ("BUSY", "RATE_LIMITED"):
        wait = RETRY_AFTER_S
    if wait is not None:
        headers["retry-after"] = str(wait)
    headers["x-should-retry"] = "true" if error.row.retryable and (error.row.definite or idempotent) else "false"
    return headers
