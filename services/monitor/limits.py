"""Limits on slow, broken or hostile clients, around any application.

Requests are short and few methods are allowed, answers have a deadline, connections that do not
ask within a few seconds are closed, and every answer carries the headers that confine a page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

LONGEST_TARGET = 4096  # characters of a path and its query
LARGEST_BODY = 65_536  # bytes of a form
PATIENCE = 10.0  # seconds that a client may take over its request
DEADLINE = 30.0  # seconds for an answer
DOWNLOAD_DEADLINE = 1800.0

CSP = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)


class Limited:
    """An application with limits.

    methods: those that it answers.
    forms: paths that answer POST too.
    endless: paths whose answers have no deadline, because they bound themselves.
    """

    def __init__(
        self,
        application: Application,
        methods: Collection[str],
        *,
        forms: Collection[str] = (),
        endless: Collection[str] = (),
    ) -> None:
        self._application, self._methods = application, methods
        self._forms, self._endless = forms, endless

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status = self._refusal(scope)
        if status is not None:
            await _plain(send, *status)
            return
        sent = False

        async def confined(message: Message) -> None:
            nonlocal sent
            if message["type"] == "http.response.start":
                sent = True
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        path = scope["path"]
        deadline = DOWNLOAD_DEADLINE if path.startswith("/download/") else DEADLINE
        try:
            async with asyncio.timeout(None if path in self._endless else deadline):
                # The server drops the body of an answer to HEAD.
                asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
                await self._application(asked, receive, confined)
        except TimeoutError:
            if not sent:
                await _plain(send, 503, "this took too long; try again later")
            else:  # the connection is closed in the middle of the answer
                raise

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        is_form = scope["method"] == "POST" and scope["path"] in self._forms
        if scope["method"] not in self._methods and not is_form:
            return 405, "this method is not allowed"
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_TARGET:
            return 414, "this address is too long"
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(not v.isdigit() or int(v) > LARGEST_BODY for v in lengths):
            return 413, "this form is too large"
        if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
            return 411, "write how long the form is"
        return None


async def _plain(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *HEADERS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection on which no request is complete within `PATIENCE`."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(PATIENCE, self._close_late)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def _close_late(self) -> None:
        busy = self.cycle is not None and not self.cycle.response_complete
        complete = self.conn.their_state in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}
        if busy and complete:  # an answer is on its way: look again later
            self._late = self.loop.call_later(PATIENCE, self._close_late)
        elif not self.transport.is_closing():
            self.transport.abort()
