"""The public monitor: pages and a JSON API over one public log."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import (
    FileResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException

from stream_dp import __version__
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Log, LogError

from ..pages.render import render, resource
from . import answers, views
from .asking import address, short, words_of_form
from .downloads import FORMATS, write_download
from .drafts import Busy
from .limits import Application, Limited
from .live import Live
from .planning import form_fields, plan_page
from .state import PublicReader, State

Text = Annotated[str, Query(max_length=500)]
Optional = Annotated[str | None, Query(max_length=100)]
Measure = Annotated[str, Query(pattern="^(share|count)$")]
_HTML = "text/html; charset=utf-8"
_JSON = "application/json"


class NotReady(Exception):
    """No state can be served; the reader says why."""


def public_monitor(reader: PublicReader, open_log: Callable[[], Log]) -> Application:
    """The application, within its limits."""
    application = FastAPI(
        title="stream-dp monitor",
        version=__version__,
        summary="What a study has published, its estimates and its guarantee.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    _faults(application, reader)
    _pages(application, reader)
    _planner(application, reader)
    _api(application, reader)
    _files(application, reader, open_log)
    return Limited(application, {"GET", "HEAD"}, forms={"/plan"}, endless={"/events"})


def _state(reader: PublicReader) -> State:
    state = reader.state
    if state is None:
        raise NotReady
    return state


def _answered(
    request: Request, state: State, compute: Callable[[], bytes], media: str = _HTML
) -> Response:
    """Bytes that are computed once a head; 304 where the client has them already."""
    key = str(request.url.path) + "?" + str(request.url.query)
    body = state.computed.get(key, compute)
    etag = f'"{state.head[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media, headers=headers)


def _is_api(request: Request) -> bool:
    return request.url.path.startswith(("/api/", "/download/", "/openapi"))


def _refused(request: Request, status: int, title: str, lines: list[str]) -> Response:
    """An error as a page or, of the API, as JSON; never with what the request said elsewhere."""
    if _is_api(request):
        return JSONResponse({"error": title, "lines": lines}, status_code=status)
    text = render("problem.html", title=title, lines=lines, head="")
    return Response(text, status_code=status, media_type=_HTML)


def _faults(application: FastAPI, reader: PublicReader) -> None:
    @application.exception_handler(NotReady)
    def not_ready(request: Request, error: Exception) -> Response:
        return _refused(request, 503, "This public log cannot be shown", list(reader.fault))

    @application.exception_handler(Inconsistent)
    def inconsistent(request: Request, error: Inconsistent) -> Response:
        return _refused(request, 503, "This public log cannot be shown", list(error.lines))

    @application.exception_handler(UserError)
    def asked_wrong(request: Request, error: UserError) -> Response:
        return _refused(request, 400, "This cannot be answered", list(error.lines))

    @application.exception_handler(RequestValidationError)
    def invalid(request: Request, error: Exception) -> Response:
        return _refused(request, 400, "This cannot be answered", ["the address is not understood"])

    @application.exception_handler(AnyHTTPException)
    def not_there(request: Request, error: AnyHTTPException) -> Response:
        return _refused(request, error.status_code, "Nothing is here", ["there is no such page"])

    @application.exception_handler(LogError)
    def no_log(request: Request, error: LogError) -> Response:
        return _refused(request, 503, "This public log cannot be shown", ["public log: no answer"])

    @application.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> Response:
        return _refused(
            request, 500, "Something went wrong", ["the monitor's operator can say what"]
        )


def _pages(application: FastAPI, reader: PublicReader) -> None:
    def page(path: str) -> Callable[..., Any]:
        return application.get(path, include_in_schema=False)

    @page("/")
    def index(request: Request) -> Response:
        state = _state(reader)
        return _answered(request, state, lambda: views.index_page(state))

    @page("/release/{name}")
    def release(
        request: Request,
        name: str,
        q: Annotated[str | None, Query(max_length=500)] = None,
        measure: Measure = "share",
        beside: Annotated[list[str], Query(max_length=8)] = [],  # noqa: B006
    ) -> Response:
        state = _state(reader)
        if q is None:
            return _answered(request, state, lambda: views.release_page(state, name))
        count, query = measure == "count", short(q)
        return _answered(
            request, state, lambda: views.answer_page(state, name, query, beside, count=count)
        )

    @page("/ask/{name}")
    def ask(request: Request, name: str) -> Response:
        state = _state(reader)
        fields = dict(request.query_params)
        declared = state.public.study.release(name)
        query = words_of_form(state.public.study, declared, fields)
        count = fields.get("measure") == "count" or query.startswith("total")
        beside = request.query_params.getlist("beside")[:8]
        return RedirectResponse(address(name, query, count=count, beside=beside), 303)

    @page("/data/{name}")
    def data_set(
        request: Request,
        name: str,
        period: Optional = None,
        pair: Optional = None,
        q: Annotated[str | None, Query(max_length=500)] = None,
        measure: Measure = "share",
    ) -> Response:
        state, count = _state(reader), measure == "count"
        query = None if q is None else short(q)
        return _answered(
            request,
            state,
            lambda: views.data_set_page(state, name, period, pair, query, count=count),
        )

    for path, view in (
        ("/privacy", views.privacy_page),
        ("/verify", views.verify_page),
        ("/downloads", views.downloads_page),
    ):
        _plain_page(application, reader, path, view)

    @page("/certificate/{index}")
    def certificate(request: Request, index: int) -> Response:
        state = _state(reader)
        if not 1 <= index <= len(state.public.published):
            raise HTTPException(404)
        return _answered(request, state, lambda: views.certificate_page(state, index))

    @page("/api")
    def reference(request: Request) -> Response:
        text = render(
            "api.html", paths=views.api_paths(application.openapi()), head=reader.head or ""
        )
        return Response(text, media_type=_HTML)


def _planner(application: FastAPI, reader: PublicReader) -> None:
    @application.get("/plan", include_in_schema=False)
    def form(request: Request) -> Response:
        text = plan_page(_state(reader).public.study, "site.html")
        return Response(text, media_type=_HTML)

    @application.post("/plan", include_in_schema=False)
    async def plan(request: Request) -> Response:
        study, fields = _state(reader).public.study, form_fields(await request.body())
        text = await run_in_threadpool(plan_page, study, "site.html", fields)
        return Response(text, media_type=_HTML, headers={"Cache-Control": "no-store"})

    @application.exception_handler(Busy)
    def busy(request: Request, error: Exception) -> Response:
        return _refused(request, 503, "Not now", ["another draft is being planned; try again"])


def _plain_page(
    application: FastAPI, reader: PublicReader, path: str, view: Callable[[State], bytes]
) -> None:
    def answer(request: Request) -> Response:
        state = _state(reader)
        return _answered(request, state, lambda: view(state))

    application.get(path, include_in_schema=False)(answer)


def _api(application: FastAPI, reader: PublicReader) -> None:
    def answered(request: Request, compute: Callable[[State], Any]) -> Response:
        state = _state(reader)
        return _answered(request, state, lambda: json.dumps(compute(state)).encode(), _JSON)

    @application.get("/api/v1/study")
    def study(request: Request) -> Response:
        """The study as declared, its hash, the head, and how to cite it."""
        return answered(request, answers.study_data)

    @application.get("/api/v1/releases")
    def releases(request: Request) -> Response:
        """Every release, in the order of publication."""
        return answered(request, lambda state: answers.releases_data(state.public))

    @application.get("/api/v1/certificates/{index}")
    def certificate(request: Request, index: int) -> Response:
        """The certificate of a release; index is its place in the list of releases, from 1."""
        if not 1 <= index <= len(_state(reader).public.published):
            raise HTTPException(404)
        return answered(request, lambda state: answers.certificate_data(state.public, index))

    @application.get("/api/v1/queries")
    def queries(request: Request) -> Response:
        """By release of a panel, examples of what can be asked."""
        return answered(request, lambda state: answers.queries_data(state.public))

    @application.get("/api/v1/estimate")
    def estimate(
        request: Request,
        release: Text,
        query: Text,
        period: Optional = None,
        measure: Measure = "share",
    ) -> Response:
        """One answer with its standard error and interval, as `stream-dp estimate` gives it."""
        count = measure == "count"
        return answered(
            request, lambda state: answers.estimate_data(state, release, query, period, count=count)
        )

    @application.get("/api/v1/curve")
    def curve(request: Request, release: Text, query: Text, measure: Measure = "share") -> Response:
        """The answers to a query at every period."""
        count = measure == "count"
        return answered(
            request, lambda state: answers.curve_data(state, release, query, count=count)
        )

    @application.get("/api/v1/privacy")
    def privacy(request: Request) -> Response:
        """The privacy label in plain words, and the budget."""
        return answered(request, answers.privacy_data)

    @application.get("/api/v1/verify")
    def verify(request: Request) -> Response:
        """What was checked of the public log, and the hash of every message."""
        return answered(request, answers.verify_data)


def _files(application: FastAPI, reader: PublicReader, open_log: Callable[[], Log]) -> None:
    def current() -> dict[str, Any] | None:
        state = reader.state
        if state is None:
            return None
        releases = len(state.public.published)
        return {"head": state.head, "releases": releases, "answers": not reader.fault}

    live = Live(current)

    @application.get("/download/{release}/{table}.{form}")
    def download(release: str, table: str, form: str, period: Optional = None) -> Response:
        """A table of a release: panel, measurements, estimates; groups, people of data sets.

        form: csv, parquet, arrow or json.
        """
        state = _state(reader)
        with tempfile.NamedTemporaryFile(prefix="stream-dp-", delete=False) as file:
            out = Path(file.name)
        try:
            write_download(
                state, open_log, name=release, part=table, form=form, period=period, out=out
            )
        except BaseException:
            out.unlink()
            raise
        # Names are those of the study, which has the release: letters, digits and dashes.
        name = "-".join([state.public.study.name, release, table, *([period] if period else [])])
        return FileResponse(
            out,
            media_type=FORMATS[form],
            filename=f"{name}.{form}",
            background=BackgroundTask(out.unlink),
        )

    @application.get("/events")
    async def events() -> Response:
        """Server-sent events: `head`, now and with every new release."""
        if live.is_full:
            return Response("too many viewers\n", 503, media_type="text/plain")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(live.heads(), media_type="text/event-stream", headers=headers)

    @application.get("/healthz", include_in_schema=False)
    def health() -> Response:
        return Response("ok\n" if reader.state else "not ready\n", 200 if reader.state else 503)

    for path, name, media in (
        ("/icon.svg", "icon.svg", "image/svg+xml"),
        ("/style.css", "style.css", "text/css; charset=utf-8"),
        ("/monitor.js", "monitor.js", "text/javascript; charset=utf-8"),
    ):
        _asset(application, path, resource(name).encode(), media)


def _asset(application: FastAPI, path: str, body: bytes, media: str) -> None:
    def asset() -> Response:
        return Response(body, media_type=media, headers={"Cache-Control": "max-age=300"})

    application.get(path, include_in_schema=False)(asset)
