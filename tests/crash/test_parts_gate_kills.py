"""A study with a gate is closed in parts, and killed: no gate is drawn twice, and nothing differs.

What is decided is compared with a study that one process has closed without a kill.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from crash.test_parts_kills import killed_aggregator
from kit.gated import STEPS, TEXT, KilledAtGates, check, send_months
from kit.killed import in_memory
from kit.panels import PERIODS, StudyFolder, fix_secrets
from kit.parts import PartsFolder

from stream_dp.services.storage import journal
from stream_dp.services.storage.journal import gates

OF_AGGREGATOR = ("order", "decoded", "cells-read", "part-counted", "gate-counted", "answered")


@pytest.fixture(scope="module", autouse=True)
def _fixed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        yield


@pytest.fixture(scope="module")
def calm(memory: Path) -> StudyFolder:
    place = StudyFolder(memory / "calm", TEXT)
    send_months(place)
    assert place.run()
    return place


@pytest.fixture
def fresh(memory: Path) -> Iterator[Iterator[KilledAtGates]]:
    with in_memory() as folder:
        sent = PartsFolder(folder / "sent", TEXT, parts=2)
        send_months(sent)
        yield (KilledAtGates(sent.copy(folder / str(i))) for i in count())


def parts_of(killed: KilledAtGates) -> PartsFolder:
    assert isinstance(killed.place, PartsFolder)
    return killed.place


def to_gate(killed: KilledAtGates, number: int) -> None:
    """Runs until the next life reads the count of a period's gate, or orders it."""
    while len(gates(parts_of(killed).entries())) < number - 1:
        assert killed.run()
        parts_of(killed).aggregate()


def finish(killed: KilledAtGates, calm: StudyFolder) -> None:
    while journal.closes(parts_of(killed).entries())[-1].number < PERIODS:
        assert killed.run()
        parts_of(killed).aggregate()
    check(killed.place, calm)


# In the suite each step is that of one gate, in turn; the other gates are for -m slow.
KILLS = [
    pytest.param(step, number, marks=[] if number == (1, 3)[i % 2] else pytest.mark.slow)
    for i, step in enumerate(("ordered", *STEPS))
    for number in (1, 2, 3)
]


@pytest.mark.parametrize(("step", "number"), KILLS)
def test_the_releaser_is_killed_at_a_step(
    step: str, number: int, fresh: Iterator[KilledAtGates], calm: StudyFolder
) -> None:
    """Of the gate of a month that closes, and of the month that is held."""
    killed = next(fresh)
    to_gate(killed, number)
    while killed.run_to(0, step):
        parts_of(killed).aggregate()
    finish(killed, calm)
    assert killed.kills == 1


@pytest.mark.parametrize("step", OF_AGGREGATOR)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_aggregator_is_killed_at_a_step(
    step: str, fresh: Iterator[KilledAtGates], calm: StudyFolder
) -> None:
    killed = next(fresh)
    to_gate(killed, 3)
    assert killed.run()
    while not killed_aggregator(parts_of(killed), step):
        assert killed.run()
    finish(killed, calm)


@pytest.mark.parametrize("number", [2, 3])
def test_files_are_lost_between_a_gate_and_its_close(
    number: int, fresh: Iterator[KilledAtGates], calm: StudyFolder
) -> None:
    killed = next(fresh)
    while len(gates(parts_of(killed).entries())) < number:
        assert killed.run()
        parts_of(killed).aggregate()
    for file in parts_of(killed).snapshots.iterdir():
        file.unlink()
    finish(killed, calm)
