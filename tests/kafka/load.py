"""A load of reports on Kafka and on SQLite, through the same releaser, against a plain model.

    python tests/kafka/load.py [REPORTS]

The people of a real panel of nine months (shared/data/panels/oulad_submit_monthly.csv), repeated
under new ids up to the wanted number of reports, over 8 partitions, keyed by person; of all
reports 1 % come twice (the same again, corrected, or cleared), 1 % late, 1 % malformed in every
way there is, and some before their period. A study of twelve months is closed nine times.

Prints what became of every cell, on both logs and by the model; ends with 1 if anything differs.
The broker is the one at STREAM_DP_TEST_KAFKA, or one that is started for this.
"""

from __future__ import annotations

import csv
import gc
import os
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from confluent_kafka.admin import AdminClient

from stream_dp.client import PublicLog
from stream_dp.log.base import Log, Record, Stored
from stream_dp.log.kafka import KafkaLog
from stream_dp.log.sqlite import SqliteLog
from stream_dp.log.topics import new_client
from stream_dp.plan import plan_study
from stream_dp.privacy.noise import Draw
from stream_dp.services import journal
from stream_dp.services.dead_letters import reasons_of
from stream_dp.services.markers import close_marker
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.snapshots import Snapshots
from stream_dp.services.topics import DEAD_LETTERS, REPORTS
from stream_dp.study import Study
from stream_dp.studyfile import parse_study

PANEL = Path(__file__).parents[3] / "shared/data/panels/oulad_submit_monthly.csv"
MONTHS, CLOSED, PARTITIONS, WIDTH, STATES = 12, 9, 8, 3, 3
LABELS = [f"2014-{month:02d}" for month in range(1, MONTHS + 1)]


class Noiseless:
    """A source without noise, so that releases are counts; simulation only."""

    simulated = True

    def draw(self, demand: Sequence[tuple[Any, int]]) -> Draw:
        noise = tuple(np.zeros(size, np.int64) for _, size in demand)
        return Draw(noise, np.random.default_rng(0))


@dataclass(frozen=True)
class Report:
    """A report and what it means: a cell (or none), and its rejected cells by reason."""

    person: str
    value: bytes | None
    cell: tuple[int, int | None] | None = None  # period, state or None to clear
    rejected: dict[str, int] = field(default_factory=dict)


def plain(person: str, period: int, state: int | None) -> Report:
    raw = {"person": person, "period": LABELS[period - 1], "values": {"submit": state}}
    return Report(person, msgspec.json.encode(raw), (period, state))


def _raw(**fields: Any) -> bytes:
    return msgspec.json.encode(fields)


def malformed(kind: int, person: str, period: int, state: int) -> Report:
    """One of the ways to be wrong; some still hold one cell that is right."""
    label, values = LABELS[period - 1], {"submit": state}
    whole = _raw(person=person, period=label, values=values)
    kinds: list[tuple[bytes | None, dict[str, int]]] = [
        (b"not JSON", {"unreadable": 1}),
        (whole[:-3], {"unreadable": 1}),
        (whole + b"{}", {"unreadable": 1}),
        (b"\xff\xfe" + whole, {"unreadable": 1}),
        (b"", {"unreadable": 1}),
        (None, {"unreadable": 1}),
        (b"[1,2,3]", {"unreadable": 1}),
        (_raw(person=person, values=values), {"unreadable": 1}),
        (_raw(person=person, period=label, values={}), {"unreadable": 1}),
        (_raw(person=person, period=label, values=[state]), {"unreadable": 1}),
        (_raw(person="", period=label, values=values), {"person": 1}),
        (_raw(person="x" * 257, period=label, values=values), {"person": 1}),
        (_raw(person=None, period=label, values=values | {"other": 1}), {"person": 2}),
        (_raw(person=person, period="2013-12", values=values), {"period": 1}),
        (_raw(person=person, period=[label], values=values), {"period": 1}),
        (_raw(person=person, period=label, values={"submitted": state}), {"attribute": 1}),
        (_raw(person=person, period=label, values={"submit": 3}), {"value": 1}),
        (_raw(person=person, period=label, values={"submit": state + 0.5}), {"value": 1}),
        (_raw(person=person, period=label, values={"submit": [state]}), {"value": 1}),
        (_raw(person=person, period=label, values=values | {"b": 1}), {"attribute": 1}),
    ]
    value, rejected = kinds[kind % len(kinds)]
    right = kind % len(kinds) == len(kinds) - 1
    return Report(person, value, (period, state) if right else None, rejected)


