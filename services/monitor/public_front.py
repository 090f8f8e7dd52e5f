"""The front of the public monitor: holds clients' connections and computes nothing.

Every answer comes from a process that may be ended at any time. So the front answers requests for
health and cached pages at once, under any load.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response

from stream_dp.json_object import Json

from .answer_limits import AnswerLimits, Full
from .client_limits import (
    DEADLINE,
    DOWNLOAD_DEADLINE,
    TOO_MUCH,
    Application,
    Limited,
    Message,
    Receive,
    Send,
    asset,
    refusal,
)
from .follower import Follower, Served
from .forked_workers import Failed, Gone
from .forks import Work
from .live_updates import Live

READY = "stream_dp_monitor_ready"  # the metric of /metrics: whether there is something to show
_PACKED = re.compile("text/|json|xml|yaml")  # kinds of bodies that gzip makes smaller
_TAKES_GZIP = re.compile(r"\bgzip\b(?! *; *q=0(\.0*)? *(,|$))")
_WORTH_PACKING, _LEVEL = 1000, 6  # bytes, and how hard gzip tries
# The fields of addresses. A link of a newsletter has others, on which no answer depends.
_FIELDS = {
    *("q", "query", "release", "period", "measure", "region", "of", "band", "panel", "beside"),
    *("q2", "period2", "region2", "with"),  # the second answer of a page
    *("other_query", "other_release", "other_period", "other_region"),  # and of the API
    *("form", "n", "need", "width", "value", "words", "pair", "column"),
}
_PATTERN_FIELD = re.compile("p[0-9]{1,3}")
_CHUNK_SIZE = 1 << 18  # bytes of a file that are sent at once
_CHUNK_TIMEOUT = 60.0  # seconds that a client may take over them


def public_monitor(
    follower: Follower, root: str = "", limits: AnswerLimits | None = None
) -> Application:
    """The public monitor of a followed log, with limits.

    root: the path that all links begin with; requests come without it.
    limits: shared with other studies; None for limits of its own.
    """
    limits = limits or AnswerLimits()
    front = _Front(follower, root, limits)
    return Limited(
        front,
        {"GET", "HEAD"},
        endless={"/events"},
        cross_origin=("/api/", "/download/", "/metadata", "/openapi.json"),
        framed=("/embed/",),
        pictures=("/figure/",),
    )


def known_query(query: str) -> str:
    """The known fields of an address, in alphabetical order; values of one name in their order."""
    fields = [
        (name, value)
        for name, value in parse_qsl(query, keep_blank_values=True)
        if name in _FIELDS or _PATTERN_FIELD.fullmatch(name)
    ]
    return urlencode(sorted(fields, key=itemgetter(0)))


class _Shared:
    """A running computation shared by waiting clients, cancelled after the last client has left."""

    def __init__(self, task: asyncio.Task[Work]) -> None:
        self.task, self.waiting = task, 0


class _Front:
    def __init__(self, follower: Follower, root: str, limits: AnswerLimits) -> None:
        self._follower, self._root, self._limits = follower, root, limits
        self._live = Live(self._current, limits.viewed)
        self._shared: dict[tuple[str, ...], _Shared] = {}

    def _current(self) -> Json | None:
        served, fault = self._follower.served, self._follower.fault
        if served is None:
            return None
        return {"head": served.head, "releases": served.releases, "answers": not fault}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = scope["path"]
        response = self._at_once(path)
        if response is not None:
            await response(scope, receive, send)
            return
        try:
            if path.startswith("/download/"):
                async with self._limits.sent.slot():
                    response = await self._state_response(scope, receive)
                    await response(scope, receive, send)
                return
            response = await self._state_response(scope, receive)
        except Full:
            response = self._refusal(path, "Not now", ["too much is asked; try again later"])
        except Failed:
            response = self._refusal(path, "This cannot be answered", [TOO_MUCH])
        except Gone:
            response = self._refusal(path, "Not now", ["the public log is being read; try again"])
        await response(scope, receive, send)

    def _at_once(self, path: str) -> Response | None:
        """The response to a request, if no computation is needed."""
        ready = self._follower.served is not None
        if path == "/healthz":
            return Response("ok\n" if ready else "not ready\n", 200 if ready else 503)
        if path == "/metrics":
            help_line = f"# HELP {READY} Whether there is something to show."
            text = f"{help_line}\n# TYPE {READY} gauge\n{READY} {int(ready)}\n"
            return Response(text, media_type="text/plain")
        if (file := asset(path)) is not None:
            return file
        if path == "/events":
            return self._live.viewer()
        if not ready:
            return self._refusal(path, "This public log cannot be shown", self._follower.fault)
        return None

    def _refusal(self, path: str, title: str, lines: Sequence[str]) -> Response:
        return refusal(path, 503, title, lines, self._root)

    async def _state_response(self, scope: Message, receive: Receive) -> Response:
        """The response of the served state. Raises Full, Failed, Gone."""
        request = Request(scope, receive)
        query = known_query(request.url.query)
        data = {"method": scope["method"], "path": scope["path"], "query": query}
        question = Work(data, await request.body())
        answer = await _while_connected(receive, self._answer(question))
        etag = dict(answer.data["headers"]).get("etag")
        known = request.headers.get("if-none-match", "").removeprefix("W/")
        if etag is not None and known == etag:
            headers = {"ETag": etag, "Cache-Control": "no-cache"}
            return Response(status_code=304, headers=headers)
        packed = bool(_TAKES_GZIP.search(request.headers.get("accept-encoding", "")))
        return _StateResponse(answer, packed=packed)

    async def _answer(self, question: Work) -> Work:
        """The answer to a question; unless it is a download, shared by all who ask it now."""
        path = question.data["path"]
        if path.startswith("/download/"):
            async with self._limits.written.slot():
                return await self._served().ask(question, DOWNLOAD_DEADLINE)
        return await self._share(question)

    def _served(self) -> Served:
        served = self._follower.served
        if served is None:
            raise Gone
        return served

    async def _share(self, question: Work) -> Work:
        """A cached answer, or an answer computed once for all waiting clients."""
        key = self._key(self._served(), question)
        cached = self._limits.cache.get(key)
        if cached is not None:
            return cached
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared(asyncio.create_task(self._compute(question)))
        shared.waiting += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.waiting -= 1
            if shared.waiting == 0:
                shared.task.cancel()
                self._shared.pop(key, None)

    async def _compute(self, question: Work) -> Work:
        """The answer of the process with the state, kept if it is a page that stays."""
        async with self._limits.computed.slot():
            served = self._served()
            answer = await served.ask(question, DEADLINE)
        if answer.data["status"] == 200 and "etag" in dict(answer.data["headers"]):
            kind = dict(answer.data["headers"]).get("content-type", "")
            if len(answer.body) >= _WORTH_PACKING and _PACKED.search(kind):
                packed = await asyncio.to_thread(gzip.compress, answer.body, _LEVEL, mtime=0)
                answer = replace(answer, packed=packed)
            self._limits.cache.keep(self._key(served, question), answer)
        return answer

    def _key(self, served: Served, question: Work) -> tuple[str, ...]:
        """What an answer depends on: two studies may have one head, under two addresses."""
        return (self._root, served.head, question.data["path"], question.data["query"])


async def _while_connected(receive: Receive, answer: Coroutine[Any, Any, Work]) -> Work:
    """Awaits an answer while the client stays connected. Raises Gone."""
    task, gone = asyncio.ensure_future(answer), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        return task.result()
    finally:
        for future in (task, gone):
            future.cancel()


class _StateResponse(Response):
    """The unchanged response of a state, streamed from a file if the answer has a file.

    packed: whether the client takes a body by gzip
    """

    def __init__(self, answer: Work, *, packed: bool = False) -> None:
        packed = packed and bool(answer.packed)
        super().__init__(answer.packed if packed else answer.body, answer.data["status"])
        self._file = answer.file
        headers = dict(answer.data["headers"])
        if answer.packed:
            headers["vary"] = "Accept-Encoding"
        if packed:
            headers["etag"] = f"W/{headers['etag']}"  # of other bytes with the same meaning
            headers |= {"content-length": str(len(answer.packed)), "content-encoding": "gzip"}
        self.raw_headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._file is None:
            await super().__call__(scope, receive, send)
            return
        start = {"type": "http.response.start", "status": self.status_code}
        with self._file as file:
            await send({**start, "headers": self.raw_headers})
            while chunk := await asyncio.to_thread(file.read, _CHUNK_SIZE):
                async with asyncio.timeout(_CHUNK_TIMEOUT):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
