"""What every service takes after many periods: the growth of memory, descriptors, threads and disk.

    python benchmarks/soak.py [MINUTES [PLACE ...]] [--people N] [--periods N]

A releaser, a worker and a monitor run as processes of their own for MINUTES (15 by default), at
every PLACE at the same time: `sqlite` (the default) or the host:port of a broker. Period follows
upon period: everybody reports, the period closes, its release is read from the monitor, which then
answers a question. Every tenth period has a table of people, too, which the worker fits. After each
period the processes of a service, children included, are measured: proportional memory (PSS),
descriptors, threads; and the bytes of the study's folder. Printed are the slopes of lines of least
squares through the last two thirds of the periods, a period each. Exit code 1 if a service ended.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeAlias

import numpy as np
from result_file import record

from stream_dp.log.log import NEVER, Log, LogError, Record
from stream_dp.log.message import part_name
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import RELEASES, REPORTS

Process: TypeAlias = "subprocess.Popen[bytes]"

SERVICES = ("releaser", "worker", "monitor")
PATIENCE = 300.0  # seconds for a release
PANEL = b"/pairs"  # the end of the keys of its records
PAGES = (
    "/",
    "/release/pairs",
    "/api/v1/releases",
    "/api/v1/estimate?release=pairs&query=pattern+1+1",
)
PAUSE = 0.1  # seconds between two looks
_STUDY = """
[study]
name = "soak"
unit = "person"
neighbours = "replace_one"
rho = {rho}
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
[attributes.work]
values = ["none", "part", "full"]
missing = "none"
[[releases]]
name = "pairs"
kind = "window"
attribute = "poor"
width = 2
rho = 1
[[releases]]
name = "people"
kind = "mixture"
attributes = ["poor", "work"]
every = {every}
rho = 1
[run]
log = "{log}"
public = "{public}"
worker = false
"""
_EVERY = 10  # periods between two tables


@dataclass(frozen=True)
class Usage:
    """What the processes of a service take. memory: in bytes."""

    memory: int
    descriptors: int
    threads: int


@dataclass
class Run:
    """A study in a folder, its services, and their usage after each period.

    disk: the bytes of the folder after each period.
    answered: the number of pages and answers of the monitor.
    fault: why it ended early.
    """

    folder: Path
    processes: dict[str, Process]
    address: str  # of the monitor
    usage: dict[str, list[Usage]] = field(default_factory=lambda: {n: [] for n in SERVICES})
    disk: list[int] = field(default_factory=list)
    answered: int = 0
    fault: str = ""

    @property
    def study(self) -> Path:
        return self.folder / "study.toml"

    def measure(self) -> None:
        for name, process in self.processes.items():
            self.usage[name].append(usage_of(process.pid))
        self.disk.append(sum(p.stat().st_size for p in self.folder.rglob("*") if p.is_file()))


def tree(pid: int) -> list[int]:
    """A process with its children and theirs."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    return found


def usage_of(pid: int) -> Usage:
    memory = descriptors = threads = 0
    for member in tree(pid):
        place = Path(f"/proc/{member}")
        with contextlib.suppress(OSError):
            rollup = (place / "smaps_rollup").read_text()
            memory += 1024 * int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])  # type: ignore[index]
            descriptors += len([*(place / "fd").iterdir()])
            threads += len([*(place / "task").iterdir()])
    return Usage(memory, descriptors, threads)


