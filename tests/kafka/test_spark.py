"""Periods closed by Spark from a real broker: the same as in one process, byte for byte."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from days import Days, everything
from kit.brokers import foreign_producer
from kit.parts import DieAtEach, MoveOnce
from kit.spark import missing, settings
from spark_days import Shaped, SparkDays, Tables, Wide, estimates
from test_hostile import HEADERS
from wire import Raw, batch, produce

from stream_dp.errors import Inconsistent
from stream_dp.services.storage.close_orders import Manifest, Order
from stream_dp.study.topics import DEAD_LETTERS, REPORTS

PARTITIONS, PERIODS = 3, 3

pytestmark = [
    # pyspark leaves sockets open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What pyspark leaves open is not found while another test runs."""
    yield
    gc.collect()


def study_on(
    kafka: str, session: Any, folder: Path, kind: type[SparkDays] = SparkDays, **how: Any
) -> SparkDays:
    prefix = f"s-{uuid.uuid4().hex[:12]}"
    how = {"periods": PERIODS, **how}
    days = kind.on_kafka(folder / prefix, kafka, prefix, engine="spark", **how)
    assert isinstance(days, SparkDays)
    days.session = session
    return days


@pytest.fixture
def make(kafka: str, spark: Any, tmp_path: Path) -> Any:
    return partial(study_on, kafka, spark, tmp_path)


@dataclass(frozen=True)
class Closed:
    """A study of which two periods are closed. closes: their orders, and what answered them."""

    days: SparkDays
    closes: list[tuple[Order, Manifest]]


