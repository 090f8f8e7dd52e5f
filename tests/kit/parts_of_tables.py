"""Studies with data sets, closed in parts or in one process; and what their jobs look at."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kit.households import EVERY, PERIODS, HouseholdFolder, report, reports, roster
from kit.panels import Noiseless
from kit.parts import in_parts
from kit.studies import MARKER, MONTHS, attribute, on_kafka, study_toml, window
from stream_dp.log.log import Record
from stream_dp.services.intake.group_files import read_places
from stream_dp.services.intake.group_tables import Roster, send_table
from stream_dp.services.intake.markers import MARKER as MARK
from stream_dp.services.intake.markers import announce_markers, close_marker
from stream_dp.services.parts.aggregate import Aggregator
from stream_dp.services.parts.engines import Processes
from stream_dp.services.releaser.ordered_parts import Aggregation
from stream_dp.services.storage.close_orders import OrderBoard
from stream_dp.services.storage.journal import closes
from stream_dp.study.topics import CLOSES, REPORTS

RUN = {"log": "sqlite:homes.db", "public": "sqlite:homes-public.db", "worker": False}
LATE = 12  # people who come in each period


def people_text(neighbours: str, size: int | None, absent: bool) -> str:
    """Tables of people: with histories, with numbers, of those who are absent in all columns."""
    first, carried = ("f", {"carry": True, "first": "none"})
    spoken = {"f": "she", "m": "he"}
    if absent:
        first, carried, spoken = ("absent", "absent", {**spoken, "absent": "they"})
    return study_toml(
        name="homes",
        neighbours=neighbours,
        rho=50,
        periods={**MONTHS, **MARKER},
        size=size,
        attributes={
            "sex": attribute(["f", "m"], **({"fixed": True} if absent else {}), missing=first),
            "work": attribute(["none", "some"], missing=carried),
            "income": {
                "number": {"least": -100, "most": 400_000, "step": 5},
                "bins": [0, 1000, 50_000],
                "missing": "absent" if absent else 0,
            },
        },
        releases=[
            window("pairs", "work", width=2, rho=2, **({"rows": 50} if size is None else {})),
            {
                **{"name": "histories", "kind": "mixture", "at": ["2021-02", "2021-03"]},
                "rho": 4,
                "attributes": ["sex", "HISTORY"],
            },
            {
                **{"name": "numbers", "kind": "rap", "at": ["2021-01", "2021-03"], "rho": 4},
                **{"attributes": ["sex", "income"], "labels": ["sex"]},
                "derived": {"pronoun": {"of": "sex", "values": spoken}},
            },
        ],
        run=RUN,
    ).replace('"HISTORY"', '{ of = "work", last = 2 }')


def places_text(counted: bool = False) -> str:
    """How large places are, by region."""
    release = {"name": "sizes", "kind": "sizes", "largest": 5, "rho": 1, "every": 1}
    moves = {"home": {"place": True, "missing": {"carry": True, "first": "absent"}}}
    return study_toml(
        name="homes",
        neighbours="add_remove" if counted else "replace_one",
        rho=3,
        periods={**MONTHS, **MARKER, "count": 1 if counted else PERIODS},
        size=None if counted else 90,
        attributes={} if counted else moves,
        places={"unit": "block", "regions": ["county"], "counted": counted},
        releases=[release if counted else {**release, "attribute": "home"}],
        run=RUN,
    )


PLACES = "place,county\n" + "\n".join(f"b{i},{'ns'[i % 2]}" for i in range(20))
SIZES = "county,size,count\nn,1,5\nn,9,2\ns,0,4"
TEXTS = {
    "sized": people_text("replace_one", 100, absent=False),
    "sized, too small": people_text("replace_one", 45, absent=True),
    "open": people_text("add_remove", None, absent=True),
    "groups": EVERY,
    "places": places_text(),
    "counted": places_text(counted=True),
}


def said(number: int, people: int = 40) -> list[Record]:
    """What people report in a period: of some nothing, of some twice, of some what cannot be."""
    rng, sent = np.random.default_rng(number), []
    for i in rng.permutation(people + LATE * number).tolist():
        values: dict[str, Any] = {"sex": "fm"[i % 2]}
        if rng.random() < 0.7:
            values["work"] = ["none", "some", None][int(rng.integers(3))]
        if rng.random() < 0.7:
            values["income"] = int(rng.integers(-25, 80_005)) * 5
        sent.append(report(f"p{i}", number, **values))
    again = [report(f"p{i}", number, work="some", sex="mf"[i % 2]) for i in range(9)]
    return [*sent, *again, report("p1", number, wealth=3), report("", number, work="some")]


def lived(number: int, people: int = 100) -> list[Record]:
    """Where people live: some places have many, some nobody, and one does not exist."""
    rng = np.random.default_rng(number)
    homes = [f"b{h}" for h in rng.integers(0, 21, people).tolist()]
    return [
        report(f"p{i}", number, home=home)
        for i, home in enumerate(homes)
        if number == 1 or rng.random() < 0.4
    ]


@dataclass
class TablesFolder(HouseholdFolder):
    """A study of TEXTS, closed in the releaser.

    name: of the text.
    kafka: the address of a confidential log in place of the file.
    run_more: further lines of `[run]`.
    """

    name: str = "groups"
    kafka: str = ""
    run_more: str = ""

    def __post_init__(self) -> None:
        self.text = self.written()
        super().__post_init__()

    def written(self) -> str:
        text = f"{TEXTS[self.name].rstrip()}\n{self.run_more}\n"
        return on_kafka(text, self.kafka) if self.kafka else text

    def begin(self) -> None:
        """Sends the table that the study needs."""
        if self.name == "groups":
            send_table(self.setting, self.roster())
        if self.setting.study.places is not None:
            path = self.folder / "places.csv"
            path.write_text(PLACES if self.name == "places" else SIZES)
            send_table(self.setting, read_places(self.setting.study, path))

    def roster(self) -> Roster:
        return roster()

    def period(self, number: int) -> list[Record]:
        """The reports of a period and its marker."""
        script = {"groups": reports, "places": lived, "counted": lambda number: []}
        return [*script.get(self.name, said)(number), close_marker(number, 0)]

    @property
    def periods(self) -> int:
        return self.setting.study.periods.count

    def run(self, **how: Any) -> bool:
        return super().run(**{"source": Noiseless(), **how})

    def jobs(self) -> list[tuple[str, int, dict[str, str]]]:
        """Of every job its release, period and the hashes of the tables that it looks at."""
        return [
            (job.release, job.period, {name: f.sha256 for name, f in job.files.items()})
            for entry in self.entries()
            for job in entry.jobs
        ]

    def outcome(self) -> list[Any]:
        """The accounting of every close, and what its jobs look at."""
        return [*(entry.input.accounting for entry in closes(self.entries())[1:]), *self.jobs()]

    @property
    def snapshot_folder(self) -> Path:
        return self.folder / "homes-snapshots"

    def parts_files(self) -> list[Path]:
        """What is left of closes in parts: manifests and parts."""
        files = sorted(self.snapshot_folder.iterdir())
        return [path for path in files if "-job-" not in path.name]

    def inputs(self) -> Mapping[str, bytes]:
        """The files of jobs by name."""
        files = sorted(self.snapshot_folder.glob("*-job-*"))
        return {path.name: path.read_bytes() for path in files}


@dataclass
class TablesInParts(TablesFolder):
    """The same, closed in parts by aggregators in this process."""

    parts: int = 4

    def written(self) -> str:
        return in_parts(super().written(), self.parts)

    def send(self, records: Sequence[Record]) -> None:
        with self.log() as log:
            log.create({REPORTS: 1, CLOSES: 1})
            for number in sorted({int(v) for r in records for n, v in r.headers if n == MARK}):
                announce_markers(log, number)
        super().send(records)

    @contextmanager
    def releaser(self, **how: Any) -> Any:
        with super().releaser(**{"aggregation": Aggregation(self.parts), **how}) as releaser:
            yield releaser

    def aggregate(self, *, processes: int = 1, most: int = 1 << 18, **how: Any) -> None:
        """Answers every order that is open."""
        setting, how = self.setting, {"engine": Processes(processes, most), **how}
        with self.log() as log:
            Aggregator(self.file, setting.study, log, setting.snapshots, **how).run(until_idle=True)

    def open_order(self) -> bool:
        with self.log() as log:
            board = OrderBoard(log)
            board.refresh()
            return board.last is not None and board.answer(board.last) is None

    def run(self, *, aggregator: dict[str, Any] | None = None, **how: Any) -> bool:
        while True:
            done = super().run(**how)
            if done or not self.open_order():
                return done
            self.aggregate(**(aggregator or {}))


def copied(homes: TablesFolder, folder: Path) -> TablesFolder:
    """The same files elsewhere."""
    shutil.copytree(homes.folder, folder)
    return type(homes)(folder, **{k: v for k, v in vars(homes).items() if k in ("name", "parts")})
