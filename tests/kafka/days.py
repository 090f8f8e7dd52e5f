"""A study of many days with every kind of report, on any log, and what its runs decide."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.panels import Noiseless, adapt, decided, fix_secrets, raw
from kit.rejected_cells import reasons_of
from kit.studies import attribute, cumulative, study_toml, window

from stream_dp.log.log import Log, Record, Stored, following
from stream_dp.services.intake.markers import MARKER as MARK
from stream_dp.services.intake.markers import announce_markers, close_marker
from stream_dp.services.parts.aggregate import Aggregator
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.storage import journal
from stream_dp.services.storage.close_orders import OrderBoard
from stream_dp.services.storage.deployment import Deployment
from stream_dp.services.storage.journal import Entry
from stream_dp.study.topics import CLOSES, DEAD_LETTERS, REPORTS

PEOPLE = [f"person-{i:02d}" for i in range(30)]
MARKER = {"close": "marker"}
IN_PARTS = {"engine": "processes", "parts": 4, "worker": False}
SCHEDULE = {"close": "schedule", "zone": "UTC", "at": time(6), "grace": "3d", "delay": "1h"}


@dataclass
class Days:
    """A study in a folder.

    close: the keys of `[study.periods]` for how periods close.
    engine: where they are closed; `run` has an aggregator in this process.
    cohort: whether the study is of a closed cohort.
    gate: whether a period in which fewer than 12 people answer is held.
    """

    folder: Path
    log: str
    public: str
    periods: int
    partitions: int = 3
    close: Mapping[str, Any] = field(default_factory=lambda: MARKER)
    replication: int = 1
    engine: str = "here"
    cohort: bool = False
    gate: bool = False

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.text())
        self.setting = Deployment.load(self.file)
        self.labels = self.setting.study.periods.labels

    def text(self) -> str:
        """The study file."""
        who = {"size": None, "closed": True, "neighbours": "add_remove"} if self.cohort else {}
        share = {"size_share": 0.1} if self.cohort else {}
        return study_toml(
            name="days",
            rho=21 if self.gate else 20,
            **({"gate": {"rho": 1, "least": 0.5, "expected": 24}} if self.gate else {}),
            periods={"first": "2021-01-01", "every": "day", "count": self.periods, **self.close},
            **{"size": 24, **who},
            attributes={
                "poverty": attribute([0, 1], missing=0),
                "work": attribute(["yes", "no"], missing="absent"),
            },
            releases=[
                window("pairs", "poverty", width=2, rho=10),
                cumulative("working", "work", event=["yes"], rho=10, **share),
            ],
            run={
                "log": self.log,
                "public": self.public,
                "partitions": self.partitions,
                "replication": self.replication,
                "insecure": True,
                **({} if self.engine == "here" else {**IN_PARTS, "engine": self.engine}),
            },
        )

    @classmethod
    def on_kafka(cls, folder: Path, server: str, prefix: str, periods: int, **how: Any) -> Days:
        urls = (f"kafka://{server}/{prefix}", f"kafka://{server}/{prefix}-public")
        return cls(folder, *urls, periods, **how)

    @classmethod
    def on_sqlite(cls, folder: Path, periods: int, **how: Any) -> Days:
        return cls(folder, "sqlite:days.db", "sqlite:days-public.db", periods, **how)

    @property
    def file(self) -> Path:
        return self.folder / "days.toml"

    @property
    def trace(self) -> Path:
        """The file in which the releaser processes write their ids and steps."""
        return self.folder / "trace"

    @property
    def snapshots(self) -> Path:
        return self.folder / "days-snapshots"

    def opened(self) -> closing[Log]:
        return closing(self.setting.log())

    def opened_public(self) -> closing[Log]:
        return closing(self.setting.public(readonly=True))

    def send(self, records: Sequence[Record]) -> None:
        with self.opened() as log:
            log.create({REPORTS: self.partitions})
            if self.engine != "here":
                log.create({CLOSES: 1})
                for number in sorted({int(v) for r in records for n, v in r.headers if n == MARK}):
                    announce_markers(log, number)
            log.append(records)

    def run(self, **how: Any) -> bool:
        """Run in this process until nothing is left to do, without noise."""
        tried = ""
        while True:
            done = self.release(**how)
            with self.opened() as log:
                board = OrderBoard(log)
                if self.engine != "here":
                    board.refresh()
                if done or board.last is None or board.answer(board.last) is not None:
                    return done
                if board.last.id == tried:  # of a topic of reports that is gone
                    return done
                tried = board.last.id
            self.aggregate()

    def aggregate(self, **how: Any) -> None:
        """Answer every order that is open."""
        with self.opened() as log:
            study, snapshots = self.setting.study, self.setting.snapshots
            Aggregator(self.file, study, log, snapshots, **how).run(until_idle=True)

    def release(self, **how: Any) -> bool:
        """Run the releaser until nothing is left to do."""
        with pytest.MonkeyPatch.context() as patch:
            fix_secrets(patch)
            process = releaser_of(self.setting)
            with closing(process.log), closing(process.public):
                adapt(process, **{"source": Noiseless(), **how})
                return process.run(until_idle=True)

    def entries(self) -> list[Entry]:
        with self.opened() as log:
            return journal.read(log)

    def decided(self) -> list[dict[str, Any]]:
        return decided(self.entries())

    def reasons(self) -> dict[str, int]:
        with self.opened() as log:
            return dict(reasons_of(everything(log, DEAD_LETTERS)))

    def place_of(self, person: str) -> int:
        return zlib.crc32(person.encode()) % self.partitions

    def report(
        self, person: str, label: str, values: dict[str, Any], partition: int | None = None
    ) -> Record:
        data = json.dumps({"person": person, "period": label, "values": values}).encode()
        return raw(self.place_of(person) if partition is None else partition, data)

    def reports(self, number: int) -> list[Record]:
        """The reports sent while a period is open: usual, repeated, early, late, unreadable."""
        rng, label = np.random.default_rng(number), self.labels[number - 1]
        # Some people appear late, so the last ones find no place.
        usual = [
            self.report(p, label, {"poverty": int(rng.integers(2)), "work": work})
            for p in PEOPLE[: 20 + number]
            for work in [["yes", "no"][int(rng.integers(2))]]
        ]
        again = [
            self.report(p, label, {"poverty": 1}, int(rng.integers(self.partitions)))
            for p in PEOPLE[:4]
        ]
        cleared = [self.report(p, label, {"work": None}) for p in PEOPLE[3:6]]
        partly = [self.report(p, label, {"poverty": 7, "work": "yes"}) for p in PEOPLE[10:13]]
        early = [
            self.report(p, later, {"poverty": int(rng.integers(2))})
            for later in self.labels[number : number + 3]
            for p in PEOPLE[6:9]
        ]
        late = [
            self.report(p, before, {"poverty": 1})
            for before in self.labels[max(0, number - 3) : number - 1]
            for p in PEOPLE[:2]
        ]
        unusable = [raw(0, b"\xff not JSON"), raw(self.partitions - 1, None), raw(0, b"{}")]
        return [*usual, *again, *cleared, *partly, *early, *late, *unusable]

    def markers(self, number: int) -> list[Record]:
        return [close_marker(number, p) for p in range(self.partitions)]

    def day(self, number: int) -> list[Record]:
        """The records of a period: reports, markers, and reports behind the markers."""
        label = self.labels[number - 1]
        behind = [self.report(p, label, {"poverty": 0}) for p in PEOPLE[:3]]
        return [*self.reports(number), *self.markers(number), *behind]


def everything(log: Log, topic: str) -> list[Stored]:
    """All records of a topic, without those of aborted transactions."""
    return list(following(log, topic, dict(log.describe(topic).first)))
