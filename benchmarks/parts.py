"""Wall time, CPU time and memory of a study's run, closed here and in parts by processes.

    python benchmarks/parts.py [PEOPLE]

Two periods on SQLite, one report of everybody in each; in the second everybody is known. A run is
`stream-dp run --until-idle` on a copy of the same logs, with the aggregator that it starts beside
itself. Seconds include the start of each process; CPU is of all processes together. Ratios are
against `here` in the same run. Memory is the most of the releaser, and of the aggregator or the
largest of its processes, which closes in the releaser's place.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.studies import attribute, cumulative, study_toml, window
from result_file import record

from stream_dp.log.log import Record
from stream_dp.services.intake.markers import announce_markers, close_marker
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import CLOSES, REPORTS

PARTITIONS, AT_ONCE, PERIODS = 4, 50_000, 4  # the benchmark of Spark closes all of them
ENGINES = [("here", 1), ("processes", 1), ("processes", 2)]


def text(people: int, engine: str, processes: int) -> str:
    return study_toml(
        name="bench",
        periods={"first": 1, "every": "step", "count": PERIODS},
        size=people,
        attributes={"poverty": attribute([0, 1], missing=0)},
        releases=[
            window("w", "poverty", width=2, rho=0.5),
            cumulative("c", "poverty", [1], rho=0.5),
        ],
        run={
            "log": "sqlite:bench.db",
            "public": "sqlite:bench-public.db",
            "partitions": PARTITIONS,
            "engine": engine,
            "processes": processes,
            "parts": 64,
        },
    )


def send(folder: Path, people: int, study: str, periods: int = 2) -> None:
    """Everybody's reports and the markers of periods. study: the text of the study file."""
    file = folder / "bench.toml"
    file.write_text(study)
    rng = np.random.default_rng(0)
    with closing(Deployment.load(file).log()) as log:
        log.create({REPORTS: PARTITIONS, CLOSES: 1})
        for period in range(1, periods + 1):
            codes = rng.integers(0, 2, people).tolist()
            for start in range(0, people, AT_ONCE):
                log.append(
                    Record(
                        REPORTS,
                        b'{"person":"person-%d","period":%d,"values":{"poverty":%d}}'
                        % (i, period, codes[i]),
                        partition=i % PARTITIONS,
                    )
                    for i in range(start, min(start + AT_ONCE, people))
                )
            announce_markers(log, period)
            log.append(close_marker(period, p) for p in range(PARTITIONS))


def children(pid: int) -> list[int]:
    """A process and all that it has begun."""
    below, todo = list[int](), [pid]
    while todo:
        below.append(todo.pop())
        for task in Path(f"/proc/{below[-1]}/task").glob("*/children"):
            todo += map(int, task.read_text().split())
    return below


def run(folder: Path) -> tuple[float, float, int, int]:
    """Seconds and CPU seconds of a run to the end, MiB of the releaser and of the others."""
    start, peaks, ticks = time.monotonic(), dict[int, int](), dict[int, int]()
    arguments = [sys.executable, "-m", "stream_dp.services.commands.cli", "run", "--until-idle"]
    process = subprocess.Popen(
        [*arguments, str(folder / "bench.toml")], stdout=subprocess.PIPE, text=True
    )

    def watch() -> None:
        while process.poll() is None:
            for pid in children(process.pid):
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                ticks[pid] = int(stat[11]) + int(stat[12])  # user and system, without children
                if peak := re.search(r"VmHWM:\s+(\d+) kB", status):
                    peaks[pid] = int(peak[1]) // 1024
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    said = process.communicate()[0]
    watcher.join()
    assert "horizon" in said, said
    cpu = sum(ticks.values()) / os.sysconf("SC_CLK_TCK")
    releaser = peaks.pop(process.pid)
    return time.monotonic() - start, cpu, releaser, max(peaks.values(), default=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("people", type=int, nargs="?", default=1_000_000)
    people = parser.parse_args().people
    print(f"{people} people, 2 periods, {PARTITIONS} partitions, {os.cpu_count()} cores")
    columns = f"{'wall s':>9}{'ratio':>7}{'CPU s':>9}{'ratio':>7}"
    print(f"{'engine':<14}{columns}{'releaser MiB':>14}{'aggregator MiB':>16}", flush=True)
    first: tuple[float, float] | None = None
    with TemporaryDirectory() as name:
        sent = Path(name) / "sent"
        sent.mkdir()
        send(sent, people, text(people, "processes", 1))
        for engine, processes in ENGINES:
            folder = Path(name) / f"{engine}-{processes}"
            shutil.copytree(sent, folder)
            (folder / "bench.toml").write_text(text(people, engine, processes))
            wall, cpu, releaser, others = run(folder)
            first = first or (wall, cpu)
            label = engine if engine == "here" else f"{processes} process" + "es" * (processes > 1)
            ratios = f"{wall:9.1f}{wall / first[0]:7.2f}{cpu:9.1f}{cpu / first[1]:7.2f}"
            cells = (wall, wall / first[0], cpu, cpu / first[1], releaser, others or None)
            record("parts", f"{people:,}, {label}", *cells)
            print(f"{label:<14}{ratios}{releaser:14}{others or '':>16}", flush=True)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
