"""Cells on disk between decoding and closing: the same bytes, little in memory, nothing left."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kit import gated
from kit.panels import LABELS, StudyFolder, fix_secrets, report, script
from kit.parts import PartsFolder

from stream_dp.errors import Inconsistent
from stream_dp.log.sealing import Keyring
from stream_dp.population.cells import Part
from stream_dp.services.parts import close_tasks
from stream_dp.services.parts.close_tasks import Closing, Range, Source, close, decode, leave
from stream_dp.services.parts.decoding_tasks import Spilled, SpilledPart, close_spilled, spill
from stream_dp.services.storage.snapshots import Snapshots

PARTS, REPORTS = 4, 3000
KEYS = Keyring((bytes(range(32)),))


@pytest.fixture(autouse=True)
def _fixed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fix_secrets(monkeypatch)
    yield
    leave()


def begun(
    folder: Path, where: str = "small-snapshots", keys: Keyring | None = None
) -> tuple[PartsFolder, Source]:
    """A place with reports, whose journal has begun. where, keys: of the folder of snapshots."""
    place = PartsFolder(folder, parts=PARTS)
    place.send([report(0, f"p{i}", LABELS[0], {"work": "yes"}) for i in range(REPORTS)])
    assert not StudyFolder.run(place)
    source = Source(place.file, place.entries()[0].message.hash[:12])
    snapshots = Snapshots(where, folder, keys).of(source.owner)
    close_tasks._OPEN[source] = replace(close_tasks.open_workplace(source), snapshots=snapshots)
    return place, source


def of(begin: int, end: int) -> Range:
    return Range(0, begin, end, 1, PARTS, letters=False)


def closing(index: int) -> Closing:
    return Closing(Part(index, PARTS), 1, None, [])


def part_of(several: list[Spilled], index: int) -> SpilledPart:
    ends = np.array([one.ends for one in several])
    files = tuple(one.file for one in several)
    return SpilledPart(closing(index), files, ends[:, index : index + 2])


@pytest.mark.parametrize("where", ["small-snapshots", "memory://"])
@pytest.mark.parametrize("keys", [None, KEYS])
def test_a_part_is_closed_as_with_its_cells_in_memory(
    where: str, keys: Keyring | None, folder: Path
) -> None:
    where += str(uuid.uuid4()) if "://" in where else ""
    place, source = begun(folder / "place", where, keys)
    ranges = [of(start, start + 1000) for start in range(0, REPORTS, 1000)]
    several = [spill(source, one) for one in ranges]
    blobs = [decode(source, one)[0] for one in ranges]
    for index in range(PARTS):
        expected = close(source, replace(closing(index), blobs=[b[index] for b in blobs]))
        got = close_spilled(source, part_of(several, index))
        assert got.file == expected.file
        assert got.file.people > REPORTS // (2 * PARTS)
    cells = {one.file for one in several}
    if place.snapshots.name == where:
        files = {p.name: p.read_bytes() for p in place.snapshots.glob("*-cells-*")}
        assert files.keys() == cells
        assert all((b"".join(one) in files.values()) == (keys is None) for one in blobs)
        assert all(p.stat().st_mode & 0o77 == 0 for p in place.snapshots.glob("*-cells-*"))


def test_what_stays_in_memory_does_not_grow_with_the_reports(folder: Path) -> None:
    _, source = begun(folder / "place")
    few, many = (spill(source, of(0, count)) for count in (10, REPORTS))
    assert few.decoded.records == 10
    assert many.decoded.records == REPORTS
    assert len(pickle.dumps(many)) < len(pickle.dumps(few)) + 50
    few_cells, many_cells = (len(pickle.dumps(part_of([one], 0))) for one in (few, many))
    assert many_cells < few_cells + 50


def test_cells_that_are_gone_or_cut_off_are_missed_in_words(folder: Path) -> None:
    for i, (keys, cut) in enumerate([(None, 100), (KEYS, 100), (None, 0), (KEYS, None)]):
        place, source = begun(folder / str(i), keys=keys)
        one = spill(source, of(0, REPORTS))
        path = place.snapshots / one.file
        if cut is None:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(Inconsistent, match=f"{one.file}: the cells of a period are gone"):
            close_spilled(source, part_of([one], PARTS - 1))
        leave()


@pytest.mark.parametrize("then", ["parts", "here"])
def test_nothing_is_left_of_aggregators_that_were_killed(then: str, folder: Path) -> None:
    """Neither of cells that were written, nor of those that were not yet complete."""
    place, source = begun(folder / "place")
    spill(source, of(0, 500))  # by another task size, so that nobody writes it again
    left = place.snapshots / f"{source.owner}-cells-00001-00000-0-x7k.tmp"
    left.write_bytes(b"cells")
    assert len(list(place.snapshots.glob("*-cells-*"))) == 2
    place.send(script()[0])
    if then == "here":
        StudyFolder.run(place, aggregation=None)
    else:
        place.run()
    assert [entry.number for entry in place.entries()] == [0, 1]
    assert not list(place.snapshots.glob("*-cells-*"))


def test_an_aggregator_that_was_killed_behind_its_answer_leaves_nothing(folder: Path) -> None:
    place, _ = begun(folder / "place")
    place.send(script()[0])
    assert not StudyFolder.run(place)

    def stop(step: str) -> None:
        if step == "answered":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.aggregate(at=stop)
    assert list(place.snapshots.glob("*-cells-*"))
    place.aggregate()
    assert not list(place.snapshots.glob("*-cells-*"))


def test_an_idle_aggregator_leaves_the_cells_of_the_close_behind_a_gate(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has answered the gate, and removes files while another one closes the same period."""
    place = PartsFolder(folder / "place", gated.TEXT, parts=2)
    gated.send_months(place)
    assert not StudyFolder.run(place)
    keep = Snapshots.keep

    def late(idle: Snapshots, names: set[str], label: str, upto: int) -> None:
        monkeypatch.setattr(Snapshots, "keep", keep)
        assert not StudyFolder.run(place)

        def remove(step: str) -> None:
            if step == "cells-written":
                idle.keep(names, label, upto)

        place.aggregate(at=remove)

    monkeypatch.setattr(Snapshots, "keep", late)
    place.aggregate()
    assert not StudyFolder.run(place)
    assert [entry.number for entry in place.entries()] == [0, 0, 1]
    assert not list(place.snapshots.glob("*-cells-*"))
