"""A small HTTP server of a few pages, made for slow, broken or many clients.

One thread serves every connection. A connection has one request and `PATIENCE` seconds for all of
it, answer included. If there are too many connections, the oldest one ends, so that a new client is
served. Error texts are not sent, and nothing is printed.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message as HTTPMessage
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO

from ..process.access import Access
from ..process.hosts import WRONG_HOST, Hosts

PATIENCE = 10.0  # seconds from the beginning of a connection to its end
MOST_CONNECTIONS = 256
_LARGEST_HEAD = 16_384  # bytes of a request

Page = tuple[HTTPStatus, bytes, str]  # status, body and content type
Pages = Mapping[str, Callable[[], Page]]  # by path
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Site:
    """What a listener serves.

    pages: for clients that `access` lets in; for all clients without it.
    hosts: by which clients may name the listener.
    open_pages: for all clients.
    """

    pages: Pages
    hosts: Hosts
    access: Access | None = None
    open_pages: Pages = field(default_factory=dict)

    def page(self, path: str, headers: HTTPMessage) -> Callable[[], Page]:
        """The page that answers a request."""
        if not self.hosts.allow(*headers.get_all("Host", [])):
            return lambda: (HTTPStatus.MISDIRECTED_REQUEST, f"{WRONG_HOST}\n".encode(), TEXT)
        if path in self.open_pages:
            return self.open_pages[path]
        if path not in self.pages:
            return lambda: _error(HTTPStatus.NOT_FOUND)
        named = {name.lower(): value for name, value in headers.items()}
        if self.access is not None and self.access.user(named, {}) is None:
            return lambda: _error(HTTPStatus.UNAUTHORIZED)
        return self.pages[path]


@contextmanager
def serving(listener: socket.socket, site: Site) -> Iterator[None]:
    """Serves a site on a listening socket until the block ends.

    site: its pages are called in the thread of the server; they must take little time.
    """
    server = _Server(listener, site)
    thread = threading.Thread(target=asyncio.run, args=(server.run(),), daemon=True)
    thread.start()
    server.begun.wait()
    try:
        yield
    finally:
        server.stop()
        thread.join()


class _Server:
    def __init__(self, listener: socket.socket, site: Site) -> None:
        self._listener, self._site = listener, site
        self._open: dict[asyncio.StreamWriter, None] = {}  # the oldest first
        self.begun = threading.Event()

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # texts may contain values
        self._end = asyncio.Event()
        server = await asyncio.start_server(
            self._client, sock=self._listener, limit=_LARGEST_HEAD, backlog=128
        )
        self.begun.set()
        await self._end.wait()
        server.close()
        for writer in self._open:
            writer.transport.abort()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > MOST_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    writer.write(await self._answer(reader))
                    writer.close()
                    await writer.wait_closed()
        finally:
            writer.transport.abort()
            self._open.pop(writer, None)

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        """The answer to the request that a client sends."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            head = error.partial
        except asyncio.LimitOverrunError:
            has_target = b"\n" in await reader.read(_LARGEST_HEAD)
            return _refusal(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                if has_target
                else HTTPStatus.REQUEST_URI_TOO_LONG
            )
        return _Request(head, self._site).answer


class _Request(BaseHTTPRequestHandler):
    """A complete request and its answer."""

    def __init__(self, head: bytes, site: Site) -> None:
        # The base class's own reads from a socket and has a deadline for each read alone.
        self.rfile, self.wfile = BytesIO(head), BytesIO()
        self._site = site
        self.handle_one_request()

    @property
    def answer(self) -> bytes:
        written: bytes = self.wfile.getvalue()  # type: ignore[attr-defined]
        return written

    def do_GET(self) -> None:
        page = self._site.page(self.path, self.headers)
        try:
            content = page()
        except Exception:  # its text may contain values
            content = HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error\n", TEXT
        self._write(content)

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers with the phrase of the code; the standard page would quote the request."""
        self._write(_error(HTTPStatus(code)))

    def _write(self, page: Page) -> None:
        status, body, content = page
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", content)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "stream-dp"

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


def _error(status: HTTPStatus) -> Page:
    return status, f"{status.phrase.lower()}\n".encode(), TEXT


def _refusal(status: HTTPStatus) -> bytes:
    """The answer to a request that is not read."""
    _, body, content = _error(status)
    head = f"HTTP/1.0 {status.value} {status.phrase}\r\nContent-Type: {content}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
