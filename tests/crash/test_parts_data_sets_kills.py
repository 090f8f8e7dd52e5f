"""All who close in parts are killed anywhere: data sets look at the same bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kit.households import NEVER, NotedNoise, check, dying, edit
from kit.killed import in_memory
from kit.panels import fix_secrets
from kit.parts import DieOnce
from kit.parts_of_tables import TablesFolder, TablesInParts, copied

from stream_dp.services.storage.job_records import operator_word
from stream_dp.study.topics import MANIFESTS

NAMES = ("groups", "sized, too small", "places")
OF_AGGREGATOR = (
    *("order", "decoded", "cells-written", "cells-read", "part-read", "part-closed", "part-table"),
    *("part-written", "job-inputs", "refused", "manifest", "answered"),
)
OF_RELEASER = (
    *("owned", "recovered", "ordered", "cut", "closed", "drawn", "commit", "committed"),
    *("job-sent", "publish", "published", "cleaned"),
)
QUICK = {("groups", "part-table"), ("sized, too small", "job-inputs"), ("groups", "closed")}
QUICK |= {("places", "part-table"), ("groups", "committed")}


def cases(steps: tuple[str, ...]) -> list[Any]:
    return [
        pytest.param(name, step, marks=() if (name, step) in QUICK else pytest.mark.slow)
        for name in NAMES
        for step in steps
    ]


@pytest.fixture(scope="module", autouse=True)
def _fixed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        yield


@pytest.fixture(scope="module")
def sent(memory: Path) -> dict[str, TablesInParts]:
    """By name of a study, a place to which everything is sent and where nothing has run."""
    places = {}
    for i, name in enumerate(NAMES):
        place = TablesInParts(memory / f"sent-{i}", name=name, parts=2)
        place.begin()
        for number in range(1, place.periods + 1):
            place.send(place.period(number))
        places[name] = place
    return places


@pytest.fixture(scope="module")
def expected(sent: dict[str, TablesInParts], memory: Path) -> dict[str, list[Any]]:
    """What comes of them without a kill."""
    outcomes = {}
    for i, (name, place) in enumerate(sent.items()):
        calm = in_parts(place, memory / f"calm-{i}")
        calm.run()
        outcomes[name] = calm.outcome()
    return outcomes


@pytest.fixture
def folders() -> Iterator[Iterator[Path]]:
    with in_memory() as folder:
        yield (folder / str(i) for i in count())


@pytest.fixture
def place(name: str, sent: dict[str, TablesInParts], folders: Iterator[Path]) -> TablesInParts:
    """A place of its own for a test, of the study of that name."""
    return in_parts(sent[name], next(folders))


def in_parts(place: TablesInParts, folder: Path) -> TablesInParts:
    copy = copied(place, folder)
    assert isinstance(copy, TablesInParts)
    return copy


def finish(place: TablesInParts, expected: dict[str, list[Any]]) -> None:
    """Run to the horizon; every job looks at what it would have, and its files are there."""
    place.run()
    assert place.outcome() == expected[place.name]
    jobs = [job for entry in place.entries() for job in entry.jobs]
    wanted = {file.name for job in jobs for file in job.files.values()}
    assert place.inputs().keys() == wanted
    left = list(place.snapshot_folder.iterdir())
    assert len(left) == len(wanted) + 2 * (2 + 1)  # manifests and their parts


def ordered(place: TablesInParts) -> None:
    """The second close is ordered, and nobody works on it."""
    TablesFolder.run(place)
    place.aggregate()
    TablesFolder.run(place)
    assert place.open_order()


@pytest.mark.parametrize(("name", "step"), cases(OF_AGGREGATOR))
def test_the_aggregator_is_killed_at_a_step(
    step: str, place: TablesInParts, expected: dict[str, list[Any]]
) -> None:
    ordered(place)
    call = int(step.startswith("part-"))
    finished = place.child(lambda note: place.aggregate(at=dying(call, step, note)))
    assert not finished or (step == "refused" and place.name == "groups")
    finish(place, expected)


@pytest.mark.parametrize(("name", "step"), cases(OF_RELEASER))
def test_the_releaser_is_killed_at_a_step(
    step: str, place: TablesInParts, expected: dict[str, list[Any]]
) -> None:
    # Of places alone nothing is published at a close.
    at_start = ("owned", "recovered", *(("publish", "published") if place.name == "places" else ()))
    assert not place.releases_to(step not in at_start, step)
    finish(place, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", ["part-read", "part-table", "part-written"])
def test_a_process_of_the_aggregator_is_killed(
    step: str, place: TablesInParts, expected: dict[str, list[Any]]
) -> None:
    ordered(place)
    mark = place.folder / "killed"
    place.aggregate(processes=2, most=10, at=DieOnce(step, mark))
    assert mark.exists()
    finish(place, expected)


@pytest.mark.parametrize("name", NAMES)
def test_an_order_that_is_worked_on_twice_has_one_answer(place: TablesInParts) -> None:
    answers, files = [], []
    ordered(place)
    for most in (1000, 7):
        place.aggregate(most=most)
        (_, answer) = place.rows(MANIFESTS)
        answers.append(answer[4])
        files.append({p.name: p.read_bytes() for p in place.snapshot_folder.iterdir()})
        edit(place, f"DELETE FROM records WHERE topic = '{MANIFESTS}' AND offset = {answer[1]}")
    assert answers[0] == answers[1]
    assert files[0] == files[1]


def test_a_job_that_ends_while_a_close_is_under_way_leaves_its_input(
    sent: dict[str, TablesInParts], folders: Iterator[Path]
) -> None:
    """The aggregator has written a file for the third close when the jobs before are abandoned."""
    place = in_parts(sent["groups"], next(folders))
    ordered(place)
    place.aggregate()
    TablesFolder.run(place)

    def meanwhile(step: str) -> None:
        if step == "job-inputs":
            before = len(place.inputs())
            with place.log() as log:
                log.append(operator_word("abandon", j.id) for e in place.entries() for j in e.jobs)
            TablesFolder.run(place)
            assert len(place.inputs()) < before
            assert any("2021-03" in name for name in place.inputs())

    place.aggregate(at=meanwhile)
    place.run()
    assert [job[1] for job in place.jobs()] == [1, 2, 3]
    assert {name.count("2021-03") for name in place.inputs()} == {1}


def releases(place: TablesInParts, call: int, note: Callable[[str], None]) -> None:
    """Runs the releaser until it waits; dies at a call of a step."""
    fix_secrets(pytest.MonkeyPatch())
    TablesFolder.run(place, source=NotedNoise(), at=dying(call, None, note))


def aggregates(place: TablesInParts, call: int, note: Callable[[str], None]) -> None:
    place.aggregate(at=dying(call, None, note))


@pytest.mark.slow
def test_kills_of_all_three_at_random(
    sent: dict[str, TablesInParts], folders: Iterator[Path]
) -> None:
    """With a worker: one result for each job, of rounds that were decided once."""
    for seed in range(4):
        rng, place = random.Random(seed), in_parts(sent["groups"], next(folders))
        for _ in range(25):
            which, call = rng.randrange(3), rng.randrange(12)
            if which == 2:
                place.works_to(call)
            else:
                place.child(partial((releases, aggregates)[which], place, call))
        assert place.kills > 4
        for _ in range(4):
            assert place.child(partial(releases, place, NEVER))
            assert place.child(partial(aggregates, place, NEVER))
            assert place.works_to(NEVER)
        assert place.child(partial(releases, place, NEVER))
        check(place, 2 * (2 + 1))