@dataclass(frozen=True)
class Load:
    """people: how many; windows: reports before the first close, before the second, and so on;
    the last window is never closed."""

    people: int
    windows: list[list[Report]]

    def __len__(self) -> int:
        return sum(map(len, self.windows))


def panel(path: Path = PANEL) -> list[tuple[str, list[int]]]:
    """Ids and states by month."""
    with path.open(newline="") as file:
        return [(row[0], [int(x) for x in row[1:]]) for row in list(csv.reader(file))[1:]]


def generate(reports: int, seed: int = 1) -> Load:
    """Exactly that many reports, the same ones for the same seed."""
    chance, known = random.Random(seed), panel()
    odd = reports // 100
    people = (reports - 3 * odd) // CLOSED
    windows: list[list[Report]] = [[] for _ in range(CLOSED + 1)]
    ids = [f"{i // len(known)}/{known[i % len(known)][0]}" for i in range(people)]
    for i, person in enumerate(ids):
        for period, state in enumerate(known[i % len(known)][1], 1):
            early = min(period - 1, chance.randrange(1, 4)) if chance.random() < 0.01 else 0
            windows[period - 1 - early].append(plain(person, period, state))
    for _ in range(odd):
        person, period = chance.choice(ids), chance.randrange(1, CLOSED + 1)
        window = chance.randrange(period, CLOSED + 1)
        windows[window].append(plain(person, period, chance.randrange(STATES)))
    for i in range(odd):
        period = chance.randrange(1, CLOSED + 1)
        one = malformed(i, chance.choice(ids), period, chance.randrange(STATES))
        windows[period - 1].append(one)
    # Corrections come after what they correct; those of the last window are of open months.
    left = reports - sum(map(len, windows))
    again: list[list[Report]] = [[] for _ in windows]
    for i in range(left):
        window = chance.randrange(CLOSED + 1)
        if window == CLOSED:
            period = chance.randrange(CLOSED + 1, MONTHS + 1)
            again[window].append(plain(chance.choice(ids), period, chance.randrange(STATES)))
            continue
        first = chance.choice(windows[window])
        period, state = first.cell or (window + 1, 0)
        state = (state, chance.randrange(STATES), None)[i % 3]
        again[window].append(plain(first.person, period, state))
    for window, more in zip(windows, again, strict=True):
        chance.shuffle(window)
        window += more
    return Load(people, windows)


@dataclass
class Outcome:
    """What became of a load: cells at every cut and at the end, patterns of every close."""

    cells: list[dict[str, int]] = field(default_factory=list)
    patterns: dict[int, list[int]] = field(default_factory=dict)
    letters: dict[str, int] = field(default_factory=dict)


def model(load: Load) -> Outcome:
    """What must come out, by dictionaries and the generator's own knowledge."""
    told: dict[int, dict[str, int | None]] = {p: {} for p in range(1, MONTHS + 1)}
    waiting: Counter[int] = Counter()
    histories: dict[str, list[int]] = {}
    rejected: Counter[str] = Counter()
    received = accepted = superseded = 0
    found = Outcome()

    def cells() -> dict[str, int]:
        whole = {"received": received, "accepted": accepted, "superseded": superseded}
        reasons = {f"rejected {reason}": rejected[reason] for reason in sorted(rejected)}
        return {**whole, **reasons, "pending": sum(waiting.values())}

    for closed, window in enumerate(load.windows):
        for report in window:
            received += (report.cell is not None) + sum(report.rejected.values())
            rejected.update(report.rejected)
            if report.cell is None:
                continue
            period, state = report.cell
            if period <= closed:
                rejected["late"] += 1
            else:
                told[period][report.person] = state
                waiting[period] += 1
        if closed == CLOSED:
            break
        last = told.pop(closed + 1)
        accepted += len(last)
        superseded += waiting.pop(closed + 1, 0) - len(last)
        for person in last.keys() - histories.keys():
            histories[person] = [0] * (WIDTH + closed)
        counts = [0] * STATES**WIDTH
        counts[0] = load.people - len(histories)
        for person, history in histories.items():
            state = last.get(person)
            history.append(history[-1] if state is None else state)
            a, b, c = history[-WIDTH:]
            counts[(a * STATES + b) * STATES + c] += 1
        if closed + 1 >= WIDTH:
            found.patterns[closed + 1] = counts
        found.cells.append(cells())
    found.cells.append(cells())
    found.letters = dict(rejected)
    return found


