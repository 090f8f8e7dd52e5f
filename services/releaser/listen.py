"""HTTP listeners of a running releaser.

The confidential one serves /healthz, /readyz and /metrics; the public one serves /metrics with
the allow-list and nothing else. Neither uses the default registry, which would add the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from stream_dp import __version__
from stream_dp.errors import UserError

from .facts import Facts


class PublicMetrics(Collector):
    """The allow-list: functions of what is published, and of the study's declaration."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts, total = self._facts, self._facts.study.rho
        about = {"version": __version__, "study_hash": facts.study.hash}
        yield InfoMetricFamily("stream_dp_study", "Code version and study hash.", about)
        yield _gauge("stream_dp_release_index", "Last public message.", facts.published)
        yield _gauge("stream_dp_rho_spent", "zCDP budget of what is published.", facts.spent)
        yield _gauge("stream_dp_rho_left", "The rest of the budget.", total - facts.spent)
        if facts.scheduled is not None:
            words = "Scheduled time of the last release, Unix seconds."
            yield _gauge("stream_dp_release_scheduled_seconds", words, facts.scheduled)


class ConfidentialMetrics(Collector):
    """For operators, behind the confidential listener."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts = self._facts
        yield _gauge("stream_dp_ready", "1 once the journal is read and owned.", facts.ready)
        yield _gauge("stream_dp_open_period", "The period that is open.", facts.open_period)
        words = "Records read from the reports topic by this process."
        yield CounterMetricFamily("stream_dp_records_read", words, facts.records_read)
        cells = GaugeMetricFamily(
            "stream_dp_cells", "Cells of reports so far, by what became of them.", labels=["fate"]
        )
        for fate, count in dict(facts.cells).items():
            cells.add_metric([fate], count)
        yield cells


def _gauge(name: str, words: str, value: float | Fraction) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, float(value))


@contextmanager
def listening(address: str, facts: Facts, *, public: bool) -> Iterator[int]:
    """Serve on HOST:PORT until the block ends; gives the port. Raises UserError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UserError(f"listen address '{address}': write HOST:PORT, such as 127.0.0.1:9464")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PublicMetrics(facts))
    if not public:
        registry.register(ConfidentialMetrics(facts))
    try:
        server = ThreadingHTTPServer((host, int(port)), _handler(registry, facts, public))
    except OSError as error:
        raise UserError(f"listen address '{address}': {error.strerror}") from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(
    registry: CollectorRegistry, facts: Facts, public: bool
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "stream-dp", ""

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
            elif public:
                self._answer(404, b"not found\n")
            elif self.path == "/healthz":
                self._answer(200, b"ok\n")
            elif self.path == "/readyz":
                self._answer(*((200, b"ready\n") if facts.ready else (503, b"not ready\n")))
            else:
                self._answer(404, b"not found\n")

        def _answer(self, status: int, body: bytes, content: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", content)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

    return Handler
