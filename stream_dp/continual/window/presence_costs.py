"""The exact cost of windows measured as residuals in an open population.

A history costs, by itself, what `residual_costs.py` says (with p = 1) less the residuals of who is
present, plus |C~ u|^2 / 4^20 for the sets of periods at which it was present (`presence.py`), in
units of 1 / (2 s). Both depend on when the person was present alone: with e(i) the squared length
of the row that tells the absent from the others, divided by its variance, q e = q - 1 at absence
and 1 / (q - 1) at presence, the residuals of components with least period l and greatest i that
concern presence alone add up to
    m(l, i) q^-k  qe(l) qe(i)  prod over the periods between of (1 + qe).
C~ looks back 2k - 2 periods: a dynamic programme over the last 2k - 2 of them is exact. Without the
rounding of C it is one for every window with somebody present, R at the horizon.

Replacement: the worst pair is apart in every window, 2 R without the rounding, whose part in a
pair's cost is at most sum |X - C~'C~ / 4^20|, for differences of u are -1, 0 or 1. That bound is
for the horizon; a prefix costs no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import Neighbours

from .presence import BITS, Presence

Integers = NDArray[np.object_]  # whole numbers of any length


@dataclass(frozen=True)
class PresenceCosts:
    """The costs of a window release of an open population.

    presence: what is measured of who is present
    direct: whether the number of those absent in all k periods is measured, too, in every window
    """

    presence: Presence
    direct: bool

    @property
    def releases(self) -> int:
        return self.presence.horizon - self.presence.width + 1

    def prefix(self, neighbours: Neighbours) -> tuple[Fraction, ...]:
        """The worst cost of the first 1, 2, .., R releases together, in units of 1 / (2 s).

        Exact under add_remove, an upper bound under replacement, the same for every prefix.
        """
        if neighbours == "add_remove":
            return self._alone
        return (2 * self.releases + self._rounding,) * self.releases

    @property
    def _unit(self) -> int:
        """(q (q - 1))^k 4^BITS: costs are whole multiples of its inverse."""
        q, k = self.presence.q, self.presence.width
        return int((q * (q - 1)) ** k << 2 * BITS)

    @cached_property
    def _alone(self) -> tuple[Fraction, ...]:
        """The largest cost of one history up to the releases 1..R, by dynamic programming.

        With the cost c_i(b) of greatest period i, for the presence b in the last 2k - 1 periods,
            best_i(the last 2k - 2 of b) = max over the oldest period of best_{i-1} + c_i(b).
        """
        k, reach = self.presence.width, self.presence.reach
        best: Integers = np.full(2 ** (reach - 1), -1, object)
        best[0] = 0  # nobody is present before the first period; -1: no history leads here
        costs = []
        for i, table in enumerate(self._tables(), 1):
            last_best = np.repeat(best, 2)  # by 2k - 1 bits, of which bit 0 is the new period
            new_best = np.where(last_best < 0, -1, last_best + table)
            best = np.maximum(*np.split(new_best, 2))
            if i >= k:
                costs.append(Fraction(int(best.max()), self._unit))
        return tuple(costs)

    def _tables(self) -> Iterator[Integers]:
        """For periods 1..T, what is measured with that greatest period costs, by the last 2k - 1
        periods: (2^(2k - 1),), bit g stands for g periods ago."""
        presence = self.presence
        q, k = presence.q, presence.width
        patterns = np.arange(2**presence.reach)
        for i in range(1, presence.horizon + 1):
            masks = presence.masks(i)
            sets = (patterns[:, None] & masks) == masks
            answers = sets.astype(np.int64) @ presence.matrix(i).T
            squares = (answers.astype(object) ** 2).sum(axis=1) * (q * (q - 1)) ** k
            table = squares + self._others(i)[patterns % 2**k]
            if self.direct and i >= k:
                table = table + np.where(patterns % 2**k == 0, self._unit, 0).astype(object)
            yield table

    def _others(self, i: int) -> Integers:
        """The cost of residuals that do not concern presence alone, with greatest period i.

        For each least period l it is that of all residuals less that of presence alone, times the
        m(l, i) windows that measure both, d = i - l:
            all:      q^-k (q - 1)                             if d = 0, else
                      q^-k (q - 1)^2 q^(d - 1)
            presence: q^-k qe(i)                               if d = 0, else
                      q^-k qe(l) qe(i) prod over the periods between of (1 + qe).
        All is in multiples of 1 / `_unit`, and e by the person's presence, so that the result is
        by the last k periods, bit g for g periods ago: (2^k,).
        """
        q, k, horizon = self.presence.q, self.presence.width, self.presence.horizon
        present = (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(bool)  # (2^k, periods ago)
        # (q - 1) qe and (q - 1) (1 + qe): whole numbers, and one factor q - 1 a period from l to i.
        qe = np.where(present, 1, (q - 1) ** 2).astype(object)
        one_and_qe = np.where(present, q, q * (q - 1)).astype(object)
        cost = np.zeros(2**k, object)
        for d in range(min(k, i)):
            m = min(i - d + k - 1, horizon) - max(i, k) + 1
            if d:
                all_residuals = (q - 1) ** 2 * q ** (d - 1)
                of_presence = qe[:, 0] * qe[:, d] * one_and_qe[:, 1:d].prod(axis=1)
            else:
                all_residuals, of_presence = q - 1, qe[:, 0]
            cost += m * (all_residuals * (q - 1) ** k - of_presence * (q - 1) ** (k - d - 1))
        in_units: Integers = cost * 4**BITS
        return in_units

    @cached_property
    def _rounding(self) -> Fraction:
        """sum |X - C~'C~ / 4^20| over all entries of the symmetric matrices, (n, n).

        With factor[d, r] = C~[r, r - d], entry c of the d-th diagonal below the main one is
            (C~'C~)[c + d, c] = sum over e of C~[c + d + e, c + d] C~[c + d + e, c],
        a whole number, and so is (q - 1)^k X 4^20: all is times (q - 1)^k 4^20.
        """
        presence, factor = self.presence, self.presence.factor
        rows, columns, scaled_x = presence.precision
        n, band, unit = int(presence.starts[-1]), presence.band, (presence.q - 1) ** presence.width
        total = 0
        for d in range(band + 1):
            product = np.zeros(n - d, object)
            for e in range(band + 1 - d):
                on_main, on_d = factor[e, d + e :], factor[d + e, d + e :]
                product[: n - d - e] += on_main.astype(object) * on_d.astype(object)
            difference = product * unit
            on_diagonal = rows - columns == d
            difference[columns[on_diagonal]] -= scaled_x[on_diagonal] << 2 * BITS
            total += int(np.abs(difference).sum()) * (1 if d == 0 else 2)
        return Fraction(total, unit << 2 * BITS)
