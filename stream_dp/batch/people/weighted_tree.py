"""A junction tree grown on noisy pairs, whose rows are weighted to all noisy pairs and triples.

All of it is post-processing. Source of the parts: MST and AIM (McKenna et al. 2021, 2022) pick the
pairs of a tree by the exponential mechanism. Where all pairs are measured, noisy pairs pick them,
at no cost and as many as there is room for.

1. The tree. In each step up to a third as many pairs as columns join it: those with the largest
   sum of |v_A - I_A(tree)| beyond that of noise, sqrt(2 / pi v_A d K), if their misfit is over
   Z deviations of chi squared and there is room (`junction_tree.MOST_CELLS`). Then the dual is
   solved again, from where it was.
2. The weight of entropy. A log-linear parameter whose prior variance is t^2 p^(a-1) in a cell of
   share p has the Gaussian MAP with the weight p^-a / t^2 there, and a dependence whose expected
   sum of squares is t^2 sum p^(1+a). So an interaction with energy S has the weight
   p^-a sum p^(1+a) / S, with the shares p of independence. Of the powers 0, 1/2 and 1 each
   interaction has the likeliest, given its noisy cells: 0 where small cells depend as well as
   large ones, 1 where columns have many rare values (empirical Bayes). A single column has the
   factor _OF_SINGLE. Its parameter makes up for those of its pairs, so that its size says little
   about the column's shares, and what pulls on the parameter moves the shares. With little noise
   this pull is small anyway, and a smaller one (_LEAST_PULL) would make the dual hard to solve.
3. The rows. Rows are drawn from the tree and weighted (`row_weights`): to the tree's own
   marginals of the sets that it holds, with the variance w_A v_A, and to the noisy pairs and
   triples outside, with the weight that their misfit about the tree has, half their own and half
   the mean of all with as many columns. Of few people there are more rows than people, and of
   many people fewer.
4. The draw, with the roundings that keep single columns (`balanced_rows`).

Where triples are measured and the tree's pairs are over BAD times as far from the noisy ones as
noise would be, hidden classes (`hidden_classes.py`) are fitted too. Rows are drawn from them if
they explain the pairs better, and weighted unless the classes are within CLOSE times the noise.
Columns that share a hidden cause have no tree, and with a million people the difference shows.

Weights of rows. Of all weights w (sum 1) those with the least
    KL(w | even) + sum_A sum over cells (marginal_A(w) - target_A)^2 / (2 slack_A):
maximum entropy with relaxed constraints (Dudik, Phillips, Schapire 2004). The dual has a multiplier
for each cell. A block of them, those of one marginal, is raised together: multipliers by
(target - share - slack * multiplier) / (share + slack), which is iterative proportional fitting
where slack is 0. Blocks take turns until the weights rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.domain import Int64Array
from ..rounds.adaptive_fit import Unasked
from ..rounds.phases import NoisyAnswers
from ..synthesizer import Known
from .hidden_classes import HiddenClasses, misfit
from .junction_tree import MOST_CELLS, JunctionTree, Table, grown_tree
from .people_draw import drawn_people
from .people_table import People
from .residual_counts import Columns, Residuals, centred
from .target_shares import Past, Targets, fused, reduced_chi_squared
from .tree_model import GAP, TreeDual, draw_tree, starting_logits

Floats = NDArray[np.float64]
_SWEEPS = 40
_LARGEST_STEP = 1.0
_REST = 1e-4  # share of people whom a sweep moves at most in the end, a marginal


class Wanted(NamedTuple):
    """A marginal of rows and its target.

    cells: (rows,) the cell of each row.
    target: (cells,) shares.
    slack: (cells,) or one number: the variance of a share that the target leaves.
    """

    cells: NDArray[np.int32]
    target: Floats
    slack: Floats | float


def row_weights(rows: int, marginals: Sequence[Wanted]) -> Floats:
    """(rows,) weights, sum 1, at the minimum of the module's objective."""
    weights = np.full(rows, 1 / rows)
    multipliers = [np.zeros(len(m.target)) for m in marginals]
    for _ in range(_SWEEPS):
        moved = 0.0
        for multiplier, (cells, target, slack) in zip(multipliers, marginals, strict=True):
            share = np.bincount(cells, weights, len(target))
            pull = (target - share - slack * multiplier) / (share + slack + 1e-3 / rows)
            step = np.clip(pull, -_LARGEST_STEP, _LARGEST_STEP)
            multiplier += step
            weights *= np.exp(step)[cells]
            weights /= weights.sum()
            moved = max(moved, float(share @ np.abs(step)))
        if moved < _REST:
            break
    return weights


