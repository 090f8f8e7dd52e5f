"""The desk of `stream-dp init --page`: a draft as one form, in a browser of this machine.

The server listens on 127.0.0.1 alone. The first request with the token of the printed address gets
a cookie, and the token is then worth nothing. The page is a form of HTML. With its script the
picture follows every change; without a script a button draws it anew.
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
from ..process.access import WRONG_HOST, Hosts, link_access
from ..process.command_output import Output
from .answers_form import Field
from .draft import Draft

_MOST_BYTES = 1 << 17  # of a form
_TIMEOUT = 10.0  # seconds for a request
_LAST_STYLE = 3.0  # seconds that a browser has to load the style of the last page
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action"
    " 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_FILES = {"/style.css": "text/css", "/desk.js": "text/javascript"}
_ANSWER = "answer:"  # in front of the key of a field


class _Server(ThreadingHTTPServer):
    """A server that ignores connections which the browser ends early."""

    daemon_threads = True

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _needed(field: Field) -> str:
    return field.fault or "an answer is needed"


class DeskPage:
    """The page of a draft, served while the context lasts.

    file: the name of the table.
    draw: the draft that follows from answers. Raises UserError.
    write: writes the study of a complete draft. Raises UserError.

    Raises UserError if the table cannot be read.
    """

    def __init__(
        self,
        file: str,
        draw: Callable[[Mapping[str, str]], Draft],
        write: Callable[[Draft], Output],
    ) -> None:
        self._file, self._draw, self._write = file, draw, write
        self._answers: dict[str, str] = {}
        self._faults: Sequence[str] = ()
        self._output: Output | None = None
        self._draft = draw({})
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

    def __enter__(self) -> DeskPage:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def ended(self) -> Output:
        """Waits until the last page was sent; returns what was written."""
        self._done.wait()
        self._styled.wait(_LAST_STYLE)
        assert self._output is not None
        return self._output

    def _answer(self, fields: Mapping[str, str]) -> None:
        """Takes a form: the answers that differ from proposals, and whether to write the study."""
        if self._output is not None:
            return  # a form that was sent twice
        shown = {field.key: field for field in self._draft.fields}
        for name, text in fields.items():
            key, answer = name.removeprefix(_ANSWER), " ".join(text.split())
            if name.startswith(_ANSWER) and key in shown:
                self._answers[key] = "" if answer == shown[key].proposal else answer
        try:
            self._draft = self._draw(self._answers)
            if "write" in fields:
                # Who presses the button confirms the shown proposals.
                proposed = {f.key: f.answer for f in self._draft.fields if f.is_open}
                self._draft = self._draw({**self._answers, **proposed})
                self._faults = [f"{f.key}: {_needed(f)}" for f in self._draft.fields if f.is_open]
                self._faults = [*self._faults, *self._draft.faults]
                if self._draft.study is not None:
                    self._output = self._write(self._draft)
            else:
                self._faults = self._draft.faults
        except UserError as error:
            self._faults = error.lines

    def _page(self) -> bytes:
        columns = {column.column: column for column in self._draft.columns}
        general, cells = [], dict[str, dict[str, Field]]()
        for field in self._draft.fields:
            column, _, part = field.key.rpartition(": ")
            if column in columns:
                cells.setdefault(column, {})[part] = field
            else:
                general.append(field)
        fan = self._draft.fan
        return render(
            "desk.html",
            file=self._file,
            key=self._access.form_key("operator"),
            general=general,
            columns=[(column, cells[name]) for name, column in columns.items()],
            notes=self._draft.notes,
            faults=self._faults,
            fan=fan,
            charts=[] if fan is None else [fan.chart(420)],
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
                elif path in _FILES:
                    self._send(HTTPStatus.OK, resource(path[1:]).encode(), _FILES[path])
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
                    body, last = page._page(), page._output is not None
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
