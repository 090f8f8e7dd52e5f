"""The monitor of several studies: their addresses, a front page that lists them, their pages."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.log import address
from stream_dp.study.field_types import NAME_PATTERN

from .answer_limits import AnswerLimits
from .client_limits import Application, Limited, Message, Receive, Send, asset, refusal
from .follower import Follower
from .live_updates import Live
from .public_front import READY, public_monitor
from .render import STUDIES, render


def study_url(url: str, name: str) -> str:
    """The address that a study's pages begin with. url: the monitor's, or empty."""
    return f"{url}{STUDIES}{name}"


class StudyAddresses:
    """An application that gives each study's requests to the application of the study.

    front: answers all other requests.
    studies: applications by name; they see paths without the prefix.
    """

    def __init__(self, front: Application, studies: Mapping[str, Application]) -> None:
        self._front, self._studies = front, dict(studies)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        name, slash, rest = path.removeprefix(STUDIES).partition("/")
        if path.startswith(STUDIES) and name in self._studies:
            await self._studies[name]({**scope, "path": slash + rest or "/"}, receive, send)
        else:
            await self._front(scope, receive, send)


Source = TypeVar("Source", str, Path)
MOST_STUDIES = 100  # of one monitor: each takes a process
_PUBLIC = "-public.db"  # how the names of public logs end; a confidential log may lie beside


def is_folder(source: str) -> bool:
    """Whether an argument is a folder of public logs, not the address of one."""
    return ":" not in source and Path(source).is_dir()


def public_sources(arguments: Sequence[str]) -> dict[str, str]:
    """The addresses of public logs by the name of their study's address.

    A folder stands for its files that end with -public.db. The name is that of the file without
    this ending, or the prefix of a cluster's topics. It follows from the address, so that a study
    has one even if its log cannot be read. Raises UserError.
    """
    return named_once((_name(source), source) for source in _addresses(arguments))


def named_once(sources: Iterable[tuple[str, Source]]) -> dict[str, Source]:
    """Sources by the name of their study's address. Raises UserError for names that cannot be."""
    named: dict[str, Source] = {}
    for name, source in sources:
        if not re.fullmatch(NAME_PATTERN, name):
            raise UserError(
                f"{source}: no address follows from '{name}'; it needs letters and digits"
            )
        if name in named:
            raise UserError(f"monitor: {named[name]} and {source} are both called '{name}'")
        named[name] = source
    if len(named) > MOST_STUDIES:
        raise UserError(f"monitor: {len(named)} studies; one monitor serves {MOST_STUDIES} at most")
    return named


def _addresses(arguments: Sequence[str]) -> Iterator[str]:
    """The addresses of public logs, with the logs of folders listed. Raises UserError."""
    for source in arguments:
        if is_folder(source):
            files = sorted(Path(source).glob(f"*{_PUBLIC}"))
            if not files:
                raise UserError(f"{source}: has no file whose name ends with {_PUBLIC}")
            yield from (f"sqlite:{file}" for file in files)
        elif ":" in source:
            yield source
        else:
            raise UserError(
                f"{source}: name a public log, sqlite:FILE or kafka://host:port/prefix, or a folder"
                " of public logs; a study file has the confidential log too, which this process"
                " must not open"
            )


def _name(source: str) -> str:
    """The name of a log: that of its file, or the prefix of its topics."""
    location, prefix = address(source)
    name = Path(location).name if prefix is None else prefix
    return re.sub(r"(-public)?(\.db)?$", "", name, count=1) or name


_HTML = "text/html; charset=utf-8"
_LONGEST_SEARCH = 200  # characters


def public_catalogue(followers: Mapping[str, Follower], url: str = "") -> Application:
    """The monitor of followed logs by name, with limits that all of them share. url: its address.

    A log that cannot be shown is listed with the reason.
    """
    root, limits = urlsplit(url).path, AnswerLimits(len(followers))
    monitors = {
        name: public_monitor(follower, study_url(root, name), limits)
        for name, follower in followers.items()
    }
    front = _Front(followers, root, limits)
    limited = Limited(front, {"GET", "HEAD"}, endless={"/events"}, cross_origin=("/api/",))
    return StudyAddresses(limited, monitors)


@dataclass(frozen=True)
class _Listed:
    """A study in the list.

    address: the path of its pages.
    about: see `public_program.study_summary`; None for a log that cannot be shown.
    faults: the reasons why its log cannot be shown, or does not answer.
    """

    name: str
    address: str
    head: str | None
    about: Json | None
    faults: tuple[str, ...]

    def is_found(self, words: list[str]) -> bool:
        """Whether all the words of a search stand in the study's texts."""
        text = self.name.casefold() + " " + (self.about["words"] if self.about else "")
        return all(word in text for word in words)

    def as_dict(self) -> Json:
        about = {} if self.about is None else {**self.about}
        about.pop("words", None)
        return {
            "name": self.name,
            "address": self.address,
            **about,
            "head": self.head,
            "faults": list(self.faults),
        }


class _Front:
    def __init__(self, followers: Mapping[str, Follower], root: str, limits: AnswerLimits) -> None:
        self._followers, self._root = dict(sorted(followers.items())), root
        self._live = Live(lambda: {"head": self._head()}, limits.viewed)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await self._response(Request(scope, receive))(scope, receive, send)

    def _response(self, request: Request) -> Response:
        """The page of an address that is no study's."""
        path = request.url.path
        if path == "/":
            return self._list(request.query_params.get("q", "")[:_LONGEST_SEARCH])
        if path == "/api/v1/studies":
            return JSONResponse([study.as_dict() for study in self._listed()])
        if path == "/healthz":
            return self._health()
        if path == "/metrics":
            return Response(self._metrics(), media_type="text/plain")
        if path == "/events":
            return self._live.viewer()
        if (file := asset(path)) is not None:
            return file
        lines = ["there is no such page; the front page lists the studies"]
        return refusal(path, 404, "Nothing is here", lines, self._root, base="studies_base.html")

    def _list(self, search: str) -> Response:
        listed = list(self._listed())
        words = search.casefold().split()
        text = render(
            "studies.html",
            root=self._root,
            head=self._head(),
            search=search,
            number=len(listed),
            studies=[study for study in listed if study.is_found(words)],
        )
        return Response(text, media_type=_HTML, headers={"Cache-Control": "no-cache"})

    def _listed(self) -> Iterator[_Listed]:
        """Every study with its head, or the faults of its log."""
        for name, follower in self._followers.items():
            served, faults = follower.served, tuple(follower.fault)
            about = None if served is None else served.about
            head = None if served is None else served.head
            yield _Listed(name, f"{study_url(self._root, name)}/", head, about, faults)

    def _head(self) -> str:
        """A hash of the list, which changes with every head and every fault."""
        listed = [(study.name, study.head, study.faults) for study in self._listed()]
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

    def _health(self) -> Response:
        """Whether every log was read or refused, and there is something to show."""
        followers = self._followers.values()
        ready = all(f.has_looked for f in followers) and any(f.served for f in followers)
        return Response("ok\n" if ready else "not ready\n", 200 if ready else 503)

    def _metrics(self) -> bytes:
        """Whether each log can be shown, for Prometheus."""
        registry = CollectorRegistry()
        ready = Gauge(READY, "Whether the log can be shown.", ["log"], registry=registry)
        for name, follower in self._followers.items():
            ready.labels(name).set(follower.served is not None)
        return generate_latest(registry)
