"""The state at a cut follows from the input below it: from a snapshot, a replay, in any order."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.killed import KilledReleaser, check, in_memory
from kit.matrices import seeds
from kit.panels import (
    PARTITIONS,
    StudyFolder,
    counts,
    decided,
    declaration,
    fix_secrets,
    markers,
    report,
    reports_of,
    script,
)

from stream_dp.log.log import Record, Stored
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.studyfile import load_study

PERIODS = 3
TEXT = declaration(periods=PERIODS)


@pytest.fixture(scope="module", autouse=True)
def _secrets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        yield


@pytest.fixture
def places() -> Iterator[Iterator[StudyFolder]]:
    with in_memory() as folder:
        yield (StudyFolder(folder / str(i), TEXT) for i in count())


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    with in_memory() as folder:
        place = StudyFolder(folder / "calm", TEXT)
        for records in script(PERIODS):
            place.send(records)
        assert place.run()
        return decided(place.entries())


def lose_all(place: StudyFolder) -> None:
    shutil.rmtree(place.snapshots, ignore_errors=True)


def lose_latest(place: StudyFolder) -> None:
    for entry in place.entries()[-1:]:
        if entry.number:
            (place.snapshots / entry.snapshot[0]).unlink(missing_ok=True)


@seeds(0, 1, 2)
@pytest.mark.parametrize("lose", [lose_all, lose_latest])
def test_lost_snapshots_are_replayed_from_the_input(
    lose: Any, seed: int, places: Iterator[StudyFolder], expected: list[dict[str, Any]]
) -> None:
    for call in range(2 + 3 * seed, 60, 18):
        killed = KilledReleaser(next(places))
        for records in script(PERIODS):
            killed.place.send(records)
        finished = killed.run_to(call)
        lose(killed.place)
        assert killed.run()
        if not finished:
            check(killed, expected, snapshots_lost=True)


def test_a_run_a_period_with_no_snapshot_ever(
    places: Iterator[StudyFolder], expected: list[dict[str, Any]]
) -> None:
    place = next(places)
    for records in script(PERIODS):
        place.send(records)
        place.run()
        lose_all(place)
    assert place.run()
    assert decided(place.entries()) == expected


def test_a_snapshot_of_long_ago_does_not_stay(places: Iterator[StudyFolder]) -> None:
    place = next(places)
    for records in script(PERIODS):
        place.send(records)
    committed = count(1)

    def at(step: str) -> None:
        if step == "committed" and next(committed) == PERIODS:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        place.run(at=at)
    assert len(list(place.snapshots.iterdir())) == 3
    assert place.run()
    assert len(list(place.snapshots.iterdir())) == 2


def in_time() -> list[list[Record]]:
    """Reports by period, none of them late."""
    return [reports_of(n, late=False) for n in range(1, PERIODS + 1)]


def test_sent_first_and_closed_afterwards_or_period_by_period(
    places: Iterator[StudyFolder],
) -> None:
    first, gradual, stopped = next(places), next(places), next(places)
    for records in in_time():
        first.send(records)
    first.send(markers(PERIODS))
    assert first.run()
    for number, records in enumerate(in_time(), 1):
        gradual.send([*records, *markers(number)])
        assert gradual.run() == (number == PERIODS)
    killed = KilledReleaser(stopped)
    for number, records in enumerate(in_time(), 1):
        stopped.send([*records, *markers(number)])
        killed.run_to(5 * number)
    assert killed.run()
    tallies = [[counts(e) for e in p.entries()] for p in (first, gradual, stopped)]
    assert tallies[0] == tallies[1] == tallies[2]
    last = [p.entries()[-1].message.head["accounting"] for p in (first, gradual, stopped)]
    assert last[0] == last[1] == last[2]
    assert [p.reasons() for p in (first, gradual, stopped)] == [last[0]["rejected"]] * 3


@pytest.fixture(scope="module")
def closed_at_once(memory: Path) -> tuple[StudyFolder, list[dict[str, Any]]]:
    """A place where one marker follows all reports, and what is decided without a kill."""
    sent = StudyFolder(memory / "sent", TEXT)
    for records in in_time():
        sent.send(records)
    sent.send(markers(PERIODS))
    calm = KilledReleaser(sent.copy(memory / "calm"))
    assert calm.run()
    expected = decided(calm.place.entries())
    check(calm, expected)
    return sent, expected


# In the suite each step is that of the first or the last period, in turn.
@pytest.mark.parametrize(
    ("step", "call"),
    [
        pytest.param(step, call, marks=[] if call == (0, PERIODS - 1)[i % 2] else pytest.mark.slow)
        for i, step in enumerate(("closed", "committed", "cleaned", "published"))
        for call in (0, PERIODS - 1)
    ],
)
def test_one_marker_for_the_full_horizon_outlives_a_kill(
    step: str, call: int, closed_at_once: tuple[StudyFolder, list[dict[str, Any]]], memory: Path
) -> None:
    sent, expected = closed_at_once
    killed = KilledReleaser(sent.copy(memory / f"{step}-{call}"))
    assert not killed.run_to(call, step)
    assert killed.run()
    check(killed, expected)


@settings(max_examples=6)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 40)), min_size=5, max_size=40))
def test_any_interleaving_of_appends_is_decided_alike(pieces: list[tuple[int, int]]) -> None:
    assert _shuffled_run(pieces) == _run_at_once()


@cache
def _run_at_once() -> list[dict[str, Any]]:
    return _shuffled_run([])


def _shuffled_run(pieces: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """What is decided when the partitions grow in pieces, and the releaser runs in between."""
    sent = [r for part in script(PERIODS) for r in part]
    lines = [[r for r in sent if r.partition == p] for p in range(PARTITIONS)]
    with in_memory() as folder:
        place = StudyFolder(folder / "place", TEXT)
        for number, (partition, size) in enumerate(pieces):
            if lines[partition]:
                place.send(lines[partition][:size])
                del lines[partition][:size]
            if number % 4 == 3:
                place.run()
        place.send(lines[1])
        place.send(lines[0])
        assert place.run()
        return decided(place.entries())


def stored(records: list[Record]) -> list[list[Stored]]:
    """The records as a log holds them, by partition."""
    partitions: list[list[Stored]] = [[] for _ in range(PARTITIONS)]
    for r in records:
        assert r.partition is not None
        here = partitions[r.partition]
        here.append(
            Stored(
                partition=r.partition,
                offset=len(here),
                time=0,
                key=r.key,
                value=r.value,
                headers=r.headers,
            )
        )
    return partitions


WAITING = [r for part in in_time() for r in part]


@pytest.mark.parametrize("compact", [3, pytest.param(50, marks=pytest.mark.slow), 1 << 20])
@settings(max_examples=25)
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=60), first=st.integers(0, 1))
def test_any_batches_make_the_same_state(
    compact: int, sizes: list[int], first: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also with merging of what waits at many moments, or never."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dp.population.cells._COMPACT", compact)
        assert _state(sizes, first) == _state_at_once(compact)


@cache
def _state_at_once(compact: int) -> list[bytes]:
    """By how much waits before it is merged."""
    return _state([1_000], 0)


def _state(sizes: list[int], first: int) -> list[bytes]:
    """Snapshots after the reading of all input in batches, and after each close."""
    with in_memory() as folder:
        study, _ = load_study(StudyFolder(folder / "place", TEXT).file)
    population, decoder = Population(study), Decoder(study, bytes(32))
    queues = stored(WAITING)
    for number in range(1_000):
        partition = (first + number) % PARTITIONS
        size = sizes[number % len(sizes)]
        batch, queues[partition] = queues[partition][:size], queues[partition][size:]
        population.fold(*decoder.decode(batch, population.period))
        if not any(queues):
            break
    states = []
    for _ in range(PERIODS):
        file = io.BytesIO()
        population.save(file)
        states.append(file.getvalue())
        population.close()
    return states


def test_a_person_in_two_partitions(places: Iterator[StudyFolder]) -> None:
    """The value in the higher partition wins, whichever came first."""
    for order in (1, -1):
        place = next(places)
        reports = [
            report(0, "p", "2021-01", {"work": "no"}),
            report(1, "p", "2021-01", {"work": "yes"}),
        ]
        for one in reports[::order]:
            place.send([one])
        place.send(markers(PERIODS))
        assert place.run()
        assert counts(place.entries()[1]) == {"working": [1]}
        assert place.entries()[-1].message.head["accounting"]["superseded"] == 1


def test_small_batches_read_the_same(
    places: Iterator[StudyFolder], expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (1, 7):
        monkeypatch.setattr("stream_dp.services.releaser.input_reading.READ_AT_ONCE", size)
        place = next(places)
        for records in script(PERIODS):
            place.send(records)
        assert place.run()
        lose_all(place)
        assert decided(place.entries()) == expected
        assert place.run()


def test_a_snapshot_is_enough_where_the_input_is_gone(
    places: Iterator[StudyFolder], expected: list[dict[str, Any]]
) -> None:
    place = next(places)
    for number, records in enumerate(script(PERIODS), 1):
        place.send(records)
        assert place.run() == (number == PERIODS)
        for partition, offset in place.entries()[-1].input.cut.items():
            place.edit(
                "DELETE FROM records WHERE topic = 'reports' AND partition = ? AND offset < ? - 1",
                partition,
                offset,
            )
    assert decided(place.entries()) == expected
