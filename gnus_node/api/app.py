"""The two apps: the network door's and the local door's. Starlette apps, usable without any socket (virtual runs call them as ASGI).

The network app has no admin route at all; the local app has, because only the 0600 socket serves it. docs/protocol/http.md is the contract.
Seed 18.1.2.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gnus_node.api.admin import admin_routes
from gnus_node.api.body import json_bytes
from gnus_node.api.chat import MODEL, read_chat
from gnus_node.api.door import Door, Exchange, exchange_of, json_response
from gnus_node.api.errors import ApiError, bad_parameter
from gnus_node.api.gate import Gate
from gnus_node.api.keys import KeyRing
from gnus_node.api.ratelimit import Limiter, Rate
from gnus_node.api.render import completion, failure_facts, failure_of, model_object, request_object
from gnus_node.api.settings import ApiSettings
from gnus_node.api.stream import AnswerStream, run_ask
from gnus_node.ports.admin import Admin
from gnus_node.ports.host import Clock, Entropy, Log
from gnus_node.ports.submit import Caller, Submit
from gnus_node.records.errors import GnusError

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_IDEMPOTENCY_KEY = re.compile(r"[ -~]{1,128}")


@dataclass(frozen=True, slots=True)
class ApiDeps:
    """What the doors are built on.

    ``operator`` is the caller of a local request without a key; ``problems`` is empty when all roles are up; ``metrics`` renders
    Prometheus text.
    """

    submit: Submit
    admin: Admin
    keys: KeyRing
    operator: Caller
    clock: Clock
    entropy: Entropy
    log: Log
    problems: Callable[[], Sequence[str]]
    metrics: Callable[[], bytes]
    settings: ApiSettings = field(default_factory=ApiSettings)


def build_app(deps: ApiDeps) -> Starlette:
    """The network door's app: API keys needed, no admin routes."""
    return _starlette(deps, _Api(deps, None).routes(), hosts=deps.settings.hosts)


def build_local_app(deps: ApiDeps) -> Starlette:
    """The local door's app: whoever reaches it is the operator."""
    routes = [*_Api(deps, deps.operator).routes(), *admin_routes(deps.admin, Gate(deps.settings), deps.settings)]
    return _starlette(deps, routes, hosts=None)


def _starlette(deps: ApiDeps, routes: list[Route], *, hosts: frozenset[str] | None) -> Starlette:
    door = Middleware(Door, settings=deps.settings, clock=deps.clock, entropy=deps.entropy, log=deps.log, hosts=hosts)
    app = Starlette(routes=routes, middleware=[door], exception_handlers={HTTPException: _no_route})
    app.router.redirect_slashes = False  # a redirect would be made from the client's own Host header
    return app


