"""The operator's monitor: who is let in, the state of a study, and the acts of an operator.

Every page is confidential but the few that `OperatorEntry` gives to a stranger: no route of an
application is reached by a stranger.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, cast
from urllib.parse import parse_qsl, quote

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from stream_dp.errors import UserError
from stream_dp.json_object import Json

from ..process.access import Access
from ..process.events import head
from .client_limits import Application, Limited, Message, Receive, Send, asset
from .live_updates import Live
from .operator_facts import COMMAND_TIMEOUT, CommandResult, Watch, command
from .render import ASSETS, render

HTML = "text/html; charset=utf-8"
OPEN = ("/healthz", "/login", *ASSETS)
_MOST_FIELDS = 20


def form_fields(body: bytes) -> dict[str, str]:
    """Parses the fields of a form. Raises UserError."""
    try:
        return dict(parse_qsl(body.decode("utf-8"), max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise UserError("this form is not understood") from None


def confidential_page(
    template: str, status: int = 200, *, root: str = "", head: str = "", **values: object
) -> Response:
    text = render(template, root=root, head=head, **values)
    headers = {"Cache-Control": "no-store"}
    return Response(text, status_code=status, media_type=HTML, headers=headers)


def problem_page(root: str, status: int, title: str, *lines: str) -> Response:
    return confidential_page("operator_problem.html", status, root=root, title=title, lines=lines)


def user_of(request: Request) -> str:
    """The user whose request was let in."""
    return cast(str, request.scope["operator"])


class OperatorEntry:
    """Gives an application the requests of users that are let in, and answers all others.

    root: the path of a study among several. There nothing is open, so that a stranger does not
        learn which studies there are; the login is at the front.
    """

    def __init__(self, application: Application, access: Access, root: str) -> None:
        self._application, self._access, self._root = application, access, root

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        request, path = Request(scope, receive), scope["path"]
        at_front = not self._root
        if at_front and path in OPEN:
            response = await self._open(request, path)
        elif at_front and path == "/" and self._takes_link(request):
            response = self._begun()
        else:
            user = self._access.user(request.headers, request.cookies)
            if user is not None:
                await self._application({**scope, "operator": user}, receive, send)
                return
            response = self._refused()
        await response(scope, receive, send)

    def _takes_link(self, request: Request) -> bool:
        return self._access.takes(request.query_params.get("token", ""))

    async def _open(self, request: Request, path: str) -> Response:
        """The answer of a page that a stranger sees."""
        if path == "/healthz":
            return Response("ok\n", media_type="text/plain")
        if (file := asset(path)) is not None:
            return file
        if self._access.is_behind_proxy:
            return self._refused()
        if request.method != "POST":
            return self._login(200)
        try:
            token = form_fields(await request.body()).get("token", "")
        except UserError as error:
            return problem_page("", 400, "This cannot be done", *error.lines)
        return self._begun() if self._access.takes(token) else self._login(403)

    def _login(self, status: int) -> Response:
        failed = status == 403
        return confidential_page("login.html", status, failed=failed, once=self._access.once)

    def _begun(self) -> Response:
        """Begins a session."""
        headers = {"Set-Cookie": self._access.set_cookie, "Cache-Control": "no-store"}
        return RedirectResponse("/", 303, headers)

    def _refused(self) -> Response:
        if self._access.is_behind_proxy:
            return problem_page("", 403, "This cannot be done", "you are not let in")
        return RedirectResponse("/login", 303)


_FIRST_FACTS_TIMEOUT = 5.0  # seconds until a page says that the first facts are being gathered
_ACTS = {"retry": "try the job again", "abandon": "give the job up; its charge stands"}


def operator_monitor(study: Path, access: Access, watch: Watch, *, root: str = "") -> Application:
    """The operator's application, with limits.

    study: the study file.
    root: the path that all links begin with; requests come without it.
    """
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    handle_faults(application, root)
    _shown(application, watch, root)
    _close(application, access, watch, study, root)
    _jobs(application, access, watch, study, root)
    return Limited(
        OperatorEntry(application, access, root),
        {"GET", "HEAD", "POST"},
        deadline=COMMAND_TIMEOUT + 30,  # an act is one command, and what the page shows of it
        endless={"/events"},
    )


def handle_faults(application: FastAPI, root: str) -> None:
    """Answers with a page whatever goes wrong."""

    def problem(status: int, title: str, *lines: str) -> Response:
        return problem_page(root, status, title, *lines)

    @application.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        return problem(error.status_code, "This cannot be done", str(error.detail))

    @application.exception_handler(UserError)
    def asked_wrong(request: Request, error: UserError) -> Response:
        return problem(400, "This cannot be done", *error.lines)

    @application.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> Response:
        return problem(500, "Something went wrong", type(error).__name__)


async def _valid_form(request: Request, access: Access, user: str) -> dict[str, str]:
    """The fields of a valid form. Raises HTTPException for a form from elsewhere."""
    fields = form_fields(await request.body())
    if not access.is_valid_form(user, fields, request.headers):
        raise HTTPException(403, "this form is not one of this monitor's; open it again")
    return fields


def _shown(application: FastAPI, watch: Watch, root: str) -> None:
    """Adds the page of a study, and the events that update it."""

    def current() -> Json | None:
        return None if watch.facts is None else {"head": watch.facts.head}

    live = Live(current)

    @application.get("/")
    def overview(request: Request) -> Response:
        facts = watch.soon(_FIRST_FACTS_TIMEOUT)
        if facts is None:  # the page asks for itself anew, as a new head arrives
            return confidential_page("operator_first.html", root=root, head="none")
        done = request.query_params.get("done", "")[:200]
        return confidential_page(
            "operator.html", root=root, facts=facts, head=facts.head, done=done
        )

    @application.get("/events")
    async def events() -> Response:
        return live.viewer()


def _close(application: FastAPI, access: Access, watch: Watch, study: Path, root: str) -> None:
    """Adds the form for closing the open period after a look at its contents."""
    acting = Lock()

    @application.get("/close")
    def ask(request: Request) -> Response:
        user = user_of(request)
        period = watch.look().status.get("open_period")
        if period is None:
            raise HTTPException(400, "no period is open")
        counted = command("close", study, "--check", "--", period)
        return confidential_page(
            "operator_close.html",
            root=root,
            period=period,
            counted=counted.data,
            lines=() if counted.data else counted.lines,
            key=access.form_key(user),
        )

    @application.post("/close")
    async def close(request: Request) -> Response:
        user = user_of(request)
        fields = await _valid_form(request, access, user)
        period = (await run_in_threadpool(watch.look)).status.get("open_period")
        if period is None or fields.get("period") != period:
            raise HTTPException(409, "another period is open now; look again")
        if fields.get("confirm", "").strip() != period:
            raise HTTPException(400, f"type {period} to close it; nothing was closed")
        if not acting.acquire(blocking=False):
            raise HTTPException(409, "another act is on its way; look again")
        try:
            result = await run_in_threadpool(command, "close", study, "--yes", "--", period)
        finally:
            acting.release()
        return await run_in_threadpool(
            _acted, watch, user, root, act="close", subject=period, result=result
        )


def _jobs(application: FastAPI, access: Access, watch: Watch, study: Path, root: str) -> None:
    """Adds the forms that retry or abandon a job."""

    def job_of(name: str, act: str) -> Mapping[str, Any]:
        jobs = {job["id"]: job for job in watch.look().status.get("jobs", [])}
        if act not in _ACTS or name not in jobs:
            raise HTTPException(404, "there is no such job")
        job: Mapping[str, Any] = jobs[name]
        return job

    @application.get("/job/{name}/{act}")
    def ask(request: Request, name: str, act: str) -> Response:
        user = user_of(request)
        job, key = job_of(name, act), access.form_key(user)
        return confidential_page(
            "operator_job.html", root=root, job=job, act=act, words=_ACTS[act], key=key
        )

    @application.post("/job/{name}/{act}")
    async def do(request: Request, name: str, act: str) -> Response:
        user = user_of(request)
        fields = await _valid_form(request, access, user)
        await run_in_threadpool(job_of, name, act)
        if fields.get("confirm") != "yes":
            raise HTTPException(400, "tick the box to confirm; nothing was done")
        result = await run_in_threadpool(command, "jobs", study, f"--{act}={name}")
        return await run_in_threadpool(
            _acted, watch, user, root, act=act, subject=name, result=result
        )


def _acted(
    watch: Watch, user: str, root: str, *, act: str, subject: str, result: CommandResult
) -> Response:
    """Logs an act with the outcome, and shows the outcome."""
    outcome = "done" if result.succeeded else "; ".join(result.lines)
    line = {**head("operator-act"), "by": user, "act": act, "what": subject, "outcome": outcome}
    line |= {"study": root.rpartition("/")[2]} if root else {}
    print(json.dumps(line), file=sys.stderr, flush=True)
    watch.refresh()
    if not result.succeeded:
        return problem_page(root, 409, "This cannot be done", *result.lines)
    return RedirectResponse(f"{root}/?done={quote(f'{act} {subject}: done')}", 303)
