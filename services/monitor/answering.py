"""Calls of an ASGI application without a server: a request in, a response out."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import IO

from stream_dp.json_object import Json

from .forks import Work
from .limits import Application, Message


def answer_of(application: Application, question: Work) -> Work:
    """Calls an application.

    question: `method`, `path` and `query`, with the body of a form.

    Returns `status` and `headers`, with the body or an open file with the body.
    """
    request = question.data
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request["method"],
        "scheme": "http",
        "path": request["path"],
        "raw_path": b"",
        "query_string": request["query"].encode("latin-1"),
        "root_path": "",
        "headers": [],
        "extensions": {"http.response.pathsend": {}},
    }
    response: Json = {}
    body: list[bytes] = []
    files: list[IO[bytes]] = []
    received = iter([{"type": "http.request", "body": question.body, "more_body": False}])

    async def receive() -> Message:
        for message in received:
            return message
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [[k.decode("latin-1"), v.decode("latin-1")] for k, v in message["headers"]]
            response.update(status=message["status"], headers=headers)
        elif message["type"] == "http.response.pathsend":
            files.append(Path(message["path"]).open("rb"))  # noqa: SIM115
        else:
            body.append(message.get("body", b""))

    async def run() -> None:
        await application(scope, receive, send)

    try:
        asyncio.run(run())
    except Exception:
        if not response:
            raise
        traceback.print_exc()  # the application has answered that it failed
    return Work(response, b"".join(body), files[0] if files else None)
