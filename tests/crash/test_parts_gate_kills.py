"""A study with a gate is closed in parts, and killed: no gate is drawn twice, and nothing differs.

What is decided is compared with a study that one process has closed without a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from crash.test_parts_kills import killed_aggregator
from kit.gated import PERIODS, STEPS, TEXT, KilledAtGates, check, send_months
from kit.killed import in_memory
from kit.panels import StudyFolder, fix_secrets
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


Copies = Callable[[int], KilledAtGates]


@pytest.fixture(scope="module")
def before(memory: Path) -> Iterator[Callable[[int], KilledAtGates]]:
    """By gate: a study whose next life reads the count of that gate, or orders it."""

    @cache
    def prepared(number: int) -> KilledAtGates:
        folder = memory / f"before-{number}"
        if number == 1:
            sent = PartsFolder(folder, TEXT, parts=2)
            send_months(sent)
            return KilledAtGates(sent)
        killed = prepared(number - 1).copy(folder)
        to_gate(killed, number)
        return killed

    yield prepared
    prepared.cache_clear()


@pytest.fixture
def copies(before: Callable[[int], KilledAtGates]) -> Iterator[Copies]:
    with in_memory() as folder:
        yield lambda number: before(number).copy(folder / "copy")


def parts_of(killed: KilledAtGates) -> PartsFolder:
    assert isinstance(killed.place, PartsFolder)
    return killed.place


def to_gate(killed: KilledAtGates, number: int) -> None:
    while len(gates(parts_of(killed).entries())) < number - 1:
        assert killed.run()
        parts_of(killed).aggregate()


def finish(killed: KilledAtGates, calm: StudyFolder) -> None:
    while journal.closes(parts_of(killed).entries())[-1].number < PERIODS:
        assert killed.run()
        parts_of(killed).aggregate()
    check(killed.place, calm)


# In the suite each step is that of one gate, in turn; the other gates are for -m slow. A kill at
# the first gate is the dearest: all the months follow.
USUAL = (1, 3, 2, 3, 2, 3, 2)
KILLS = [
    pytest.param(step, number, marks=[] if number == usual else pytest.mark.slow)
    for step, usual in zip(("ordered", *STEPS), USUAL, strict=True)
    for number in (1, 2, 3)
]


@pytest.mark.parametrize(("step", "number"), KILLS)
def test_the_releaser_is_killed_at_a_step(
    step: str, number: int, copies: Copies, calm: StudyFolder
) -> None:
    """Of the gate of a month that closes, and of the month that is held."""
    killed = copies(number)
    while killed.run_to(0, step):
        parts_of(killed).aggregate()
    finish(killed, calm)
    assert killed.kills == 1


@pytest.mark.parametrize("step", OF_AGGREGATOR)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_aggregator_is_killed_at_a_step(step: str, copies: Copies, calm: StudyFolder) -> None:
    killed = copies(3)
    assert killed.run()
    while not killed_aggregator(parts_of(killed), step):
        assert killed.run()
    finish(killed, calm)


@pytest.mark.parametrize("number", [2, 3])
def test_files_are_lost_between_a_gate_and_its_close(
    number: int, copies: Copies, calm: StudyFolder
) -> None:
    killed = copies(number)
    while len(gates(parts_of(killed).entries())) < number:
        assert killed.run()
        parts_of(killed).aggregate()
    for file in parts_of(killed).snapshots.iterdir():
        file.unlink()
    finish(killed, calm)
