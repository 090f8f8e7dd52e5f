"""What a window release costs at most, exactly, over all pairs of one person's histories.

Windows are (z, x): k - 1 symbols and the newest. In units of 1 / (2 b), b the noise variance of a
cell, or of contrasts as `contrasts.py` scales them, two histories whose windows are the same cost
nothing at a step; otherwise
  histogram   1 for each of the two windows that is measured, so 2 in a closed population;
  contrasts   2 / (1 - 1/q) if z is the same (the row e_x - e_y is all contrast, of squared length
              2 against a variance of (1 - 1/q) b), else 1 for each window: a row by itself has
              squared contrast length 1 - 1/q, and different overlaps share no measurement.
In an open population the pattern of k absences is not measured and costs nothing; inside
z = absent^(k-1) the other cells are measured directly: 1 for each window that is another one.

add_remove: one history against none (in an open population, against absences, which measure
alike): at most 1 a step, and a history that is always present and measured costs that each time.
Replacement: a step's cost depends on how many of the newest symbols the two histories agree and
on how many of the newest of each are absences, no further than k. A dynamic programme over those
numbers is exact, because every sequence of agreeing, differing and absent symbols is a pair of
histories. In a closed population one pair is worst at every period: it differs in the oldest
symbol of the first window, then in every k-th, and costs 2, then 2 (i + ceil(i / k) / (q - 1))
after i more steps (FORMULAS: 2 (R - 1) + 2 ceil((R - 1) / k) for two symbols).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from stream_dp.study import Neighbours


class Agreement(NamedTuple):
    """Of two histories: how many of the newest symbols are the same, and how many of the newest
    of each are absences; all at most k, all k before the first period."""

    same: int
    gone: int
    other_gone: int


# Whether the two new symbols are the same, and whether each is an absence.
Move = tuple[bool, bool, bool]


def prefix_costs(
    q: int,
    width: int,
    releases: int,
    neighbours: Neighbours,
    *,
    first: Fraction = Fraction(1),
    contrasts: bool = False,
    open_: bool = False,
) -> tuple[Fraction, ...]:
    """The worst cost of the first 1, 2, .., `releases` steps together, in units of 1 / (2 b).

    first: b over the noise variance of the first histogram; the rest as in the module's words.
    """
    if neighbours == "add_remove":
        return tuple(first + i for i in range(releases))
    unit = math.lcm(q - 1, first.denominator)
    start = width if open_ else 0
    best = {Agreement(width, start, start): 0}
    costs = []
    for step in range(1 - width, releases):
        reached: dict[Agreement, int] = {}
        for state, cost in best.items():
            for move in _moves(q, open_):
                after = _after(state, move, width)
                total = cost
                if step == 0:
                    total += _apart(after, width) * int(unit * first)
                elif step > 0:
                    within = contrasts and not move[0] and _same_contrasts(state, width, open_)
                    total += 2 * q * unit // (q - 1) if within else _apart(after, width) * unit
                reached[after] = max(total, reached.get(after, total))
        best = reached
        if step >= 0:
            costs.append(Fraction(max(best.values()), unit))
    return tuple(costs)


def _moves(q: int, open_: bool) -> tuple[Move, ...]:
    if not open_:
        return (True, False, False), (False, False, False)
    moves = (True, True, True), (True, False, False), (False, True, False), (False, False, True)
    return (*moves, (False, False, False)) if q > 2 else moves


def _after(state: Agreement, move: Move, width: int) -> Agreement:
    same, gone, other_gone = (
        min(number + 1, width) if goes_on else 0
        for number, goes_on in zip(state, move, strict=True)
    )
    return Agreement(same, gone, other_gone)


def _apart(state: Agreement, width: int) -> int:
    """How many cells the two windows differ in, of those that are measured."""
    return 0 if state.same == width else (state.gone < width) + (state.other_gone < width)


def _same_contrasts(before: Agreement, width: int, open_: bool) -> bool:
    """Do both newest symbols come after the same overlap, one whose contrasts are measured?"""
    return before.same >= width - 1 and not (open_ and before.gone >= width - 1)
