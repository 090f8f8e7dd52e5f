"""Serves an application over HTTP until SIGINT or SIGTERM.

An application of one state of a public log is a process of its own. The operator's application of
several studies has a page of all, and the pages of each; it is confidential.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response
from starlette.responses import PlainTextResponse

from stream_dp.errors import UserError
from stream_dp.json_object import Json

from ..process.access import WRONG_HOST, Access, Hosts, listener
from .catalogue import StudyAddresses, named_once, study_url
from .client_limits import (
    REQUEST_TIMEOUT,
    Application,
    Limited,
    Message,
    PatientProtocol,
    Receive,
    Send,
)
from .follower import FAILED, End, Fault
from .forked_workers import Lost, Workers, Zygote
from .live_updates import Live
from .operator import OperatorEntry, confidential_page, handle_faults, operator_monitor
from .operator_facts import Overview, Watch

_LARGEST_HEAD = 16_384  # bytes of a request's headers


def serve(
    application: Application, address: str, begun: Callable[[int], None], names: Iterable[str] = ()
) -> None:
    """Serves at HOST:PORT. Raises UserError.

    begun: called with the port when listening.
    names: of hosts by which clients reach the address.
    """
    hosts = Hosts(address, names)
    socket = listener(address)
    begun(int(socket.getsockname()[1]))
    server = uvicorn.Server(
        uvicorn.Config(
            _Named(application, hosts),
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            timeout_keep_alive=int(REQUEST_TIMEOUT),
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            timeout_graceful_shutdown=2,
            server_header=False,
            proxy_headers=False,
            access_log=False,
            log_level="critical",
        )
    )
    with socket:
        server.run(sockets=[socket])


class _Named:
    """An application that answers no request to the name of another site."""

    def __init__(self, application: Application, hosts: Hosts) -> None:
        self._application, self._hosts = application, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if self._hosts.allow(*named):
            await self._application(scope, receive, send)
        else:
            headers = {"X-Content-Type-Options": "nosniff"}
            await PlainTextResponse(f"{WRONG_HOST}\n", 421, headers)(scope, receive, send)


def public_zygote() -> Zygote:
    """The process of which every process with a state of a public log is a fork."""
    return Zygote("-m", "stream_dp.services.monitor.public_program")


class PublicProcess(Workers):
    """A process with one state of a public log.

    key, head: what the log must have, kept elsewhere.
    url: where the study's pages are public.
    outlines: a file with the outlines of regions.
    statements: files of signed statements of audits.

    Raises Fault for an unusable log.
    """

    def __init__(
        self,
        zygote: Zygote,
        source: str,
        *,
        key: str | None = None,
        head: str | None = None,
        url: str = "",
        outlines: Path | None = None,
        statements: Sequence[Path] = (),
    ) -> None:
        try:
            files = map(str, (outlines or "", *statements))
            super().__init__(zygote, source, key or "", head or "", url, *files)
        except Lost:
            raise Fault([FAILED], refused=True) from None
        message = self.first_line() or {"fault": [FAILED], "refused": True}
        if "fault" in message:
            self.stop()
            raise Fault(message["fault"], refused=message["refused"])
        self.end = End(**message["end"])
        self.head: str = message["head"]
        self.releases: int = message["releases"]
        self.about: Json = message["about"]


def study_files(arguments: Sequence[str]) -> dict[str, Path]:
    """The study files of a command line by name; a folder stands for its files .toml.

    Raises UserError.
    """
    return named_once((file.stem, file) for file in _files(arguments))


def _files(arguments: Sequence[str]) -> Iterator[Path]:
    """The study files, with the files of folders listed. Raises UserError."""
    for argument in map(Path, arguments):
        if argument.is_dir():
            files = sorted(argument.glob("*.toml"))
            if not files:
                raise UserError(f"{argument}: has no study file, whose name ends with .toml")
            yield from files
        else:
            yield argument


def operator_studies(
    studies: Mapping[str, Path], access: Access, overview: Overview
) -> Application:
    """The operator's application of several studies, with limits.

    A study whose state cannot be read is listed with the reason.
    """
    applications: dict[str, Application] = {}
    for name, study in studies.items():
        watch = Watch(study)
        watch.start()
        root = study_url("", name)
        applications[name] = operator_monitor(study, access, watch, root=root)
    entry = OperatorEntry(_front(overview), access, "")
    front = Limited(entry, {"GET", "HEAD", "POST"}, endless={"/events"})
    return StudyAddresses(front, applications)


def _front(overview: Overview) -> FastAPI:
    """The front page of several studies, for their operator."""
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    handle_faults(application, "")
    live = Live(lambda: {"head": overview.head})

    @application.get("/")
    def studies() -> Response:
        return confidential_page(
            "operator_studies.html",
            rows=overview.rows(),
            awaited=overview.awaited,
            now=time.time(),
            address=lambda name: f"{study_url('', name)}/",
            head=overview.head,
        )

    @application.get("/events")
    async def events() -> Response:
        return live.viewer()

    return application
