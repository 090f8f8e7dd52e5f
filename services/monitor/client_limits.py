"""Limits on slow, broken or hostile clients, around any application, and how requests are refused.

Requests are short and few methods are allowed, answers have a deadline, connections that do not
ask within a few seconds are closed, and every answer carries the headers that confine a page. Too
many requests at once are refused by the slots of `answer_limits.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from functools import cache
from typing import Any

import h11
from starlette.responses import JSONResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from .render import ASSETS, render, resource

TOO_MUCH = "this needs more time or memory than it gets here; ask less of it"


def refusal(
    path: str,
    status: int,
    title: str,
    lines: Sequence[str],
    root: str = "",
    base: str = "site.html",
) -> Response:
    """A refusal of a request to a path, which quotes nothing else of the request.

    root: the path that the page's links begin with; `path` is without it.
    base: the template that the page extends.
    """
    if path.startswith(("/api/", "/download/", "/figure/", "/metadata", "/openapi")):
        return JSONResponse({"error": title, "lines": list(lines)}, status_code=status)
    text = render("problem.html", root=root, base=base, title=title, lines=lines, head="")
    return Response(text, status_code=status, media_type="text/html; charset=utf-8")


@cache
def asset(path: str) -> Response | None:
    """The file that pages load from a path; None without one."""
    if path not in ASSETS:
        return None
    headers = {"Cache-Control": "max-age=300"}
    return Response(resource(path[1:]), media_type=ASSETS[path], headers=headers)


Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

LONGEST_TARGET = 4096  # characters of a path and its query
LARGEST_BODY = 65_536  # bytes of a form
REQUEST_TIMEOUT = 10.0  # seconds that a client may take over its request
DEADLINE = 30.0  # seconds for an answer
DOWNLOAD_DEADLINE = 1800.0
MOST_CONNECTIONS = 512

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
# A figure for other pages: any page may frame it, and it loads its style sheet alone.
FRAMED_CSP = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors *"
)
# A picture that is opened by itself has its style inside, and nothing runs in it.
PICTURE_CSP = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
_EVERYWHERE = {b"cross-origin-resource-policy": b"cross-origin"}
# Any page may read these answers: public numbers, sent without credentials.
CROSS_ORIGIN = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"ETag, Content-Disposition"),
)


class Limited:
    """An application with limits.

    methods: the allowed methods.
    deadline: seconds for an answer, except for downloads.
    endless: paths of streams, without a deadline.
    cross_origin: beginnings of the paths whose answers and refusals any page may read.
    framed: beginnings of the paths that any page may frame.
    pictures: beginnings of the paths of figures, which any page may show.
    """

    def __init__(
        self,
        application: Application,
        methods: Collection[str],
        *,
        deadline: float = DEADLINE,
        endless: Collection[str] = (),
        cross_origin: tuple[str, ...] = (),
        framed: tuple[str, ...] = (),
        pictures: tuple[str, ...] = (),
    ) -> None:
        self._application, self._methods = application, methods
        self._endless, self._deadline = endless, deadline
        self._cross_origin, self._framed = cross_origin, framed
        self._pictures = pictures

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        headers = self._headers(path)

        async def confined(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *headers]
            await send(message)

        status = self._refusal(scope)
        if status is not None:
            await _plain(confined, *status, self._methods)
        else:
            await self._answered(scope, receive, confined)

    def _headers(self, path: str) -> list[tuple[bytes, bytes]]:
        """The headers that confine an answer of a path."""
        headers = dict(HEADERS)
        if path.startswith(self._framed):
            headers |= _EVERYWHERE | {b"content-security-policy": FRAMED_CSP.encode()}
        elif path.startswith(self._pictures):
            policy = {b"content-security-policy": PICTURE_CSP.encode()}
            headers |= _EVERYWHERE | dict(CROSS_ORIGIN) | policy
        elif path.startswith(self._cross_origin):
            headers |= _EVERYWHERE | dict(CROSS_ORIGIN)
        return [*headers.items()]

    async def _answered(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers before the deadline, or with status 503."""
        sent = False

        async def noted(message: Message) -> None:
            nonlocal sent
            sent = sent or message["type"] == "http.response.start"
            await send(message)

        path = scope["path"]
        deadline = DOWNLOAD_DEADLINE if path.startswith("/download/") else self._deadline
        try:
            async with asyncio.timeout(None if path in self._endless else deadline):
                # The server drops the body of an answer to HEAD.
                get_scope = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
                await self._application(get_scope, receive, noted)
        except TimeoutError:
            if not sent:
                await _plain(send, 503, "this took too long; try again later")
            else:  # the connection is closed in the middle of the answer
                raise

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        """The status and the reason of a request refused unread; None for accepted requests."""
        if scope["method"] not in self._methods:
            return 405, "this method is not allowed"
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_TARGET:
            return 414, "this address is too long"
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(not v.isdigit() or int(v) > LARGEST_BODY for v in lengths):
            return 413, "this form is too large"
        if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
            return 411, "write how long the form is"
        return None


async def _plain(send: Send, status: int, text: str, methods: Collection[str] = ()) -> None:
    """methods: those that an address has, which the refusal of another names"""
    body = f"{text}\n".encode()
    headers = [(b"allow", ", ".join(sorted(methods)).encode())] if status == 405 else []
    headers += [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with `REQUEST_TIMEOUT` seconds for sending a request and for receiving the answer.

    Beyond `MOST_CONNECTIONS` the connection with the longest time without a request is closed, so
    that slow clients keep nobody out.
    """

    _late: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection; with too many of them, the one that is idle longest is closed."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > MOST_CONNECTIONS:
            siblings = [c for c in self.connections if isinstance(c, PatientProtocol)]
            idle = [c for c in siblings if c is not self and not c._is_busy]
            min(idle, key=lambda connection: connection._since, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()  # for the client to take the rest and, if it stays, for its next request

    def _wait(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._since = self.loop.time()
        self._late = self.loop.call_later(REQUEST_TIMEOUT, self._close_late)

    @property
    def _is_busy(self) -> bool:
        """Whether a request is complete and the answer is not."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering and self.conn.their_state in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}

    def _close_late(self) -> None:
        if self._is_busy and not self.transport.is_closing():
            self._late = self.loop.call_later(REQUEST_TIMEOUT, self._close_late)  # look again later
        else:  # also for a client that reads nothing
            self.transport.abort()
