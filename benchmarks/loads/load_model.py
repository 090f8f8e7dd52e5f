"""What must come out of a load of reports: the expected cells, patterns and rejections."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from load_reports import CLOSED, MONTHS, STATES, Load

WIDTH = 3


@dataclass
class Outcome:
    """What became of a load.

    cells: how many had each fate, at every cut and at the end
    patterns: how many people have each pattern of the last months, by the number of the close
    letters: rejected cells, by reason
    """

    cells: list[dict[str, int]] = field(default_factory=list)
    patterns: dict[int, list[int]] = field(default_factory=dict)
    letters: dict[str, int] = field(default_factory=dict)


def model(load: Load) -> Outcome:
    """The outcome that a load must have, counted with dictionaries from what each report means.

    No code of the releaser is used.
    """
    pending: dict[int, dict[str, int | None]] = {p: {} for p in range(1, MONTHS + 1)}
    waiting: Counter[int] = Counter()
    histories: dict[str, list[int]] = {}
    rejected: Counter[str] = Counter()
    received = accepted = superseded = 0
    outcome = Outcome()

    def cells() -> dict[str, int]:
        cells_by_fate = {"received": received, "accepted": accepted, "superseded": superseded}
        reasons = {f"rejected {reason}": rejected[reason] for reason in sorted(rejected)}
        return {**cells_by_fate, **reasons, "pending": sum(waiting.values())}

    for closed, window in enumerate(load.windows):
        for report in window:
            received += (report.cell is not None) + sum(report.rejected.values())
            rejected.update(report.rejected)
            if report.cell is None:
                continue
            period, state = report.cell
            if period <= closed:
                rejected["late"] += 1
            else:
                pending[period][report.person] = state
                waiting[period] += 1
        if closed == CLOSED:
            break
        last = pending.pop(closed + 1)
        accepted += len(last)
        superseded += waiting.pop(closed + 1, 0) - len(last)
        for person in last.keys() - histories.keys():
            histories[person] = [0] * (WIDTH + closed)
        counts = [0] * STATES**WIDTH
        counts[0] = load.people - len(histories)
        for person, history in histories.items():
            state = last.get(person)
            history.append(history[-1] if state is None else state)
            a, b, c = history[-WIDTH:]
            counts[(a * STATES + b) * STATES + c] += 1
        if closed + 1 >= WIDTH:
            outcome.patterns[closed + 1] = counts
        outcome.cells.append(cells())
    outcome.cells.append(cells())
    outcome.letters = dict(rejected)
    return outcome
