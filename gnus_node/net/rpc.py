"""Messages over a transport: one request, any number of progress items, one result (DESIGN.md section 5).

On the wire every item is a ``wire.message.Message``. Progress items carry their number in ``args["progress"]``; the one item without it is
the result, and it is the last. So progress goes on at once, and a stream that ends early is seen as broken rather than taken for an answer.
Everything a peer sends is decoded strictly here; junk is ``PROTOCOL``, the peer's fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from gnus_node.net.services import service as find_service
from gnus_node.ports.transport import Answer, IncomingCall, ServiceHandler, Transport
from gnus_node.records.enums import Whose
from gnus_node.records.errors import GnusError
from gnus_node.wire.message import Message, decode_message

PROGRESS = "progress"
"""Argument name kept for the number of a progress item; no result uses it."""
MAX_PROGRESS_ITEMS = 4096
"""Most progress items of one call."""

OnItem = Callable[[Message], Awaitable[None]]


async def request(
    transport: Transport, peer: bytes, service: str, message: Message, *, budget_ms: int, on_item: OnItem | None = None
) -> Message:
    """Ask a peer (by transport key) a service of ``net.services`` and return its result.

    ``budget_ms`` is cut to the service's longest. ``on_item`` gets each progress item; while it runs the peer waits, and the time counts.
    Raises the peer's ``GnusError``; ``DEADLINE``, ``UNREACHABLE``, ``BUSY``, ``UNKNOWN_SERVICE``, ``TOO_LARGE``; ``PROTOCOL`` where the
    peer sends what is no message, progress out of order, more than ``MAX_PROGRESS_ITEMS``, or no result or more than one.
    """
    row = find_service(service)
    frame = message.encode()
    async with transport.call(peer, row.protocol, frame, budget_ms=min(budget_ms, row.max_budget_ms)) as answer:
        return await _collect(answer, service, on_item)


async def _collect(answer: Answer, service: str, on_item: OnItem | None) -> Message:
    result: Message | None = None
    number = 0
    while (item := await answer.receive()) is not None:
        if result is not None:
            raise _broken(service, "the peer sent more after its result")
        found = _decode(item, service)
        if PROGRESS not in found.args:
            result = found
            continue
        number += 1
        if type(found.args[PROGRESS]) is not int or found.args[PROGRESS] != number or number > MAX_PROGRESS_ITEMS:
            raise _broken(service, "progress out of order, or too much of it")
        if on_item:
            await on_item(found)
    if result is None:
        raise _broken(service, "the peer ended without a result")
    return result


class Request:
    """What a handler of ``serving`` gets: who asks, what, how much time is left, and a way to report progress."""

    def __init__(self, call: IncomingCall, message: Message) -> None:
        self._call = call
        self._sent = 0
        self.message = message

    @property
    def peer(self) -> bytes:
        """Transport key of the caller, as the transport proved it."""
        return self._call.peer

    @property
    def budget_ms(self) -> int:
        """Time left now; pass it on to calls made for this request."""
        return self._call.budget_ms

    async def progress(self, message: Message) -> None:
        """Send one progress item. Raises ``CANCELLED``, ``TOO_LARGE``; ``INTERNAL`` beyond ``MAX_PROGRESS_ITEMS``."""
        if PROGRESS in message.args or self._sent >= MAX_PROGRESS_ITEMS:
            raise GnusError("INTERNAL", "a progress item is numbered here, and there is an end to them")
        self._sent += 1
        await self._call.send(replace(message, args={**message.args, PROGRESS: self._sent}).encode())


Handler = Callable[[Request], Awaitable[Message]]


def serving(handler: Handler) -> ServiceHandler:
    """A transport's handler from a typed one. The caller's junk is refused with its own code (``MALFORMED``, ``NON_CANONICAL``, ...) before
    ``handler`` runs; what ``handler`` raises is the transport's to map."""

    async def answer(call: IncomingCall) -> None:
        result = await handler(Request(call, decode_message(call.frame)))
        if PROGRESS in result.args:
            raise GnusError("INTERNAL", f"a result must not carry the argument {PROGRESS}")
        await call.send(result.encode())

    return answer


def serve(transport: Transport, service: str, handler: Handler) -> None:
    """Serve a service of ``net.services`` with its protocol id and limit. Raises ``UNKNOWN_SERVICE``, ``INTERNAL`` (served already)."""
    row = find_service(service)
    transport.serve(row.protocol, serving(handler), limit=row.limit)


def _decode(item: bytes, service: str) -> Message:
    try:
        return decode_message(item)
    except GnusError as error:
        raise _broken(service, f"the peer sent what is no message: {error.code}") from None


def _broken(service: str, what: str) -> GnusError:
    return GnusError("PROTOCOL", what, link=service, whose=Whose.REMOTE)
