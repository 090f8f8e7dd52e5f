"""A small study to which everything happens that can happen to reports, and ways to run it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kit.rejected_cells import reasons_of
from kit.studies import BINARY, MARKER, MONTHS, attribute, cumulative, study_toml, window
from stream_dp.log.log import Log, Record
from stream_dp.log.sqlite import SqliteLog
from stream_dp.planning.plan import Plan
from stream_dp.privacy.noise import Draw
from stream_dp.release.published_panels import read_estimates
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.services.storage import journal
from stream_dp.services.storage.journal import Entry
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study.topics import DEAD_LETTERS, JOURNAL, RELEASES, REPORTS
from stream_dp.studyfile import load_study

PERIODS, PARTITIONS, SIZE = 5, 2, 32
LABELS = [f"2021-{month:02d}" for month in range(1, PERIODS + 1)]
PEOPLE = [f"person-{i:02d}" for i in range(40)]


def declaration(
    close: Mapping[str, Any] = MARKER,
    neighbours: str = "replace_one",
    size: int | None = SIZE,
    rho: float = 0.5,
    *,
    closed: bool = False,
    periods: int = PERIODS,
) -> str:
    """The text of the study file. close: how periods close, the keys of `[study.periods]`."""
    share = {"size_share": 0.2} if neighbours == "add_remove" else {}
    return study_toml(
        neighbours=neighbours,
        rho=rho,
        periods={**MONTHS, "count": periods, **close},
        size=size,
        closed=closed,
        attributes={**BINARY, "work": attribute(["yes", "no"], missing="absent")},
        releases=[
            window("pairs", "poverty", width=2, rho=0.2),
            cumulative("working", "work", ["yes"], rho=0.2, **share),
        ],
        run={
            "log": "sqlite:small.db",
            "public": "sqlite:small-public.db",
            "partitions": PARTITIONS,
        },
    )


def report(partition: int, person: object, period: object, values: object) -> Record:
    data = {"person": person, "period": period, "values": values}
    return raw(partition, json.dumps(data).encode())


def raw(partition: int, data: bytes | None) -> Record:
    return Record(topic=REPORTS, value=data, key=None, headers=(), partition=partition)


def markers(number: int) -> list[Record]:
    return [close_marker(number, p) for p in range(PARTITIONS)]


@cache
def reports_of(number: int, late: bool = True) -> tuple[Record, ...]:
    """What comes while period `number` is open: of all kinds, in both partitions."""
    rng, label = np.random.default_rng(number), LABELS[number - 1]
    sent: list[Record] = []
    # Some people appear late, so the last ones find no place.
    for i, person in enumerate(PEOPLE[: 22 + 6 * number]):
        work = ["yes", "no"][int(rng.integers(2))]
        values = {"poverty": int(rng.integers(2)), "work": work}
        sent.append(report(i % 2, person, label, values))
    again = [report(int(rng.integers(2)), p, label, {"poverty": 1}) for p in PEOPLE[:6]]
    cleared = [report(1, p, label, {"work": None}) for p in PEOPLE[4:8]]
    partly = [report(i % 2, p, label, {"poverty": 7, "work": "yes"}) for i, p in enumerate(PEOPLE)]
    ahead = [
        report(i % 2, p, later, {"poverty": 1})
        for later in LABELS[number:]
        for i, p in enumerate(PEOPLE[8:11])
    ]
    closed = LABELS[: number - 1] if late else []
    behind = [report(0, p, label, {"poverty": 1}) for label in closed for p in "ab"]
    unusable = [
        raw(0, b"\xff not JSON"),
        raw(1, None),
        raw(0, b'{"person": "x", "period": "2021-01"}'),
        report(1, "", label, {"poverty": 1}),
        report(0, "x", "1999-01", {"poverty": 1}),
        report(1, "x", label, {"wealth": 3, "poverty": 1.5}),
    ]
    return (*sent, *again, *cleared, *partly[-12:], *ahead, *behind, *unusable)


def script(periods: int = PERIODS) -> list[list[Record]]:
    """The whole input, a list for each period: its reports, its markers, and some too late."""
    return [
        [*reports_of(n), *markers(n), *(report(0, p, LABELS[n - 1], {"poverty": 0}) for p in "cd")]
        for n in range(1, periods + 1)
    ]


FINE = 10**6


class Noiseless:
    """No noise, so that measurements are the true counts; coins differ from draw to draw.

    drew: called with the period's number at every draw of the cumulative release.
    """

    simulated = True

    def __init__(self, drew: Callable[[int], None] = lambda number: None) -> None:
        self._drew = drew

    def draw(self, demand: Sequence[tuple[Any, int]]) -> Draw:
        sizes = [size for _, size in demand]
        # Its counters measure on a fine lattice: their noise is far above that of patterns.
        if sizes and min(variance for variance, _ in demand) > FINE:
            self._drew(sum(sizes))
        coins = np.random.default_rng(int.from_bytes(os.urandom(16), "big"))
        return Draw(tuple(np.zeros(size, np.int64) for size in sizes), coins)


@dataclass
class Clock:
    """A clock that stands still until it is set."""

    now: float = 1_600_000_000.0

    def __call__(self) -> float:
        return self.now


SHARED = ("tell", "at", "stop", "clock", "steady", "file")  # what the context of a releaser has


def made_releaser(
    plan: Plan, log: Log, public: Log, snapshots: Snapshots, partitions: int = 1, **how: Any
) -> Releaser:
    """A releaser. how: fields of it or of its context."""
    context = Context.of(plan.study, **{name: how.pop(name) for name in SHARED if name in how})
    return Releaser(plan, log, public, snapshots, context, partitions, **how)


def shared(releaser: Releaser, **changed: Any) -> None:
    """Changes the context of a releaser before its run."""
    releaser.context = replace(releaser.context, **changed)


def adapt(releaser: Releaser, **how: Any) -> None:
    """Changes a releaser before its run. how: fields of it, of its context, or its clocks."""
    clocks = {"wall" if n == "clock" else n: how.pop(n) for n in ("clock", "steady") if n in how}
    if clocks:
        shared(releaser, clocks=replace(releaser.context.clocks, **clocks))
    for name, value in how.items():
        if name in SHARED:
            shared(releaser, **{name: value})
        else:
            assert hasattr(releaser, name), name
            setattr(releaser, name, value)


@dataclass
class StudyFolder:
    """A folder with the small study: its file, its two logs and its snapshots."""

    folder: Path
    text: str = field(default_factory=declaration)
    clock: Callable[[], float] = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.file.exists():
            self.file.write_text(self.text)

    @property
    def file(self) -> Path:
        return self.folder / "small.toml"

    @property
    def db(self) -> Path:
        return self.folder / "small.db"

    @property
    def public_db(self) -> Path:
        return self.folder / "small-public.db"

    @property
    def snapshots(self) -> Path:
        return self.folder / "small-snapshots"

    @property
    def public_source(self) -> str:
        return f"sqlite:{self.public_db}"

    def copy(self, folder: Path) -> StudyFolder:
        shutil.copytree(self.folder, folder)
        return StudyFolder(folder, self.text, self.clock)

    def log(self, **how: Any) -> closing[SqliteLog]:
        return closing(SqliteLog(self.db, clock=self.clock, **how))

    def public(self, **how: Any) -> closing[SqliteLog]:
        return closing(SqliteLog(self.public_db, public=True, clock=self.clock, **how))

    @contextmanager
    def releaser(self, **how: Any) -> Iterator[Releaser]:
        study, run = load_study(self.file)
        with self.log() as log, self.public() as public:
            snapshots = Snapshots("small-snapshots", self.folder)
            how = {"source": Noiseless(), "clock": self.clock, "steady": self.clock, **how}
            yield made_releaser(Plan(study), log, public, snapshots, run.partitions, **how)

    def run(self, **how: Any) -> bool:
        """Run in this process until nothing is left to do."""
        with self.releaser(**how) as releaser:
            return releaser.run(until_idle=True)

    def send(self, records: Sequence[Record]) -> None:
        with self.log() as log:
            log.create({REPORTS: PARTITIONS})
            log.append(records)

    def entries(self) -> list[Entry]:
        if not self.db.exists():
            return []
        with self.log() as log:
            log.create({JOURNAL: 1})
            return journal.read(log)

    def rows(self, topic: str) -> list[tuple[Any, ...]]:
        """Everything a topic holds, in order."""
        return rows(self.public_db if topic == RELEASES else self.db, topic)

    def published(self) -> list[tuple[Any, ...]]:
        """What an analyst can read now, without the right to write."""
        return rows(self.public_db, RELEASES, "mode=ro")

    def reasons(self) -> dict[str, int]:
        with self.log() as log:
            return dict(reasons_of(log.read(DEAD_LETTERS, {0: 0}, 1_000_000, 0).records))

    def edit(self, statement: str, *values: Any, public: bool = False) -> None:
        """Change a log's file behind its back."""
        with closing(sqlite3.connect(self.public_db if public else self.db)) as db, db:
            assert db.execute(statement, values).rowcount, "nothing was changed"


