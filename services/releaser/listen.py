"""HTTP listeners of a running releaser.

The confidential one serves /healthz, /readyz and /metrics. The public one serves /metrics only,
with the metrics of an allow-list. Neither uses the default registry, which would add metrics of
the process. Slow, broken or many clients cost the releaser little, and error texts are not sent.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from stream_dp import __version__
from stream_dp.errors import UserError

from ..addresses import listen_address
from .facts import Facts

_AT_ONCE = 16  # connections; more are closed unanswered
_PATIENCE = 10  # seconds that a client may take over its request
_TEXT = "text/plain; charset=utf-8"
_MISSING = (HTTPStatus.NOT_FOUND, b"not found\n")


class PublicMetrics(Collector):
    """The allow-list: metrics that follow from the public log and the study's declaration."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        study, published = self._facts.study, self._facts.published
        about = {"study": study.name, "version": __version__, "study_hash": study.hash}
        left = study.rho - published.spent
        gauge = partial(_gauge, study.name)
        yield InfoMetricFamily("stream_dp_study", "Code version and study hash.", about)
        yield gauge("stream_dp_release_index", "Last public message.", published.index)
        yield gauge("stream_dp_rho_spent", "zCDP budget of what is published.", published.spent)
        yield gauge("stream_dp_rho_left", "The rest of the budget.", left)
        if published.scheduled is not None:
            words = "Scheduled time of the last release, Unix seconds."
            yield gauge("stream_dp_release_scheduled_seconds", words, published.scheduled)


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
            "open_period": ("The period that is open.", facts.open_period),
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
        if facts.intake is not None:
            words = "Records of the reports topic that are not read."
            gauges["input_lag_records"] = (words, facts.intake.unread)
            words = "Cells that wait for the open period's close."
            gauges["open_period_cells"] = (words, facts.intake.open_cells)
        for key, (words, value) in gauges.items():
            if value is not None:
                yield _gauge(name, f"stream_dp_{key}", words, value)
        counters = {
            "records_read": ("Records read from the reports topic.", facts.records_read),
            "cells_received": ("Cells of reports that were read.", cells.received),
            "cells_accepted": ("Cells that closed periods hold.", cells.accepted),
            "cells_superseded": ("Cells that later ones replaced.", cells.superseded),
        }
        for key, (words, count) in counters.items():
            counter = CounterMetricFamily(f"stream_dp_{key}", words, labels=["study"])
            counter.add_metric([name], count)
            yield counter
        rejected = CounterMetricFamily(
            "stream_dp_cells_rejected", "Cells rejected, by reason.", labels=["study", "reason"]
        )
        for reason, count in cells.rejected.items():
            rejected.add_metric([name, reason], count)
        yield rejected
        if facts.study.batches:
            yield from _jobs(facts)


def _jobs(facts: Facts) -> Iterator[Metric]:
    """The metrics of every batch job since this process started."""
    study = facts.study.name
    labels = ["study", "job", "state"]
    states = GaugeMetricFamily("stream_dp_job", "Batch jobs by state.", labels=labels)
    progress = {
        name: GaugeMetricFamily(f"stream_dp_job_{name}", words, labels=["study", "job"])
        for name, words in (
            ("done", "Rounds of a batch job that are decided."),
            ("rounds", "Rounds that a batch job will have, as its worker tells."),
            ("error", "Error of a job's model on its noisy answers, in standard errors squared."),
            ("left_seconds", "Time that a batch job will still take, as its worker guesses."),
        )
    }
    for name, job in list(facts.jobs.items()):
        states.add_metric([study, name, job.state], 1)
        values = (job.done, job.rounds, job.error, job.left)
        for family, value in zip(progress.values(), values, strict=True):
            family.add_metric([study, name], value)
    yield states
    yield from progress.values()


def _gauge(study: str, name: str, words: str, value: float | Fraction) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, words, labels=["study"])
    gauge.add_metric([study], float(value))
    return gauge


@contextmanager
def listening(address: str, facts: Facts, *, public: bool) -> Iterator[int]:
    """Serves on HOST:PORT until the block ends, and gives the port. Raises UserError."""
    host, port = listen_address(address)
    try:
        server = _Server(host, port, _pages(facts, public))
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no such host"
        raise UserError(f"listen address '{address}': {reason}") from None
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_Page = tuple[HTTPStatus, bytes]


def _pages(facts: Facts, public: bool) -> dict[str, Callable[[], _Page]]:
    """The pages of a listener, by path."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublicMetrics(facts))

    def metrics() -> _Page:
        return HTTPStatus.OK, generate_latest(registry)

    if public:
        return {"/metrics": metrics}
    registry.register(ConfidentialMetrics(facts))

    def ready() -> _Page:
        if facts.ready:
            return HTTPStatus.OK, b"ready\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, b"not ready\n"

    return {
        "/metrics": metrics,
        "/readyz": ready,
        "/healthz": lambda: (HTTPStatus.OK, b"ok\n"),
    }


class _Server(ThreadingTCPServer):
    """A server with a thread for each of a few connections at once. It prints no errors."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, pages: dict[str, Callable[[], _Page]]) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.pages = pages
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a client that leaves early; a traceback could contain values."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path, lambda: _MISSING)
        try:
            status, body = page()
        except Exception:  # its text may contain values
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error\n"
        content = _TEXT
        if self.path == "/metrics" and status == HTTPStatus.OK:
            content = CONTENT_TYPE_LATEST
        self._answer(status, body, content)

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers with the phrase of the code; the standard page would quote the request."""
        self._answer(HTTPStatus(code), f"{HTTPStatus(code).phrase.lower()}\n".encode())

    def _answer(self, status: HTTPStatus, body: bytes, content: str = _TEXT) -> None:
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
