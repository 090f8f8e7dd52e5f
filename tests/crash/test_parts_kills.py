"""The releaser, the aggregator and its processes are killed anywhere: the same is decided."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kit.killed import KilledReleaser, check, die, in_memory
from kit.panels import PERIODS, decided, fix_secrets, script
from kit.parts import DieOnce, PartsFolder

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


@pytest.fixture(scope="module")
def sent(memory: Path) -> PartsFolder:
    """A place to which everything has been sent and where nothing has run."""
    place = PartsFolder(memory / "sent", parts=2)
    for records in script():
        place.send(records)
    return place


@pytest.fixture(scope="module")
def expected(sent: PartsFolder, memory: Path) -> list[dict[str, Any]]:
    """What is decided without a kill, with the hashes of the manifests."""
    place = sent.copy(memory / "calm")
    assert place.run()
    return decided(place.entries())


@pytest.fixture
def fresh(sent: PartsFolder) -> Iterator[Iterator[KilledReleaser]]:
    with in_memory() as folder:
        yield (KilledReleaser(sent.copy(folder / str(i))) for i in count())


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
    step: str, fresh: Iterator[KilledReleaser], expected: list[dict[str, Any]]
) -> None:
    killed = next(fresh)
    if step not in ("owned", "begun"):
        assert killed.run()  # the first close is ordered and answered
        parts_of(killed).aggregate()
    assert not killed.run_to(0, step)
    finish(killed, expected)


@pytest.mark.parametrize("step", OF_AGGREGATOR)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_aggregator_is_killed_at_a_step(
    step: str, fresh: Iterator[KilledReleaser], expected: list[dict[str, Any]]
) -> None:
    """In the second period, in which parts are read; the one that comes after does the same."""
    killed = next(fresh)
    assert killed.run()
    parts_of(killed).aggregate()
    assert killed.run()
    assert killed_aggregator(parts_of(killed), step, call=step.startswith("part-"))
    finish(killed, expected)


@pytest.mark.parametrize(
    "step",
    [pytest.param(s, marks=pytest.mark.slow) for s in ("decoded", "part-read", "part-written")]
    + ["part-closed"],
)
def test_a_process_of_the_aggregator_is_killed(
    step: str, fresh: Iterator[KilledReleaser], expected: list[dict[str, Any]]
) -> None:
    """Its tasks go to others, and nobody notices."""
    killed = next(fresh)
    place, mark = parts_of(killed), parts_of(killed).folder / "killed"
    assert killed.run()
    place.aggregate(processes=2, at=DieOnce(step, mark), most=40)
    assert mark.exists()
    finish(killed, expected)


def test_an_order_that_is_worked_on_again_gives_the_same_answer_and_the_same_files(
    fresh: Iterator[KilledReleaser],
) -> None:
    place = parts_of(next(fresh))
    answers, files = [], []
    place.run(aggregator={"most": 1000})
    for most in (1000, 7):
        place.aggregate(most=most)
        rows = place.rows(MANIFESTS)
        answers.append([(row[3], row[4]) for row in rows])
        files.append({path.name: path.read_bytes() for path in place.snapshots.iterdir()})
        last = rows[-1][1]
        place.edit(f"DELETE FROM records WHERE topic = '{MANIFESTS}' AND offset = {last}")
    assert answers[0] == answers[1]
    assert len(answers[0]) == len(place.keys(ORDERS)) == PERIODS
    assert files[0] == files[1]