_EXCHANGES, _LOOKED_AT = 60, 20_000  # at most, and the drawn rows that each looks at


def balanced_rows(
    rng: np.random.Generator,
    weights: Floats,
    people: int,
    codes: NDArray[np.unsignedinteger],
    marginals: Sequence[Wanted],
) -> Int64Array:
    """(people,) the numbers of rows, in random order; see the module.

    weights: (rows,), sum 1.
    codes: (rows, columns), of which neighbours in order make up for each other's rounding first.
    marginals: that the roundings are to keep.
    """
    expected = weights * people
    times = np.floor(expected).astype(np.int64)
    missing = people - int(times.sum())
    order = np.lexsort(codes.T[::-1])
    ends = np.cumsum((expected - times)[order])
    marks = (np.arange(missing) + rng.random()) / max(missing, 1) * ends[-1]
    chosen = order[np.searchsorted(ends, marks, side="right").clip(max=len(order) - 1)]
    up = np.zeros(len(weights), np.bool_)
    up[chosen] = True
    _exchange(rng, up, expected - times, marginals)
    times += up
    rows = np.repeat(np.arange(len(weights)), times)
    # A row that two marks hit stands there once: others that fall short take its place.
    if len(rows) < people:
        rest = np.argsort(times - expected, kind="stable")[: people - len(rows)]
        rows = np.concatenate([rows, rest])
    return rng.permutation(rows)


