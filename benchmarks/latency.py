"""Seconds from the marker of a period until its releases can be read.

    python benchmarks/latency.py [PEOPLE ...] [--periods N] [--kafka]

A releaser runs; everybody reports once a period. `read` is from a marker that is sent after the
releaser has read all reports, as where reports come over days, `unread` from one that is sent right
behind them, before any is read. `new` is the first period, in which everybody is new, `known` the
fastest of the others. Two releases, a window and a total; the marker's append is within the time.
In brackets the CPU seconds of the releaser meanwhile, which other programs change less.

With `--kafka` on the broker at STREAM_DP_TEST_KAFKA as well as on SQLite.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

from result_file import record

PARTITIONS, AT_ONCE, POLL = 4, 50_000, 0.002
BROKER = "STREAM_DP_TEST_KAFKA"
STUDY = """
[study]
name = "latency"
unit = "person"
neighbours = "replace_one"
rho = 1
delta = "1e-6"
[study.periods]
first = 1
every = "step"
count = {periods}
[study.population]
size = {people}
[attributes.poor]
values = [0, 1]
missing = 0
[[releases]]
name = "pairs"
kind = "window"
attribute = "poor"
width = 2
rho = "1/2"
[[releases]]
name = "totals"
kind = "cumulative"
attribute = "poor"
event = [1]
rho = "1/2"
[run]
partitions = {partitions}
{logs}
"""
SQLITE = 'log = "sqlite:latency.db"\npublic = "sqlite:latency-public.db"'
_KAFKA = """log = "kafka://{address}/{prefix}"
public = "kafka://{address}/{prefix}-public"
replication = 1
insecure = true"""


def send(log: Any, people: int, period: int) -> None:
    """Everybody's report."""
    from stream_dp.log.log import Record

    text = b'{"person":"person-%d","period":%d,"values":{"poor":%d}}'
    for start in range(0, people, AT_ONCE):
        log.append(
            Record("reports", text % (i, period, (i + period) % 7 == 0), partition=i % PARTITIONS)
            for i in range(start, min(people, start + AT_ONCE))
        )


def close(log: Any, period: int) -> None:
    from stream_dp.services.intake.markers import close_marker

    log.append(close_marker(period, part) for part in range(PARTITIONS))


def used(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a process."""
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(process: subprocess.Popen[bytes], port: int, metric: str, least: float) -> None:
    """Waits until a metric of the releaser has at least this value."""
    value = -1.0
    while value < least:
        assert process.poll() is None, "the releaser has ended"
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
            value = max(
                float(x.split()[-1]) for x in lines if x.startswith(f"stream_dp_{metric}{{")
            )
        time.sleep(0.2)


def measured(
    folder: Path, people: int, periods: int, logs: str, way: str
) -> list[tuple[float, float]]:
    """Seconds and CPU seconds of each period. way: `read` or `unread`."""
    from stream_dp.log.log import NEVER
    from stream_dp.services.storage.deployment import Deployment

    file, seconds = folder / "latency.toml", list[tuple[float, float]]()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    logs += f'\nlisten = "127.0.0.1:{port}"'
    file.write_text(STUDY.format(people=people, periods=periods, partitions=PARTITIONS, logs=logs))
    words = [sys.executable, "-m", "stream_dp.services.commands.cli"]
    subprocess.run([*words, "topics", str(file)], check=True, stdout=subprocess.DEVNULL)
    deployment = Deployment.load(file)
    process = subprocess.Popen([*words, "run", str(file)], stdout=subprocess.DEVNULL)
    try:
        with closing(deployment.log()) as log, closing(deployment.public(readonly=True)) as public:
            while not public.cut("releases", NEVER)[0]:
                time.sleep(POLL)
            for period in range(1, periods + 1):
                wait_for(process, port, "open_period", period)
                if way == "unread":
                    process.send_signal(signal.SIGSTOP)
                send(log, people, period)
                if way == "read":
                    wait_for(process, port, "cells_received_total", people * period)
                end, cpu = public.cut("releases", NEVER), used(process)
                start = time.perf_counter()
                close(log, period)
                process.send_signal(signal.SIGCONT)
                while not public.read("releases", end, 1, 0).records:
                    time.sleep(POLL)
                seconds.append((time.perf_counter() - start, used(process) - cpu))
    finally:
        process.kill()
        process.wait()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("people", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--periods", type=int, default=4)
    parser.add_argument("--kafka", action="store_true")
    options = parser.parse_args()
    print(f"seconds from marker to release, {options.periods} periods, {os.cpu_count()} cores")
    heads = [f"{way}, {period}" for way in ("read", "unread") for period in ("new", "known")]
    print(f"{'log':<8}{'people':>12}" + "".join(f"{head:>15}" for head in heads), flush=True)
    for name in ["sqlite", *(["kafka"] if options.kafka else [])]:
        for people in options.people:
            cells = []
            for way in ("read", "unread"):
                prefix, address = f"late-{uuid.uuid4().hex[:8]}", os.environ.get(BROKER, "")
                logs = SQLITE if name == "sqlite" else _KAFKA
                with TemporaryDirectory() as folder:
                    logs = logs.format(address=address, prefix=prefix)
                    first, *others = measured(Path(folder), people, options.periods, logs, way)
                cells += [first, min(others, default=(float("nan"), float("nan")))]
            record("latency", f"{name}, {people:,}", *(s for s, _ in cells))
            print(
                f"{name:<8}{people:>12,}"
                + "".join(f"{f'{s:.2f} ({c:.2f})':>15}" for s, c in cells),
                flush=True,
            )


if __name__ == "__main__":
    main()
