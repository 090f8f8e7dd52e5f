"""A start reads the chain of manifests, and of the messages between only what it needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit.journals import CLOSED_PERIODS, position_of
from kit.killed import in_memory
from kit.panels import PERIODS, StudyFolder, script

from stream_dp.log import sqlite
from stream_dp.log.log import Batch, Positions
from stream_dp.privacy.noise import Draw, SeededNoise
from stream_dp.study.topics import JOURNAL, RELEASES


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


class Repeating:
    """Noise that depends on what is asked alone, so that a restart does not change it."""

    simulated = True

    def draw(self, demand: Sequence[tuple[Any, int]]) -> Draw:
        return SeededNoise(1).draw(demand)


def decided(place: StudyFolder) -> list[tuple[int, bytes]]:
    """Positions and values of the public log."""
    return [(row[1], row[4]) for row in place.rows(RELEASES)]


def test_large_messages_are_passed_over(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = StudyFolder(memory / "place")
    for records in script()[:CLOSED_PERIODS]:
        place.send(records)
    assert not place.run(source=SeededNoise(1))
    places: dict[str, set[int]] = defaultdict(set)
    read = sqlite.SqliteLog.read

    def noted(
        log: sqlite.SqliteLog, topic: str, positions: Positions, limit: int, timeout: float
    ) -> Batch:
        batch = read(log, topic, positions, limit=limit, timeout=timeout)
        places[topic] |= {record.offset for record in batch.records}
        return batch

    # Every message is a large one.
    monkeypatch.setattr("stream_dp.log.message._BYTES_AT_ONCE", 1)
    monkeypatch.setattr("stream_dp.log.message._FIRST", 2)
    monkeypatch.setattr(sqlite.SqliteLog, "read", noted)
    for records in script()[CLOSED_PERIODS:]:
        place.send(records)
    assert place.run(source=SeededNoise(1))
    last = position_of(place, JOURNAL, f"{CLOSED_PERIODS}/state pairs/0")
    assert last in places[JOURNAL]
    for index in range(1, CLOSED_PERIODS):
        assert position_of(place, JOURNAL, f"{index}/manifest") in places[JOURNAL]
        assert position_of(place, JOURNAL, f"{index}/state pairs/0") not in places[JOURNAL]
    assert len(place.entries()) == PERIODS + 1


def test_a_study_that_is_read_a_column_at_a_time_goes_on_as_if_it_had_not_stopped(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Panels, the chain of hashes and the states are those of a run that was never stopped."""
    panels = []
    # The key of the hash of ids decides who has a place.
    monkeypatch.setattr("stream_dp.services.releaser.recovery.system_entropy", bytes)
    for stopped in (False, True):
        monkeypatch.setattr("stream_dp.log.message._BYTES_AT_ONCE", 1 if stopped else 2_000_000)
        place = StudyFolder(memory / f"stopped-{stopped}")
        for number, records in enumerate(script()):
            place.send(records)
            if stopped or number == len(script()) - 1:
                place.run(source=Repeating())
        panels.append(decided(place))
    assert panels[0] == panels[1]