@pytest.fixture(scope="module")
def closed(kafka: str, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Closed:
    """In the second period there are strange records, too.

    Headers whose names are no text, large ones, markers that are none, no value.
    """
    days, closes = study_on(kafka, spark, tmp_path_factory.mktemp("closed"), partitions=2), []
    for number in (1, 2):
        days.send(days.reports(number))
        if number == 2:
            good = days.report("person-00", days.labels[0], {"poverty": 1}).value
            values = [None, good, b"\xff", b"[" * 70_000]
            strange = [Raw(value, headers=headers) for headers in HEADERS for value in values]
            zeros = [(b"stream-dp-close\0", b"1"), (b"\0", b"x")]
            strange += [Raw(value, b"k" * 70_000) for value in values] + [Raw(None, headers=zeros)]
            produce(kafka, topic_of(days), 0, batch(strange, "zstd"))
        days.send(days.markers(number))
        days.run()
        closes.append(days.last())
    assert len(days.entries()) == 3
    return Closed(days, closes)


def topic_of(days: Days) -> str:
    return f"{days.log.rsplit('/', 1)[1]}.{REPORTS}"


def decisions(days: Days) -> list[Any]:
    """What is decided; snapshots are other files."""
    return [{**decided, "population": 0} for decided in days.decided()]


def letters(days: Days) -> set[Any]:
    with days.opened() as log:
        return {(r.key, r.value, r.headers) for r in everything(log, DEAD_LETTERS)}


def abort(kafka: str, topic: str) -> None:
    """A transaction with a record in every partition, which comes to nothing."""
    producer = foreign_producer(kafka)
    producer.begin_transaction()
    for part in range(PARTITIONS):
        producer.produce(topic, b"no report", partition=part)
    producer.abort_transaction(30)


def test_aborted_transactions_and_lost_files(make: Any, kafka: str, tmp_path: Path) -> None:
    """Aborted records stand before, among and behind the others, and last below the cut.

    Files that are gone are written again, and no letter twice.
    """
    how = {"parts": 16, "partitions": PARTITIONS, "people": 300}
    ours = make(Wide, **how)
    theirs = Wide.on_sqlite(tmp_path / "here", PERIODS, engine="here", **how)
    for number in range(1, PERIODS + 1):
        for days in (ours, theirs):
            days.send(days.reports(number))
            if days is ours:
                abort(kafka, topic_of(days))
            days.send(days.markers(number))
    assert Days.run(theirs)
    lost = False
    while not ours.release():
        ours.aggregate(most=250)
        if not lost:
            shutil.rmtree(ours.snapshots)
            lost = True
    ignored = {"cut", "marks", "population"}
    for a, b in zip(ours.decided(), theirs.decided(), strict=True):
        assert {k: v for k, v in a.items() if k not in ignored} == {
            k: v for k, v in b.items() if k not in ignored
        }
    assert len(ours.entries()) == PERIODS + 1
    assert estimates(ours) == estimates(theirs)
    assert ours.reasons() == theirs.reasons() == ours.decided()[-1]["accounting"]["rejected"]
    order, manifest = ours.last()
    assert len(manifest.parts) == 16
    assert ours.answer(order, spark=False) == manifest


CASES = {
    "sized and too small, 64 parts": {"parts": 64, "partitions": 1, "size": 150, "people": 200},
    "sized, one part": {"parts": 1, "partitions": 5, "size": 900, "people": 600},
}


@pytest.mark.parametrize(("case", "most"), [*zip(CASES, (10_000, 700), strict=True)])
def test_every_shape_of_release(case: str, most: int, make: Any, tmp_path: Path) -> None:
    """Most of 64 parts have no report; people are turned away in the second day."""
    ours = make(Wide, **CASES[case])
    theirs = Wide.on_sqlite(tmp_path / "here", PERIODS, engine="here", **CASES[case])
    for days in (ours, theirs):
        days.send([*days.day(1), *days.reports(2), *days.markers(2)])
    assert not Days.run(theirs)
    for _ in (1, 2):
        assert not ours.release()
        ours.aggregate(most=most)
    assert not ours.release()
    assert len(ours.entries()) == 3
    assert decisions(ours) == decisions(theirs)
    assert estimates(ours) == estimates(theirs)
    assert letters(ours)
    assert ours.reasons() == theirs.reasons()
    order, manifest = ours.last()
    assert len(manifest.parts) == CASES[case]["parts"]
    assert ours.answer(order, spark=False) == manifest


@pytest.mark.parametrize(
    "name", ["groups", *(pytest.param(n, marks=pytest.mark.slow) for n in ("sized", "places"))]
)
def test_data_sets_have_the_inputs_that_processes_write(make: Any, name: str) -> None:
    days = make(Tables, name=name, partitions=1)
    days.begin()
    for number in (1, 2):
        days.send([*days.reports(number), *days.markers(number)])
        days.run()
        order, manifest = days.last()
        assert days.answer(order, spark=False) == manifest
        assert manifest.jobs or number == 2
    assert len(days.entries()) == 3


@pytest.mark.parametrize(
    "shape", ["avro reports", *(pytest.param(n, marks=pytest.mark.slow) for n in ("flat",))]
)
def test_reports_of_another_shape(shape: str, make: Any, tmp_path: Path) -> None:
    ours = make(Shaped, shape=shape, partitions=2)
    theirs = Shaped.on_sqlite(tmp_path / "here", PERIODS, shape=shape, partitions=2)
    for days in (ours, theirs):
        report, *others = days.day(1)
        assert report.value is not None
        unknown = replace(report, value=b"\0\0\0\0\x63" + report.value[5:])  # its schema's id
        days.send([unknown, report, *others])
        Days.run(days)
    assert decisions(ours) == decisions(theirs)
    order, manifest = ours.last()
    assert ours.reasons() == theirs.reasons() == dict(manifest.accounting.rejected)
    assert ours.answer(order, spark=False) == manifest
    assert manifest.read_as is not None
    assert bool(manifest.read_as.schemas) == (shape != "flat")


def test_a_schema_that_only_later_tasks_knew(make: Any) -> None:
    """What was read without it is read again, with Spark and by others."""
    days = make(Shaped, partitions=1)
    days.send(days.day(1))
    assert not days.release()
    aside = days.schema.rename(days.folder / "aside")
    # Two tasks at once: all but the first two begin when one has moved it.
    days.aggregate(at=MoveOnce("decoded", aside, days.schema), most=5)
    order, manifest = days.last()
    assert days.reasons() == dict(manifest.accounting.rejected)
    assert days.answer(order, spark=False) == manifest
    assert manifest.read_as is not None
    assert manifest.read_as.schemas
    assert manifest.accounting.rejected["unreadable"] < 10


def test_a_process_is_killed_at_every_step(closed: Closed, tmp_path: Path) -> None:
    """Its task runs in another one, and gives the same files; letters come once by their keys."""
    (_, (order, manifest)), days = closed.closes, closed.days
    before = letters(days)
    steps = ("decoded", "letters", "part-read", "part-closed", "part-written")
    assert days.answer(order, spark=True, at=DieAtEach(steps, tmp_path), most=60) == manifest
    assert {path.name for path in tmp_path.iterdir()} == {*steps}
    assert letters(days) == before


def test_strange_records_are_read_as_elsewhere(closed: Closed) -> None:
    (_, (order, manifest)), days = closed.closes, closed.days
    before = letters(days)
    assert days.answer(order, spark=False) == manifest
    assert letters(days) == before
    assert manifest.accounting.rejected["unreadable"] > 50


def test_what_spark_would_pass_over_in_silence_is_refused(closed: Closed, kafka: str) -> None:
    ((first, _), (order, _)), days = closed.closes, closed.days
    beyond = msgspec.structs.replace(order, cut={**order.cut, 0: order.cut[0] + 1000})
    with pytest.raises(Inconsistent, match="before the cut of a period"):
        days.answer(beyond, spark=True)
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic_of(days), 0, 5)]).values():
        future.result(30)
    with pytest.raises(Inconsistent, match="records from position 0 of partition 0 on are gone"):
        days.answer(first, spark=True)


