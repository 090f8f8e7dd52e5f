"""The interview of `stream-dp init --page`: one question at a time, in a browser of this machine.

The server listens on 127.0.0.1 alone. The first request with the token of the printed address gets
a cookie, and the token is then worth nothing. An answer is a form of HTML, so no script is needed.
Each request repeats the interview with all answers so far: a step back drops the last one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from types import TracebackType
from urllib.parse import parse_qs, parse_qsl

from stream_dp.errors import UserError

from ..monitor.render import render, resource
from ..process.access import link_access
from ..process.addresses import WRONG_HOST, Hosts
from ..process.command_output import Output
from .questions import Unanswered

_MOST_BYTES = 1 << 17  # of a form
_TIMEOUT = 10.0  # seconds for a request
_LAST_STYLE = 3.0  # seconds that a browser has to load the style of the last page
_POLICY = (
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri"
    " 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
Hold = Callable[[Sequence[str], Callable[[str], None]], Output]


class _Server(ThreadingHTTPServer):
    """A server that ignores connections which the browser ends early."""

    daemon_threads = True

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class InterviewPage:
    """The page of an interview, served while the context lasts.

    file: the name of the table.
    hold: repeats the interview with answers, and a function that takes its notes. Raises Unanswered
        for the next question, UserError for a fault of the last answer.

    Raises UserError if the interview cannot begin.
    """

    def __init__(self, file: str, hold: Hold) -> None:
        self._file, self._hold = file, hold
        self._answers: list[str] = []
        self._asked: list[str] = []  # the questions of the answers
        self._faults: Sequence[str] = ()
        self._typed = ""  # the refused answer
        self._notes: list[str] = []
        self._output: Output | None = None
        self._pending = self._next()
        self._access, self._hosts = link_access(), Hosts("127.0.0.1:0")
        self._lock, self._done, self._styled = (
            threading.Lock(),
            threading.Event(),
            threading.Event(),
        )
        self._server = _Server(("127.0.0.1", 0), self._handler())

    @property
    def address(self) -> str:
        """The address that works once."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self._access.link}"

    def __enter__(self) -> InterviewPage:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def ended(self) -> Output:
        """Waits until the last page was sent; returns what the interview gave."""
        self._done.wait()
        self._styled.wait(_LAST_STYLE)
        assert self._output is not None
        return self._output

    def _next(self) -> Unanswered | None:
        """The next question; None at the end. Raises UserError for a fault of the last answer."""
        notes: list[str] = []
        try:
            self._output = self._hold(self._answers, notes.append)
        except Unanswered as unanswered:
            # Questions end in ': ', and are no notes.
            self._notes = [note for note in notes if not note.endswith(": ")]
            return unanswered
        return None

    def _answer(self, fields: Mapping[str, str]) -> None:
        """Takes a form: the next answer, or a step back."""
        if self._pending is None or fields.get("step") != str(len(self._answers)):
            return  # a form that was sent twice
        self._faults, self._typed = (), ""
        if "back" in fields:
            self._answers, self._asked = self._answers[:-1], self._asked[:-1]
            self._pending = self._next()
            return
        self._answers.append(" ".join(fields.get("answer", "").split()) or self._pending.proposal)
        try:
            pending = self._next()
        except UserError as error:
            self._typed = self._answers.pop()
            prefix = f"{self._pending.question}: "
            self._faults = [line.removeprefix(prefix) for line in error.lines]
            return
        self._asked.append(self._pending.question)
        self._pending = pending

    def _page(self) -> bytes:
        return render(
            "interview.html",
            file=self._file,
            key=self._access.form_key("operator"),
            step=len(self._answers),
            pending=self._pending,
            faults=self._faults,
            typed=self._typed,
            notes=self._notes,
            given=list(zip(self._asked, self._answers, strict=True)),
            lines=[] if self._output is None else self._output.text.split("\n"),
        ).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                token = parse_qs(query).get("token", [""])[0]
                if not self._is_here():
                    self._send(HTTPStatus.MISDIRECTED_REQUEST, f"{WRONG_HOST}\n".encode())
                elif path == "/style.css":
                    self._send(HTTPStatus.OK, resource("style.css").encode(), "text/css")
                    if page._done.is_set():
                        page._styled.set()
                elif token and page._access.takes(token):
                    more = {"Location": "/", "Set-Cookie": page._access.set_cookie}
                    self._send(HTTPStatus.SEE_OTHER, b"", headers=more)
                elif not self._is_known():
                    self._send(HTTPStatus.FORBIDDEN, b"the printed address works once\n")
                elif path != "/":
                    self._send(HTTPStatus.NOT_FOUND, b"there is no such page\n")
                else:
                    self._shown()

            def do_POST(self) -> None:
                length = self.headers.get("Content-Length", "")
                size = int(length) if length.isdecimal() and len(length) < 9 else _MOST_BYTES + 1
                if not self._is_here():
                    self._send(HTTPStatus.MISDIRECTED_REQUEST, f"{WRONG_HOST}\n".encode())
                    return
                if not self._is_known():
                    self._send(HTTPStatus.FORBIDDEN, b"the printed address works once\n")
                    return
                if size > _MOST_BYTES:
                    self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"the form is too long\n")
                    return
                text = self.rfile.read(size).decode("utf-8", "replace")
                fields = dict(parse_qsl(text, keep_blank_values=True))
                headers = {name.lower(): value for name, value in self.headers.items()}
                if not page._access.is_valid_form("operator", fields, headers):
                    self._send(HTTPStatus.FORBIDDEN, b"this form is not of this page\n")
                    return
                with page._lock:
                    page._answer(fields)
                self._send(HTTPStatus.SEE_OTHER, b"", headers={"Location": "/"})

            def _shown(self) -> None:
                with page._lock:
                    body, last = page._page(), page._pending is None
                self._send(HTTPStatus.OK, body, "text/html; charset=utf-8")
                if last:
                    page._done.set()

            def _is_here(self) -> bool:
                return page._hosts.allow(*self.headers.get_all("Host", []))

            def _is_known(self) -> bool:
                sent = SimpleCookie(self.headers.get("Cookie", "")).items()
                cookies = {name: cookie.value for name, cookie in sent}
                return page._access.user({}, cookies) is not None

            def _send(
                self,
                status: HTTPStatus,
                body: bytes,
                media: str = "text/plain; charset=utf-8",
                headers: Mapping[str, str] | None = None,
            ) -> None:
                self.send_response(status)
                shown = {"Content-Type": media, "Content-Length": str(len(body))}
                for name, value in (_HEADERS | shown | dict(headers or {})).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Keeps the token out of the terminal."""

        return Handler
