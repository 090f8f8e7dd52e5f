"""The entry to an operator's pages: whoever is let in, and the few pages that a stranger sees.

A page is confidential unless this module says otherwise: no route of an application is reached by
a stranger.
"""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from stream_dp.errors import UserError

from ..process.access import Access
from .limits import Application, Message, Receive, Send
from .planner_form import form_fields
from .render import ASSETS, render, resource

HTML = "text/html; charset=utf-8"
OPEN = ("/healthz", "/login", *ASSETS)


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
        if path in ASSETS:
            return Response(resource(path.removeprefix("/")), media_type=ASSETS[path])
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
