"""Releaser and worker are killed anywhere: one result for each job, no round drawn twice."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from kit.households import (
    NEVER,
    ROUNDS,
    HouseholdFolder,
    NotedNoise,
    check,
    finish,
    handed_in,
    use_fit_in_rounds,
)
from kit.killed import in_memory
from kit.matrices import CALLS, calls_of, seeds

from stream_dp.services.releaser.fit_transcript import LeaseWatch
from stream_dp.study.topics import JOBS

WORKER = ("job", "round", "recorded", "progress", "fitted", "result", "result-part")
RELEASER = (
    "begun",
    "recovered",
    "snapshot",
    "job-snapshot",
    "drawn",
    "commit",
    "committed",
    "witnessed",
    "job-sent",
    "publish",
    "published",
    "cleaned",
    "result-commit",
    "result-committed",
    "result-witnessed",
    "result-cleaned",
)


@pytest.fixture(scope="module")
def sent(memory: Path) -> HouseholdFolder:
    """Everything is sent, and nothing has run."""
    return HouseholdFolder(memory / "sent").prepare()


@pytest.fixture(scope="module")
def due(sent: HouseholdFolder, memory: Path) -> HouseholdFolder:
    """The releaser has closed every period, and a job is due."""
    shutil.copytree(sent.folder, memory / "due")
    homes = HouseholdFolder(memory / "due")
    assert homes.releases_to(NEVER)
    return homes


@pytest.fixture(scope="module")
def worked(due: HouseholdFolder, memory: Path) -> HouseholdFolder:
    """The worker has handed in its result, which the releaser has not read."""
    homes = copy(due, memory / "worked")
    assert homes.works_to(NEVER)
    return homes


@pytest.fixture(scope="module")
def calls(due: HouseholdFolder, worked: HouseholdFolder, memory: Path) -> Counter[str]:
    """How often each step is called in a life that nothing interrupts: the most of all lives."""
    homes = copy(worked, memory / "calm")
    assert homes.releases_to(NEVER)
    check(homes)
    first, second = len(due.trace()), len(worked.trace())
    lines = homes.trace()
    return Counter(lines[:first]) | Counter(lines[first:second]) | Counter(lines[second:])


@pytest.fixture
def copies(memory: Path) -> Iterator[Iterator[Path]]:
    with in_memory() as folder:
        yield (folder / str(i) for i in count())


def copy(homes: HouseholdFolder, path: Path) -> HouseholdFolder:
    shutil.copytree(homes.folder, path)
    return HouseholdFolder(path)


def drawn_once(homes: HouseholdFolder) -> None:
    """Between two draws of a round a process died before the first of them was recorded."""
    recorded = 0  # rounds in the transcript, the seed among them
    pending = False
    for line in homes.trace():
        if line == "draw":
            pending = True
        elif line == "recorded":
            recorded, pending = recorded + 1, False
        elif line == "worker" and pending:
            pending = False
    transcript = homes.written()
    assert transcript.total() == len(transcript) == ROUNDS + 1, "a round was written twice"


def test_every_step_is_known(calls: Counter[str]) -> None:
    steps = set(calls) - {"draw", "worker"}
    assert set(WORKER) <= steps
    assert set(RELEASER) <= steps
    assert calls["recorded"] == ROUNDS + 1
    assert calls["draw"] == ROUNDS


@CALLS
@pytest.mark.parametrize("step", WORKER)
def test_a_kill_of_the_worker_at_a_step(
    step: str, which: str, due: HouseholdFolder, copies: Iterator[Path], calls: Counter[str]
) -> None:
    for call in calls_of(which, calls[step]):
        homes = copy(due, next(copies))
        assert not homes.works_to(call, step)
        finish(homes)
        check(homes)
        drawn_once(homes)


@CALLS
@pytest.mark.parametrize("step", RELEASER)
def test_a_kill_of_the_releaser_at_a_step(
    step: str,
    which: str,
    sent: HouseholdFolder,
    worked: HouseholdFolder,
    copies: Iterator[Path],
    calls: Counter[str],
) -> None:
    for call in calls_of(which, calls[step]):
        homes = copy(worked if step.startswith("result-") else sent, next(copies))
        assert not homes.releases_to(call, step)
        finish(homes)
        check(homes)
        drawn_once(homes)
        assert handed_in(homes) == 1


@seeds(0, 1, 2, 3, 4, 5)
def test_kills_of_both_at_random(seed: int, sent: HouseholdFolder, copies: Iterator[Path]) -> None:
    rng, homes = random.Random(seed), copy(sent, next(copies))
    for _ in range(25 if seed else 14):
        kind = homes.releases_to if rng.random() < 0.5 else homes.works_to
        kind(rng.randrange(14))
    assert homes.kills > 4
    finish(homes)
    check(homes)
    drawn_once(homes)


def test_a_round_is_not_drawn_again_once_it_is_recorded(
    due: HouseholdFolder, copies: Iterator[Path]
) -> None:
    homes = copy(due, next(copies))
    assert not homes.works_to(2, "recorded")
    before = homes.rounds()
    assert len(before) == 3
    assert homes.works_to(NEVER)
    assert {k: v for k, v in homes.rounds().items() if k in before} == before
    last = homes.trace()[len(homes.trace()) - homes.trace()[::-1].index("worker") :]
    assert last.count("draw") == ROUNDS - 2


def waiting(homes: HouseholdFolder, drawn: list[str]) -> None:
    """A worker that stops once it waits for another one. drawn: its draws are added."""
    with homes.worker(source=NotedNoise(drawn.append)) as worker:
        worker.tell = lambda event: worker.stop.set() if "another worker" in event.message else None
        worker.run()


@pytest.mark.parametrize("when", ["round", "recorded", "progress", "fitted", "result"])
def test_a_twin_draws_nothing_while_another_worker_has_the_job(
    when: str, due: HouseholdFolder, copies: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the first worker takes from a draw to its record, its own draw counts."""
    use_fit_in_rounds(monkeypatch)
    homes, drawn = copy(due, next(copies)), list[str]()

    def at(step: str) -> None:
        if step == when:
            waiting(homes, drawn)

    homes.work(at=at)
    assert drawn == []
    drawn_once(homes)
    assert handed_in(homes) == 1
    finish(homes)
    check(homes)


