"""What a crash matrix counted, and its comparison with a run that nothing interrupts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from days import Days, everything
from kit import steps
from watch import Seen

from stream_dp.services.commands.cli import main as command
from stream_dp.study.topics import DEAD_LETTERS, JOURNAL, RELEASES

# Those on any log, and those within a transaction.
STEPS = tuple(
    name for step in steps.STEPS for name in (step, steps.OPEN_TRANSACTIONS.get(step)) if name
)
# What an aggregator does in the releaser's place, and what the releaser does for it.
_NOT_IN_PARTS = {"read", "dead-letters", "refused", "snapshot"}
_IN_PARTS = "ordered"
ONCE = {"genesis open", "begun"}  # these come once in a study
RANDOM = "random moment"


def steps_of(engine: str) -> tuple[str, ...]:
    """The steps of a releaser with an engine."""
    if engine == "here":
        return STEPS
    return (*(step for step in STEPS if step not in _NOT_IN_PARTS), _IN_PARTS)


@dataclass
class Report:
    """What happened in a run of the matrix, and what is wrong with its results.

    steps: at which releasers are killed
    kills: of releasers, by step
    second_instances, pauses: a line for each
    codes: how many releaser processes ended with each exit code
    lives: how many releaser processes there were
    seen_uncommitted: public records under read_uncommitted
    aborted_public, aborted_decisions: records in aborted transactions
    cells: the accounting of the last period
    wrong: how many there are of each fault; all must be 0
    notes: what a process did that it must not; must be empty
    """

    steps: tuple[str, ...] = STEPS
    kills: Counter[str] = field(default_factory=Counter)
    aggregator_kills: int = 0
    broker_kills: int = 0
    second_instances: list[str] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    periods: int = 0
    lives: int = 0
    seen_uncommitted: int = 0
    public_records: int = 0
    aborted_public: int = 0
    aborted_decisions: int = 0
    cells: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    wrong: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not any(self.wrong.values()) and not self.notes

    def table(self) -> str:
        rows = [f"{'killed at':<36}{'kills':>8}"]
        rows += [f"  {step:<34}{self.kills[step]:>8}" for step in (*self.steps, RANDOM)]
        rows += [
            f"  {'all':<34}{self.kills.total():>8}",
            f"{'kills of aggregators':<36}{self.aggregator_kills:>8}",
            f"{'broker killed and started again':<36}{self.broker_kills:>8}",
            f"{'second instances':<36}{len(self.second_instances):>8}",
            *(f"  {line}" for line in self.second_instances),
            f"{'pauses over the time of a transaction':<36}{len(self.pauses):>8}",
            *(f"  {line}" for line in self.pauses),
            f"{'releaser processes':<36}{self.lives:>8}",
            f"{'periods closed and published':<36}{self.periods:>8}",
            f"{'public records':<36}{self.public_records:>8}",
            f"{'seen under read_uncommitted':<36}{self.seen_uncommitted:>8}",
            f"{'  in aborted transactions':<36}{self.aborted_public:>8}",
            f"{'journal: aborted decisions':<36}{self.aborted_decisions:>8}",
            f"cells: {self.cells}",
            f"exit codes: {dict(sorted(self.codes.items()))}",
        ]
        rows += [f"{what:<48}{count:>8}" for what, count in self.wrong.items()]
        rows += [f"WRONG: {note}" for note in self.notes]
        rows.append(f"{'seconds':<36}{self.seconds:>8.0f}")
        return "\n".join(rows)


def judge(
    report: Report, interrupted: Days, calm: Days, seen: Sequence[Seen], tried: Sequence[Seen]
) -> None:
    """Compare all that can be read with the journal and with a calm run; fill in the report.

    interrupted: the study whose releasers were killed
    calm: the same study and input, closed in one process without interruption
    seen: every record of the public topic under read_uncommitted
    tried: every record of the journal under read_uncommitted
    """
    entries = interrupted.entries()
    expected = {}
    for entry in entries:
        for r in entry.public_records():
            name = dict(r.headers)["ce_id"].decode()
            expected[name] = (r.time or 1, r.key, r.value, r.headers)
    with interrupted.opened_public() as log:
        records = everything(log, RELEASES)
    public = [(r.time, r.key, r.value, r.headers) for r in records]
    offsets = {r.offset for r in records}
    with interrupted.opened() as log:
        letters = everything(log, DEAD_LETTERS)
        committed = {r.offset for r in everything(log, JOURNAL)}
    strange = {s.id for s in seen if expected.get(s.id) != (s.time, s.key, s.value, s.headers)}
    decisions = [s for s in tried if s.id.endswith("/manifest")]
    twice = Counter(s.id for s in decisions if s.offset in committed)
    calmly, decided = calm.decided(), interrupted.decided()
    if interrupted.engine != calm.engine:
        for one in (*calmly, *decided):
            del one["population"]  # other files
    left = [*interrupted.snapshots.glob("*-cells-*"), *interrupted.snapshots.glob("*.tmp")]
    accounting = decided[-1]["accounting"] or {}
    rejected = sum(accounting.get("rejected", {}).values())
    fates = sum(accounting.get(fate, 0) for fate in ("accepted", "superseded", "pending"))
    report.periods = len(entries) - 1
    report.public_records, report.seen_uncommitted = len(public), len(seen)
    report.aborted_public = len({s.offset for s in seen} - offsets)
    report.aborted_decisions = len([s for s in decisions if s.offset not in committed])
    report.cells = accounting
    report.wrong = {
        "duplicates": sum(n - 1 for n in Counter(public).values()),
        "missing": len(set(expected.values()) - set(public)) + abs(len(calmly) - len(decided)),
        "out of order": int(public != list(expected.values())),
        "wrong totals": sum(a != b for a, b in zip(calmly, decided, strict=False)),
        "periods with a second draw visible": len({name.split("/")[0] for name in strange}),
        "periods with two committed decisions": sum(n > 1 for n in twice.values()),
        "periods drawn after their decision": _drawn_again(interrupted.trace),
        "cells lost or made up": accounting.get("received", -1) - rejected - fates,
        "dead letters otherwise than counted": int(
            interrupted.reasons() != accounting.get("rejected") or not letters
        ),
        "files left by those that were killed": len(left),
        "verify": command(["verify", str(interrupted.file)]),
    }


def _drawn_again(trace: Path) -> int:
    """How many draws were for a period that was decided before their process began."""
    decided, again = 0, 0
    drawn: dict[str, int] = {}
    begun: dict[str, int] = {}
    for line in trace.read_text().splitlines():
        pid, _, event = line.partition(" ")
        if event == "recovered":
            begun[pid] = decided
        elif event.startswith("draw "):
            drawn[pid] = int(event.removeprefix("draw "))
            again += drawn[pid] <= begun.get(pid, 0)
        elif event == "committed":
            decided = max(decided, drawn[pid])
    return again
