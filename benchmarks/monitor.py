"""The monitor under load: how long the first page takes, and a hundred viewers at once.

    python benchmarks/monitor.py --rows 1000000 --periods 60

A study of that many synthetic rows is published into a file, with simulated noise, and served by
`stream-dp monitor`. Measured are the time from the start until the log is read and the first pages
are computed, the first page after it, a question that nobody has asked before, the answers per
second and the 99th percentile of a hundred viewers at once, and the memory of the server. The
baseline of the same run is a static file of the same bytes from Python's own web server.
"""

from __future__ import annotations

import argparse
import http.client
import http.server
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.monitors import monitor, publish
from kit.public_logs import published
from kit.studies import attribute, cumulative, small_study, window

from stream_dp.privacy.noise import SeededNoise

PATHS = ("/", "/release/windows", "/release/totals", "/privacy", "/api/v1/releases")


def study(rows: int, periods: int):
    return small_study(
        name="load",
        periods={"first": "2021-01", "every": "month", "count": periods},
        size=rows,
        attributes={"poverty": attribute([0, 1], missing=0)},
        releases=[
            window("windows", "poverty", width=3, rho="1/2"),
            cumulative("totals", "poverty", [1], rho="1/2"),
        ],
    )


def get(port: int, path: str) -> tuple[float, int]:
    """Seconds until an answer is read whole, and its bytes."""
    began = time.perf_counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status)
    return time.perf_counter() - began, len(body)


def crowd(port: int, paths: tuple[str, ...], viewers: int, each: int) -> dict[str, float]:
    """Answers per second and the 99th percentile of so many viewers, one after the other's page."""

    def view(number: int) -> list[float]:
        return [get(port, paths[(number + i) % len(paths)])[0] for i in range(each)]

    began = time.perf_counter()
    with ThreadPoolExecutor(viewers) as pool:
        times = [latency for one in pool.map(view, range(viewers)) for latency in one]
    seconds = time.perf_counter() - began
    return {
        "answers_per_second": len(times) / seconds,
        "median_ms": 1000 * float(np.median(times)),
        "p99_ms": 1000 * float(np.quantile(times, 0.99)),
    }


def memory(pid: int) -> dict[str, float]:
    """The memory of a process in MB, now and at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    named = dict(line.split(":", 1) for line in lines)
    return {k: int(named[k].split()[0]) / 1000 for k in ("VmRSS", "VmHWM")}


def baseline(body: int, viewers: int, each: int) -> dict[str, float]:
    """The same crowd on Python's own web server, which sends a file of as many bytes."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "page").write_bytes(b"x" * body)

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments, **named):
                super().__init__(*arguments, directory=folder, **named)

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 1024  # no viewer waits for another try

        server = Server(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return crowd(server.server_address[1], ("/page",), viewers, each)
        finally:
            server.shutdown()
            server.server_close()


def measure(rows: int, periods: int, viewers: int, each: int) -> dict[str, object]:
    declared = study(rows, periods)
    truth = (np.random.default_rng(1).random((rows, periods)) < 0.1).astype(np.uint8)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "load.db"
        publish(path, published(declared, {"poverty": truth}, SeededNoise(2)))
        began = time.perf_counter()
        with monitor(f"sqlite:{path}") as one:
            ready = time.perf_counter() - began
            first, body = get(one.port, "/release/windows")
            question = "/release/windows?q=pattern+1+0+1"
            asked = get(one.port, question)[0]
            again = get(one.port, question)[0]
            under = crowd(one.port, PATHS, viewers, each)
            used = memory(one.process.pid)
        return {
            "rows": rows,
            "periods": periods,
            "log_MB": path.stat().st_size / 1e6,
            "ready_s": ready,
            "first_page_ms": 1000 * first,
            "new_question_ms": 1000 * asked,
            "same_question_ms": 1000 * again,
            "crowd": under,
            "static_file": baseline(body, viewers, each),
            "memory_MB": used,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--periods", type=int, default=12)
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--each", type=int, default=20)
    options = parser.parse_args()
    result = measure(options.rows, options.periods, options.viewers, options.each)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