def _exchange(
    rng: np.random.Generator,
    up: NDArray[np.bool_],
    fractions: Floats,
    marginals: Sequence[Wanted],
) -> None:
    """Exchanges rows that are rounded up and down, as long as marginals come nearer.

    With d the counts of a marginal's cells less the expected ones, the loss is the sum of d'd. A
    row in cell c adds 2 d_c + 1 to it when it goes up, so that rows with the largest sum of d_c go
    down, and those with the least go up. Half as many at once are tried when the loss rises.

    up: (rows,), changed in place. fractions: (rows,) of the expected times.
    """
    distances = [np.bincount(m.cells, up - fractions, len(m.target)) for m in marginals]
    loss = sum(float(d @ d) for d in distances)
    at_once = max(1, min(int(up.sum()), _LOOKED_AT // 2) // 20)
    every = np.flatnonzero(fractions > 0)
    for _ in range(_EXCHANGES):
        free = every if len(every) <= _LOOKED_AT else rng.choice(every, _LOOKED_AT, replace=False)
        pull = np.zeros(len(free))
        for distance, m in zip(distances, marginals, strict=True):
            pull += distance[m.cells[free]]
        pull += rng.random(len(free)) * 1e-3
        is_up = up[free]
        most = min(at_once, int(is_up.sum()), int((~is_up).sum()))
        if not most:
            break
        down = free[is_up][np.argpartition(-pull[is_up], most - 1)[:most]]
        raised = free[~is_up][np.argpartition(pull[~is_up], most - 1)[:most]]
        changed = [
            distance
            - np.bincount(m.cells[down], minlength=len(distance))
            + np.bincount(m.cells[raised], minlength=len(distance))
            for distance, m in zip(distances, marginals, strict=True)
        ]
        after = sum(float(d @ d) for d in changed)
        if after < loss:
            distances, loss = changed, after
            up[down], up[raised] = False, True
        elif at_once == 1:
            break
        else:
            at_once = max(1, at_once // 2)


Z = 3.0  # deviations of chi squared: the misfit of a pair that joins the tree
_STEPS = 14  # in which the tree grows
BAD, CLOSE = 2.0, 1.5  # times chi squared of noise: what the tree, and the classes, leave
GROWING_GAP = 0.03  # nats, to which the tree is fitted while it grows
_OVER, _ROWS, _UNDER = 3, 60_000, 10  # rows that are weighted: `WeightedTree._weighted`
_OUTSIDE = 0.4  # times the weight of entropy, of sets that the tree does not hold
_OF_SINGLE = 1 / 32  # times the weight of entropy, of single columns
_LEAST_PULL = 1e-5  # weight of entropy times variance, to which that factor lowers it at most
_FINEST = 1e-9  # the least sum of squares of an interaction
_SMALLEST = 1e-6  # share of people in a cell of independence, at least


@dataclass(frozen=True, eq=False)
class Fitted:
    """What the model has learnt.

    targets: noisy shares.
    tree, marginals: by clique.
    held: the sets of columns that the tree holds.
    pairs: by pair of columns, the tree's shares.
    gap: the duality gap.
    """

    targets: Targets
    tree: JunctionTree
    marginals: tuple[Table, ...]
    held: frozenset[Columns]
    pairs: Mapping[Columns, Table]
    gap: float


@dataclass(frozen=True, eq=False)
class WeightedTree(Unasked):
    """See `adaptive_fit.Model`.

    residuals: the measured interactions.
    base: sets of columns that the tree holds from the beginning.
    known: interactions that others have published.
    past: what earlier tables say.
    fitted: None before anything is learnt.
    classes: from which rows are drawn instead of the tree; None if they do not fit better.
    """

    residuals: Residuals
    base: tuple[Columns, ...] = ()
    known: tuple[Known, ...] = ()
    past: Past | None = None
    fitted: Fitted | None = None
    classes: HiddenClasses | None = None

    @property
    def gap(self) -> float:
        """The duality gap of the tree, in nats; see `tree_model.TreeDual`."""
        return math.inf if self.fitted is None else self.fitted.gap

    def learn(self, measured: NoisyAnswers) -> tuple[WeightedTree, float]:
        model = self.grown(measured, GAP)
        classes = model._better_classes()
        if classes is None:
            return model, model._misfit()
        return replace(model, classes=classes), model._classes_misfit(classes, 2)

    def grown(self, measured: NoisyAnswers, gap: float = GROWING_GAP) -> WeightedTree:
        """The model of these answers, without its misfit. gap: to which its tree is fitted."""
        targets = fused(Targets.of(self.residuals, measured, self.known), self.past)
        weights = {a: _entropy(targets, a) for a in targets.interactions}
        logits, pairs = dict[Columns, Table](), tuple[Columns, ...]()
        triples = {a for a in self.residuals.sets if len(a) == 3}
        step, is_last = 0, False
        while True:
            tree = grown_tree(targets.sizes, self.base, pairs)
            held = {
                a: interaction
                for a, interaction in targets.interactions.items()
                if any({*a} <= {*clique} for clique in tree.cliques)
                and (is_last or a not in triples)
            }
            dual = TreeDual.of(tree, held, weights, self.residuals.domain.zeros)
            start = starting_logits(targets, held, logits)
            solution = dual.solved(start, gap if is_last else GROWING_GAP)
            logits = dict(zip(held, dual.split(solution.vector), strict=True))
            tables = tuple(dual.marginals(solution.vector)[0])
            shares: dict[Columns, Table] = {
                (first, second): joint
                for first, joints in tree.pairs(tables)
                for second, joint in joints.items()
                if first < second
            }
            fitted = Fitted(targets, tree, tables, frozenset(held), shares, solution.gap)
            model = replace(self, fitted=fitted)
            if is_last:
                return model
            joining = model._joining(pairs)
            pairs, step = (*pairs, *joining), step + 1
            is_last = not joining or step == _STEPS

    def _joining(self, pairs: tuple[Columns, ...]) -> list[Columns]:
        """The pairs that join the tree next."""
        fitted = self._learnt
        targets, gains = fitted.targets, dict[Columns, float]()
        for columns, shares in fitted.pairs.items():
            if columns in fitted.held or columns not in targets.interactions:
                continue
            values, variance = targets.interactions[columns]
            free, apart = targets.freedom(columns), values - centred(shares)
            noise = math.sqrt(2 / math.pi * variance * free * values.size)
            gain = float(np.abs(apart).sum()) - noise
            misfit = float(np.square(apart).sum()) / variance - free
            if gain > 0 and misfit >= Z * math.sqrt(2 * free):
                gains[columns] = gain
        joining, most = list[Columns](), max(2, len(targets.sizes) // 3)
        for columns in sorted(gains, key=lambda a: (-gains[a], a)):
            grown = grown_tree(targets.sizes, self.base, (*pairs, *joining, columns))
            if grown.cells <= MOST_CELLS:
                joining.append(columns)
            if len(joining) == most:
                break
        return joining

    def _better_classes(self) -> HiddenClasses | None:
        """Hidden classes, if they explain the noisy pairs better than the tree.

        By Akaike's criterion, where the tree's parameters are not counted.
        """
        targets = self._learnt.targets
        triples = any(len(a) == 3 for a in self._measured)
        left = self._misfit()
        if not triples or self.residuals.domain.zeros.possible or left <= BAD:
            return None
        classes = HiddenClasses.fitted(targets, self._measured)
        freedom = sum(targets.freedom(a) for a in self._measured if len(a) == 2)
        by_classes = self._classes_misfit(classes, 2) + 2 * classes.parameters / freedom
        return classes if by_classes < left else None

    def _classes_misfit(self, classes: HiddenClasses, most_ways: int) -> float:
        """Chi squared of measured sets about classes, over its degrees of freedom.

        most_ways: the most columns of a set.
        """
        targets = self._learnt.targets
        sets = [a for a in self._measured if len(a) <= most_ways]
        squares = sum(misfit(targets, a, classes.shares(a)) for a in sets)
        return reduced_chi_squared(squares, sum(targets.freedom(a) for a in sets))

    @property
    def _learnt(self) -> Fitted:
        assert self.fitted is not None
        return self.fitted

    def _misfit(self) -> float:
        return self._learnt.targets.misfit(self._learnt.pairs)

    def sample(self, seed: int) -> People:
        rng, fitted = np.random.default_rng(seed), self._learnt
        people, classes = fitted.targets.people, self.classes
        is_close = classes is not None and self._classes_misfit(classes, 3) <= CLOSE
        if is_close or not self._outside:
            codes = self._rows(rng, people)
            return drawn_people(rng, self.residuals.domain, codes[rng.permutation(people)])
        rows = min(_OVER * people, max(_ROWS, people // _UNDER))
        codes = self._rows(rng, rows)
        wanted = self._noisy(codes)
        marginals = [_wanted(codes, a, *t) for a, t in {**self._inside(), **wanted}.items()]
        weights = row_weights(rows, marginals)
        chosen = balanced_rows(rng, weights, people, codes, marginals)
        return drawn_people(rng, self.residuals.domain, codes[chosen])

    def _rows(self, rng: np.random.Generator, rows: int) -> NDArray[np.unsignedinteger]:
        """(rows, columns) codes drawn from the classes or the tree."""
        if self.classes is not None:
            return self.classes.drawn(rng, rows)
        tree, tables = self._learnt.tree, self._learnt.marginals
        return draw_tree(rng, tree, tables, rows, self.residuals.domain.zeros)

    def _inside(self) -> dict[Columns, tuple[Table, Table]]:
        """By set inside the model, the marginal and the remainder."""
        fitted, result = self._learnt, dict[Columns, tuple[Table, Table]]()
        for columns in sorted(self._held, key=lambda a: (len(a), a)):
            if self.classes is not None:
                variance = fitted.targets.interactions[columns].variance
                slack = _entropy(fitted.targets, columns) * variance
                result[columns] = self.classes.shares(columns), slack
                continue
            clique = fitted.tree.holder(columns)
            target = fitted.tree.reduced(fitted.marginals[clique], clique, columns)
            variance = fitted.targets.interactions[columns].variance
            result[columns] = target, _entropy(fitted.targets, columns) * variance
        return result

    @property
    def _held(self) -> frozenset[Columns]:
        """The sets whose marginals the model has: all of the tree's, or classes' single columns."""
        if self.classes is None:
            return self._learnt.held
        return frozenset(a for a in self._learnt.held if len(a) == 1)

    @property
    def _measured(self) -> list[Columns]:
        """The measured pairs and triples."""
        sets = self._learnt.targets.interactions
        return sorted(
            (a for a in sets if len(a) == 2 or a in self.residuals.numbers),
            key=lambda a: (len(a), a),
        )

    @property
    def _outside(self) -> list[Columns]:
        """The measured pairs and triples that the model does not hold."""
        return [a for a in self._measured if a not in self._held]

    def _noisy(self, codes: NDArray[np.unsignedinteger]) -> dict[Columns, tuple[Table, Table]]:
        """By set outside the model, the noisy shares and the remainder.

        codes: of rows that are drawn from the model.
        """
        fitted = self._learnt
        targets, result = fitted.targets, dict[Columns, tuple[Table, Table]]()
        for ways, sets in groupby(self._outside, key=len):
            apart = dict[Columns, Apart]()
            for columns in sets:
                values, variance = targets.interactions[columns]
                if self.classes is not None:
                    shares = self.classes.shares(columns)
                elif ways == 2:
                    shares = fitted.pairs[columns]
                else:
                    shares = _shares(codes, columns, values)
                free = targets.freedom(columns)
                apart[columns] = Apart(values - centred(shares), shares, variance, free)
            mean = max(sum(a.energy for a in apart.values()), 1e-12) / len(apart)
            for columns, a in apart.items():
                slack = _OUTSIDE * a.entropy((max(a.energy, 0) + mean) / 2) * a.variance
                result[columns] = targets.marginal(columns), slack
        return result


_POWERS = (0.0, 0.5, 1.0)
_FACTORS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)  # of the energy, for each power the best


class Apart(NamedTuple):
    """A noisy interaction apart from that of a simpler distribution.

    values: the difference.
    shares: of the simpler distribution.
    variance: of the noise in a cell.
    freedom: the degrees of freedom.
    """

    values: Table
    shares: Table
    variance: float
    freedom: int

    @property
    def energy(self) -> float:
        """The unbiased sum of squares of the difference without noise."""
        return float(np.square(self.values).sum()) - self.freedom * self.variance

    def entropy(self, energy: float) -> Table:
        """The weight of entropy in every cell, for a difference with this sum of squares."""
        p = np.maximum(self.shares, _SMALLEST)

        def likelihood(power: float) -> float:
            scale, squares = np.power(p, 1 + power), np.square(self.values)
            totals = (self.variance + f * energy / scale.sum() * scale for f in _FACTORS)
            return max(-float((np.log(total) + squares / total).sum()) for total in totals)

        power = max(_POWERS, key=likelihood)
        weight: Table = np.power(p, 1 + power).sum() / (np.power(p, power) * energy)
        return weight


def _entropy(targets: Targets, columns: Columns) -> Table:
    """The weight of entropy in every cell of an interaction."""
    values, variance = targets.interactions[columns]
    shares = np.full(values.shape, 1 / values.size)
    if len(columns) > 1:
        shares = reduce(np.multiply.outer, (targets.one_ways[c] for c in columns))
    if len(columns) == 2:
        values = targets.apart(columns)
    apart = Apart(values, shares, variance, targets.freedom(columns))
    weight = apart.entropy(max(apart.energy, variance * math.sqrt(2 * apart.freedom), _FINEST))
    if len(columns) == 1:
        return np.maximum(weight * _OF_SINGLE, np.minimum(weight, _LEAST_PULL / variance))
    return weight


def _shares(codes: NDArray[np.unsignedinteger], columns: Columns, like: Table) -> Table:
    """The shares of rows in the cells of a marginal. like: a table of its shape."""
    counts = np.bincount(_cells(codes, columns, like.shape), minlength=like.size)
    return counts.reshape(like.shape) / len(codes)


def _cells(
    codes: NDArray[np.unsignedinteger], columns: Columns, shape: tuple[int, ...]
) -> NDArray[np.int32]:
    """The cell of a marginal in which each row lies."""
    by_column = tuple(codes[:, c].astype(np.int32) for c in columns)
    return np.ravel_multi_index(by_column, shape).astype(np.int32)


def _wanted(
    codes: NDArray[np.unsignedinteger], columns: Columns, target: Table, slack: Table
) -> Wanted:
    cells = _cells(codes, columns, target.shape)
    return Wanted(cells, target.reshape(-1), slack.reshape(-1))