async def _no_route(_request: Request, error: Exception) -> Response:
    """Starlette's own refusals, in our form."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 405:
        allowed = {k.lower(): v for k, v in (error.headers or {}).items() if k.lower() == "allow"}
        raise ApiError("UNSUPPORTED", "this path has another method", status=405, fix="see docs/protocol/http.md", headers=allowed)
    raise GnusError("NOT_FOUND", "no such path")


class _Api:
    """The public and ``/v1`` endpoints of one door. ``operator`` is None at the network door."""

    def __init__(self, deps: ApiDeps, operator: Caller | None) -> None:
        self._deps = deps
        self._operator = operator
        self._settings = deps.settings
        self._gate = Gate(deps.settings)
        self._limiter = Limiter(Rate(deps.settings.rate_per_minute, deps.settings.rate_burst))

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
            Route("/v1/models", self.models),
            Route("/v1/models/{model:path}", self.model),
            Route("/v1/chat/completions", self.chat_completions, methods=["POST"]),
            Route("/v1/requests/{request_id}", self.requests),
        ]

    async def healthz(self, _request: Request) -> Response:
        """The process serves HTTP."""
        return json_response({"status": "ok"})

    async def readyz(self, _request: Request) -> Response:
        """Every role is up."""
        problems = list(self._deps.problems())
        if problems:
            return json_response({"status": "not_ready", "problems": problems}, 503, {"retry-after": "1"})
        return json_response({"status": "ready"})

    async def metrics(self, _request: Request) -> Response:
        """Prometheus text."""
        return Response(self._deps.metrics(), headers={"content-type": METRICS_TYPE})

    async def models(self, request: Request) -> Response:
        """The models of this node."""
        self._admit(exchange_of(request.scope), None)
        rows = await self._deps.submit.models()
        return json_response({"object": "list", "data": [model_object(row) for row in rows]})

    async def model(self, request: Request) -> Response:
        """One model."""
        self._admit(exchange_of(request.scope), None)
        for row in await self._deps.submit.models():
            if row["id"] == request.path_params["model"]:
                return json_response(model_object(row))
        raise _no_model()

    async def requests(self, request: Request) -> Response:
        """How a request stands."""
        caller = self._admit(exchange_of(request.scope), "ask")
        request_id = request.path_params["request_id"]
        if _REQUEST_ID.fullmatch(request_id) is None:
            raise GnusError("NOT_FOUND", "no such request")
        return json_response(request_object(request_id, await self._deps.submit.lookup(caller, request_id)))

    async def chat_completions(self, request: Request) -> Response:
        """One question: an answer, or a stream of one."""
        exchange = exchange_of(request.scope)
        caller = self._admit(exchange, "ask")
        exchange.stack.enter_context(self._gate.request(caller.key_id))
        key = _idempotency_key(exchange)
        exchange.idempotent = key is not None
        chat = read_chat(await json_bytes(exchange), self._settings.max_body_bytes, key)
        if chat.model != MODEL and all(row["id"] != chat.model for row in await self._deps.submit.models()):
            raise _no_model()
        if chat.stream:
            exchange.stack.enter_context(self._gate.stream())
            return AnswerStream(self._deps.submit, caller, chat, exchange, self._settings, self._deps.log)
        answered = await run_ask(self._deps.submit, caller, chat, self._settings.request_cap_s)
        exchange.request_id = answered.request_id
        failure = failure_of(answered)
        if failure is not None:
            exchange.facts = failure_facts(answered)
            raise failure
        return json_response(completion(answered))

    def _admit(self, exchange: Exchange, scope: str | None) -> Caller:
        """Who asks, within their rate. Raises ``UNAUTHENTICATED``, ``FORBIDDEN``, ``RATE_LIMITED``."""
        given = exchange.headers.getlist("authorization")
        if not given and self._operator is not None:
            exchange.key_id = self._operator.key_id
            return self._operator
        if len(given) > 1:
            raise GnusError("UNAUTHENTICATED")
        caller = self._deps.keys.authenticate(given[0] if given else None)
        exchange.key_id = caller.key_id
        taken = self._limiter.take(caller.key_id, int(self._deps.clock.monotonic() * 1000))
        if not taken.allowed:
            raise ApiError("RATE_LIMITED", retry_after_s=-(-taken.wait_ms // 1000))
        if scope is not None and scope not in caller.scopes:
            raise GnusError("FORBIDDEN", f"the key lacks the scope {scope}")
        return caller


def _no_model() -> ApiError:
    fix = f"use {MODEL}, or a name of GET /v1/models"
    return ApiError("NOT_FOUND", "the model does not exist here", param="model", openai_code="model_not_found", fix=fix)


def _idempotency_key(exchange: Exchange) -> str | None:
    given = exchange.headers.getlist("idempotency-key")
    if not given:
        return None
    if len(given) > 1 or _IDEMPOTENCY_KEY.fullmatch(given[0]) is None:
        raise bad_parameter("Idempotency-Key", "Idempotency-Key must be one header of 1 to 128 printable ASCII characters")
    return given[0]
