"""The releaser of a study with a gate is killed at every step: no gate is drawn twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kit.killed import KilledReleaser, in_memory
from kit.matrices import CALLS, calls_of, seeds
from kit.panels import PERIODS, StudyFolder, decided, markers, reports_of
from kit.studies import BINARY, MARKER, MONTHS, attribute, study_toml, window

from stream_dp.client import PublicLog
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.journal import journal
from stream_dp.services.journal.gate_entries import gates

HELD = 3
TEXT = study_toml(
    rho=0.6,
    gate={"rho": 0.1, "least": 0.5},
    periods={**MONTHS, "count": PERIODS, **MARKER},
    size=32,
    attributes={**BINARY, "work": attribute(["yes", "no"], missing="absent")},
    releases=[window("pairs", "poverty", width=2, rho=0.2)],
    run={"log": "sqlite:small.db", "public": "sqlite:small-public.db", "partitions": 2},
)
STEPS = ("gate-drawn", "gate-commit", "gate-committed", "gate-witnessed", "cut", "committed")


class KilledAtGates(KilledReleaser):
    """A releaser whose journal holds gates beside closes."""

    gated: int = 0  # in the journal at the end of the last life
    read: int = 0  # lines of the trace

    def _nothing_redrawn(self) -> None:
        """A life draws no gate that the journal held at its start, and draws each at most once."""
        life, self.read = self.trace()[self.read :], len(self.trace())
        steps = [line for line in life if line in STEPS]
        drawn = [i for i, step in enumerate(steps) if step == "gate-drawn"]
        assert all(steps[i + 1 : i + 2] in ([], ["gate-commit"]) for i in drawn)
        now = len(gates(self.place.entries()))
        assert now - self.gated <= len(drawn) <= now - self.gated + 1
        assert steps.count("gate-committed") <= now - self.gated
        self.gated = now


@pytest.fixture(scope="module")
def sent(memory: Path) -> StudyFolder:
    """Every month in full but the third, which an operator closes in the end."""
    place = StudyFolder(memory / "sent", TEXT)
    for number in range(1, PERIODS + 1):
        late = [close_marker(number, p, despite_gate=True) for p in range(2)]
        reports = reports_of(number)
        held = [*markers(number), *reports, *late]
        place.send(held if number == HELD else [*reports, *markers(number)])
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


def outcome(killed: KilledAtGates) -> list[Any]:
    entries = killed.place.entries()
    drawn = [(n, e.gate.people, e.gate.held, e.gate.counted) for n, e in gates(entries).items()]
    return [drawn, *decided(journal.closes(entries))]


def check(killed: KilledAtGates, calm: KilledAtGates) -> None:
    assert outcome(killed) == outcome(calm)
    with killed.place.public(readonly=True) as public:
        PublicLog(public).verify()


def test_one_month_is_held(calm: KilledAtGates, calls: Counter[str]) -> None:
    drawn, *closes = outcome(calm)
    assert [(n, held) for n, _, held, _ in drawn] == [(n, n == HELD) for n in range(1, PERIODS + 1)]
    assert len(closes) == PERIODS + 1
    assert calls["gate-drawn"] == calls["gate-committed"] == PERIODS
    check(calm, calm)


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
        check(killed, calm)


@seeds(0, 1, 2)
def test_kills_at_random_steps(
    seed: int, fresh: Iterator[KilledAtGates], calm: KilledAtGates
) -> None:
    killed, rng = next(fresh), random.Random(seed)
    while not killed.run_to(rng.randrange(60)):
        pass
    assert killed.kills
    check(killed, calm)
