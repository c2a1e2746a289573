"""The local door's admin endpoints: the HTTP form of ``ports.Admin``. Nothing is decided here.

These routes are only in the local app (``build_local_app``). docs/protocol/http.md, "Admin bodies".
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gnus_node.api.body import json_model
from gnus_node.api.chat import Stop, Strict, Tokens
from gnus_node.api.door import exchange_of, json_response
from gnus_node.api.errors import bad_parameter
from gnus_node.api.form import formed
from gnus_node.api.gate import Gate
from gnus_node.api.render import answer_object, plain
from gnus_node.api.settings import MAX_STOPS, ApiSettings
from gnus_node.ports.admin import Admin
from gnus_node.records.base import MAX_INT, Name
from gnus_node.records.enums import AnswerType, MemoryClass, PrivacyMode, Tier
from gnus_node.records.errors import GnusError

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_OPERATOR = "operator"


class AdminAsk(Strict):
    """Body of ``/admin/ask``."""

    question: str = Field(min_length=1)
    context: str | None = None
    answer_type: AnswerType | None = None
    max_tokens: Tokens | None = None
    max_wall_ms: int | None = Field(default=None, ge=1, le=MAX_INT)
    max_spend: int | None = Field(default=None, ge=0, le=MAX_INT)
    privacy_mode: PrivacyMode | None = None
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=128)
    stop: list[Stop] | None = Field(default=None, max_length=MAX_STOPS)


class AdminPlan(Strict):
    """Body of ``/admin/plan``."""

    question: str = Field(min_length=1)


class AdminSearch(Strict):
    """Body of ``/admin/memory/search``."""

    query: str = Field(min_length=1)
    limit: int = Field(default=10, ge=1, le=100)


class AdminMemory(Strict):
    """Body of ``/admin/memory``."""

    content: str = Field(min_length=1)
    memory_class: MemoryClass


class AdminGrant(Strict):
    """Body of ``/admin/grant``."""

    request: str = Field(min_length=1, max_length=16_384)
    operator: Name = "local"
    tier: Tier = Tier.A


def _listing(rows: list[dict[str, Any]]) -> Response:
    return json_response({"object": "list", "data": plain(rows)})


class _AdminApi:
    def __init__(self, admin: Admin, gate: Gate, settings: ApiSettings) -> None:
        self._admin = admin
        self._gate = gate
        self._settings = settings

    async def admin_status(self, request: Request) -> Response:
        return json_response(plain(await self._admin.status()))

    async def admin_ask(self, request: Request) -> Response:
        exchange = exchange_of(request.scope)
        exchange.key_id = _OPERATOR
        exchange.stack.enter_context(self._gate.request(_OPERATOR))
        body = await json_model(exchange, AdminAsk, self._settings)
        exchange.idempotent = body.idempotency_key is not None
        options = {name: value for name in body.model_fields_set if name != "question" and (value := getattr(body, name)) is not None}
        if "stop" in options:
            options["stop"] = tuple(options["stop"])
        answered = await self._admin.ask(body.question, **options)
        exchange.request_id = answered.request_id
        return json_response(answer_object(formed(answered, body.answer_type, options.get("stop", ()))))

    async def admin_plan(self, request: Request) -> Response:
        body = await json_model(exchange_of(request.scope), AdminPlan, self._settings)
        return json_response(plain(await self._admin.plan(body.question)))

    async def admin_audit(self, request: Request) -> Response:
        request_id, payloads = request.path_params["request_id"], request.query_params.get("payloads", "0")
        if _REQUEST_ID.fullmatch(request_id) is None:
            raise GnusError("NOT_FOUND", "no such request")
        if payloads not in ("0", "1"):
            raise bad_parameter("payloads", "payloads is 0 or 1")
        return Response(await self._admin.audit(request_id, payloads == "1"), media_type="application/octet-stream")

    async def admin_memory_search(self, request: Request) -> Response:
        body = await json_model(exchange_of(request.scope), AdminSearch, self._settings)
        return _listing(await self._admin.memory_search(body.query, body.limit))

    async def admin_memory(self, request: Request) -> Response:
        body = await json_model(exchange_of(request.scope), AdminMemory, self._settings)
        return json_response(plain(await self._admin.memory_put(body.content, body.memory_class.value)))

    async def admin_tools(self, request: Request) -> Response:
        return _listing(await self._admin.tools())

    async def admin_grant(self, request: Request) -> Response:
        body = await json_model(exchange_of(request.scope), AdminGrant, self._settings)
        return json_response(plain(await self._admin.grant(body.request, body.operator, body.tier)))

    async def admin_doctor(self, request: Request) -> Response:
        return _listing(await self._admin.doctor())


def admin_routes(admin: Admin, gate: Gate, settings: ApiSettings) -> list[Route]:
    """The routes of the local door only."""
    api = _AdminApi(admin, gate, settings)
    return [
        Route("/admin/status", api.admin_status),
        Route("/admin/ask", api.admin_ask, methods=["POST"]),
        Route("/admin/plan", api.admin_plan, methods=["POST"]),
        Route("/admin/audit/{request_id}", api.admin_audit),
        Route("/admin/memory/search", api.admin_memory_search, methods=["POST"]),
        Route("/admin/memory", api.admin_memory, methods=["POST"]),
        Route("/admin/tools", api.admin_tools),
        Route("/admin/grant", api.admin_grant, methods=["POST"]),
        Route("/admin/doctor", api.admin_doctor),
    ]
