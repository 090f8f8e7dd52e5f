"""Reports for a load, of every kind, with what each of them means.

The people of a panel of nine months, repeated under new ids up to the wanted number of reports; of
all reports 1 % come twice (the same again, corrected, or cleared), 1 % late, 1 % malformed in every
way there is, and some before their period.
"""

from __future__ import annotations

import csv
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

sys.path.append(str(Path(__file__).parents[1]))

from data_sets import data_file

MONTHS, CLOSED, STATES = 12, 9, 3
LABELS = [f"2014-{month:02d}" for month in range(1, MONTHS + 1)]


@dataclass(frozen=True)
class Report:
    """A report and what it means: a cell (or none), and its rejected cells by reason."""

    person: str
    value: bytes | None
    cell: tuple[int, int | None] | None = None  # period, state or None to clear
    rejected: dict[str, int] = field(default_factory=dict)


def plain(person: str, period: int, state: int | None) -> Report:
    raw = {"person": person, "period": LABELS[period - 1], "values": {"submit": state}}
    return Report(person, msgspec.json.encode(raw), (period, state))


def _raw(**fields: Any) -> bytes:
    return msgspec.json.encode(fields)


def malformed(kind: int, person: str, period: int, state: int) -> Report:
    """A report that is malformed in way `kind`. In the last way, another cell of it is valid."""
    label, values = LABELS[period - 1], {"submit": state}
    valid = _raw(person=person, period=label, values=values)
    kinds: list[tuple[bytes | None, dict[str, int]]] = [
        (b"not JSON", {"unreadable": 1}),
        (valid[:-3], {"unreadable": 1}),
        (valid + b"{}", {"unreadable": 1}),
        (b"\xff\xfe" + valid, {"unreadable": 1}),
        (b"", {"unreadable": 1}),
        (None, {"unreadable": 1}),
        (b"[1,2,3]", {"unreadable": 1}),
        (_raw(person=person, values=values), {"unreadable": 1}),
        (_raw(person=person, period=label, values={}), {"unreadable": 1}),
        (_raw(person=person, period=label, values=[state]), {"unreadable": 1}),
        (_raw(person="", period=label, values=values), {"person": 1}),
        (_raw(person="x" * 257, period=label, values=values), {"person": 1}),
        (_raw(person=None, period=label, values=values | {"other": 1}), {"person": 2}),
        (_raw(person=person, period="2013-12", values=values), {"period": 1}),
        (_raw(person=person, period=[label], values=values), {"period": 1}),
        (_raw(person=person, period=label, values={"submitted": state}), {"attribute": 1}),
        (_raw(person=person, period=label, values={"submit": 3}), {"value": 1}),
        (_raw(person=person, period=label, values={"submit": state + 0.5}), {"value": 1}),
        (_raw(person=person, period=label, values={"submit": [state]}), {"value": 1}),
        (_raw(person=person, period=label, values=values | {"b": 1}), {"attribute": 1}),
    ]
    value, rejected = kinds[kind % len(kinds)]
    right = kind % len(kinds) == len(kinds) - 1
    return Report(person, value, (period, state) if right else None, rejected)


@dataclass(frozen=True)
class Load:
    """Reports in the order in which they are sent.

    people: how many there are
    windows: the reports before the first close, before the second, and so on; the last ones come
        after the last close
    """

    people: int
    windows: list[list[Report]]

    def __len__(self) -> int:
        return sum(map(len, self.windows))


def panel() -> list[tuple[str, list[int]]]:
    """Ids and states by month."""
    with data_file("oulad_submit_monthly.csv").open(newline="") as file:
        return [(row[0], [int(x) for x in row[1:]]) for row in list(csv.reader(file))[1:]]


def generate(reports: int, seed: int = 1) -> Load:
    """Exactly that many reports; the same ones for the same seed."""
    chance, known = random.Random(seed), panel()
    odd = reports // 100
    people = (reports - 3 * odd) // CLOSED
    windows: list[list[Report]] = [[] for _ in range(CLOSED + 1)]
    ids = [f"{i // len(known)}/{known[i % len(known)][0]}" for i in range(people)]
    for i, person in enumerate(ids):
        for period, state in enumerate(known[i % len(known)][1], 1):
            early = min(period - 1, chance.randrange(1, 4)) if chance.random() < 0.01 else 0
            windows[period - 1 - early].append(plain(person, period, state))
    for _ in range(odd):
        person, period = chance.choice(ids), chance.randrange(1, CLOSED + 1)
        window = chance.randrange(period, CLOSED + 1)
        windows[window].append(plain(person, period, chance.randrange(STATES)))
    for i in range(odd):
        period = chance.randrange(1, CLOSED + 1)
        person = chance.choice(ids)
        windows[period - 1].append(malformed(i, person, period, chance.randrange(STATES)))
    # Corrections come after what they correct; those of the last window are of open months.
    left = reports - sum(map(len, windows))
    again: list[list[Report]] = [[] for _ in windows]
    for i in range(left):
        window = chance.randrange(CLOSED + 1)
        if window == CLOSED:
            period = chance.randrange(CLOSED + 1, MONTHS + 1)
            again[window].append(plain(chance.choice(ids), period, chance.randrange(STATES)))
            continue
        first = chance.choice(windows[window])
        period, state = first.cell or (window + 1, 0)
        state = (state, chance.randrange(STATES), None)[i % 3]
        again[window].append(plain(first.person, period, state))
    for window, more in zip(windows, again, strict=True):
        chance.shuffle(window)
        window += more
    return Load(people, windows)
