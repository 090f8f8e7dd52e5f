"""The releaser of a study with a gate is killed at every step: no gate is drawn twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from kit.gated import HELD, PERIODS, STEPS, TEXT, KilledAtGates, check, outcome, send_months
from kit.killed import in_memory
from kit.matrices import CALLS, calls_of, seeds
from kit.panels import StudyFolder


@pytest.fixture(scope="module")
def sent(memory: Path) -> StudyFolder:
    place = StudyFolder(memory / "sent", TEXT)
    send_months(place)
    return place


@pytest.fixture(scope="module")
def calm(sent: StudyFolder, memory: Path) -> KilledAtGates:
    killed = KilledAtGates(sent.copy(memory / "calm"))
    assert killed.run()
    return killed


@pytest.fixture(scope="module")
def calls(calm: KilledAtGates) -> Counter[str]:
    return Counter(line for line in calm.trace() if " " not in line)


@pytest.fixture
def fresh(sent: StudyFolder) -> Iterator[Iterator[KilledAtGates]]:
    with in_memory() as folder:
        yield (KilledAtGates(sent.copy(folder / str(i))) for i in count())


def test_one_month_is_held(calm: KilledAtGates, calls: Counter[str]) -> None:
    drawn, *closes = outcome(calm.place)
    assert [(n, held) for n, _, held, _ in drawn] == [(n, n == HELD) for n in range(1, PERIODS + 1)]
    assert len(closes) == PERIODS + 1
    assert calls["gate-drawn"] == calls["gate-committed"] == PERIODS
    check(calm.place, calm.place)


@CALLS
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_a_step(
    step: str,
    which: str,
    fresh: Iterator[KilledAtGates],
    calls: Counter[str],
    calm: KilledAtGates,
) -> None:
    for call in calls_of(which, calls[step]):
        killed = next(fresh)
        assert not killed.run_to(call, step)
        assert killed.run()
        check(killed.place, calm.place)


@seeds(0, 1, 2)
def test_kills_at_random_steps(
    seed: int, fresh: Iterator[KilledAtGates], calm: KilledAtGates
) -> None:
    killed, rng = next(fresh), random.Random(seed)
    while not killed.run_to(rng.randrange(60)):
        pass
    assert killed.kills
    check(killed.place, calm.place)
