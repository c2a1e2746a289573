"""One stream as either end uses it: frames in through a task that always reads, frames out whole, and one way to be over.

The reading task is what makes cancellation travel: a reset is seen while a handler works. It also means that no read is ever cancelled half
way, which would lose bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import trio

from gnus_node.net.libp2p.frames import Splitter, fault
from gnus_node.net.libp2p.hardening import forget, widen
from gnus_node.records.errors import GnusError

READ_BYTES = 64 * 1024
"""One read; smaller ones cost a window update each."""
AHEAD = 8
"""Frames taken from a stream and not asked for yet; then it is not read, and the peer's writes wait."""
HOLD_BYTES = 32 * 1024
"""A frame up to this size is held back for a moment, so that what follows at once travels with it."""
HOLD_TURNS = 3
"""The moment: turns of the scheduler, some microseconds each."""
GOODBYE_S = 2.0
"""Longest that ending a stream may take."""


class Line:
    """A stream of frames. ``pump`` must run somewhere as long as the line is used; ``on_over`` is called when it ends."""

    def __init__(self, stream: Any, *, serving: bool = False, heard: Callable[[], None] | None = None) -> None:
        self._stream = stream
        self._serving = serving
        self._frames_in, self._frames = trio.open_memory_channel[bytes](1 if serving else AHEAD)
        self._scope = trio.CancelScope()
        self._heard = heard
        self._writing = trio.Lock()
        self._held = b""
        self._holding = trio.Event()
        self.over = False
        self.silent = False
        """A frame that arrives now breaks the protocol."""
        self.error: GnusError | None = None
        self.on_over: Callable[[], None] | None = None
        self.idle_since = 0.0

    async def pump(self) -> None:
        """Read until the stream ends, however it does."""
        splitter = Splitter()
        try:
            with self._scope:
                await widen(self._stream)
                while True:
                    data = await self._stream.read(READ_BYTES)
                    if not data:
                        break
                    if self._heard:
                        self._heard()
                    for frame in splitter.feed(data):
                        if self.silent:
                            raise fault("a frame where none is due")
                        await self._put(frame)
        except GnusError as error:
            self.error = error
        except Exception:  # noqa: BLE001  supervised boundary: the node, from whatever a broken stream raises (EOF, reset, a lost connection)
            self.over = True
        finally:
            self._end()

    async def _put(self, frame: bytes) -> None:
        try:
            self._frames_in.send_nowait(frame)
        except trio.WouldBlock:
            if self._serving:
                # Waiting here would be not reading, and a reset would go unseen.
                raise fault("a second call before the first was answered") from None
            await self._frames_in.send(frame)

    @property
    def waiting(self) -> int:
        """Frames that came and were not asked for yet."""
        return self._frames.statistics().current_buffer_used

    def _end(self) -> None:
        self.over = True
        forget(self._stream)
        self._frames_in.close()
        if self.on_over:
            self.on_over()

    async def receive(self) -> bytes | None:
        """The next frame, None when there are no more. Raises ``PROTOCOL`` where the peer broke it."""
        try:
            try:
                return self._frames.receive_nowait()
            except trio.WouldBlock:
                return await self._frames.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            if self.error:
                raise self.error from None
            return None

    async def send_soon(self, frame: bytes) -> None:
        """As ``send``, but the frame may wait a moment for the next one; ``flush`` must run. Raises ``UNREACHABLE``."""
        if self._held or len(frame) > HOLD_BYTES or self.over:
            await self.send(frame)
            return
        self._held = frame
        self._holding.set()
        await trio.lowlevel.checkpoint()

    async def flush(self) -> None:
        """Send on what is held back, until cancelled or the line is over."""
        while not self.over:
            await self._holding.wait()
            self._holding = trio.Event()
            for _ in range(HOLD_TURNS):
                await trio.lowlevel.checkpoint()
            if self._held:
                try:
                    await self.send(b"")
                except GnusError:
                    return

    async def send(self, frame: bytes) -> None:
        """Write one frame, after what is held back. A line whose frame was not written whole is over. Raises ``UNREACHABLE``."""
        async with self._writing:
            data, self._held = self._held + frame, b""
            if data:
                await self._write(data)

    async def _write(self, data: bytes) -> None:
        whole = False
        try:
            await self._stream.write(data)
            whole = True
        except Exception:  # noqa: BLE001  supervised boundary: the call, from whatever a broken stream raises
            raise GnusError("UNREACHABLE", "the connection broke") from None
        finally:
            if not whole:
                self.over = True
                self._scope.cancel()

    async def end(self) -> None:
        """Reset the stream, which cancels the call on it, if there is one. Never raises."""
        self.over = True
        with (
            trio.CancelScope(deadline=trio.current_time() + GOODBYE_S, shield=True),
            contextlib.suppress(Exception),  # supervised boundary: the caller, from a stream that is broken already
        ):
            await self._stream.reset()
        self._scope.cancel()
        self._frames.close()
