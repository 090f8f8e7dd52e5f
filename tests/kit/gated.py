"""A small study with a gate, one of whose months is held, and its releaser under kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kit.killed import KilledReleaser
from kit.panels import StudyFolder, decided, markers, reports_of
from kit.studies import BINARY, MARKER, MONTHS, attribute, study_toml, window
from stream_dp.client import PublicLog
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage import journal
from stream_dp.services.storage.journal import gates

PERIODS, HELD = 4, 3
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

    def copy(self, folder: Path) -> KilledAtGates:
        """The study at another place, and what was seen of it."""
        copy = KilledAtGates(self.place.copy(folder), seen=self.seen)
        copy.gated, copy.read = self.gated, self.read
        return copy

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


def send_months(place: StudyFolder) -> None:
    """Sends every month in full but the held one, which an operator closes in the end."""
    for number in range(1, PERIODS + 1):
        late = [close_marker(number, p, despite_gate=True) for p in range(2)]
        reports = reports_of(number)
        held = [*markers(number), *reports, *late]
        place.send(held if number == HELD else [*reports, *markers(number)])


def outcome(place: StudyFolder) -> list[Any]:
    """What the gates and the closes have decided, but for the snapshots."""
    entries = place.entries()
    drawn = [(n, e.gate.people, e.gate.held, e.gate.counted) for n, e in gates(entries).items()]
    closes = decided(journal.closes(entries))
    return [drawn, *({k: v for k, v in d.items() if k != "population"} for d in closes)]


def check(place: StudyFolder, calm: StudyFolder) -> None:
    """Checks that nothing tells a study from one that was never interrupted."""
    assert outcome(place) == outcome(calm)
    with place.public(readonly=True) as public:
        PublicLog(public).verify()
