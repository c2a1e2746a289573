"""A streamed chat completion: comments while the request runs, then the verified answer in chunks (DESIGN.md section 3, 7).

The request runs beside the writer. Its status steps pass through a bounded queue in which the newest is dropped when the client reads
too slowly: a slow reader never holds up a request, and never loses the answer. docs/protocol/http.md, "Stream".
"""

from __future__ import annotations

from dataclasses import dataclass

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gnus_node.api.chat import Chat
from gnus_node.api.door import Exchange
from gnus_node.api.errors import error_object
from gnus_node.api.form import formed
from gnus_node.api.render import SSE_DONE, SSE_KEEP_ALIVE, chunks, failure_facts, failure_of, sse_data, sse_status
from gnus_node.api.settings import MAX_STATUS_QUEUE, ApiSettings
from gnus_node.ports.host import Log
from gnus_node.ports.submit import Answered, Caller, Status, StatusSink, Submit
from gnus_node.records.errors import GnusError

Event = Status | Answered | GnusError

_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


async def run_ask(submit: Submit, caller: Caller, chat: Chat, cap_s: float, on_status: StatusSink | None = None) -> Answered:
    """Ask within the door's outermost time. Raises ``GnusError``."""
    with trio.move_on_after(cap_s):
        answered = await submit.ask(caller, chat.ask, on_status=on_status)
        return formed(answered, chat.ask.answer_type, chat.ask.stop)
    raise GnusError("DEADLINE", "the request did not end within the door's own limit")


@dataclass(slots=True)
class _Outbox:
    """The way of events from the request to the writer. The end always finds room."""

    sender: trio.MemorySendChannel[Event]
    dropped: int = 0

    async def status(self, status: Status) -> None:
        if self.sender.statistics().current_buffer_used < MAX_STATUS_QUEUE:
            self.sender.send_nowait(status)
        else:
            self.dropped += 1


class AnswerStream(Response):
    """The response object of a streamed request. Raises ``GnusError`` from its call if the request is refused before the headers."""

    def __init__(self, submit: Submit, caller: Caller, chat: Chat, exchange: Exchange, settings: ApiSettings, log: Log) -> None:
        self.status_code = 200
        self.background = None
        self._submit = submit
        self._caller = caller
        self._chat = chat
        self._exchange = exchange
        self._settings = settings
        self._log = log
        self._refused: GnusError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sender, events = trio.open_memory_channel[Event](MAX_STATUS_QUEUE + 1)
        async with events, trio.open_nursery() as nursery:
            nursery.start_soon(self._work, _Outbox(sender))
            await self._write(events, send)
        if self._refused is not None:
            raise self._refused

    async def _work(self, outbox: _Outbox) -> None:
        end: Event
        try:
            end = await run_ask(self._submit, self._caller, self._chat, self._settings.request_cap_s, outbox.status)
        except GnusError as error:
            end = error
        except Exception as error:  # noqa: BLE001 - supervised boundary: a fault behind Submit becomes this stream's last event
            self._log.error("http.fault", error=type(error).__name__, exchange_id=self._exchange.exchange_id)
            end = GnusError("INTERNAL")
        outbox.sender.send_nowait(end)

    async def _write(self, events: trio.MemoryReceiveChannel[Event], send: Send) -> None:
        event: Event | None = None
        with trio.move_on_after(self._settings.stream_open_s):
            event = await events.receive()
        if isinstance(event, Status | Answered):
            self._exchange.request_id = event.request_id
        failure = self._failure(event)
        if failure is not None:
            self._refused = failure
            return
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if event is None:
            await self._body(send, SSE_KEEP_ALIVE)  # shows an impatient client that the node is there
        while not isinstance(event, Answered | GnusError):
            if event is not None:
                await self._body(send, sse_status(event))
            event = None
            with trio.move_on_after(self._settings.keep_alive_comment_s):
                event = await events.receive()
            if event is None:
                await self._body(send, SSE_KEEP_ALIVE)
        with trio.move_on_after(self._settings.answer_deadline_s):
            await self._end(event, send)

    async def _end(self, event: Answered | GnusError, send: Send) -> None:
        failure = self._failure(event)
        if failure is not None:
            self._exchange.code = failure.code
            await self._body(send, sse_data({"error": error_object(failure, self._exchange.request_id, **self._exchange.facts)}))
        elif isinstance(event, Answered):
            extensions = self._exchange.headers.get("x-gnus-extensions") == "1"
            for chunk in chunks(event, include_usage=self._chat.include_usage, extensions=extensions):
                await self._body(send, sse_data(chunk))
            await self._body(send, SSE_DONE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _failure(self, event: Event | None) -> GnusError | None:
        if isinstance(event, Answered):
            self._exchange.request_id = event.request_id
            failure = failure_of(event)
            if failure is not None:
                self._exchange.facts = failure_facts(event)
            return failure
        return event if isinstance(event, GnusError) else None

    @staticmethod
    async def _body(send: Send, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})
