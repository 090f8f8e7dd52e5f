"""Workloads: the queries that a data set should answer well, and the candidates to measure.

A candidate is a marginal, whose cells are measured together. Candidates are picked by their scores:
the sum of their absolute errors, less a public number, the error that the noise of the measurement
would leave.

Scores are integers. The model's answers are rounded before the errors are computed, so that a score
changes by at most as much as the counts do. Scores are multiplied by integer weights, so that
candidates of different sensitivities can be compared (Liu and Wu 2022 use one sensitivity for all).
Scores are clipped to 62 bits: clipping increases no difference of two scores.

Privacy. Every variance follows from public numbers and earlier noisy answers. So all measurements
together cost a change of one person what `worst_changes.py` bounds, and a measurement gets the
least noise with which no change costs more than the limit: `docs/proofs/filter.md`. What selects
marginals costs every change the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import lcm, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.group_releases import HierarchyRelease

from ...data.domain import Domain, Hierarchy, Int64Array
from ...rounds.adaptive_fit import Phase
from ...rounds.phases import (
    NoisyAnswers,
    Rounds,
    candidate_rows,
    least_scale,
    total,
    with_precisions,
)
from .exact_counts import exact_answers
from .head_leads import lead_columns
from .queries import (
    COUPLE,
    FREE,
    GROUP,
    HAS_CHILD,
    LEAD,
    PERSON,
    SPOUSE,
    Marginal,
    Queries,
    all_marginals,
)
from .sensitivity import error_sensitivity, squared_sensitivity
from .worst_changes import Worst, worst_changes


@dataclass(frozen=True)
class ChangeFilter:
    """What measurements have cost the worst change of one person; see `phases.PrivacyFilter`.

    worst: from precisions to the squared changes of the costliest case.
    exact: whether one pair of neighbours attains these changes.
    limit: the rho that all measurements so far may cost.
    precisions: by candidate, the sum of 1 / variance.
    of_all: what selections have cost.
    """

    worst: Worst = field(repr=False)
    exact: bool
    limit: Fraction = Fraction(0)
    precisions: Mapping[int, Fraction] = field(default_factory=dict)
    of_all: Fraction = Fraction(0)

    @cached_property
    def spent(self) -> Fraction:
        """What the measurements cost the worst change."""
        if not self.precisions:
            return self.of_all
        return self.of_all + total(self.precisions, self.worst(self.precisions)) / 2

    @property
    def left(self) -> Fraction:
        return self.limit - self.spent

    def allowing(self, rho: Fraction) -> ChangeFilter:
        """The filter with so much more rho."""
        return replace(self, limit=self.limit + rho)

    def scale(self, candidates: Sequence[int], weights: Sequence[Fraction]) -> Fraction:
        """The least factor of weights that makes variances with which nothing exceeds the limit.

        Raises ValueError if nothing is left.
        """
        if self.left <= 0:
            raise ValueError("nothing is left of rho")
        added = with_precisions({}, candidates, weights)
        return least_scale(self.worst, self.precisions, added, self.limit - self.of_all)

    def charged(
        self,
        candidates: Sequence[int],
        variances: Sequence[Fraction],
        selection: Fraction = Fraction(0),
    ) -> ChangeFilter:
        """The filter after candidates are measured with these variances.

        selection: the rho of what selected them.
        """
        precisions = with_precisions(self.precisions, candidates, variances)
        return replace(self, precisions=precisions, of_all=self.of_all + selection)


MOST_CELLS = 100_000  # of a marginal
MOST_QUERIES = 2_000_000  # of a workload
_MOST_WEIGHT = 1 << 20  # of a score
_MOST_SCORE = 1 << 62


@dataclass(frozen=True, eq=False)
class Workload:
    """The queries of a release, by candidate: see `phases.Ranked`.

    Costs are under `replace_in_place`. The first candidates are the opening, one-way marginals,
    then the base, those of relatives that are always measured. Those of sensitivity 0 are free.

    marginals: the candidates.
    queries: all queries, candidate by candidate.
    starts: candidate i is queries[starts[i] : starts[i + 1]].
    squared: by candidate, the squared L2 sensitivity of its answers.
    change: by candidate, the sensitivity of the sum of its absolute errors.
    opening: the number of candidates of the opening.
    base: the number of candidates of the base.
    """

    marginals: tuple[Marginal, ...]
    queries: Queries
    starts: Int64Array
    squared: tuple[int, ...]
    change: tuple[int, ...]
    opening: int = 0
    base: int = 0

    @property
    def domain(self) -> Domain:
        return self.marginals[0].domain

    @property
    def candidates(self) -> int:
        return len(self.squared)

    @property
    def levels(self) -> NDArray[np.int8]:
        """(candidates,) the candidates' levels."""
        return self.queries.level[self.starts[:-1]]

    @cached_property
    def further(self) -> tuple[int, ...]:
        """The candidates after opening and base with a query that opening and base do not answer.

        The people with a spouse follow from the couples, (head, spouse) and exchanged, if both
        partners have the same columns.
        """
        first, q = self.opening + self.base, self.queries
        rows = np.concatenate([q.level[:, None], q.group, q.person, q.relative], axis=1)
        same_columns = ((q.person == FREE) == (q.relative == FREE)).all(axis=1)
        measured = rows[: self.starts[first]]
        spouses = measured[((q.level == COUPLE) & same_columns)[: len(measured)]]
        spouses[:, 0] = SPOUSE
        # Equal rows have equal numbers.
        number = np.unique(np.concatenate([rows, spouses]), axis=0, return_inverse=True)[1]
        number = number.reshape(-1)
        covered = np.concatenate([number[: len(measured)], number[len(rows) :]])
        is_new = ~np.isin(number[: len(rows)], covered)
        has_new = np.logical_or.reduceat(is_new, self.starts[:-1])
        return tuple((first + np.flatnonzero(has_new[first:])).tolist())

    @property
    def weights(self) -> Int64Array:
        """By candidate the integer weight of its score."""
        common = min(lcm(*(c for c in self.change if c)), _MOST_WEIGHT)
        return np.array([common // c if c else 0 for c in self.change], np.int64)

    @property
    def sensitivity(self) -> int:
        """The largest change of any weighted score by one person."""
        return max(w * c for w, c in zip(self.weights.tolist(), self.change, strict=True)) or 1

    def rows(self, candidates: Sequence[int]) -> Int64Array:
        """The rows of the candidates' queries, in order."""
        return candidate_rows(self.starts, candidates)

    def filter_after(self, phases: Sequence[Phase], answers: NoisyAnswers) -> ChangeFilter:
        """The filter after phases with these answers."""
        phases_rho = (phase.rho for phase in phases)
        selection = (phase.selection * phase.rho for phase in phases if isinstance(phase, Rounds))
        measured = [answers.variances[end - 1] for end in answers.ends]
        return replace(
            self.filter, limit=sum(phases_rho, Fraction(0)), of_all=sum(selection, Fraction(0))
        ).charged(answers.candidates, measured)

    @cached_property
    def filter(self) -> ChangeFilter:
        """The filter before anything is measured.

        One pair of neighbours attains all charges without relatives and events: a group of one,
        whose member changes every attribute.
        """
        exact = not self.domain.events and bool((self.levels < SPOUSE).all())
        return ChangeFilter(worst_changes(self.marginals), exact)

    def counter(self, data: Hierarchy) -> Callable[[Sequence[int]], Int64Array]:
        """The function that gives the exact counts of candidates; all are counted at its start."""
        true = exact_answers(data, self.queries)
        return lambda candidates: true[self.rows(candidates)]

    score_counter = counter

    def texts(self, rows: Int64Array) -> tuple[str, ...]:
        """The queries at `rows` in words."""
        return tuple(self.queries.text(i, self.domain) for i in rows.tolist())

    def scores(
        self,
        candidates: Sequence[int],
        true: Int64Array,
        model: NDArray[np.float64],
        deviations: Sequence[float],
    ) -> Int64Array:
        """Scores with the candidates' weights; see `phases.Ranked`."""
        numbers = np.asarray(candidates, np.int64)
        sizes = np.diff(self.starts)[numbers]
        # The mean absolute value of normal noise is sqrt(2 / pi) of its standard deviation.
        noise = sqrt(2 / pi) * sizes * np.array(deviations)
        weights = self.weights[numbers]
        most = _MOST_SCORE // np.maximum(weights, 1)
        return np.clip(excess_errors(sizes, true, model, noise), -most, most) * weights


def excess_errors(
    sizes: Int64Array, true: Int64Array, model: NDArray[np.float64], noise: NDArray[np.float64]
) -> Int64Array:
    """(candidates,) sums of errors of rounded answers, less the error of the noise, rounded.

    sizes, noise: by candidate, the number of counts, and the error that noise leaves.
    true, model: the exact counts of the candidates and the model's answers, in their order.
    """
    errors = np.abs(true - np.rint(model).astype(np.int64))
    sums: Int64Array = np.add.reduceat(errors, np.cumsum(sizes) - sizes)
    return sums - np.rint(noise).astype(np.int64)


def marginal_workload(
    marginals: Sequence[Marginal],
    opening: Sequence[Marginal] = (),
    base: Sequence[Marginal] = (),
) -> Workload:
    """A workload with marginals of a domain as candidates. Raises ValueError without marginals."""
    if not marginals:
        raise ValueError("a workload needs a marginal")
    candidates = [*opening, *base, *marginals]
    return Workload(
        marginals=tuple(candidates),
        queries=Queries.joined(m.queries() for m in candidates),
        starts=np.cumsum([0, *(m.size for m in candidates)]),
        squared=tuple(map(squared_sensitivity, candidates)),
        change=tuple(map(error_sensitivity, candidates)),
        opening=len(opening),
        base=len(base),
    )


def one_way_marginals(domain: Domain) -> tuple[Marginal, ...]:
    """The one-way marginals: of every column of groups, then of every column of people."""
    return (
        *(Marginal(domain, GROUP, group=(c,)) for c in range(len(domain.group_values))),
        *(Marginal(domain, PERSON, person=(c,)) for c in range(len(domain.person_values))),
    )


def relation_base(domain: Domain) -> tuple[Marginal, ...]:
    """Marginals on which relatives' attributes depend most; empty without roles.

    Of every attribute of people: the marginal with the role, and for people with a spouse and for
    people with a child the marginal of the person's value with the relative's. Of every column of
    numbers: the lead of heads over their children, in few cells. Marginals of people
    with a parent are nearly equal to those, and their cost grows with the square of the number of
    children: they are left to the rounds.
    """
    if domain.roles is None:
        return ()
    role = domain.role_column
    free = [c for c in range(len(domain.person_values)) if c != role]
    marginals = [
        *(Marginal(domain, PERSON, person=(min(c, role), max(c, role))) for c in free),
        *(
            Marginal(domain, level, person=(c,), relative=(c,))
            for level in (COUPLE, HAS_CHILD)
            for c in free
        ),
        *(Marginal(domain, LEAD, person=(c,)) for c in lead_columns(domain)),
    ]
    return tuple(m for m in marginals if m.size <= MOST_CELLS)


def declared_workload(domain: Domain, release: HierarchyRelease) -> Workload:
    """The workload of a batch release. Raises UserError if it is too large."""
    marginals = default_marginals(domain, release.ways)
    queries = sum(m.size for m in marginals)
    if not marginals:
        raise UserError(
            f"ways: marginals of {release.ways} attributes are too large here; declare fewer"
        )
    if queries > MOST_QUERIES:
        raise UserError(
            f"ways: {queries:,} queries are more than {MOST_QUERIES:,};"
            " declare fewer attributes or ways"
        )
    return marginal_workload(marginals, one_way_marginals(domain), relation_base(domain))


def default_marginals(domain: Domain, ways: int) -> tuple[Marginal, ...]:
    """The marginals of `ways` columns, or of all if there are fewer, among groups and people.

    With roles also those of an attribute of a person and one of their spouse, child or parent.
    Marginals of more than MOST_CELLS cells are left out.
    """
    columns = len(domain.group_values) + len(domain.person_values)
    marginals = all_marginals(domain, min(ways, columns), (GROUP, PERSON))
    if domain.roles is not None:
        role, people = domain.role_column, range(len(domain.person_values))
        free = [c for c in people if c != role]
        marginals += tuple(
            Marginal(domain, level, person=(column,), relative=(relative_column,))
            for level in range(SPOUSE, SPOUSE + 3)
            for column in free
            for relative_column in free
        )
    return tuple(m for m in marginals if m.size <= MOST_CELLS)
