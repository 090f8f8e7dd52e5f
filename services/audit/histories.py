"""Simulated people: their histories, their reports as users send them, and their population.

The people are invented here, by rules that look at the declaration alone. Their reports are JSON,
and the decoder and the population that a releaser has read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from stream_dp.log.log import Stored
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.study import Attribute, Study
from stream_dp.study.field_types import Symbol

Progress = Callable[[], None]  # called after each run


_KEY = bytes(32)  # of the hashes of simulated ids
_MOST_OPTIONS = 24  # answers of a cell that the search tries

# By cell, the number of the answer among the cell's options.
History = tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """A question to a person in a period.

    period: its label.
    options: the answers that a history may have; None for no report.
    """

    period: str
    attribute: str
    options: tuple[Symbol | None, ...]


def cell_options(attribute: Attribute) -> tuple[Symbol | None, ...]:
    """The answers that the search tries: first and last values first, at most `_MOST_OPTIONS`.

    Of a number, the first number of every bin, the last number, and the special codes.
    """
    values: list[Symbol] = list(attribute.listed)
    if attribute.number is not None and attribute.numbers is not None:
        points = attribute.number.points
        firsts = [points[start] for start in attribute.numbers.bin_starts[:-1]]
        values = list(dict.fromkeys([*firsts, points[-1], *attribute.numbers.special]))
    half = _MOST_OPTIONS // 2
    if len(values) > _MOST_OPTIONS:
        values = [*values[:half], *values[-half:]]
    return (*values, None)


def cells_of(study: Study, questions: Sequence[str], periods: Sequence[int]) -> tuple[Cell, ...]:
    """The cells of attributes in the periods with these numbers."""
    return tuple(
        Cell(study.periods.labels[number - 1], name, cell_options(study.attributes[name]))
        for number in periods
        for name in questions
    )


def reports(cells: Sequence[Cell], people: Mapping[str, History]) -> list[bytes]:
    """The reports of people, by id: a report per answered period."""
    return [
        json.dumps({"person": person, "period": period, "values": values}).encode()
        for person, history in people.items()
        for period, values in _answers(cells, history).items()
    ]


def _answers(cells: Sequence[Cell], history: History) -> dict[str, dict[str, Symbol]]:
    """The answers of a history by period and attribute."""
    answers: dict[str, dict[str, Symbol]] = {}
    for cell, number in zip(cells, history, strict=True):
        value = cell.options[number]
        if value is not None:
            answers.setdefault(cell.period, {})[cell.attribute] = value
    return answers


def simulated_population(
    study: Study,
    cells: Sequence[Cell],
    people: Mapping[str, History],
    members: Sequence[str] = (),
) -> Population:
    """Reads the reports of people, and closes no period.

    members: ids of members of groups, who are enrolled before everybody else.
    """
    decoder, population = Decoder(study, _KEY), Population(study)
    enrolled = decoder.hashes(decoder.ids(members))
    population.enrol(enrolled[:, 0], enrolled[:, 1])
    stored = [
        Stored(partition=0, offset=offset, time=0, key=None, value=value, headers=())
        for offset, value in enumerate(reports(cells, people))
    ]
    population.fold(*decoder.decode(stored, 0))
    return population


def slots_of(study: Study, population: Population, ids: Sequence[str]) -> dict[str, int]:
    """The slots of simulated people in a population, by id; -1 for nobody."""
    decoder, ids = Decoder(study, _KEY), list(dict.fromkeys(ids))
    hashes = decoder.hashes(decoder.ids(ids))
    slots = population.slots(hashes[:, 0], hashes[:, 1]).tolist()
    return dict(zip(ids, slots, strict=True))


Pair = tuple[History, History | None]  # None for nobody
Costs = Callable[[Sequence[Pair]], Sequence[float]]


@dataclass(frozen=True)
class WorstPair:
    """The worst pair of neighbours in the search, and its cost.

    second: None for nobody.
    """

    first: History
    second: History | None
    rho: float


def worst_pair(
    cells: Sequence[Cell],
    costs: Costs,
    *,
    absence: bool,
    most: int,
    starts: int = 4,
    begin: Sequence[Pair] = (),
) -> WorstPair:
    """Searches the two histories with the largest cost, by changes of one cell at a time.

    costs: of pairs of histories.
    absence: whether the second history is nobody's.
    most: pairs whose cost is computed, about.
    starts: how many searches begin at random histories, beside those at constant ones.
    begin: pairs at which the first searches begin.
    """
    rng = np.random.default_rng(0)
    best, spent = WorstPair((), None, -1.0), 0
    for pair in chain(begin, _starts(cells, rng, absence, starts)):
        (cost,) = costs([pair])
        improved, spent = True, spent + 1
        while improved and spent < most:
            improved = False
            for index in rng.permutation(2 * len(cells)).tolist():
                changed = list(_changed(cells, pair, index))
                if not changed:
                    continue
                found = costs(changed)
                spent += len(changed)
                top = int(np.argmax(found))
                if found[top] > cost * (1 + 1e-9):
                    pair, cost, improved = changed[top], found[top], True
                if spent >= most:
                    break
        if cost > best.rho:
            best = WorstPair(*pair, cost)
        if spent >= most:
            break
    return best


def _starts(
    cells: Sequence[Cell], rng: np.random.Generator, absence: bool, starts: int
) -> Iterator[Pair]:
    """The pairs at which searches begin."""

    def pair(first: History, second: History) -> Pair:
        return first, None if absence else second

    low = tuple(0 for _ in cells)
    high = tuple(max(len(cell.options) - 2, 0) for cell in cells)
    silent = tuple(len(cell.options) - 1 for cell in cells)
    yield pair(high, low)
    yield pair(low, silent)
    if not absence:
        yield pair(high, silent)
    for _ in range(starts):
        yield pair(*(_random(cells, rng) for _ in range(2)))


def _random(cells: Sequence[Cell], rng: np.random.Generator) -> History:
    return tuple(int(rng.integers(len(cell.options))) for cell in cells)


def _changed(cells: Sequence[Cell], pair: Pair, index: int) -> Iterator[Pair]:
    """The pairs with another answer in one cell of one history.

    index: of the cell in the first history, or, from len(cells) on, in the second.
    """
    second, number = divmod(index, len(cells))
    history = pair[second]
    if history is None:
        return
    for option in range(len(cells[number].options)):
        if option != history[number]:
            other = (*history[:number], option, *history[number + 1 :])
            yield (pair[0], other) if second else (other, pair[1])


def random_people(cells: Sequence[Cell], number: int, name: str) -> dict[str, History]:
    """People with histories at random, by id."""
    rng = np.random.default_rng(1)
    return {f"{name} {i}": _random(cells, rng) for i in range(number)}