def test_a_changed_part_is_refused_in_words(closed: Closed) -> None:
    """An error of ours comes back as it is, and no attempt repeats it."""
    (_, (order, _)), days = closed.closes, closed.days
    part = next(days.snapshots.glob("*-part-00001-*"))
    data = part.read_bytes()
    part.write_bytes(data + b"x")
    try:
        with pytest.raises(Inconsistent, match="of the last close is gone"):
            days.answer(order, spark=True)
    finally:
        part.write_bytes(data)


@pytest.mark.slow
def test_an_executor_is_killed(kafka: str, tmp_path: Path) -> None:
    """On a master that is not local, with authentication and encryption."""
    if why := missing():
        pytest.skip(why)
    here = Path(__file__).parent
    paths = [here, here.parent, here.parents[1] / "deploy" / "kafka"]
    done = subprocess.run(
        [sys.executable, str(here / "spark_executors.py"), kafka, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert (done.returncode, done.stdout) == (0, "killed 2\n"), done.stderr[-3000:]


def command(days: SparkDays, folder: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """`stream-dp aggregate` in a process of its own, with further settings of Spark."""
    if why := missing():
        pytest.skip(why)
    folder.mkdir()
    with settings(folder, **more):
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "stream_dp.services.commands.cli",
                "aggregate",
                *words,
                days.file,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )


def test_a_master_that_others_could_join_is_refused(make: Any, tmp_path: Path) -> None:
    """Spark's own settings name it, which Java alone knows."""
    days = make(partitions=1)
    remote = {"spark__master": "spark://127.0.0.1:1", "spark__authenticate": "true"}
    child = command(days, tmp_path / "refused", "--until-idle", **remote)
    _, said = child.communicate(timeout=600)
    lines = [line for line in said.splitlines() if line.startswith("stream-dp: ")]
    assert (child.returncode, len(lines)) == (2, 3), said
    assert "Traceback" not in said


@pytest.mark.slow
def test_the_command(make: Any, tmp_path: Path) -> None:
    """It answers an order, and ends when asked."""
    days = make(partitions=1)
    days.send(days.day(1))
    assert not days.release()
    child = command(days, tmp_path / "answers")
    assert child.stdout is not None
    words = [
        "closes 2021-01-01 in 4 parts",
        "2021-01-01 is closed in 4 parts",
        "waits for an order",
    ]
    assert [child.stdout.readline().strip() for _ in words] == words
    child.terminate()
    child.communicate(timeout=600)
    assert child.returncode == 0
    assert not (tmp_path / "answers" / "artifacts").exists()
    order, manifest = days.last()
    assert days.answer(order, spark=False) == manifest
