"""Parts of a population: each is closed by itself, and what they count adds up.

People fall into 2^k parts by the top bits of the keyed hash of the id. The functions here are pure
but for the population that they are given, so any of them may run twice, anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import Study

from .accounting import Accounting, CellCounts
from .cells import Cells, WaitingCells
from .index import Index
from .population import Population, cells_by_period
from .rejected import Reason
from .split import Part, ordered, part_of, split

Counts = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class ClosedPart:
    """What a part says of a period that it has closed.

    people: who have a place in it now.
    newcomers: those of them that this period has admitted.
    counts: by release, the counts of its people.
    nobody: the same of one place that nobody has; empty where the study declares no size.
    accounting: of the cells that came with this period; pending is how many more are pending.
    refused: as in `ClosedPeriod`.
    """

    people: int
    newcomers: int
    counts: Counts
    nobody: Counts
    accounting: CellCounts
    refused: Mapping[Reason, Cells]


def close_part(population: Population, cells: Cells, room: int | None = None) -> ClosedPart:
    """Close the next period of a part, in place.

    cells: of this part, of the input since the last close, in any order.
    room: how many newcomers it admits at most; None for all of them.
    """
    before, population.accounting = population.people, Accounting()
    population.fold(ordered(cells), [])
    closed = population.close(room)
    accounting, population.accounting = population.accounting.counts, Accounting()
    return ClosedPart(
        people=population.people,
        newcomers=population.people - before,
        counts=closed.counts,
        nobody=closed.count(slice(0, closed.nobody)) if closed.nobody else {},
        accounting=accounting,
        refused=closed.refused,
    )


def allot(newcomers: Sequence[int], room: int) -> list[int]:
    """By part, how many of its newcomers get a place, in the order of their hashes over all parts.

    newcomers: by part, in the order of the parts, which is that of the hashes.
    room: how many places are left.
    """
    rooms = []
    for count in newcomers:
        rooms.append(min(count, room))
        room -= rooms[-1]
    return rooms


def total(study: Study, parts: Sequence[ClosedPart]) -> tuple[Counts, CellCounts]:
    """By release, the counts of all people, and the accounting of the parts' cells together.

    Where the study declares a size, each place that nobody has counts as somebody who never
    answered.
    """
    counts: Counts = {}
    unclaimed = 0 if study.size is None else study.size - sum(part.people for part in parts)
    for release in study.releases:
        of_people = np.sum([part.counts[release.name] for part in parts], axis=0)
        of_nobody = unclaimed * parts[0].nobody[release.name] if unclaimed else 0
        counts[release.name] = of_people + of_nobody
    accounting = CellCounts(rejected={})
    for part in parts:
        accounting = accounting.plus(part.accounting)
    return counts, accounting


def parted(population: Population, count: int) -> list[Population]:
    """The parts of a population of everybody. count: how many, a power of two."""
    study, index, rest = population.study, population.index, population.pending.copy()
    nobody = Population(study, Part(0, 1))
    for _ in range(population.period):
        nobody.close()
    part_of_person = part_of(index.hi, count)
    parts = []
    for number, waiting in enumerate(split(population.waiting.all(), count)):
        part = Population(study, Part(number, count))
        part.period = population.period
        rows = part_of_person == number
        slots = index.slot[rows]
        renumbered = np.arange(slots.shape[0], dtype=np.int32)
        part.index = Index(index.hi[rows], index.lo[rows], renumbered + np.int32(part.nobodies))
        part.columns = {
            name: np.concatenate([nobody.columns[name], column[slots]])
            for name, column in population.columns.items()
        }
        part.waiting = WaitingCells.of(waiting)
        part.pending.update(cells_by_period(waiting))
        rest.subtract(part.pending)
        parts.append(part)
    # Cells that were replaced while they waited are in no part, but count until their period ends.
    parts[0].pending.update(rest)
    return parts


def joined(study: Study, parts: Sequence[Population], accounting: CellCounts) -> Population:
    """The population of everybody, from all of its parts.

    accounting: of all cells since the study began.
    """
    everybody = Population(study)
    everybody.period = parts[0].period
    first = parts[0].nobodies
    starts = np.cumsum([0, *(part.people for part in parts)])
    everybody.index = Index(
        np.concatenate([part.index.hi for part in parts]),
        np.concatenate([part.index.lo for part in parts]),
        np.concatenate(
            [p.index.slot - first + start for p, start in zip(parts, starts, strict=False)]
        ).astype(np.int32),
    )
    unclaimed = (study.size or everybody.people) - everybody.people
    everybody.columns = {
        name: np.concatenate(
            [
                *(part.columns[name][first:] for part in parts),
                parts[0].columns[name][:first].repeat(unclaimed),
            ]
        )
        for name in everybody.columns
    }
    everybody.waiting = WaitingCells.of(
        ordered(Cells.joined([part.waiting.all() for part in parts]))
    )
    for part in parts:
        everybody.pending.update(part.pending)
    everybody.accounting = Accounting.of(accounting)
    return everybody
