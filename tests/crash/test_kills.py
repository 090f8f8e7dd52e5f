"""The releaser is killed without warning, anywhere: nothing is lost, changed or decided twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kit.killed import KilledReleaser, check, die, in_memory
from kit.matrices import CALLS, calls_of, seeds
from kit.panels import StudyFolder, decided, declaration, script
from kit.steps import STEPS

from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.releaser.releaser import Releaser

PERIODS = 3  # the second is closed with one before it, and one after
TEXT = declaration(periods=PERIODS)


@pytest.fixture(scope="module")
def sent(memory: Path) -> StudyFolder:
    """A place to which everything has been sent and where nothing has run."""
    place = StudyFolder(memory / "sent", TEXT)
    for records in script(PERIODS):
        place.send(records)
    return place


@pytest.fixture(scope="module")
def calm(sent: StudyFolder, memory: Path) -> KilledReleaser:
    """A run that nothing interrupts."""
    killed = KilledReleaser(sent.copy(memory / "calm"))
    assert killed.run()
    return killed


@pytest.fixture(scope="module")
def expected(calm: KilledReleaser) -> list[dict[str, Any]]:
    return decided(calm.place.entries())


@pytest.fixture(scope="module")
def calls(calm: KilledReleaser) -> Counter[str]:
    """How often each step is called in a run that nothing interrupts."""
    return Counter(line for line in calm.trace() if " " not in line)


@pytest.fixture
def fresh(sent: StudyFolder, memory: Path) -> Iterator[Iterator[KilledReleaser]]:
    """Victims, each in a new copy of the place."""
    with in_memory() as folder:
        yield (KilledReleaser(sent.copy(folder / str(i))) for i in count())


def test_an_uninterrupted_run_is_sound(
    calm: KilledReleaser, expected: list[dict[str, Any]]
) -> None:
    check(calm, expected)
    assert [entry["number"] for entry in expected] == list(range(PERIODS + 1))
    rejected = expected[-1]["accounting"]["rejected"]
    assert set(rejected) == {
        "attribute", "full", "late", "period", "person", "unreadable", "value"
    }  # fmt: skip
    assert expected[2]["accounting"]["pending"] > 0
    assert expected[2]["accounting"]["superseded"] > 0


def test_every_step_is_known(calls: Counter[str]) -> None:
    assert set(calls) == set(STEPS)
    assert calls["committed"] == PERIODS
    assert calls["published"] == PERIODS + 1


@CALLS
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_a_step(
    step: str,
    which: str,
    fresh: Iterator[KilledReleaser],
    calls: Counter[str],
    expected: list[dict[str, Any]],
) -> None:
    for call in calls_of(which, calls[step]):
        killed = next(fresh)
        assert not killed.run_to(call, step)
        assert killed.run()
        check(killed, expected)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_two_kills(
    step: str, fresh: Iterator[KilledReleaser], calls: Counter[str], expected: list[dict[str, Any]]
) -> None:
    for call in range(calls[step]):
        for again in range(0, 40, 2):
            killed = next(fresh)
            assert not killed.run_to(call, step)
            while not killed.run_to(again if killed.kills == 1 else 1_000):
                pass
            check(killed, expected)


@seeds(0, 1, 2, 3, 4, 5)
def test_kills_at_random_steps_until_the_horizon(
    seed: int, fresh: Iterator[KilledReleaser], expected: list[dict[str, Any]]
) -> None:
    killed, rng = next(fresh), random.Random(seed)
    while not killed.run_to(rng.randrange(25)):
        assert killed.kills < 200
    assert killed.kills > 2
    check(killed, expected)


@seeds(0, 1, 2)
def test_kills_while_reports_still_come(seed: int, expected: list[dict[str, Any]]) -> None:
    rng = random.Random(seed)
    with in_memory() as folder:
        killed = KilledReleaser(StudyFolder(folder / "growing", TEXT))
        for records in script(PERIODS):
            middle = rng.randrange(len(records))
            for part in (records[:middle], records[middle:]):
                killed.place.send(part)
                while not killed.run_to(rng.randrange(20)):
                    pass
        check(killed, expected)


@seeds(0, 1, 2, 3)
def test_kills_at_random_times(
    seed: int, fresh: Iterator[KilledReleaser], expected: list[dict[str, Any]]
) -> None:
    rng, kills = random.Random(seed), 0
    start = time.monotonic()
    assert next(fresh).run()
    usual = time.monotonic() - start
    while kills < (6 if seed else 3):
        killed, longest = next(fresh), usual
        while not killed.run_for(rng.uniform(0, longest)):
            longest *= 1.1  # a machine may have become slower since
        check(killed, expected)
        kills += killed.kills


def dying_inside(step: str, call: int, operations: int) -> Callable[[str, Releaser], None]:
    """Die in the transaction after a call (from 0) of a step, at an operation of the database."""
    calls, done = count(), count(1)

    def at(name: str, releaser: Releaser) -> None:
        log = releaser.log if step == "commit" else releaser.public
        assert isinstance(log, SqliteLog)
        if name == "owned":
            # With so small a cache the file itself is changed before the end.
            log._db.execute("PRAGMA cache_size = 2")
        if name == step and next(calls) == call:
            log._db.set_progress_handler(lambda: next(done) >= operations and die(), 1)

    return at


@seeds(0, 1)
@pytest.mark.parametrize("step", ["commit", "publish"])
def test_kills_between_the_operations_of_a_transaction(
    step: str,
    seed: int,
    fresh: Iterator[KilledReleaser],
    calls: Counter[str],
    expected: list[dict[str, Any]],
) -> None:
    rng, kills, half_written = random.Random(f"{step} {seed}"), 0, 0
    while kills < (5 if seed else 3):
        killed = next(fresh)
        killed.run(dying_inside(step, rng.randrange(calls[step]), rng.randrange(1, 300)))
        kills += killed.kills
        half_written += killed.place.public_db.with_name("small-public.db-journal").exists()
        assert killed.run()
        check(killed, expected)
    assert (half_written > 0) == (step == "publish")


@seeds(0, 1)
@pytest.mark.parametrize("step", ["commit", "publish"])
def test_kills_while_a_transaction_reaches_the_disk(
    step: str,
    seed: int,
    sent: StudyFolder,
    calls: Counter[str],
    expected: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    """On a real disk, where a commit waits; the moment is any within it."""
    rng = random.Random(f"{step} {seed}")
    for i in range(5 if seed else 3):
        killed = KilledReleaser(sent.copy(tmp_path / str(i)))
        call = rng.randrange(calls[step])
        reader, writer = os.pipe()
        reached = count()

        def at(
            name: str, _: Releaser, call: int = call, out: int = writer, n: Iterator[int] = reached
        ) -> None:
            if name == step and next(n) == call:
                os.write(out, b".")

        child = killed.start(at)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        time.sleep(rng.uniform(0, 0.006))
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        killed.wait(child)
        assert killed.run()
        check(killed, expected)
