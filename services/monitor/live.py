"""Server-sent events: one for every new head, so that open pages show a release by themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

MOST_STREAMS = 256
_HEARTBEAT = 15.0  # seconds between two comments that keep a connection open


class Live:
    """Streams of heads to a bounded number of viewers, none of which has a thread.

    current: what viewers see now, as data with a `head`; None where there is nothing.
    """

    def __init__(self, current: Callable[[], dict[str, Any] | None]) -> None:
        self._current = current
        self.viewers = 0

    def viewer(self) -> Response:
        """A stream of heads, or the refusal of one viewer too many."""
        return _Stream(self)

    async def heads(self) -> AsyncIterator[bytes]:
        """An event `head` now and whenever it changes, and comments in between."""
        sent: dict[str, Any] | None = None
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
        if self._live.viewers >= MOST_STREAMS:
            await PlainTextResponse("too many viewers\n", 503)(scope, receive, send)
            return
        self._live.viewers += 1  # before anything is awaited, or others would be let in meanwhile
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._live.viewers -= 1
