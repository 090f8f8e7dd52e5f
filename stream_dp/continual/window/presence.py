"""Presence, measured once: the measurements of an open population beside `residuals.py`.

One of the q symbols says that a person is absent, and k absences are never looked at. Residuals
of who is present (all j in {0, q - 1}, the last row telling the absent from the others) would look
at them; instead, for sets B of periods that one window covers, u_B is the number of people present
at all periods of B. Of the presence patterns c of window t (c not empty),
    N_c(t) = sum over B that contain c of (-1)^(|B| - |c|) u_B.
All R histograms together, averaged over the (q - 1)^|c| patterns of present symbols, would give
u the precision, in units of 1 / s,
    X = sum_t sum_c (q - 1)^-|c| N_c(t)' N_c(t),
    X[B, B'] = m (-1)^(|B| + |B'|) ((q / (q - 1))^|B and B'| - 1),
m the number of windows that cover B and B'. Measured are C u, C the lower triangular factor with
C'C = X in the order of the greatest period of B: so each number is measured once, when its period
comes, and the estimates (C^-1 answers, by forward substitution) are as good at once as those of
all histograms at the horizon. The factor of the inverse order is that of Cholesky from the last
row up; it is banded as X is, and a row looks back to t - 2k + 2.

C is computed in floating point and rounded to multiples of 2^-20, integers C~ = 2^20 C; what is
measured is C~ u with noise of variance 4^20 s. Costs are of C~, exactly.

The cost of windows measured as residuals in an open population is exact. A history costs, by
itself, what `residual_costs.py` says (with p = 1) less the residuals of who is present, plus |C~
u|^2 / 4^20 for the sets of periods at which it was present, in units of 1 / (2 s). Both depend on
when the person was present alone: with e(i) the squared length of the row that tells the absent
from the others, divided by its variance, q e = q - 1 at absence and 1 / (q - 1) at presence, the
residuals of components with least period l and greatest i that concern presence alone add up to
m(l, i) q^-k  qe(l) qe(i)  prod over the periods between of (1 + qe). C~ looks back 2k - 2 periods:
a dynamic programme over the last 2k - 2 of them is exact. Without the rounding of C it is one for
every window with somebody present, R at the horizon.

Replacement: the worst pair is apart in every window, 2 R without the rounding, whose part in a
pair's cost is at most sum |X - C~'C~ / 4^20|, for differences of u are -1, 0 or 1. That bound is
for the horizon; a prefix costs no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.study import Neighbours

from ..mechanism_interface import Counts, unpacked_integers
from ..repeatable_products import product, solved_below

Floats = NDArray[np.float64]

BITS = 20


def presence_counts(symbols: NDArray[np.integer], t: int, width: int, absent: int) -> Counts:
    """People by presence in the last 2k - 1 periods, for `Presence.measure`.

    symbols: (people, periods) codes
    t: the last period looked at
    width: k
    absent: the code of those who are not there, or not yet
    """
    presence = np.zeros(symbols.shape[0], np.int64)
    for g in range(min(2 * width - 1, t)):
        presence |= (symbols[:, t - 1 - g] != absent).astype(np.int64) << g
    return np.bincount(presence, minlength=2 ** (2 * width - 1)).astype(np.int64)


class _Pairs(NamedTuple):
    """Pairs of sets that meet, (n,) each.

    late, early: the numbers of the two sets; the first has the greater greatest period.
    windows: how many windows cover both.
    common: how many periods both have.
    """

    late: Counts
    early: Counts
    windows: Counts
    common: Counts


@dataclass(frozen=True)
class Presence:
    """The sets of periods of a window release of an open population, and the factor C~.

    q: the number of symbols, the absent one among them
    width: k, the periods of a window
    horizon: T

    Sets are in the order of their greatest period i, those of one period by the number whose bit g
    says that i - 1 - g belongs to the set: min(2^(k-1), 2^(i-1)) sets.
    stored: the factor that was computed when the study began; None where it is computed here
    """

    q: int
    width: int
    horizon: int
    stored: bytes | None = None

    @property
    def reach(self) -> int:
        """2k - 1, the number of periods within a row's reach."""
        return 2 * self.width - 1

    def size(self, period: int) -> int:
        """How many sets have this greatest period."""
        return int(2 ** (min(self.width, period) - 1))

    @cached_property
    def starts(self) -> Counts:
        """Where the sets of periods 1..T begin, and where the last ends: (T + 1,)."""
        sizes = [self.size(i) for i in range(1, self.horizon + 1)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def _sets(self) -> tuple[Counts, Counts]:
        """Of all sets: the greatest period i, and the set as a number whose bit g stands for
        i - g."""
        periods_and_bits = [
            (i, 2 * np.arange(self.size(i), dtype=np.int64) + 1) for i in range(1, self.horizon + 1)
        ]
        greatest = np.concatenate([np.full(bits.size, i, np.int64) for i, bits in periods_and_bits])
        return greatest, np.concatenate([bits for _, bits in periods_and_bits])

    @property
    def band(self) -> int:
        """The number of earlier sets within a row's reach."""
        return min(int(self.width * 2 ** (self.width - 1)), int(self.starts[-1])) - 1

    def _coupled(self, gap: int) -> _Pairs:
        """The pairs of sets with an entry of X, whose greatest periods are `gap` apart."""
        late, early = [], []
        for i in range(gap + 1, self.horizon + 1):
            a, b = np.meshgrid(
                np.arange(self.starts[i - 1], self.starts[i]),
                np.arange(self.starts[i - gap - 1], self.starts[i - gap]),
                indexing="ij",
            )
            late.append(a.ravel())
            early.append(b.ravel())
        a, b = np.concatenate(late), np.concatenate(early)
        greatest, bits = self._sets
        shifted = bits[b] << gap
        common = np.bitwise_count(bits[a] & shifted).astype(np.int64)
        first = greatest[a] - np.frexp((bits[a] | shifted).astype(float))[1] + 1
        windows = np.minimum(first + self.width - 1, self.horizon) - np.maximum(
            greatest[a], self.width
        )
        measured = (common > 0) & (windows >= 0)
        return _Pairs(a[measured], b[measured], windows[measured] + 1, common[measured])

    @cached_property
    def precision(self) -> tuple[Counts, Counts, NDArray[np.object_]]:
        """X below the diagonal and on it: rows, columns, and entries times (q - 1)^k, (n,) each.

        Entries are whole numbers of any length.
        """
        q, k, bits = self.q, self.width, self._sets[1]
        factors = np.array(
            [(q**n - (q - 1) ** n) * (q - 1) ** (k - n) for n in range(k + 1)], object
        )
        rows, columns, entries = [], [], []
        for gap in range(k):
            pairs = self._coupled(gap)
            odd = (np.bitwise_count(bits[pairs.late]) ^ np.bitwise_count(bits[pairs.early])) & 1
            sign = 1 - 2 * odd.astype(np.int64)
            rows.append(pairs.late)
            columns.append(pairs.early)
            entries.append(
                pairs.windows.astype(object) * sign.astype(object) * factors[pairs.common]
            )
        row, column = np.concatenate(rows), np.concatenate(columns)
        lower = row >= column
        return row[lower], column[lower], np.concatenate(entries)[lower]

    @cached_property
    def factor(self) -> Counts:
        """C~ by diagonals: int64 (band + 1, n), entry [d, r] is that of row r and column r - d."""
        if self.stored is not None:
            return unpacked_integers(self.stored, self.band + 1, int(self.starts[-1]))
        row, column, entries = self.precision
        n, band = int(self.starts[-1]), self.band
        flipped = np.zeros((band + 1, n))
        values = (entries / (self.q - 1) ** self.width).astype(float)
        # X in inverse order, its lower half by diagonals: Cholesky from the last row up.
        flipped[row - column, n - 1 - row] = values
        lower = scipy.linalg.cholesky_banded(flipped, lower=True)
        rounded = np.zeros((band + 1, n), np.int64)
        for d in range(band + 1):
            rounded[d, d:] = np.rint(lower[d, : n - d][::-1] * 2.0**BITS)
        return rounded

    def rows(self, period: int) -> range:
        """The rows that are measured for the sets with this greatest period."""
        return range(int(self.starts[period - 1]), int(self.starts[period]))

    def seen(self, period: int) -> range:
        """The sets within reach of the rows: the greatest period is among the last k."""
        return range(int(self.starts[max(period - self.width, 0)]), int(self.starts[period]))

    def matrix(self, period: int) -> Counts:
        """The rows of C~ on the sets: int64 (rows, sets seen)."""
        rows, columns = self.rows(period), self.seen(period)
        row, column = np.mgrid[rows.start : rows.stop, columns.start : columns.stop]
        inside = (row >= column) & (row - column <= self.band)
        entries = self.factor[np.where(inside, row - column, 0), row]
        return np.where(inside, entries, 0)

    def masks(self, period: int) -> Counts:
        """The sets within reach of the rows, in numbers with bit g for `period` - g."""
        seen = self.seen(period)
        greatest, bits = (column[seen.start : seen.stop] for column in self._sets)
        return bits << (period - greatest)

    def measured_periods(self, t: int) -> range:
        """The greatest periods of the sets that are measured at t >= k."""
        return range(1, t + 1) if t == self.width else range(t, t + 1)

    def measure(self, t: int, patterns: Counts) -> Counts:
        """C~ u for the sets measured at t >= k: int64 (n,).

        patterns: int64 (2^(2k - 1),), people by the periods at which they were present: bit g of
            a pattern's number stands for period t - g
        """
        present = patterns.reshape([2] * self.reach)
        for axis in range(self.reach):
            # Sums over what contains a set: a period that is not asked about is free.
            absent, present_people = np.split(present, 2, axis=axis)
            present = np.concatenate([absent + present_people, present_people], axis=axis)
        people = present.ravel()
        return np.concatenate(
            [self.matrix(i) @ people[self.masks(i) << (t - i)] for i in self.measured_periods(t)]
        )

    def solved(self, t: int, last_solution: Floats, answers: Counts) -> Floats:
        """The estimates of u for the sets with a greatest period among the last k at t.

        The rows of C~ that are measured for period i are [E | D]: E acts on the sets of earlier
        periods, and D, lower triangular, on the sets of i. Forward substitution solves
        D u_i = answers_i - E u_earlier.

        last_solution: the same at t - 1; nothing at t = k
        answers: (n,) the noisy C~ u of the sets measured at t, as `measure` orders them

        Returns (n,) estimates, of the sets in `seen(t)`, in people.
        """
        solved, start = last_solution, 0
        for i in self.measured_periods(t):
            matrix, end = self.matrix(i), start + self.size(i)
            earlier_sets = matrix.shape[1] - self.size(i)
            solved = solved[len(solved) - earlier_sets :]
            right_side = answers[start:end] - product(matrix[:, :earlier_sets], solved)
            new = solved_below(matrix[:, earlier_sets:], right_side)
            solved, start = np.concatenate([solved, new]), end
        return solved

    def patterns(self, t: int, solved: Floats) -> Floats:
        """N_c(t) for every c: (2^k,), bit g of c stands for t - g; 0 for nobody present, which is
        not known."""
        numbers: Floats = product(self._by_pattern(t), solved)
        return numbers

    def _by_pattern(self, t: int) -> Floats:
        """The rows of N_c(t) on the sets seen at t: (2^k, sets seen)."""
        masks, count = self.masks(t), int(2**self.width)
        inside = np.flatnonzero(masks < count)
        c = np.arange(count)[:, None]
        contained = (c & ~masks[inside]) == 0
        odd = np.bitwise_count(c ^ masks[inside]) & 1
        rows = np.zeros((count, masks.size))
        rows[:, inside] = np.where(contained & (c > 0), 1.0 - 2.0 * odd, 0.0)
        return rows

    def adjoint(self, t: int, weights: Floats) -> Floats:
        """weights @ N(t) as coefficients on all answers up to t: (n_t, ..) for (2^k, ..)."""
        seen, count = self.seen(t), int(self.starts[t])
        adjoint = np.zeros((count, *weights.shape[1:]))
        adjoint[seen.start :] = product(self._by_pattern(t).T, weights)
        # Back substitution, column by column of the factor.
        for row in range(count - 1, -1, -1):
            adjoint[row] /= self.factor[0, row]
            reach = min(self.band, row)
            column = self.factor[1 : reach + 1, row][::-1]
            remainder = adjoint[row - reach : row]
            remainder -= column.reshape(-1, *[1] * (weights.ndim - 1)) * adjoint[row]
        return adjoint

    def covariance(self, t: int) -> Floats:
        """Of the estimates of N(t), in units of s: (2^k, 2^k)."""
        return _covariance(self, t)


@lru_cache(maxsize=256)
def _covariance(presence: Presence, t: int) -> Floats:
    coefficients = presence.adjoint(t, np.eye(int(2**presence.width)))
    return np.asarray(product(coefficients.T, coefficients)) * 4.0**BITS


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
