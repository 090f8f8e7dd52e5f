"""HTTP listeners of a running releaser.

The confidential one serves /healthz and /readyz, and /metrics to clients that have its token. The
public one serves /metrics only, with the metrics of an allow-list. Neither uses the default
registry, which would add metrics of the process.

The server is made for slow, broken or many clients. One thread serves every connection. A
connection has one request and `PATIENCE` seconds for all of it, answer included. If there are too
many connections, the oldest one ends, so that a new client is served. Error texts are not sent, and
nothing is printed.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message as HTTPMessage
from fractions import Fraction
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from stream_dp import __version__

from ..process.access import WRONG_HOST, Access, Hosts, listener
from .releaser_facts import Facts

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
        """Serves until `stop`."""
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
        """Answers one request; with too many connections, the oldest is closed."""
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
        """Writes the answer, without its body to a HEAD request."""
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


class PublicMetrics(Collector):
    """The allow-list: metrics that follow from the public log and the study's declaration."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        study, published = self._facts.study, self._facts.published
        about = {"study": study.name, "version": __version__, "study_hash": study.hash}
        remaining = study.rho - published.spent
        gauge = partial(_gauge, study.name)
        yield InfoMetricFamily("stream_dp_study", "Code version and study hash.", about)
        yield gauge("stream_dp_release_index", "Last public message.", published.index)
        yield gauge("stream_dp_rho_spent", "zCDP budget of what is published.", published.spent)
        yield gauge("stream_dp_rho_left", "The rest of the budget.", remaining)
        if published.scheduled is not None:
            text = "Scheduled time of the last release, Unix seconds."
            yield gauge("stream_dp_release_scheduled_seconds", text, published.scheduled)


class ConfidentialMetrics(Collector):
    """Metrics for operators, which the confidential listener serves."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts, name = self._facts, self._facts.study.name
        cells = facts.cells
        gauges = {
            "ready": ("1 where the journal is read and owned, and the log answers.", facts.ready),
            "start_time_seconds": ("When this process started, Unix seconds.", facts.started),
            "log_answered_timestamp_seconds": ("When the log last answered.", facts.answered),
            "release_due_timestamp_seconds": ("When the next releases are due.", facts.due),
            "close_due_timestamp_seconds": (
                "Since when, or from when on, the open period can be closed.",
                facts.close_due,
            ),
            "open_period": ("The period that is open.", facts.open_period),
            "period_held": ("1 while the gate holds the period for the operator.", facts.held),
            "cells_pending": ("Cells that wait for their period's close.", cells.pending),
            "closed_period_accepted_cells": (
                "Cells accepted in the last period that was closed.",
                facts.closed_accepted,
            ),
            "input_lag_seconds": ("How long the oldest unread report has waited.", facts.lag),
            "input_paused": (
                "1 while nothing is read because a decided release waits for its time.",
                facts.paused,
            ),
        }
        if facts.input is not None:
            text = "Records of the reports topic that are not read."
            gauges["input_lag_records"] = (text, facts.input.unread)
            text = "Cells that wait for the open period's close."
            gauges["open_period_cells"] = (text, facts.input.open_cells)
        for key, (text, value) in gauges.items():
            if value is not None:
                yield _gauge(name, f"stream_dp_{key}", text, value)
        counters = {
            "records_read": ("Records read from the reports topic.", facts.records_read),
            "cells_received": ("Cells of reports that were read.", cells.received),
            "cells_accepted": ("Cells that closed periods hold.", cells.accepted),
            "cells_superseded": ("Cells that later ones replaced.", cells.superseded),
        }
        for key, (text, count) in counters.items():
            counter = CounterMetricFamily(f"stream_dp_{key}", text, labels=["study"])
            counter.add_metric([name], count)
            yield counter
        rejected = CounterMetricFamily(
            "stream_dp_cells_rejected", "Cells rejected, by reason.", labels=["study", "reason"]
        )
        for reason, count in cells.rejected.items():
            rejected.add_metric([name, reason], count)
        yield rejected
        text = "1 where work waits for such a process, and none has given a sign of life."
        missing = GaugeMetricFamily("stream_dp_process_missing", text, labels=["study", "process"])
        for process, gone in facts.missing.items():
            missing.add_metric([name, process], gone)
        yield missing
        if facts.study.batches:
            yield from _jobs(facts)


def _jobs(facts: Facts) -> Iterator[Metric]:
    """The metrics of every batch job since this process started."""
    study = facts.study.name
    labels = ["study", "job", "state"]
    states = GaugeMetricFamily("stream_dp_job", "Batch jobs by state.", labels=labels)
    text = "Since when a batch job waits for its first round."
    since = GaugeMetricFamily(
        "stream_dp_job_waiting_since_timestamp_seconds", text, labels=["study", "job"]
    )
    families = {
        name: GaugeMetricFamily(f"stream_dp_job_{name}", text, labels=["study", "job"])
        for name, text in (
            ("done", "Rounds of a batch job that are decided."),
            ("rounds", "Rounds that a batch job will have, as its worker tells."),
            ("error", "Error of a job's model on its noisy answers, in standard errors squared."),
            ("left_seconds", "Time that a batch job will still take, as its worker guesses."),
        )
    }
    for name, job in list(facts.jobs.items()):
        states.add_metric([study, name, job.state], 1)
        if job.state == "waiting":
            since.add_metric([study, name], job.since)
        values = [job.done, 0, math.nan, math.nan]
        if (progress := job.progress) is not None:
            values[1:] = progress.rounds, progress.error, progress.left
        for family, value in zip(families.values(), values, strict=True):
            family.add_metric([study, name], value)
    yield states
    yield since
    yield from families.values()


def _gauge(study: str, name: str, text: str, value: float | Fraction) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=["study"])
    gauge.add_metric([study], float(value))
    return gauge


@contextmanager
def listening(
    address: str, facts: Facts, access: Access | None, names: Iterable[str] = ()
) -> Iterator[int]:
    """Serves on HOST:PORT until the block ends, and gives the port. Raises UserError.

    access: to the confidential metrics; None for the public listener.
    names: of hosts by which clients reach the address.
    """
    site = _site(facts, access, Hosts(address, names))
    with listener(address) as socket, serving(socket, site):
        yield int(socket.getsockname()[1])


def _site(facts: Facts, access: Access | None, hosts: Hosts) -> Site:
    """The pages of the public listener, or with `access` of the confidential one."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublicMetrics(facts))

    def metrics() -> Page:
        return HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST

    if access is None:
        return Site({"/metrics": metrics}, hosts)
    registry.register(ConfidentialMetrics(facts))

    def ready() -> Page:
        if facts.ready:
            return HTTPStatus.OK, b"ready\n", TEXT
        return HTTPStatus.SERVICE_UNAVAILABLE, b"not ready\n", TEXT

    health = {"/readyz": ready, "/healthz": lambda: (HTTPStatus.OK, b"ok\n", TEXT)}
    return Site({"/metrics": metrics}, hosts, access, health)