@contextmanager
def services(folder: Path, log: str, public: str, people: int, periods: int) -> Iterator[Run]:
    """Starts the services of a new study, and stops them."""
    folder.mkdir()
    tables = -(-periods // _EVERY)
    text = _STUDY.format(
        rho=1 + tables, periods=periods, people=people, every=_EVERY, log=log, public=public
    )
    if log.startswith("kafka:"):
        text += "replication = 1\n"
    study = folder / "study.toml"
    study.write_text(text)
    commands = {
        "releaser": ["run", study],
        "worker": ["worker", study],
        "monitor": ["monitor", public, "--listen", "127.0.0.1:0"],
    }
    with ExitStack() as stack:
        processes = {}
        for name, words in commands.items():
            output = stack.enter_context((folder / f"{name}.txt").open("w"))
            processes[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", "stream_dp.services.commands.cli", *map(str, words)],
                cwd=folder,
                stdout=output,
                stderr=output,
            )
            stack.callback(stop, processes[name])
            if name == "releaser":  # the monitor needs a public log
                wait_for(lambda: began(study), processes, folder)
        said = folder / "monitor.txt"
        wait_for(lambda: "http://" in said.read_text(), processes, folder)
        address = re.search(r"http://127\.0\.0\.1:\d+", said.read_text())
        assert address is not None
        yield Run(folder, processes, address[0])


def stop(process: Process) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:  # a fit is being compiled
        process.kill()
        process.wait()


def opened(study: Path, *, public: bool) -> closing[Log]:
    deployment = Deployment.load(study)
    return closing(deployment.public(readonly=True) if public else deployment.log())


def began(study: Path) -> bool:
    """Whether the study has a public log with its first message."""
    with contextlib.suppress(LogError), opened(study, public=True) as log:
        return log.cut(RELEASES, NEVER)[0] > 0
    return False


def wait_for(happened: Callable[[], bool], processes: Mapping[str, Process], folder: Path) -> None:
    """Raises SystemExit if a service ended, or after PATIENCE seconds.

    folder: has what the services say.
    """
    deadline = time.monotonic() + PATIENCE
    while not happened():
        for name, process in processes.items():
            if process.poll() is not None:
                said = (folder / f"{name}.txt").read_text()
                raise SystemExit(f"{name} ended with {process.poll()}: {said[-2000:]}")
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing happened in {PATIENCE:.0f} s")
        time.sleep(PAUSE)


def reports(people: int, number: int) -> list[Record]:
    """The reports of everybody for a period, and its marker."""
    work = (b"none", b"part", b"full")
    text = b'{"person":"p%d","period":%d,"values":{"poor":%d,"work":"%s"}}'
    said = (text % (i, number, (i + number) % 3 == 0, work[i % 3]) for i in range(people))
    return [*(Record(REPORTS, one, partition=0) for one in said), close_marker(number, 0)]


def live(run: Run, people: int, periods: int, end: float) -> None:
    """Period upon period until the monotonic time `end`."""
    published, position = 0, {0: 0}
    with opened(run.study, public=False) as log, opened(run.study, public=True) as public:

        def is_published() -> bool:
            nonlocal published, position
            batch = public.read(RELEASES, position, 1000, 0)
            published += sum(part_name(r) == "manifest" and PANEL in r.key for r in batch.records)
            position = batch.next
            return published >= number - 1  # the first pair of periods ends with the second

        for number in range(1, periods + 1):
            if time.monotonic() > end:
                return
            log.append(reports(people, number))
            wait_for(is_published, run.processes, run.folder)
            for path in PAGES:
                # The monitor may not have read the first releases yet.
                with contextlib.suppress(urllib.error.HTTPError):
                    with urllib.request.urlopen(run.address + path, timeout=60) as answer:
                        run.answered += bool(answer.read())
            run.measure()


def slope(values: Sequence[float]) -> float:
    """The slope of a line of least squares through the last two thirds of the values."""
    kept = np.array(values[len(values) // 3 :], float)
    return float(np.polyfit(np.arange(kept.size), kept, 1)[0]) if kept.size > 1 else float("nan")


def soaked(log: str, public: str, options: argparse.Namespace, folder: Path) -> Run:
    with services(folder, log, public, options.people, options.periods) as run:
        try:
            live(run, options.people, options.periods, time.monotonic() + 60 * options.minutes)
        except SystemExit as ended:
            run.fault = str(ended)
    return run


def table(name: str, run: Run) -> None:
    """Prints and records the slopes of a study."""
    print(
        f"{name}: {len(run.disk)} periods, {run.answered} answers of the monitor,"
        f" {slope(run.disk) / 1024:.1f} kB of disk a period"
    )
    head = ("MiB at last", "kB a period", "descriptors", "a period", "threads", "a period")
    print(f"{'':<12}" + "".join(f"{word:>14}" for word in head))
    for service, usage in run.usage.items():
        memory, descriptors, threads = (
            [getattr(one, f.name) for one in usage] for f in fields(Usage)
        )
        megabytes, growth = memory[-1] / 2**20, slope(memory) / 1024
        counts = (descriptors[-1], slope(descriptors), threads[-1], slope(threads))
        print(f"{service:<12}" + "".join(f"{c:>14.3f}" for c in (megabytes, growth, *counts)))
        slopes = (growth, slope(descriptors), slope(threads))
        record("soak", f"{service}, {name}", len(usage), megabytes, *slopes)
    if name == "SQLite":  # on Kafka the folder has no log
        growth = slope(run.disk) / 1024
        record("soak", "folder of the study, SQLite", len(run.disk), None, growth, None, None)
    if run.fault:
        print(run.fault)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("minutes", type=float, nargs="?", default=15.0)
    parser.add_argument("places", nargs="*", default=["sqlite"], metavar="PLACE")
    parser.add_argument("--people", type=int, default=1000)
    parser.add_argument("--periods", type=int, default=5000)
    options = parser.parse_args()
    os.environ["STREAM_DP_INSECURE"] = "true"  # for a broker on this machine
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:
        places = {}
        for place in options.places:
            url = f"kafka://{place}/soak-{uuid.uuid4().hex[:8]}"
            if place == "sqlite":
                places["SQLite"] = ("sqlite:soak.db", "sqlite:soak-public.db")
            else:
                places["Kafka"] = (url, f"{url}-public")
        runs = {
            kind: pool.submit(soaked, *urls, options, Path(name) / kind)
            for kind, urls in places.items()
        }
        for kind, run in runs.items():
            table(kind, run.result())
        if any(run.result().fault for run in runs.values()):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
