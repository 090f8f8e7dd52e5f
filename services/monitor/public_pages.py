"""The public monitor: pages and a JSON API over one state of a public log.

Every request is answered in a separate process (`forks.py`), which has all the time and memory of
the limits and may fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Annotated, Any

import pyarrow as pa
import pyarrow.csv
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from stream_dp import __version__
from stream_dp.answers.query import of_people
from stream_dp.errors import Inconsistent, NotThere, UserError
from stream_dp.log.log import Log, LogError
from stream_dp.study.period_texts import period_label

from ..portals.release_tables import SERIES_MEDIA, series_table
from . import answer_views, views
from .client_limits import TOO_MUCH, Application, Message, Receive, Send, refusal
from .downloads import FORMATS, add_metadata, write_download, write_log
from .figure_files import FIGURE_FORMATS, embed_page, figure_file, source_line
from .public_api import (
    Band,
    Measure,
    Optional,
    add_api,
    file_path,
    is_count,
    region_path,
    release_at_index,
    state_response,
)
from .public_state import State
from .query_forms import LONGEST_QUERY, FigureLinks, PageQuery, query_of_form, within_length
from .render import render

_HTML = "text/html; charset=utf-8"
SQLITE_MEDIA = "application/vnd.sqlite3"
_NOT_SHOWN, _NOT_ANSWERED = "This public log cannot be shown", "This cannot be answered"
_NOT_HERE = "Nothing is here"
# By error: the status, the title, and the line; a UserError has lines.
_FAULTS: dict[type, tuple[int, str, str]] = {
    Inconsistent: (503, _NOT_SHOWN, ""),
    NotThere: (404, _NOT_HERE, ""),
    UserError: (400, _NOT_ANSWERED, ""),
    RequestValidationError: (400, _NOT_ANSWERED, "the address is not understood"),
    AnyHTTPException: (404, _NOT_HERE, "there is no such page"),
    LogError: (503, _NOT_SHOWN, "public log: no answer"),
    MemoryError: (503, _NOT_ANSWERED, TOO_MUCH),
    Exception: (500, "Something went wrong", "the monitor's operator can say what"),
}


def public_pages(state: State, open_log: Callable[[], Log]) -> Application:
    """The application over one state."""
    application = FastAPI(
        title="stream-dp monitor",
        version=__version__,
        summary="What a study has published, its estimates and its guarantee.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        servers=[{"url": state.root}] if state.root else None,
        redirect_slashes=False,
    )
    _faults(application, state.root)
    _pages(application, state)
    _figures(application, state)
    add_api(application, state)
    add_metadata(application, state)
    _files(application, state, open_log)
    return application


def _page(state: State, body: bytes, status: int = 200) -> Response:
    response = state_response(state, body, _HTML)
    response.status_code = status
    return response


def _faults(application: FastAPI, root: str) -> None:
    """Adds a page for each kind of error."""

    async def refused(request: Request, error: Exception) -> Response:
        kind = next(kind for kind in type(error).__mro__ if kind in _FAULTS)
        status, title, line = _FAULTS[kind]
        if isinstance(error, AnyHTTPException):
            status = error.status_code
        lines = error.lines if isinstance(error, UserError) else [line]
        response = refusal(request.url.path, status, title, lines, root)
        response.headers.update(getattr(error, "headers", None) or {})  # the methods that it has
        return response

    for kind in _FAULTS:
        application.add_exception_handler(kind, refused)


def _pages(application: FastAPI, state: State) -> None:
    """Adds the pages in HTML, which the reference of the API leaves out."""

    def page(path: str) -> Callable[..., Any]:
        return application.get(path, include_in_schema=False)

    @page("/")
    async def index(request: Request) -> Response:
        return _page(state, state.pages.get("/") or views.index_page(state))

    @page("/release/{name}")
    async def release(
        request: Request,
        name: str,
        q: Annotated[str | None, Query(max_length=500)] = None,
        measure: Measure = "share",
        beside: Annotated[list[str], Query(max_length=8)] = [],  # noqa: B006
        band: Band = "pointwise",
        panel: bool = False,
        of: Annotated[str | None, Query(max_length=500)] = None,
    ) -> Response:
        if q is None:
            prepared = state.pages.get(request.url.path)
            return _page(state, prepared or views.release_page(state, name))
        count, together = measure == "count", band == "simultaneous"
        try:
            query = within_length(of_people(q, of))
            page_query = PageQuery(query, count, tuple(beside), together, panel)
            return _page(state, answer_views.answer_page(state, name, page_query))
        except UserError as error:
            query_text = q[:LONGEST_QUERY]
            return _page(state, views.release_page(state, name, query_text, error.lines), 400)

    @page("/compare/{name}")
    async def compare(request: Request, name: str) -> Response:
        fields = {key: within_length(value) for key, value in request.query_params.items()}
        body, sound = answer_views.compare_page(state, name, fields)
        return _page(state, body, 200 if sound else 400)

    @page("/ask/{name}")
    async def ask(request: Request, name: str) -> Response:
        fields = dict(request.query_params)
        declared = state.public.study.release(name)
        try:
            query = query_of_form(state.public.study, declared, fields)
        except UserError as error:
            query_text = fields.get("words", "")[:LONGEST_QUERY]
            return _page(state, views.release_page(state, name, query_text, error.lines), 400)
        count = fields.get("measure") == "count" or query.startswith("total")
        beside = tuple(request.query_params.getlist("beside")[:8])
        return RedirectResponse(state.root + PageQuery(query, count, beside).address(name), 303)

    @page("/data/{name}")
    async def data_set(
        request: Request,
        name: str,
        period: Optional = None,
        pair: Optional = None,
        column: Optional = None,
        q: Annotated[str | None, Query(max_length=500)] = None,
        measure: Measure | None = None,
        region: Optional = None,
        form: Annotated[str | None, Query(pattern="^(at-least|size)$")] = None,
        n: Annotated[int | None, Query(ge=0)] = None,
        of: Annotated[str | None, Query(max_length=500)] = None,
    ) -> Response:
        asked = f"{form} {n}" if q is None and form and n is not None else q
        query = None if asked is None else within_length(of_people(asked, of))
        count, path = is_count(measure), region_path(region)
        body, sound = views.data_set_page(
            state, name, period, pair, query, column=column, count=count, region=path
        )
        return _page(state, body, 200 if sound else 400)

    def view_at(path: str, view: Callable[[State], bytes]) -> None:
        @page(path)
        async def viewed() -> Response:
            return _page(state, view(state))

    view_at("/privacy", lambda state: state.pages.get("/privacy") or views.privacy_page(state))
    view_at("/verify", views.verify_page)
    view_at("/downloads", views.downloads_page)

    @page("/certificate/{index}")
    async def certificate(request: Request, index: int) -> Response:
        release = release_at_index(state.public, index)
        return _page(state, views.certificate_page(state, index, release))

    @page("/api")
    async def reference(request: Request) -> Response:
        paths = views.api_paths(application.openapi())
        text = render("api.html", root=state.root, paths=paths, head=state.head)
        return Response(text, media_type=_HTML)


def _figures(application: FastAPI, state: State) -> None:
    """Adds figures as files, and as pages to be embedded elsewhere."""

    def fields_of(request: Request) -> dict[str, object]:
        fields: dict[str, object] = {k: within_length(v) for k, v in request.query_params.items()}
        return fields | {"beside": request.query_params.getlist("beside")}

    @file_path(application, "/figure/{kind}/{name}.{form}", *FIGURE_FORMATS.values())
    async def figure(request: Request, kind: str, name: str, form: str) -> Response:
        """A figure of a page as svg, png (1200 x 630) or csv, with the fields of its address.

        kind: release, totals, compare, data, series or map. CSV has the unclipped numbers.
        """
        if form not in FIGURE_FORMATS:
            raise NotThere(f"figure: has no '{form}'; there are {', '.join(FIGURE_FORMATS)}")
        file = figure_file(state, kind, name, fields_of(request))
        body = file.encoded(form, source_line(state))
        return state_response(state, body, FIGURE_FORMATS[form])

    @application.get("/embed/{kind}/{name}", include_in_schema=False)
    async def embed(request: Request, kind: str, name: str) -> Response:
        file = figure_file(state, kind, name, fields_of(request))
        links = FigureLinks(kind, name, request.url.query)
        return _page(state, embed_page(state, file, links))


def _files(application: FastAPI, state: State, open_log: Callable[[], Log]) -> None:
    """Adds the downloads."""

    @file_path(application, "/download/log.db", SQLITE_MEDIA)
    async def log() -> Response:
        """The public log, a SQLite file, for `stream-dp verify` and the page's verifier."""
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "log.db"
            write_log(open_log, copy)
            file = copy.open("rb")  # without a name it ends with its last reader
        return _Download(file, f"{state.public.study.name}-public.db", SQLITE_MEDIA)

    @file_path(application, "/download/series.csv", SERIES_MEDIA)
    async def series() -> Response:
        """The estimates of all periods with their errors, as SDMX-CSV 2.0."""
        with ExitStack() as undone:
            file = undone.enter_context(TemporaryFile())
            pa.csv.write_csv(series_table(state.public), file)
            file.flush()
            undone.pop_all()
        return _Download(file, f"{state.public.study.name}-series.csv", SERIES_MEDIA)

    @file_path(application, "/download/{release}/{table}.{form}", *FORMATS.values())
    async def download(release: str, table: str, form: str, period: Optional = None) -> Response:
        """A table of a release: panel, measurements, estimates; groups, people of data sets.

        form: csv, parquet, arrow or json.
        """
        with ExitStack() as undone:
            # Without a name the file ends with its last reader, however this process ends.
            file = undone.enter_context(TemporaryFile())
            out = Path(f"/dev/fd/{file.fileno()}")
            write_download(
                state, open_log, name=release, table=table, form=form, period=period, out=out
            )
            undone.pop_all()
        # Names and labels are those of the study, which has the release: letters, digits, dashes.
        study = state.public.study
        label = [] if period is None else [period_label(study.periods, period)]
        name = "-".join([study.name, release, table, *label])
        return _Download(file, f"{name}.{form}", FORMATS[form])

    @file_path(application, "/events", "text/event-stream")
    async def events() -> Response:
        """Server-sent events: `head`, now and with every new release."""
        raise HTTPException(404)  # the process that holds the connections answers it


class _Download(Response):
    """An open file as a download; it is closed afterwards."""

    def __init__(self, file: IO[bytes], name: str, media: str) -> None:
        headers = {
            "Content-Length": str(os.fstat(file.fileno()).st_size),
            "Content-Disposition": f'attachment; filename="{name}"',
            "Accept-Ranges": "none",
        }
        super().__init__(headers=headers, media_type=media)
        self._file = file

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        with self._file as file:
            await send(start)
            path = f"/dev/fd/{file.fileno()}"
            await send({"type": "http.response.pathsend", "path": path})
