"""A load of reports on Kafka and on SQLite, through the same releaser, against a simple model.

    python benchmarks/loads/load.py [REPORTS]

The people of a real panel of nine months (oulad_submit_monthly.csv of data_sets.py), repeated
under new ids up to the wanted number of reports (`load_reports.py` says of which kinds), over 8
partitions, keyed by person. A study of twelve months is closed nine times.

Prints what became of every cell, on both logs and by the model; exit code 1 if anything differs.
The broker is the one at STREAM_DP_TEST_KAFKA, or else it starts its own.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka.admin import AdminClient
from kit.rejected_cells import reasons_of
from load_model import WIDTH, Outcome, model
from load_reports import CLOSED, LABELS, MONTHS, STATES, Load, generate

from stream_dp.client import PublicLog
from stream_dp.log.kafka import KafkaLog
from stream_dp.log.kafka_clients import new_client
from stream_dp.log.log import Log, Record, following
from stream_dp.log.sqlite import SqliteLog
from stream_dp.planning.plan import plan_study
from stream_dp.privacy.noise import Draw
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.services.storage import journal
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study import Study
from stream_dp.study.topics import DEAD_LETTERS, REPORTS
from stream_dp.studyfile import parse_study

PARTITIONS = 8


class Noiseless:
    """A source without noise, so that releases are counts; simulation only."""

    simulated = True

    def draw(self, demand: Sequence[tuple[Any, int]]) -> Draw:
        noise = tuple(np.zeros(size, np.int64) for _, size in demand)
        return Draw(noise, np.random.default_rng(0))


def study(people: int) -> Study:
    """A release of patterns of three months; a missing month repeats the month before."""
    return parse_study(
        {
            "study": {
                "name": "load",
                "unit": "person",
                "neighbours": "replace_one",
                "rho": "0.01",
                "delta": "1e-6",
                "periods": {"first": LABELS[0], "every": "month", "count": MONTHS},
                "population": {"size": people},
            },
            "attributes": {
                "submit": {"values": list(range(STATES)), "missing": {"carry": True, "first": 0}}
            },
            "releases": [
                {
                    "name": "quarters",
                    "kind": "window",
                    "attribute": "submit",
                    "width": WIDTH,
                    "strategy": "histogram",  # measurements without noise are counts
                    "rho": "0.01",
                }
            ],
        }
    )


def send(load: Load, log: Log) -> None:
    """The records of all months, with markers in every partition after each but the last."""
    log.create({REPORTS: PARTITIONS})
    for closed, window in enumerate(load.windows, 1):
        log.append(Record(REPORTS, r.value, r.person.encode()) for r in window)
        if closed <= CLOSED:
            log.append(close_marker(closed, part) for part in range(PARTITIONS))


def run_releaser(load: Load, log: Log, public: Log, folder: Path) -> tuple[Outcome, str]:
    """Run the releaser on the reports sent; the outcome, and the hash of the last release."""
    snapshots = Snapshots("snapshots", folder)
    plan = plan_study(study(load.people))
    process = Releaser(
        plan=plan,
        log=log,
        public=public,
        snapshots=snapshots,
        context=Context.of(plan.study),
        partitions=PARTITIONS,
        source=Noiseless(),
    )
    assert not process.run(until_idle=True)
    outcome = Outcome()
    for entry in journal.read(log)[1:]:
        cells = dict(entry.message.head["accounting"])
        rejected = {f"rejected {reason}": n for reason, n in cells.pop("rejected").items()}
        outcome.cells.append({**cells, **rejected})
    counted = asdict(process.context.facts.cells)
    rejected = {f"rejected {r}": n for r, n in counted.pop("rejected").items() if n}
    outcome.cells.append({**counted, **rejected})
    letters = following(log, DEAD_LETTERS, dict(log.describe(DEAD_LETTERS).first))
    outcome.letters = dict(reasons_of(letters))
    published = PublicLog(public)
    for release in published.releases_of("quarters"):
        number = release.certificate.number
        outcome.patterns[number] = release.measurements["value"].to_pylist()
    return outcome, published.head


@contextmanager
def logs(kind: str, folder: Path, address: str) -> Iterator[tuple[Log, Log]]:
    """A new confidential and a new public log; their topics are removed at the end."""
    if kind == "SQLite":
        with (
            closing(SqliteLog(folder / "log.db")) as log,
            closing(SqliteLog(folder / "public.db", public=True)) as public,
        ):
            yield log, public
        return
    prefix, settings = f"load-{uuid.uuid4().hex}", {"bootstrap.servers": address}
    try:
        with (
            closing(KafkaLog(prefix, settings, replication=1, timed=(REPORTS,))) as log,
            closing(KafkaLog(f"{prefix}-public", settings, replication=1)) as public,
        ):
            yield log, public
    finally:
        admin = new_client(AdminClient, settings)
        topics = [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]
        for future in admin.delete_topics(topics).values():
            future.result(30)


def compare(load: Load, address: str) -> tuple[list[str], bool]:
    """A table of the outcomes on both logs beside the expected one, and whether all are equal."""
    expected = model(load)
    outcomes: dict[str, Outcome] = {"expected": expected}
    gc.collect()
    gc.freeze()  # the load itself is not looked through again and again while releasers run
    heads, lines = [], [f"{len(load)} reports of {load.people} people, {PARTITIONS} partitions"]
    for kind in ("SQLite", "Kafka"):
        with tempfile.TemporaryDirectory() as name, logs(kind, Path(name), address) as pair:
            start = time.perf_counter()
            send(load, pair[0])
            sent = time.perf_counter()
            outcomes[kind], head = run_releaser(load, *pair, Path(name))
            done = time.perf_counter()
        heads.append(head)
        lines.append(f"{kind}: sent in {sent - start:.1f} s, released in {done - sent:.1f} s")
    rows: list[tuple[str, list[Any]]] = [
        (name, [o.cells[-1].get(name, 0) for o in outcomes.values()])
        for name in ordered(outcomes.values())
    ]
    rows += [
        (f"dead letters {reason}", [o.letters.get(reason, 0) for o in outcomes.values()])
        for reason in sorted({r for o in outcomes.values() for r in o.letters})
    ]
    equal = [len({*map(str, shown)}) == 1 for _, shown in rows]
    lines.append(f"{'':<26}" + "".join(f"{kind:>12}" for kind in outcomes))
    for (name, shown), same in zip(rows, equal, strict=True):
        word = "equal" if same else "DIFFERENT"
        lines.append(f"{name:<26}" + "".join(f"{x:>12}" for x in shown) + f"  {word}")
    checks = {
        f"cells at each of {CLOSED} cuts": all(
            o.cells == expected.cells for o in outcomes.values()
        ),
        f"patterns of {len(expected.patterns)} releases": all(
            o.patterns == expected.patterns for o in outcomes.values()
        ),
        "public logs, byte by byte": len(set(heads)) == 1,
        "received = sum of the rest": all(
            2 * cells["received"] == sum(cells.values())
            for outcome in outcomes.values()
            for cells in outcome.cells
        ),
    }
    lines += [f"{name}: {'equal' if same else 'DIFFERENT'}" for name, same in checks.items()]
    return lines, all(equal) and all(checks.values())


def ordered(outcomes: Iterable[Outcome]) -> list[str]:
    """The names of all cells, those of every outcome first as they stand."""
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.cells[-1]))


def main() -> int:
    reports = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root / "tests"), str(root / "deploy" / "kafka")]
    from kit.brokers import running_broker

    with running_broker() as address:
        lines, equal = compare(generate(reports), address)
    print("\n".join(lines))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