def rows(path: Path, topic: str, how: str = "mode=rw") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)) as db:
        return db.execute(
            "SELECT partition, offset, time, key, value, headers FROM records WHERE topic = ?"
            " ORDER BY partition, offset",
            (topic,),
        ).fetchall()


def decided(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """All that each decision takes from the input; the same for the same input."""
    return [
        {
            "number": entry.number,
            "cut": entry.input.cut,
            "marks": entry.next_marks,
            "accounting": entry.message.head.get("accounting"),
            "population": (entry.message.head.get("snapshot") or {}).get("sha256"),
            "charges": entry.charges,
            "counts": counts(entry),
        }
        for entry in entries
    ]


def counts(entry: Entry) -> dict[str, list[int]]:
    """The true counts of an entry that was made without noise, by release."""
    from stream_dp.log.message import parts_in_records

    by_release = {}
    for name in ("pairs", "working"):
        key = f"/{name}".encode()
        sent = [r for r in entry.public_records() if (r.key or b"").endswith(key)]
        if sent:
            estimates = read_estimates(parts_in_records(sent)).to_pylist()
            by_release[name] = [round(x["value"]) for x in estimates if x["query"] != "people"]
    return by_release


def fixed_secret(size: int) -> bytes:
    return bytes(range(1, size + 1))


def fix_secrets(patch: Any) -> None:
    """The same keys in every run, so that the same people find a place."""
    for module in ("stream_dp.log.sqlite_file", "stream_dp.services.releaser.recovery"):
        patch.setattr(f"{module}.system_entropy", fixed_secret)
    patch.setattr("stream_dp.privacy.noise.system_entropy", fixed_secret)
