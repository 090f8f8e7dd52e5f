"""Periods closed by Spark from a real broker: the same as in one process, byte for byte."""

from __future__ import annotations

import gc
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from days import Days

from stream_dp.services.aggregator.aggregator import Aggregator
from stream_dp.services.aggregator.spark.engine import Spark
from stream_dp.services.parts.manifests import Manifest, read_manifest
from stream_dp.services.parts.orders import Order, OrderBoard

PARTITIONS, PERIODS = 3, 3

pytestmark = [
    pytest.mark.xdist_group("spark"),
    # pyspark leaves sockets open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What pyspark leaves open is not found while another test runs."""
    yield
    gc.collect()


class SparkDays(Days):
    """A study whose periods Spark closes."""

    session: Any

    def aggregate(self, *, most: int = 1 << 18, **how: Any) -> None:
        with self.opened() as log:
            engine = Spark.of(self.setting, self.session, log, threading.Event(), most=most)
            study, snapshots = self.setting.study, self.setting.snapshots
            how = {"engine": engine, **how}
            Aggregator(self.file, study, log, snapshots, **how).run(until_idle=True)

    def last(self) -> tuple[Order, Manifest]:
        """The last order, and the manifest that answers it."""
        with self.opened() as log:
            board = OrderBoard(log)
            board.refresh()
            assert board.last is not None
            file = board.answer(board.last)
            assert file is not None
            snapshots = self.setting.snapshots.of(board.last.owner)
            manifest = read_manifest(snapshots, file.name, file.sha256)
            assert manifest is not None
            return board.last, manifest

    def by_processes(self, order: Order) -> Manifest:
        """The manifest of the same order from processes."""
        with self.opened() as log:
            process = Aggregator(self.file, self.setting.study, log, self.setting.snapshots)
            try:
                return process._close(order, OrderBoard(log))
            finally:
                process.engine.close()


@pytest.fixture
def make(kafka: str, spark: Any, tmp_path: Path) -> Any:
    def made(kind: type[SparkDays] = SparkDays, periods: int = PERIODS, **how: Any) -> SparkDays:
        prefix = f"s-{uuid.uuid4().hex[:12]}"
        days = kind.on_kafka(tmp_path / prefix, kafka, prefix, periods, engine="spark", **how)
        assert isinstance(days, SparkDays)
        days.session = spark
        return days

    return made


def decisions(days: Days) -> list[Any]:
    """What is decided; snapshots are other files."""
    return [{**decided, "population": 0} for decided in days.decided()]


def test_what_one_process_decides(make: Any, tmp_path: Path) -> None:
    ours = make(partitions=PARTITIONS)
    theirs = Days.on_sqlite(tmp_path / "here", PERIODS, partitions=PARTITIONS)
    for days in (ours, theirs):
        for number in range(1, PERIODS + 1):
            days.send(days.day(number))
            days.run()
    assert decisions(ours) == decisions(theirs)
    assert len(decisions(ours)) == PERIODS + 1
    assert ours.reasons() == theirs.reasons() == ours.decided()[-1]["accounting"]["rejected"]
    order, manifest = ours.last()
    assert ours.by_processes(order) == manifest
