"""Server-sent events: one for every new head, so that open pages show a release by themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from .state import PublicReader

MOST_STREAMS = 256
_HEARTBEAT = 15.0  # seconds between two comments that keep a connection open


class Live:
    """Streams of heads to a bounded number of viewers.

    One task looks at the reader's head; viewers wait for it without a thread each.
    """

    def __init__(self, reader: PublicReader) -> None:
        self._reader = reader
        self._viewers = 0

    @property
    def is_full(self) -> bool:
        return self._viewers >= MOST_STREAMS

    async def heads(self) -> AsyncIterator[bytes]:
        """An event `head` now and whenever it changes, and comments in between."""
        self._viewers += 1
        sent: str | None = None
        quiet = 0.0
        try:
            yield b"retry: 3000\n\n"
            while True:
                state = self._reader.state
                head = None if state is None else state.head
                if state is not None and head != sent:
                    data = {"head": head, "releases": len(state.public.published)}
                    yield f"event: head\nid: {head}\ndata: {json.dumps(data)}\n\n".encode()
                    sent, quiet = head, 0.0
                elif quiet >= _HEARTBEAT:
                    yield b": still there\n\n"
                    quiet = 0.0
                await asyncio.sleep(0.5)
                quiet += 0.5
        finally:
            self._viewers -= 1
