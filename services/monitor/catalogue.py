"""The monitor of several studies: a front page that lists them, and the pages of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stream_dp.json_object import Json

from .answer_limits import AnswerLimits
from .client_connections import READY, public_monitor
from .client_limits import Application, Limited, Message, Receive, Send, refusal
from .follower import Follower
from .live_updates import Live
from .public_sources import StudyAddresses, study_url
from .render import ASSETS, render, resource

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
    about: see `study_summary.StudySummary`; None for a log that cannot be shown.
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
        self._assets = {path: (resource(path[1:]), media) for path, media in ASSETS.items()}

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
        if path in self._assets:
            body, media = self._assets[path]
            return Response(body, media_type=media, headers={"Cache-Control": "max-age=300"})
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
