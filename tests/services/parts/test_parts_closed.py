"""A study that is closed in parts decides what one process decides."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from kit.panels import (
    PERIODS,
    Noiseless,
    StudyFolder,
    declaration,
    fix_secrets,
    report,
    script,
)
from kit.parts import PartsFolder, letters, outcome
from kit.studies import toml_lines

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Log, Record
from stream_dp.services.releaser.releaser_facts import InputFacts
from stream_dp.services.storage.close_orders import (
    Manifest,
    Order,
    OrderBoard,
    PartFile,
    answer_record,
    encoded_counts,
    lost_record,
    write_manifest,
)
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study.topics import MANIFESTS, ORDERS
from stream_dp.studyfile import load_study

OPEN: dict[str, Any] = {"neighbours": "add_remove", "size": None, "rho": 1.0}
TEXTS = {"bounded": declaration(), "open": declaration(**OPEN)}
FEW = 3  # periods, of which the second and the third read parts
SHORT = {"bounded": declaration(periods=FEW), "open": declaration(**OPEN, periods=FEW)}


@pytest.fixture(autouse=True)
def _fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_secrets(monkeypatch)


@pytest.fixture(params=TEXTS, scope="module")
def text(request: pytest.FixtureRequest) -> str:
    return TEXTS[request.param]


@pytest.mark.parametrize("study", SHORT)
@pytest.mark.parametrize(
    ("parts", "most"),
    [(4, 17), *(pytest.param(*p, marks=pytest.mark.slow) for p in ((1, 1000), (8, 1000)))],
)
def test_the_same_is_decided_as_in_one_process(
    parts: int, most: int, study: str, folder: Path
) -> None:
    text = SHORT[study]
    here, parted = (
        StudyFolder(folder / "here", text),
        PartsFolder(folder / "parts", text, parts=parts),
    )
    for records in script(FEW):
        for place in (here, parted):
            place.send(records)
    assert here.run()
    assert parted.run(aggregator={"most": most})
    assert outcome(parted) == outcome(here)
    assert len(outcome(here)) == FEW + 1
    assert letters(parted) == letters(here)
    assert parted.reasons() == here.reasons()
    kept = sorted(path.name for path in parted.snapshots.iterdir())
    assert len(kept) == 2 * (parts + 1)


def test_the_engine_and_the_number_of_parts_may_change(text: str, folder: Path) -> None:
    """Here, in 4 parts, in 16, here again: nobody can tell."""
    calm, moved = StudyFolder(folder / "calm", text), PartsFolder(folder / "moved", text)
    plans: list[int | None] = [None, 4, 16, None, 1]
    for records, parts in zip(script(), plans, strict=True):
        calm.send(records)
        moved.send(records)
        if parts is None:
            StudyFolder.run(moved, aggregation=None)
        else:
            moved.parts = parts
            moved.run()
    assert calm.run()
    assert outcome(moved) == outcome(calm)
    assert len(outcome(calm)) == PERIODS + 1
    assert moved.reasons() == calm.reasons()


def test_without_its_files_the_input_is_read_again(folder: Path) -> None:
    calm, place = PartsFolder(folder / "calm"), PartsFolder(folder / "place")
    for number, records in enumerate(script()):
        for one in (calm, place):
            one.send(records)
            one.run()
        if number == 2:
            shutil.rmtree(place.snapshots)
        if number == 3:
            next(place.snapshots.glob("*-part-00004-*")).unlink()
    assert outcome(place) == outcome(calm)
    assert place.reasons() == calm.reasons()
    assert len(place.rows("dead-letters")) == len(calm.rows("dead-letters"))


def test_two_manifests_that_differ_are_refused(folder: Path) -> None:
    place = PartsFolder(folder / "place")
    place.send(script()[0])
    StudyFolder.run(place)
    place.aggregate()
    with place.log() as log:
        (answer,) = log.read(MANIFESTS, {0: 0}, 10, 0).records
        forged = (answer.value or b"").replace(b'"sha256":"', b'"sha256":"0')
        log.append([Record(MANIFESTS, forged, answer.key, partition=0)])
    with pytest.raises(Inconsistent, match="two of period 1 differ"):
        place.run()
    assert len(place.entries()) == 1


def test_a_manifest_with_counts_of_another_length_is_refused_before_the_noise(
    folder: Path,
) -> None:
    place, drawn = PartsFolder(folder / "place"), list[int]()
    place.send(script()[0])
    StudyFolder.run(place)
    with place.log() as log:
        (order,) = log.read(ORDERS, {0: 0}, 10, 0).records
        order = msgspec.json.decode(order.value or b"", type=Order)
        snapshots = Snapshots("small-snapshots", place.folder).of(order.owner)
        counts = {"pairs": np.zeros(4, np.int64), "working": np.zeros(5, np.int64)}
        files = [PartFile(path.name, "0" * 64, 0) for path in [place.file] * 4]
        shutil.copy(place.file, place.snapshots / place.file.name)
        counted = encoded_counts(counts)
        manifest = Manifest(order.id, 1, files, counted, order.accounting, records=0)
        log.append([answer_record(order, write_manifest(snapshots, manifest))])
    with pytest.raises(Inconsistent, match="does not answer the order of period 1"):
        StudyFolder.run(place, source=Noiseless(drawn.append))
    assert drawn == []


def test_a_manifest_in_another_folder_is_missed_in_words(folder: Path) -> None:
    place = PartsFolder(folder / "place")
    place.send(script()[0])
    for _ in range(3):
        StudyFolder.run(place)
        place.aggregate()
        shutil.rmtree(place.snapshots)
    with pytest.raises(Inconsistent, match=r"give both the same run\.snapshots"):
        StudyFolder.run(place)
    assert len(place.entries()) == 1


def test_a_part_that_was_changed_is_set_aside_and_read_again(folder: Path) -> None:
    place = PartsFolder(folder / "place")
    for records in script()[:2]:
        place.send(records)
    StudyFolder.run(place)
    place.aggregate()
    part = next(place.snapshots.glob("*-part-*"))
    part.write_bytes(part.read_bytes() + b"x")
    before = place.entries()
    # Neither ends: the aggregator says that the part is lost, and is ordered to make it again.
    place.run()
    assert (place.snapshots / f"damaged-{part.name}").read_bytes().endswith(b"x")
    assert place.entries()[: len(before)] == before
    sound = PartsFolder(folder / "sound")
    for records in script()[:2]:
        sound.send(records)
    sound.run()
    assert outcome(place) == outcome(sound)


def test_a_folder_of_snapshots_of_its_own_ends_in_words(folder: Path) -> None:
    """An aggregator without the files of the last close, all of which the releaser has."""
    place = PartsFolder(folder / "place")
    for records in script()[:2]:
        place.send(records)
    StudyFolder.run(place)
    place.aggregate()
    for _ in range(3):
        StudyFolder.run(place)
        with place.log() as log:
            log.append([lost_record(newest_order(log))])
    with pytest.raises(Inconsistent, match=r"give both the same run\.snapshots"):
        StudyFolder.run(place)


def newest_order(log: Log) -> Order:
    board = OrderBoard(log)
    board.refresh()
    assert board.last is not None
    return board.last


def test_the_noise_is_drawn_before_the_counts_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, seen = PartsFolder(folder / "place"), list[str]()
    place.send(script()[0])
    counts = Manifest.counts.func
    monkeypatch.setattr(
        Manifest, "counts", property(lambda self: seen.append("counts") or counts(self))
    )
    place.run(source=Noiseless(lambda number: seen.append("draw")))
    assert seen[0] == "draw"
    assert "counts" in seen
    assert seen.count("draw") == 1


def test_one_persons_reports_change_the_file_of_their_part_alone(folder: Path) -> None:
    """With room for everybody; who is turned away is in tests/population/test_parts.py."""
    names = []
    for value in (0, 1):
        place = PartsFolder(folder / str(value), declaration(size=60), parts=64)
        one = report(0, "somebody", "2021-01", {"poverty": value, "work": ["yes", "no"][value]})
        place.send([one, *script()[0]])
        place.run()
        names.append({path.name.split("-", 1)[1] for path in place.snapshots.glob("*-part-*")})
    assert len(names[0]) == len(names[1]) == 64
    assert len(names[0] - names[1]) == len(names[1] - names[0]) == 1


def test_what_came_since_the_last_cut_is_measured_as_unread(folder: Path) -> None:
    place = PartsFolder(folder / "place")
    (first, second, *_) = script()
    place.send(first)
    place.run()
    late = 2  # reports of the first period behind its markers
    for sent in (0, 5):
        place.send(second[:sent])
        with place.releaser() as releaser:
            assert not releaser.run(until_idle=True)
            intake, lag = releaser.context.facts.input, releaser.context.facts.lag
        assert intake == InputFacts(late + sent, None, None)
        assert lag is None


def test_markers_are_not_searched_before_they_are_announced(folder: Path) -> None:
    place = PartsFolder(folder / "place")
    (first, *_) = script()
    StudyFolder.send(place, first)  # as a version does that announces nothing
    place.run()
    assert len(place.entries()) == 1
    place.send(script()[1])
    place.run()
    assert [entry.number for entry in place.entries()] == [0, 1, 2]


def test_markers_are_found_behind_many_reports_of_other_partitions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_dp.services.intake.markers.READ_AT_ONCE", 7)
    place = PartsFolder(folder / "place")
    place.send([record for records in script()[:2] for record in records])
    assert not place.run()
    assert [entry.number for entry in place.entries()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parts": 3}, "power of two"),
        ({"engine": "elsewhere"}, "'here', 'processes' or 'spark'"),
    ],
)
def test_wrong_engines_are_refused(change: dict[str, Any], words: str, folder: Path) -> None:
    file = folder / "study.toml"
    file.write_text(declaration() + toml_lines({"engine": "processes", **change}))
    with pytest.raises(UserError, match=words):
        load_study(file)
