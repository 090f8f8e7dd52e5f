"""Slots for concurrent requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Full(Exception):
    """Too many requests wait for a slot."""


class RequestSlots:
    """Slots for concurrent requests, with a bound on waiting requests.

    number: requests served at once.
    limit: requests served or waiting.
    """

    def __init__(self, number: int, limit: int) -> None:
        self._free, self._taken, self._limit = asyncio.Semaphore(number), 0, limit

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot. Raises Full."""
        if self._taken >= self._limit:
            raise Full
        self._taken += 1
        try:
            async with self._free:
                yield
        finally:
            self._taken -= 1
