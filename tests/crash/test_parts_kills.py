"""The releaser, the aggregator and its processes are killed anywhere: the same is decided."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kit.killed import KilledReleaser, check, die, in_memory
from kit.panels import decided, declaration, fix_secrets, script
from kit.parts import DieOnce, PartsFolder, in_parts

from stream_dp.study.topics import MANIFESTS, ORDERS

OF_RELEASER = [
    *("owned", "begun", "recovered", "ordered", "cut", "closed", "drawn"),
    *("commit", "committed", "publish", "published", "cleaned"),
]
OF_AGGREGATOR = [
    *("order", "decoded", "letters", "cells-written", "cells-read", "part-read", "part-closed"),
    *("part-written", "refused", "manifest", "answered"),
]


@pytest.fixture(scope="module", autouse=True)
def _fixed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        yield


PERIODS = 3  # one before the kill, and one after it
TEXT = in_parts(declaration(periods=PERIODS), parts=2)


@pytest.fixture(scope="module")
def sent(memory: Path) -> PartsFolder:
    """A place to which everything has been sent and where nothing has run."""
    place = PartsFolder(memory / "sent", TEXT, parts=2)
    for records in script(PERIODS):
        place.send(records)
    return place


@pytest.fixture(scope="module")
def answered(sent: PartsFolder, memory: Path) -> KilledReleaser:
    """The first close is ordered and answered."""
    killed = KilledReleaser(sent.copy(memory / "answered"))
    assert killed.run()
    parts_of(killed).aggregate()
    return killed


@pytest.fixture(scope="module")
def ordered(answered: KilledReleaser, memory: Path) -> KilledReleaser:
    """The second close is ordered, in which parts are read."""
    killed = copy_of(answered, memory / "ordered")
    assert killed.run()
    return killed


@pytest.fixture(scope="module")
def expected(sent: PartsFolder, memory: Path) -> list[dict[str, Any]]:
    """What is decided without a kill, with the hashes of the manifests."""
    place = sent.copy(memory / "calm")
    assert place.run()
    return decided(place.entries())


@pytest.fixture
def place() -> Iterator[Path]:
    """The folder of a copy, which a test makes."""
    with in_memory() as folder:
        yield folder / "copy"


def copy_of(killed: KilledReleaser, folder: Path) -> KilledReleaser:
    """The study at another place, and what was seen of it."""
    return KilledReleaser(killed.place.copy(folder), seen=killed.seen)


def parts_of(killed: KilledReleaser) -> PartsFolder:
    assert isinstance(killed.place, PartsFolder)
    return killed.place


def finish(killed: KilledReleaser, expected: list[dict[str, Any]]) -> None:
    """Run both to the horizon; nothing tells the study from one that was never interrupted."""
    for _ in range(2 * PERIODS):
        assert killed.run()
        if len(parts_of(killed).entries()) > PERIODS:
            break
        parts_of(killed).aggregate()
    check(killed, expected, snapshots_lost=True)
    kept = {path.name for path in parts_of(killed).snapshots.iterdir()}
    assert {entry.snapshot[0] for entry in parts_of(killed).entries()[-2:]} <= kept
    assert len(kept) == 2 * 3


def killed_aggregator(place: PartsFolder, step: str, call: int = 0) -> bool:
    """Whether the aggregator, in a process of its own, was killed at a call of a step."""
    calls = count()

    def at(name: str) -> None:
        if name == step and next(calls) == call:
            die()

    child = os.fork()
    if child == 0:
        try:
            place.aggregate(at=at)
            os._exit(0)
        except BaseException:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code <= 0
    return code < 0


@pytest.mark.parametrize("step", OF_RELEASER)
def test_the_releaser_is_killed_at_a_step(
    step: str,
    place: Path,
    sent: PartsFolder,
    answered: KilledReleaser,
    expected: list[dict[str, Any]],
) -> None:
    first = step in ("owned", "begun")
    killed = KilledReleaser(sent.copy(place)) if first else copy_of(answered, place)
    assert not killed.run_to(0, step)
    finish(killed, expected)


@pytest.mark.parametrize("step", OF_AGGREGATOR)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_aggregator_is_killed_at_a_step(
    step: str, place: Path, ordered: KilledReleaser, expected: list[dict[str, Any]]
) -> None:
    """In the second period, in which parts are read; the one that comes after does the same."""
    killed = copy_of(ordered, place)
    assert killed_aggregator(parts_of(killed), step, call=step.startswith("part-"))
    finish(killed, expected)


@pytest.mark.parametrize(
    "step",
    [pytest.param(s, marks=pytest.mark.slow) for s in ("decoded", "part-read", "part-written")]
    + ["part-closed"],
)
def test_a_process_of_the_aggregator_is_killed(
    step: str, place: Path, sent: PartsFolder, expected: list[dict[str, Any]]
) -> None:
    """Its tasks go to others, and nobody notices."""
    killed = KilledReleaser(sent.copy(place))
    mark = parts_of(killed).folder / "killed"
    assert killed.run()
    parts_of(killed).aggregate(processes=2, at=DieOnce(step, mark), most=40)
    assert mark.exists()
    finish(killed, expected)


def test_an_order_that_is_worked_on_again_gives_the_same_answer_and_the_same_files(
    place: Path, sent: PartsFolder
) -> None:
    parts = sent.copy(place)
    answers, files = [], []
    parts.run(aggregator={"most": 1000})
    for most in (1000, 7):
        parts.aggregate(most=most)
        rows = parts.rows(MANIFESTS)
        answers.append([(row[3], row[4]) for row in rows])
        files.append({path.name: path.read_bytes() for path in parts.snapshots.iterdir()})
        last = rows[-1][1]
        parts.edit(f"DELETE FROM records WHERE topic = '{MANIFESTS}' AND offset = {last}")
    assert answers[0] == answers[1]
    assert len(answers[0]) == len(parts.keys(ORDERS)) == PERIODS
    assert files[0] == files[1]
