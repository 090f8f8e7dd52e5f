"""A public log in a file, as a releaser writes it, and a monitor of it in a process of its own."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from kit.fork_server import Forked, started
from kit.public_logs import TopicInMemory
from stream_dp.log import open_log
from stream_dp.log.log import Record
from stream_dp.log.message import Message, message_records
from stream_dp.services.monitor.client_limits import Application
from stream_dp.services.monitor.follower import Follower
from stream_dp.services.monitor.forks import Work
from stream_dp.services.monitor.public_pages import public_pages
from stream_dp.services.monitor.public_program import answer_of, study_summary
from stream_dp.services.monitor.public_state import read_state
from stream_dp.services.monitor.views import prepare
from stream_dp.study.topics import RELEASES

PATIENCE = 600.0
FORM = "application/x-www-form-urlencoded"


def publish(path: Path, messages: Sequence[Message]) -> None:
    """Appends messages to the public log in a file, each in a transaction of its own."""
    with closing(open_log(f"sqlite:{path.name}", path.parent, public=True)) as log:
        log.create({RELEASES: 1})
        with log.own("releaser") as writer:
            for message in messages:
                writer.commit(
                    message_records(message, RELEASES, kind="k", source="s", content="c", time=None)
                )


@dataclass(frozen=True)
class Monitor:
    """A monitor that serves at a port of this machine. line: what it printed."""

    port: int
    process: subprocess.Popen[str] | Forked
    line: str = ""

    @property
    def link(self) -> str:
        """The path and query of an operator's link."""
        return self.line.partition(f":{self.port}")[2].strip()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(
        self, path: str, headers: dict[str, str] | None = None, method: str = "GET"
    ) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)) as connection:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def answer(self, path: str, method: str = "GET") -> http.client.HTTPResponse:
        """An answer with its headers; its body is read."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            return answer


@contextmanager
def monitor(
    *arguments: str,
    before: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    ready: int = 200,
) -> Iterator[Monitor]:
    """`stream-dp monitor` with these arguments, once it answers.

    before: words of its command.
    variables: of its environment.
    ready: the status of /healthz that is waited for.
    """
    command = [
        "-m",
        "stream_dp.services.commands.cli",
        "monitor",
        *arguments,
        "--listen",
        "127.0.0.1:0",
    ]
    env = {k: v for k, v in os.environ.items() if "STREAM_DP" not in k}
    env |= variables or {}
    process: subprocess.Popen[str] | Forked
    if before:
        whole = [*before, sys.executable, *command]
        process = subprocess.Popen(whole, stdout=subprocess.PIPE, text=True, env=env)
    else:
        process = started(*command, env=env)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        port = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert port, line
        one = Monitor(int(port[1]), process, line)
        wait_until(lambda: one.get("/healthz")[0] == ready)
        yield one
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


class Topic(TopicInMemory):
    def close(self) -> None:
        pass


class ServedHere:
    """A state of a log in memory that is served by this process, without forks."""

    alive = True

    def __init__(self, records: Sequence[Record], url: str = "") -> None:
        self.records = list(records)
        state = read_state(self._log(), url)
        prepare(state)
        self.end, self.head = state.end, state.head
        self.releases = len(state.public.published)
        self.about = study_summary(state)
        self.application = public_pages(state, self._log)
        self.retired = False

    def _log(self) -> Any:
        return Topic(self.records)

    async def ask(self, question: Work, seconds: float) -> Work:
        return await asyncio.to_thread(answer_of, self.application, question)

    def retire(self) -> None:
        self.retired = True


def follower_of(records: Sequence[Record], url: str = "") -> Follower:
    """Has looked once at a log in memory, whose records may change."""
    opened: Callable[[], Any] = lambda: Topic(records)  # noqa: E731
    follower = Follower(opened, lambda: ServedHere(records, url))
    follower.look()
    return follower


@dataclass(frozen=True)
class Answer:
    """What an application answered. headers: by their names in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def ask(
    application: Application,
    target: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """The answer of an application to a request, without a server."""
    path, _, query = target.partition("?")
    sent = {"host": "127.0.0.1:80", **(headers or {})}
    if body:
        sent |= {"content-length": str(len(body)), "content-type": FORM}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    messages: list[Any] = []

    received = iter([None])

    async def receive() -> Any:
        for _ in received:
            return {"type": "http.request", "body": body, "more_body": False}
        return await asyncio.Event().wait()  # the client stays

    async def send(message: Any) -> None:
        if message["type"] == "http.response.pathsend":  # the file is open until then
            body = await asyncio.to_thread(Path(message["path"]).read_bytes)
            message = {"type": "http.response.body", "body": body}
        messages.append(message)

    asyncio.run(application(scope, receive, send))
    head = messages[0]
    named = {k.decode(): v.decode("latin-1") for k, v in head["headers"]}
    parts = (m.get("body", b"") for m in messages[1:])
    return Answer(head["status"], named, b"".join(parts))


def wait_until(holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.1)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=600)
