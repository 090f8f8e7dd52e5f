"""An application that is asked without a server: a question in, its answer out."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import IO, Any

from .forks import Work
from .limits import Application, Message


def answer_of(application: Application, question: Work) -> Work:
    """What an application answers.

    question: `method`, `path` and `query`, with the body of a form.

    Returns `status` and `headers`, with the body or an open file that holds it.
    """
    asked = question.data
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked["method"],
        "scheme": "http",
        "path": asked["path"],
        "raw_path": b"",
        "query_string": asked["query"].encode("latin-1"),
        "root_path": "",
        "headers": [],
        "extensions": {"http.response.pathsend": {}},
    }
    said: dict[str, Any] = {}
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
            said.update(status=message["status"], headers=headers)
        elif message["type"] == "http.response.pathsend":
            files.append(Path(message["path"]).open("rb"))  # noqa: SIM115
        else:
            body.append(message.get("body", b""))

    async def run() -> None:
        await application(scope, receive, send)

    try:
        asyncio.run(run())
    except Exception:
        if not said:
            raise
        traceback.print_exc()  # the application has answered that it failed
    return Work(said, b"".join(body), files[0] if files else None)
