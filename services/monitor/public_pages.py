"""The public monitor: pages and a JSON API over one state of a public log.

Every request is answered in a separate process (`forks.py`), which has all the time and memory of
the limits and may fail.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import (
    FileResponse,
    RedirectResponse,
    Response,
)
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException

from stream_dp import __version__
from stream_dp.answers.answer import Region
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Log, LogError

from ..pages.render import render
from . import api_answers, views
from .downloads import FORMATS, write_download
from .limits import Application
from .planner_form import form_fields, plan_page
from .public_state import State
from .query_forms import address, query_of_form, within_length
from .refusals import TOO_MUCH, refusal

Text = Annotated[str, Query(max_length=500)]
Optional = Annotated[str | None, Query(max_length=100)]
Measure = Annotated[str, Query(pattern="^(share|count)$")]
_HTML = "text/html; charset=utf-8"
_JSON = "application/json"


def public_pages(state: State, open_log: Callable[[], Log]) -> Application:
    """The application over one state."""
    application = FastAPI(
        title="stream-dp monitor",
        version=__version__,
        summary="What a study has published, its estimates and its guarantee.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    _faults(application)
    _pages(application, state)
    _planner(application, state)
    _api(application, state)
    _files(application, state, open_log)
    return application


def _counted(measure: str | None) -> bool | None:
    """Whether an answer is a count instead of a share; None for the default."""
    return None if measure is None else measure == "count"


def _region(path: str | None) -> Region | None:
    """The path of a region of sizes; None for all regions together."""
    return tuple(path.split("/")) if path else None


def _answered(state: State, body: bytes, media: str = _HTML) -> Response:
    """A response that changes only with the head."""
    headers = {"ETag": f'"{state.head[:32]}"', "Cache-Control": "no-cache"}
    return Response(body, media_type=media, headers=headers)


def _faults(application: FastAPI) -> None:
    @application.exception_handler(Inconsistent)
    def inconsistent(request: Request, error: Inconsistent) -> Response:
        return refusal(request.url.path, 503, "This public log cannot be shown", list(error.lines))

    @application.exception_handler(UserError)
    def asked_wrong(request: Request, error: UserError) -> Response:
        return refusal(request.url.path, 400, "This cannot be answered", list(error.lines))

    @application.exception_handler(RequestValidationError)
    def invalid(request: Request, error: Exception) -> Response:
        return refusal(
            request.url.path, 400, "This cannot be answered", ["the address is not understood"]
        )

    @application.exception_handler(AnyHTTPException)
    def not_there(request: Request, error: AnyHTTPException) -> Response:
        return refusal(
            request.url.path, error.status_code, "Nothing is here", ["there is no such page"]
        )

    @application.exception_handler(LogError)
    def no_log(request: Request, error: LogError) -> Response:
        return refusal(
            request.url.path, 503, "This public log cannot be shown", ["public log: no answer"]
        )

    @application.exception_handler(MemoryError)
    def too_large(request: Request, error: Exception) -> Response:
        return refusal(request.url.path, 503, "This cannot be answered", [TOO_MUCH])

    @application.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> Response:
        return refusal(
            request.url.path, 500, "Something went wrong", ["the monitor's operator can say what"]
        )


def _pages(application: FastAPI, state: State) -> None:
    def page(path: str) -> Callable[..., Any]:
        return application.get(path, include_in_schema=False)

    @page("/")
    def index(request: Request) -> Response:
        return _answered(state, state.pages.get("/") or views.index_page(state))

    @page("/release/{name}")
    def release(
        request: Request,
        name: str,
        q: Annotated[str | None, Query(max_length=500)] = None,
        measure: Measure = "share",
        beside: Annotated[list[str], Query(max_length=8)] = [],  # noqa: B006
    ) -> Response:
        if q is None:
            prepared = state.pages.get(request.url.path)
            return _answered(state, prepared or views.release_page(state, name))
        count, query = measure == "count", within_length(q)
        return _answered(state, views.answer_page(state, name, query, beside, count=count))

    @page("/ask/{name}")
    def ask(request: Request, name: str) -> Response:
        fields = dict(request.query_params)
        declared = state.public.study.release(name)
        query = query_of_form(state.public.study, declared, fields)
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
        measure: Measure | None = None,
        region: Optional = None,
    ) -> Response:
        query = None if q is None else within_length(q)
        count, path = _counted(measure), _region(region)
        page = views.data_set_page(state, name, period, pair, query, count=count, region=path)
        return _answered(state, page)

    for path, view in (
        ("/privacy", views.privacy_page),
        ("/verify", views.verify_page),
        ("/downloads", views.downloads_page),
    ):
        _plain_page(application, state, path, view)

    @page("/certificate/{index}")
    def certificate(request: Request, index: int) -> Response:
        if not 1 <= index <= len(state.public.published):
            raise HTTPException(404)
        return _answered(state, views.certificate_page(state, index))

    @page("/api")
    def reference(request: Request) -> Response:
        text = render("api.html", paths=views.api_paths(application.openapi()), head=state.head)
        return Response(text, media_type=_HTML)


def _planner(application: FastAPI, state: State) -> None:
    @application.get("/plan", include_in_schema=False)
    def form(request: Request) -> Response:
        text = plan_page(state.public.study, "site.html")
        return Response(text, media_type=_HTML)

    @application.post("/plan", include_in_schema=False)
    async def plan(request: Request) -> Response:
        study, fields = state.public.study, form_fields(await request.body())
        text = await run_in_threadpool(plan_page, study, "site.html", fields)
        return Response(text, media_type=_HTML, headers={"Cache-Control": "no-store"})


def _plain_page(
    application: FastAPI, state: State, path: str, view: Callable[[State], bytes]
) -> None:
    def answer(request: Request) -> Response:
        return _answered(state, view(state))

    application.get(path, include_in_schema=False)(answer)


def _api(application: FastAPI, state: State) -> None:
    def answered(data: object) -> Response:
        return _answered(state, json.dumps(data).encode(), _JSON)

    @application.get("/api/v1/study")
    def study(request: Request) -> Response:
        """The declared study, the hash, the head and a citation."""
        return answered(api_answers.study_data(state))

    @application.get("/api/v1/releases")
    def releases(request: Request) -> Response:
        """Every release, in the order of publication."""
        return answered(api_answers.releases_data(state.public))

    @application.get("/api/v1/certificates/{index}")
    def certificate(request: Request, index: int) -> Response:
        """The certificate of a release; index is the position in the list of releases, from 1."""
        if not 1 <= index <= len(state.public.published):
            raise HTTPException(404)
        return answered(api_answers.certificate_data(state.public, index))

    @application.get("/api/v1/queries")
    def queries(request: Request) -> Response:
        """By release, examples of queries."""
        return answered(api_answers.queries_data(state.public))

    @application.get("/api/v1/estimate")
    def estimate(
        request: Request,
        release: Text,
        query: Text,
        period: Optional = None,
        measure: Measure | None = None,
        region: Text | None = None,
    ) -> Response:
        """An answer with standard error and interval, equal to the result of `stream-dp estimate`.

        region: for sizes of places, the path of a region such as north/0101; by default all regions
        """
        count, path = _counted(measure), _region(region)
        return answered(
            api_answers.estimate_data(state, release, query, period, count=count, region=path)
        )

    @application.get("/api/v1/curve")
    def curve(request: Request, release: Text, query: Text, measure: Measure = "share") -> Response:
        """The answers to a query at every period."""
        count = measure == "count"
        return answered(api_answers.curve_data(state, release, query, count=count))

    @application.get("/api/v1/privacy")
    def privacy(request: Request) -> Response:
        """The privacy label in plain words, and the budget."""
        return answered(api_answers.privacy_data(state))

    @application.get("/api/v1/verify")
    def verify(request: Request) -> Response:
        """The checks of the public log, and the hash of every message."""
        return answered(api_answers.verify_data(state))


def _files(application: FastAPI, state: State, open_log: Callable[[], Log]) -> None:
    @application.get("/download/{release}/{table}.{form}")
    def download(release: str, table: str, form: str, period: Optional = None) -> Response:
        """A table of a release: panel, measurements, estimates; groups, people of data sets.

        form: csv, parquet, arrow or json.
        """
        with ExitStack() as undone:
            # Without a name the file ends with its last reader, however this process ends.
            file = undone.enter_context(tempfile.TemporaryFile())
            out = Path(f"/dev/fd/{file.fileno()}")
            write_download(
                state, open_log, name=release, table=table, form=form, period=period, out=out
            )
            undone.pop_all()
        # Names are those of the study, which has the release: letters, digits and dashes.
        name = "-".join([state.public.study.name, release, table, *([period] if period else [])])
        return FileResponse(
            out,
            media_type=FORMATS[form],
            filename=f"{name}.{form}",
            headers={"Accept-Ranges": "none"},
            background=BackgroundTask(file.close),
        )

    @application.get("/events")
    def events() -> Response:
        """Server-sent events: `head`, now and with every new release."""
        raise HTTPException(404)  # the process that holds the connections answers it