def study(people: int) -> Study:
    """Patterns of three months; a month without a word is like the one before."""
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
    """All the windows, with a marker in every partition after each but the last."""
    log.create({REPORTS: PARTITIONS})
    for closed, window in enumerate(load.windows, 1):
        log.append(Record(REPORTS, r.value, r.person.encode()) for r in window)
        if closed <= CLOSED:
            log.append(close_marker(closed, part) for part in range(PARTITIONS))


def release(load: Load, log: Log, public: Log, folder: Path) -> tuple[Outcome, str]:
    """Run the releaser on what was sent; what came out, and the hash of the last release."""
    snapshots = Snapshots("snapshots", folder)
    made = plan_study(study(load.people))
    process = Releaser(made, log, public, snapshots, PARTITIONS, source=Noiseless())
    assert not process.run(until_idle=True)
    found = Outcome()
    for entry in journal.read(log)[1:]:
        cells = dict(entry.message.head["accounting"])
        rejected = {f"rejected {reason}": n for reason, n in cells.pop("rejected").items()}
        found.cells.append({**cells, **rejected})
    counted = asdict(process.facts.cells)
    rejected = {f"rejected {r}": n for r, n in counted.pop("rejected").items() if n}
    found.cells.append({**counted, **rejected})
    found.letters = dict(reasons_of(everything(log, DEAD_LETTERS)))
    published = PublicLog(public)
    for one in published.of("quarters"):
        found.patterns[one.certificate.number] = one.measurements["value"].to_pylist()
    return found, published.head


def everything(log: Log, topic: str) -> list[Stored]:
    found: list[Stored] = []
    positions = log.describe(topic).first
    while True:
        batch = log.read(topic, positions, 10_000, 0)
        found += batch.records
        positions = batch.next
        if batch.at_end:
            return found


@contextmanager
def logs(kind: str, folder: Path, address: str) -> Iterator[tuple[Log, Log]]:
    """A confidential and a public log, new ones; topics are removed at the end."""
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
    """A table of what came out on both logs beside what had to, and whether all is equal."""
    wanted = model(load)
    outcomes: dict[str, Outcome] = {"expected": wanted}
    gc.collect()
    gc.freeze()  # the load itself is not looked through again and again while releasers run
    heads, lines = [], [f"{len(load)} reports of {load.people} people, {PARTITIONS} partitions"]
    for kind in ("SQLite", "Kafka"):
        with tempfile.TemporaryDirectory() as name, logs(kind, Path(name), address) as pair:
            start = time.perf_counter()
            send(load, pair[0])
            sent = time.perf_counter()
            outcomes[kind], head = release(load, *pair, Path(name))
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
        f"cells at each of {CLOSED} cuts": all(o.cells == wanted.cells for o in outcomes.values()),
        f"patterns of {len(wanted.patterns)} releases": all(
            o.patterns == wanted.patterns for o in outcomes.values()
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


@contextmanager
def broker() -> Iterator[str]:
    running = os.environ.get("STREAM_DP_TEST_KAFKA")
    if running:
        yield running
        return
    sys.path.insert(0, str(Path(__file__).parents[2] / "deploy" / "kafka"))
    from broker import FOLDER, Broker

    with tempfile.TemporaryDirectory() as folder:
        own = Broker(Path(folder), libs=FOLDER / "libs")
        try:
            yield own.start()
        finally:
            own.stop()


def main() -> int:
    reports = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    if not PANEL.exists():
        print(f"load: {PANEL} is not there", file=sys.stderr)
        return 2
    with broker() as address:
        lines, equal = compare(generate(reports), address)
    print("\n".join(lines))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
