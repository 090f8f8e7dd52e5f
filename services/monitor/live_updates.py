"""Server-sent events about new heads, for updating open pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from stream_dp.json_object import Json

from .answer_limits import MOST_STREAMS, Full, RequestSlots

_HEARTBEAT = 15.0  # seconds between two comments that keep a connection open


class Live:
    """Streams of heads to a bounded number of viewers, without threads.

    current: returns the current data with a `head`; None without a state.
    slots: for viewers, shared with others; None for slots of its own.
    """

    def __init__(
        self, current: Callable[[], Json | None], slots: RequestSlots | None = None
    ) -> None:
        self._current = current
        self.slots = slots or RequestSlots(MOST_STREAMS, MOST_STREAMS)

    def viewer(self) -> Response:
        """A stream of heads, or a refusal beyond `MOST_STREAMS` viewers."""
        return _Stream(self)

    async def heads(self) -> AsyncIterator[bytes]:
        """Yields an event `head` now and after every change, with comments in between."""
        sent: Json | None = None
        quiet = 0.0
        yield b"retry: 3000\n\n"
        while True:
            current = self._current()
            if current is not None and current != sent:
                yield f"event: head\ndata: {json.dumps(current)}\n\n".encode()
                sent, quiet = current, 0.0
            elif quiet >= _HEARTBEAT:
                yield b": still there\n\n"
                quiet = 0.0
            await asyncio.sleep(0.5)
            quiet += 0.5


class _Stream(StreamingResponse):
    def __init__(self, live: Live) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(live.heads(), media_type="text/event-stream", headers=headers)
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._live.slots.slot():
                await super().__call__(scope, receive, send)
        except Full:
            await PlainTextResponse("too many viewers\n", 503)(scope, receive, send)
