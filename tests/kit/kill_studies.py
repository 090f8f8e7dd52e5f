"""Small studies of every kind of release, whose processes the kill loop kills."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kit.households import HouseholdFolder, report, roster
from kit.parts import in_parts
from kit.parts_of_tables import RUN, TablesInParts
from kit.studies import MARKER, MONTHS, attribute, cumulative, joint, study_toml, window
from stream_dp.log.log import Record
from stream_dp.privacy.noise import NoiseSource
from stream_dp.services.intake.group_files import read_places
from stream_dp.services.intake.group_tables import send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.study.topics import REPORTS

PERIODS, PEOPLE, LATE = 3, 40, 8  # LATE newcomers in each period
ATTRIBUTES = {
    "poor": attribute([0, 1], missing="absent"),
    "job": attribute(["yes", "no"], missing={"carry": True, "first": "no"}),
    "region": attribute(["north", "south"], missing="absent", fixed=True),
    "wave": attribute([1, 2], missing="absent", fixed=True),
}
HERE_AND_PARTS = ("here", "processes")


@dataclass(frozen=True)
class KillStudy:
    """A study of the kill loop.

    kills: how many processes die before the study runs undisturbed.
    """

    name: str
    text: str
    kills: int = 12
    engines: tuple[str, ...] = HERE_AND_PARTS


def _text(releases: Sequence[dict[str, Any]], **changes: Any) -> str:
    declared = {
        "name": "homes",
        "rho": 40,
        "periods": {**MONTHS, **MARKER, "count": PERIODS},
        "size": 60,
        "attributes": ATTRIBUTES,
        "run": RUN,
        **changes,
    }
    return study_toml(releases=releases, **declared)


def _people(kind: str, **more: Any) -> str:
    table = {"name": "people", "kind": kind, "attributes": ["poor", "job", "region"], "rho": 8}
    return _text([window("pairs", "poor", width=2, rho=2), {**table, "every": 2, **more}])


def _households(kind: str, **more: Any) -> str:
    table = {"name": "households", "kind": kind, "attributes": ["poor", "job"], "rho": 8}
    attributes = {name: ATTRIBUTES[name] for name in ("poor", "job")}
    regions = {"region": {"values": ["north", "south"]}}
    return _text(
        [window("pairs", "poor", width=2, rho=2), {**table, "every": 2, **more}],
        neighbours="replace_in_place",
        attributes=attributes,
        groups={"unit": "household", "most": 4, "attributes": regions},
    )


_SIZES = {"name": "sizes", "kind": "sizes", "largest": 5, "rho": 1, "every": 1, "attribute": "home"}
STUDIES = (
    KillStudy(
        "windows, totals",
        _text([window("w", "poor", width=2, rho=1), cumulative("c", "job", ["yes"], rho=1)]),
    ),
    KillStudy("joint", _text([joint("j", "poor", width=2, event=[1], rho=1)])),
    KillStudy(
        "late entry",
        _text(
            [
                window("w", "poor", width=2, rows=60, rho=1),
                joint("j", "poor", width=2, event=[1], rows=60, rho=1),
                cumulative("c", "poor", [0], rows=60, size_share=0.2, rho=1),
            ],
            neighbours="add_remove",
            size=None,
        ),
    ),
    KillStudy(
        "closed cohort",
        _text(
            [
                window("w", "poor", width=2, rho=1),
                joint("j", "job", width=2, event=["yes"], rho=1),
                cumulative("c", "job", ["yes"], size_share=0.2, rho=1),
            ],
            neighbours="add_remove",
            size=None,
            closed=True,
        ),
    ),
    KillStudy(
        "strata, waves",
        _text(
            [
                window("w", "poor", width=2, strata="region", rows=40, rho=1),
                cumulative("c", "poor", [0], strata="region", rows=40, size_share=0.2, rho=1),
                joint(
                    "j",
                    "poor",
                    width=1,
                    event=[1],
                    waves={"by": "wave", "every": 1, "length": 2},
                    rows=40,
                    rho=1,
                ),
            ],
        ),
    ),
    KillStudy("people: mixture", _people("mixture")),
    KillStudy("people: rounds", _people("mixture", rounds=2)),
    KillStudy("people: rap", _people("rap")),
    KillStudy("people: match", _people("match")),
    KillStudy("households: independent", _households("independent")),
    KillStudy("households: hpd-fixed", _households("hpd-fixed", rows=20, rounds=3)),
    KillStudy("households: mwem", _households("mwem", rounds=3)),
    KillStudy(
        "sizes",
        _text(
            [_SIZES],
            size=90,
            attributes={"home": {"place": True, "missing": {"carry": True, "first": "absent"}}},
            places={"unit": "block", "regions": ["county"]},
        ),
    ),
)


@dataclass
class KillFolder(TablesInParts):
    """A folder with a study of the kill loop and the processes that it needs.

    study: the study.
    engine: where periods are closed.
    """

    study: KillStudy = STUDIES[0]
    engine: str = "here"

    def __init__(self, folder: Path, study: KillStudy, engine: str) -> None:
        self.study, self.engine = study, engine
        self.parts, self.kafka, self.run_more, self.name, self.kills = 2, "", "", "", 0
        self.folder = folder
        self.__post_init__()

    def written(self) -> str:
        return self.study.text if self.engine == "here" else in_parts(self.study.text, self.parts)

    @property
    def trace_file(self) -> Path:
        return self.folder / "trace"

    @property
    def failure_file(self) -> Path:
        return self.folder / "failure"

    @property
    def public_file(self) -> Path:
        return self.folder / "homes-public.db"

    def failure(self) -> str:
        return self.failure_file.read_text() if self.failure_file.exists() else "(no traceback)"

    def copy(self, folder: Path) -> KillFolder:
        shutil.copytree(self.folder, folder)
        return KillFolder(folder, self.study, self.engine)

    @property
    def roles(self) -> tuple[str, ...]:
        workers = ("worker",) if self.setting.study.batches else ()
        return ("releaser", *workers, *(() if self.engine == "here" else ("aggregator",)))

    def prepare(self, periods: int = PERIODS) -> KillFolder:
        """Sends the tables that the study needs, and every report and marker."""
        study, rng = self.setting.study, np.random.default_rng(1)
        if study.groups is not None:
            send_table(self.setting, roster())
        if study.places is not None:
            path = self.folder / "places.csv"
            path.write_text("place,county\n" + "\n".join(f"b{i},{'ns'[i % 2]}" for i in range(20)))
            send_table(self.setting, read_places(study, path))
        for number in range(1, periods + 1):
            self.send([*self._reports(number, rng), close_marker(number, 0)])
        return self

    def _reports(self, number: int, rng: np.random.Generator) -> list[Record]:
        """What people report in a period: some nothing, some twice, some what cannot be read."""
        persons = [f"p{i:02d}" for i in range(PEOPLE + LATE * number)]
        if self.setting.study.groups is not None:
            persons = [*roster().persons, "outside"]
        sent = []
        for i in rng.permutation(len(persons)).tolist():
            values: dict[str, Any] = {}
            for name, declared in self.setting.study.attributes.items():
                options = declared.declared_values or [f"b{n}" for n in range(21)]
                if rng.random() < 0.8:
                    values[name] = options[int(rng.integers(len(options)))]
            sent.append(report(persons[i], number, **values))
        strange = [report("p1", number, wealth=3), report("", number, poor=1)]
        garbage = Record(topic=REPORTS, value=b"\xff{", key=None, headers=(), partition=0)
        return [*sent, *sent[:6], *strange, garbage]

    @contextmanager
    def releaser(self, **how: Any) -> Any:
        owner = HouseholdFolder if self.engine == "here" else TablesInParts
        with owner.releaser(self, **how) as releaser:
            yield releaser

    def live(self, role: str, source: NoiseSource, at: Any) -> None:
        """Runs a role in this process until it is idle. at: called at every step."""
        if role == "releaser":
            HouseholdFolder.run(self, source=source, at=at)
        elif role == "worker":
            self.work(source=source, at=at)
        else:
            self.aggregate(at=at)

    def finished(self) -> bool:
        """Whether every period is closed and every job has its result."""
        entries = self.entries()
        closed = max((entry.number for entry in entries if entry.closes), default=0)
        begun = {job.id for entry in entries for job in entry.jobs}
        return closed == self.periods and begun == {e.result_of for e in entries if e.result_of}

    def edit_log(self, statement: str, *, public: bool = False) -> None:
        """Changes a log's file behind its back."""
        path = self.public_file if public else self.folder / "homes.db"
        with closing(sqlite3.connect(path)) as db, db:
            assert db.execute(statement).rowcount, "nothing was changed"
