"""Studies of days whose periods Spark closes, and what other engines answer to the same orders."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from days import MARKER, Days
from kit.households import reports, roster
from kit.parts_of_tables import PLACES, TEXTS, lived, said
from kit.shapes import NUMBER, Shape, shapes
from kit.studies import attribute, cumulative, joint, study_toml, toml_lines, window

from stream_dp.log.log import Record
from stream_dp.log.message import parts_in_records
from stream_dp.release.published_panels import read_estimates
from stream_dp.services.intake.group_files import read_places
from stream_dp.services.intake.group_tables import send_table
from stream_dp.services.parts.aggregate import Aggregator
from stream_dp.services.parts.engines import Engine, Processes
from stream_dp.services.parts.spark_engine import Spark
from stream_dp.services.storage.close_orders import Manifest, Order, OrderBoard, read_manifest


class SparkDays(Days):
    """A study whose periods Spark closes, in an application that others share."""

    session: Any

    def engine_of(self, log: Any, **how: Any) -> Spark:
        return Spark(self.session, log, **how)

    def aggregate(self, *, most: int = 1 << 18, **how: Any) -> None:
        with self.opened() as log:
            how = {"engine": self.engine_of(log, max_reports=most), **how}
            study, snapshots = self.setting.study, self.setting.snapshots
            Aggregator(self.file, study, log, snapshots, **how).run(until_idle=True)

    def last(self) -> tuple[Order, Manifest]:
        """The last order, and the manifest that answers it."""
        with self.opened() as log:
            board = OrderBoard(log)
            board.refresh()
            order = board.last
            assert order is not None
            file = board.answer(order)
            assert file is not None
            snapshots = self.setting.snapshots.of(order.owner)
            manifest = read_manifest(snapshots, file.name, file.sha256)
            assert manifest is not None
            return order, manifest

    def answer(self, order: Order, *, spark: bool, at: Any = None, most: int = 1 << 18) -> Manifest:
        """The manifest of an order, from Spark or from processes."""
        with self.opened() as log:
            engine: Engine = (
                self.engine_of(log, max_reports=most) if spark else Processes(max_reports=most)
            )
            how = {} if at is None else {"at": at}
            study, snapshots = self.setting.study, self.setting.snapshots
            process = Aggregator(self.file, study, log, snapshots, engine, **how)
            try:
                return process._close(order, OrderBoard(log))
            finally:
                engine.close()


@dataclass
class Wide(SparkDays):
    """A study with releases of every shape: fixed values, strata, several attributes, joint.

    size: of the population; None where it is private.
    people: ids that occur.
    parts: how many.
    """

    size: int | None = None
    people: int = 400
    parts: int = 16

    def text(self) -> str:
        more = {"rows": 50} if self.size is None else {}
        carried = "absent" if self.size is None else {"carry": True, "first": "no"}
        regions = {"strata": "region", "rho": 1, "rows": 50}
        run = {"log": self.log, "public": self.public, "partitions": self.partitions}
        return study_toml(
            name="days",
            rho=20,
            delta=1e-3,
            neighbours="add_remove" if self.size is None else "replace_one",
            periods={"first": "2021-01-01", "every": "day", "count": self.periods, **MARKER},
            size=self.size,
            attributes={
                "poor": attribute([0, 1], missing="absent"),
                "job": attribute(["yes", "no"], missing=carried),
                "region": attribute(["north", "south"], missing="absent", fixed=True),
            },
            releases=[
                window("pairs", ["poor", "job"], width=2, rho=1),
                window("regions", "poor", width=2, **regions),
                cumulative("working", ["poor", "job"], ["poor=1", "job=no"], rho=1, **more),
                joint("both", "job", 2, ["no"], rho=1, **more),
            ],
            run={
                **run,
                "replication": 1,
                "insecure": True,
                **({} if self.engine == "here" else {"engine": self.engine, "worker": False}),
                "parts": self.parts,
            },
        )

    def reports(self, number: int) -> list[Record]:
        """Of everybody who has come by then, some twice, some early; of few in the last day."""
        rng = np.random.default_rng(number)
        came = self.people * number // (self.periods - 1)
        if number == self.periods:
            came = 5
        sent = []
        for _ in range(2):
            for person in rng.choice(self.people, came, replace=False).tolist():
                values = {
                    "poor": [0, 1, None, 7][int(rng.integers(4))],
                    "job": ["yes", "no"][int(rng.integers(2))],
                    "region": ["north", "south"][int(rng.integers(20) == person % 20)],
                }
                label = self.labels[min(number - 1 + int(rng.integers(20) == 0), self.periods - 1)]
                partition = int(rng.integers(self.partitions))
                sent.append(self.report(f"somebody-{person}", label, values, partition))
        return sent


@dataclass
class Tables(SparkDays):
    """A study of `kit.parts_of_tables` that begins data sets. name: of its text."""

    name: str = "groups"

    def text(self) -> str:
        run = {"log": self.log, "public": self.public, "replication": 1, "insecure": True}
        more = {"worker": False, "parts": 4, "engine": self.engine}
        return TEXTS[self.name].split("[run]")[0] + "\n[run]\n" + toml_lines({**run, **more}) + "\n"

    def begin(self) -> None:
        """Sends the table of groups or of places that the study needs."""
        if self.name == "groups":
            send_table(self.setting, roster())
        elif self.name == "places":
            path = self.folder / "places.csv"
            path.write_text(PLACES)
            send_table(self.setting, read_places(self.setting.study, path))

    def reports(self, number: int) -> list[Record]:
        return {"groups": reports, "places": lived}.get(self.name, said)(number)


@dataclass
class Shaped(SparkDays):
    """A study whose reports have another shape. shape: of `kit.shapes`."""

    shape: str = "avro reports"

    def text(self) -> str:
        declared = self._shape.declared
        (self.folder / "schemas").mkdir(exist_ok=True)
        self.schema.write_text(json.dumps(self._shape.schema))
        return f"{super().text()}\n[run.input]\n{toml_lines(declared)}\n"

    @property
    def schema(self) -> Path:
        return self.folder / "schemas" / f"{NUMBER}.avsc"

    @property
    def _shape(self) -> Shape:
        return shapes(["poverty", "work"])[self.shape]

    def day(self, number: int) -> list[Record]:
        sent = [*self.reports(number), *self.markers(number)]
        return [self._shape.shaped(record) for record in sent]


def estimates(days: Days) -> list[Any]:
    """By period, what it published of every release, without noise."""
    by_period = []
    for entry in days.entries():
        records, columns = entry.public_records(), {}
        for name in (release.name for release in days.setting.study.releases):
            of_release = [r for r in records if (r.key or b"").endswith(f"/{name}".encode())]
            if of_release:
                table = read_estimates(parts_in_records(of_release))
                columns[name] = table.column("value").to_pylist()
        by_period.append(columns)
    return by_period