@pytest.mark.parametrize("call", range(ROUNDS + 1))
def test_a_worker_that_is_thought_dead_loses_what_it_draws(
    call: int, due: HouseholdFolder, copies: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the draw of a round and its record another worker takes the lease."""
    use_fit_in_rounds(monkeypatch)
    homes, calls, told = copy(due, next(copies)), count(), list[str]()
    monkeypatch.setattr(LeaseWatch, "lapsed", lambda self, lease: True)

    def at(step: str) -> None:
        if step == "round" and next(calls) == call:
            homes.work()

    homes.work(at=at, tell=lambda event: told.append(event.name))
    assert told == ["job-begun", "job-dropped"]
    assert handed_in(homes) == 1
    # The lost draw is in the topic and counts for nobody, although nothing else followed it yet.
    (lost,) = [key for key, times in homes.written().items() if times == 2]
    assert lost.endswith(f"/{call}")
    finish(homes)
    check(homes)


def test_a_job_that_was_handed_in_meanwhile_is_not_begun_again(
    due: HouseholdFolder, copies: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fit_in_rounds(monkeypatch)
    homes, calls = copy(due, next(copies)), count()
    homes.work(at=lambda step: homes.work() if step == "job" and not next(calls) else None)
    assert handed_in(homes) == 1
    drawn_once(homes)
    finish(homes)
    check(homes)


def test_a_job_is_sent_again_where_the_releaser_died_before(
    sent: HouseholdFolder, copies: Iterator[Path]
) -> None:
    homes = copy(sent, next(copies))
    assert not homes.releases_to(1, "committed")
    assert homes.rows(JOBS) == []
    assert len(homes.entries()[-1].jobs) == 1
    assert homes.releases_to(NEVER)
    assert len(homes.rows(JOBS)) == 1
    finish(homes)
    check(homes)


def test_the_same_journal_gives_the_same_job(sent: HouseholdFolder, copies: Iterator[Path]) -> None:
    """Jobs have ids and snapshots that do not depend on how often it was tried."""
    jobs = []
    for call in (0, 1):
        homes = copy(sent, next(copies))
        homes.releases_to(call, "job-snapshot")
        assert homes.releases_to(NEVER)
        jobs.append([job for entry in homes.entries() for job in entry.jobs])
    assert jobs[0] == jobs[1]


BESIDE = """
import sys, time
sys.path.insert(0, {tests!r})
import pytest
from kit.households import use_fit_in_rounds
from stream_dp.services.commands.cli import main
from stream_dp.services.releaser.fit_transcript import LogTranscript
use_fit_in_rounds(pytest.MonkeyPatch())
record = LogTranscript.record
def slowly(self, number, data):
    time.sleep(0.15)
    return record(self, number, data)
LogTranscript.record = slowly
sys.exit(main(["worker", {file!r}, "--until-idle", "--attached"]))
"""


def test_kills_of_a_releaser_with_a_worker_beside_it(
    sent: HouseholdFolder, copies: Iterator[Path]
) -> None:
    """Whole processes, at any moment: the worker ends with its parent, the next one goes on."""
    rng, homes = random.Random(3), copy(sent, next(copies))
    tests = str(Path(__file__).parents[1])
    command = ["-c", BESIDE.format(tests=tests, file=str(homes.file))]

    def live(note: Callable[[str], None]) -> None:
        homes.run(worker=command)

    for _ in range(4):
        homes.child(live, rng.uniform(0.3, 1.5))
    assert homes.kills  # how many depends on how fast the others were
    assert homes.child(live)
    check(homes)
    assert len(homes.written()) == ROUNDS + 1
