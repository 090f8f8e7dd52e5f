"""The input is read once, for all sizes of batches, and the same after a crash."""

from __future__ import annotations

import gc
import io
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kit.panels import LABELS, PARTITIONS, PERIODS, declaration, report, script
from kit.studies import MARKER, SCHEDULE

from stream_dp.log.log import Batch, Positions, Stored
from stream_dp.log.sqlite import SqliteLog
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.intake.markers import FoundMarkers, MarkerReader
from stream_dp.services.releaser.input_reading import Inputs
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.study.topics import DEAD_LETTERS, REPORTS
from stream_dp.studyfile import load_study

STEP = 1000.0  # seconds from one period's close to the next


class Counting(SqliteLog):
    """A log that counts the records and the reads of reports."""

    def __init__(self, path: Path, **how: Any) -> None:
        super().__init__(path, **how)
        self.seen: Counter[tuple[int, int]] = Counter()
        self.reads = 0

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        batch = super().read(topic, positions, limit, timeout)
        if topic == REPORTS:
            self.reads += 1
            self.seen.update((record.partition, record.offset) for record in batch.records)
        return batch


class Reader:
    """The input of the small study, read and closed period by period."""

    def __init__(self, folder: Path, close: Mapping[str, Any] = MARKER) -> None:
        (folder / "small.toml").write_text(declaration(close))
        self.study, _ = load_study(folder / "small.toml")
        self.now = 0.0
        self.log = Counting(folder / "small.db", clock=lambda: self.now)
        self.log.create({REPORTS: PARTITIONS, DEAD_LETTERS: 1})
        none = dict.fromkeys(range(PARTITIONS), 0)
        self.begin(Population(self.study), none, none)

    def begin(self, population: Population, positions: Positions, marks: dict[int, int]) -> None:
        decoder = Decoder(self.study, bytes(32))
        self.inputs = Inputs(
            self.log,
            decoder,
            population,
            markers=FoundMarkers(MarkerReader.of(self.study), dict(marks)),
            positions=positions,
            context=Context.of(self.study),
        )

    def send(self) -> int:
        """Sends the reports of all periods at once; returns how many records."""
        sent = script()
        for number, records in enumerate(sent):
            self.now = STEP * number + 1
            self.log.append(records)
        return sum(map(len, sent))

    def to_marker(self, number: int) -> Positions:
        while self.inputs.markers.missing(number):
            self.inputs.read_to_marker(number, 0)
        return dict(self.inputs.positions)

    def to_time(self, number: int) -> Positions:
        while not self.inputs.read_before(STEP * number, 0):
            pass
        cut = self.log.cut(REPORTS, STEP * number)
        assert self.inputs.read_to(cut)
        return cut

    def close(self) -> list[Any]:
        """Closes a period; returns the marks, the accounting and a snapshot."""
        self.inputs.population.close()
        accounting = self.inputs.population.accounting.as_dict()
        return [dict(self.inputs.markers.marks), accounting, self.saved()]

    def saved(self) -> bytes:
        self.inputs.population.save(file := io.BytesIO())
        return file.getvalue()


@pytest.fixture(params=["marker", "schedule"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path, SCHEDULE if request.param == "schedule" else MARKER)
    reader.cut = reader.to_time if request.param == "schedule" else reader.to_marker  # type: ignore[attr-defined]
    with closing(reader.log):
        yield reader


def test_each_record_of_a_backlog_is_read_once(
    reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = reader.send()
    decided = {}
    for size in (1, 7, 50, 10_000):
        monkeypatch.setattr("stream_dp.services.releaser.input_reading.READ_AT_ONCE", size)
        reader.log.seen.clear()
        none = dict.fromkeys(range(PARTITIONS), 0)
        reader.begin(Population(reader.study), none, none)
        decided[size] = []
        for number in range(1, PERIODS + 1):
            cut = reader.cut(number)
            assert cut == reader.inputs.positions
            assert all(len(rest.records) <= size for rest in reader.inputs._rests.values())
            decided[size].append([cut, *reader.close()])
        while not reader.inputs.read_before(STEP * PERIODS, 0):
            pass
        assert len(reader.log.seen) == sent
        assert set(reader.log.seen.values()) == {1}
    assert all(outcome == decided[1] for outcome in decided.values())


def test_what_waits_in_memory_is_read_again_after_a_crash(
    reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.send()
    calm = [[reader.cut(number), *reader.close()] for number in range(1, PERIODS + 1)]
    for size in (7, 10_000):
        monkeypatch.setattr("stream_dp.services.releaser.input_reading.READ_AT_ONCE", size)
        none = dict.fromkeys(range(PARTITIONS), 0)
        reader.begin(Population(reader.study), none, none)
        for number, expected in enumerate(calm, 1):
            assert [reader.cut(number), *reader.close()] == expected
            population = Population.load(reader.study, io.BytesIO(reader.saved()))
            reader.begin(population, expected[0], reader.inputs.markers.marks)
            # The journal's cuts lead to the same, without a marker's or a record's time.
            again = Population(reader.study)
            replayed = reader.inputs
            reader.begin(again, none, replayed.markers.marks)
            for cut, _, accounting, saved in calm[:number]:
                assert reader.inputs.read_to(cut, replay=True)
                again.close()
                assert (again.accounting.as_dict(), reader.saved()) == (accounting, saved)
            reader.inputs = replayed


def test_a_partition_that_reached_its_close_waits_without_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a broker's clock that is ahead, records arrive before their period begins."""
    reader = Reader(tmp_path, SCHEDULE)
    with closing(reader.log):
        reader.now = 2 * STEP
        reader.log.append([report(p, "p", LABELS[0], {"poverty": 1}) for p in (0, 0, 1)])
        assert reader.inputs.read_before(STEP, 0) is False or reader.inputs._rests
        reads, began = reader.log.reads, time.monotonic()
        assert reader.inputs.read_before(STEP, 0.2)
        assert time.monotonic() - began >= 0.2
        assert reader.log.reads == reads
        assert reader.inputs.positions == {0: 0, 1: 0}
        while not reader.inputs.read_before(3 * STEP, 0):
            pass
        assert reader.inputs.positions == {0: 2, 1: 1}
        assert reader.log.seen.total() == 3


def test_no_garbage_is_sought_while_a_batch_is_read(
    reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records have no cycles; a search goes through all of them again and again."""
    searching: list[bool] = []

    def decode(decoder: Decoder, records: Sequence[Stored], closed: int) -> Any:
        searching.append(gc.isenabled())
        return decoding(decoder, records, closed)

    decoding = Decoder.decode
    monkeypatch.setattr(Decoder, "decode", decode)
    reader.send()
    reader.cut(1)
    assert searching
    assert not any(searching)
    assert gc.isenabled()
