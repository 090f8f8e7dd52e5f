"""Wall and CPU time of one close from Kafka: here, by processes, by a warm Spark; its memory.

    python benchmarks/spark.py [PEOPLE] [--parts N]

Four periods, one report of everybody in each, in 4 partitions of a real broker. Each engine
answers the orders of all periods; what the first close costs Spark more is its start, so the least
of the others is shown. CPU is of this process and of all below it, Java included; memory the sum of
the peaks of Spark's own processes. `parts.py` has that of the other engines.
Ratios are against `here`: the same reports read, folded and closed in this process.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "deploy" / "kafka"))

from kit.brokers import running_broker
from kit.spark import application
from parts import PERIODS, children, send, text
from result_file import record

from stream_dp.log.log import collector_paused
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.parts.aggregate import Aggregator
from stream_dp.services.parts.close_tasks import first_entry
from stream_dp.services.parts.engines import Engine, Processes
from stream_dp.services.parts.spark_engine import Spark
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.storage.close_orders import (
    Manifest,
    Order,
    OrderBoard,
    answer_record,
    write_manifest,
)
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import REPORTS

AT_ONCE = 10_000


class Here:
    """Reads, folds and closes in this process, as the releaser does."""

    def __init__(self, deployment: Deployment) -> None:
        self.log = deployment.log()
        self.population = Population(deployment.study)
        self.decoder = Decoder(deployment.study, first_entry(self.log).key)

    @collector_paused()
    def close(self, order: Order) -> None:
        positions = {part: begin for part, (begin, _) in order.ranges.items()}
        while positions:
            after = self.log.read(REPORTS, positions, AT_ONCE, 0)
            reports = [r for r in after.records if r.value is not None]
            self.population.fold(*self.decoder.decode(reports, order.number - 1))
            positions = {p: o for p, o in after.next.items() if o < order.cut[p]}
        self.population.close()


def used(pid: int) -> tuple[float, int]:
    """CPU seconds until now, and MiB at most, of a process and all below it."""
    ticks, peak = 0, 0
    for one in children(pid):
        try:
            stat = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        ticks += int(stat[11]) + int(stat[12])
        high = re.search(r"VmHWM:\s+(\d+) kB", status)
        peak += int(high[1]) // 1024 if high else 0
    return ticks / os.sysconf("SC_CLK_TCK"), peak


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds and CPU seconds of some work."""
    start, before = time.monotonic(), used(os.getpid())[0]
    work()
    return time.monotonic() - start, used(os.getpid())[0] - before


def keep(results: list[Manifest], close: Callable[[], Manifest]) -> None:
    results.append(close())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("people", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--parts", type=int, default=64)
    options = parser.parse_args()
    people, parts = options.people, options.parts
    with (
        running_broker() as server,
        TemporaryDirectory() as name,
        application(Path(name)) as session,
    ):
        file, prefix = Path(name) / "bench.toml", f"b-{uuid.uuid4().hex[:8]}"
        study = text(people, "spark", 2).replace("parts = 64", f"parts = {parts}")
        study = study.replace("sqlite:bench.db", f"kafka://{server}/{prefix}")
        more = "replication = 1\ninsecure = true\nworker = false\n"
        file.write_text(study + more)
        send(Path(name), people, study + more, PERIODS)
        deployment = Deployment.load(file)
        here: Here | None = None
        log = deployment.log()
        engines: dict[str, Engine] = {
            "1 process": Processes(1),
            "2 processes": Processes(2),
            "spark, 2 tasks": Spark(session, log),
        }
        releaser = releaser_of(deployment)
        least = dict[str, tuple[float, float]]()
        for number in range(1, PERIODS + 1):
            releaser.run(until_idle=True)
            board = OrderBoard(log)
            board.refresh()
            order = board.last
            assert order is not None
            assert order.number == number
            here = here or Here(deployment)
            rows = {"here": measured(partial(here.close, order))}
            manifests = list[Manifest]()
            for label, engine in engines.items():
                process = Aggregator(file, deployment.study, log, deployment.snapshots, engine)
                close = partial(process._close, order, OrderBoard(log))
                rows[label] = measured(partial(keep, manifests, close))
            assert all(manifest == manifests[0] for manifest in manifests)
            written = write_manifest(deployment.snapshots.of(order.owner), manifests[0])
            log.append([answer_record(order, written)])
            if number > 1:
                least = {label: min(row, least.get(label, row)) for label, row in rows.items()}
        print(f"{people} people, {parts} parts, 4 partitions, {os.cpu_count()} cores")
        print(f"{'engine':<16}{'wall s':>9}{'ratio':>7}{'CPU s':>9}{'ratio':>7}")
        first = least["here"]
        for label, (wall, cpu) in least.items():
            ratios = f"{wall:9.1f}{wall / first[0]:7.2f}{cpu:9.1f}{cpu / first[1]:7.2f}"
            record("spark", f"{people:,}, {label}", wall, wall / first[0], cpu, cpu / first[1])
            print(f"{label:<16}{ratios}", flush=True)
        java = session.sparkContext._gateway.proc.pid
        print(f"Spark's Java and Python processes: {used(java)[1]:,} MiB")


if __name__ == "__main__":
    main()
