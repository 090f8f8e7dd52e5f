"""The exact worst cost of histograms of windows over all pairs of one person's histories.

A Gaussian answer of squared L2 sensitivity D2 and variance s2 costs D2 / (2 s2) (Bun and Steinke
2016; Canonne, Kamath, Steinke 2020, Theorem 4). With b the noise variance of a cell, and in units
of 1 / (2 b), two histories with the same window cost nothing at a step; otherwise 1 for each of
the two windows that is measured, so 2 in a closed population. In an open population the pattern of
k absences is not measured and costs nothing.

add_remove: one history against none (in an open population against absences, which contribute 0
to every measurement): at most 1 a step, reached at every step by a history that is always present.

Replacement (replace_one, replace_in_place): the cost of a step depends on how many of the newest
symbols of the two histories agree, and on how many of the newest of each are absences, up to k. A
dynamic programme over these numbers is exact, because every sequence of agreeing, differing and
absent symbols is a pair of histories. In a closed population the total is 2 R.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from stream_dp.study import Neighbours


class Agreement(NamedTuple):
    """What the next cost of two histories depends on. All numbers are at most k.

    same: how many of the newest symbols are the same
    absences: how many of the newest symbols of the first history are absences
    other_absences: the same of the second history
    """

    same: int
    absences: int
    other_absences: int


# Whether the two new symbols are the same, and whether each is an absence.
Move = tuple[bool, bool, bool]


def prefix_costs(
    q: int,
    width: int,
    releases: int,
    neighbours: Neighbours,
    *,
    open_: bool = False,
) -> tuple[Fraction, ...]:
    """The worst cost of the first 1, 2, .., `releases` steps together, in units of 1 / (2 b).

    q: the number of symbols
    width: k
    releases: how many steps
    neighbours: the neighbouring relation
    open_: whether one symbol is 'absent' and the pattern of k absences is not measured
    """
    if neighbours == "add_remove":
        return tuple(Fraction(i + 1) for i in range(releases))
    start = width if open_ else 0
    best = {Agreement(width, start, start): 0}
    costs = []
    for step in range(1 - width, releases):
        reached: dict[Agreement, int] = {}
        for state, cost in best.items():
            for move in _moves(q, open_):
                after = _after(state, move, width)
                total = cost + (_apart(after, width) if step >= 0 else 0)
                reached[after] = max(total, reached.get(after, total))
        best = reached
        if step >= 0:
            costs.append(Fraction(max(best.values())))
    return tuple(costs)


def _moves(q: int, open_: bool) -> tuple[Move, ...]:
    if not open_:
        return (True, False, False), (False, False, False)
    moves = (True, True, True), (True, False, False), (False, True, False), (False, False, True)
    return (*moves, (False, False, False)) if q > 2 else moves


def _after(state: Agreement, move: Move, width: int) -> Agreement:
    same, absences, other_absences = (
        min(number + 1, width) if goes_on else 0
        for number, goes_on in zip(state, move, strict=True)
    )
    return Agreement(same, absences, other_absences)


def _apart(state: Agreement, width: int) -> int:
    """In how many measured cells the two windows differ."""
    return 0 if state.same == width else (state.absences < width) + (state.other_absences < width)
