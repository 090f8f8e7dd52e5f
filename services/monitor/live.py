"""Server-sent events: one for every new head, so that open pages show a release by themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

MOST_STREAMS = 256
_HEARTBEAT = 15.0  # seconds between two comments that keep a connection open


class Live:
    """Streams of heads to a bounded number of viewers, none of which takes a thread.

    current: what viewers see now, as data with a `head`; None where there is nothing.
    """

    def __init__(self, current: Callable[[], dict[str, Any] | None]) -> None:
        self._current = current
        self._viewers = 0

    @property
    def is_full(self) -> bool:
        return self._viewers >= MOST_STREAMS

    async def heads(self) -> AsyncIterator[bytes]:
        """An event `head` now and whenever it changes, and comments in between."""
        self._viewers += 1
        sent: dict[str, Any] | None = None
        quiet = 0.0
        try:
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
        finally:
            self._viewers -= 1
