"""The cost of a plan of residuals by brute force: over all that one person may answer."""

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.residual_counts import residual
from stream_dp.batch.rounds.phases import Everything, NoisyAnswers


@lru_cache(maxsize=1000)
def changes(sizes, columns):
    """The residuals of single rows by their cell: squared norms, and squared distances."""
    free = PeopleDomain(
        tuple(Column(str(c), tuple(range(n))) for c, n in enumerate(sizes)),
        moves=True,
        replaced=False,
    )
    vectors = []
    for cell in product(*(range(sizes[c]) for c in columns)):
        row = np.zeros((1, len(sizes)), np.int64)
        row[0, list(columns)] = cell
        vectors.append(residual(People(free, row), columns).reshape(-1))
    vectors = np.array(vectors)
    norms = np.square(vectors).sum(axis=1)
    return norms, np.square(vectors[:, None] - vectors).sum(axis=2)


def worst_pair_cost(domain, measured, selection=Fraction(0), *, every=7):
    """What measurements cost the worst pair of neighbours, over all rows and pairs of rows.

    measured: columns and the variance of their noise, in order.
    selection: what selections cost everybody.
    every: every so manyth row is replaced by each.
    """
    rows = np.array(list(product(*map(range, domain.sizes))))
    here, there = [], []  # by measurement
    for columns, variance in measured:
        norms, distances = changes(domain.sizes, columns)
        cells = np.zeros(len(rows), np.int64)
        for c in columns:
            cells = cells * domain.sizes[c] + rows[:, c]
        here.append((norms[cells], variance))
        there.append((distances[cells[::every]][:, cells].reshape(-1), variance))
    related = [here] * domain.moves + [there] * domain.replaced
    return selection + max(map(largest_sum, related))


def largest_sum(changes_and_variances):
    """The largest sum of squared changes over twice the variances, exactly."""
    floats = sum(change / float(2 * variance) for change, variance in changes_and_variances)
    worst = int(np.argmax(floats))
    costs = (Fraction(int(change[worst])) / (2 * v) for change, v in changes_and_variances)
    return sum(costs, Fraction(0))


def brute_force_costs(plan, residuals, relation, measured, rest, answers, *, every, times):
    """What each phase adds to the cost of the worst pair, and the answers to all of them.

    Under `add_remove` it asserts that everybody costs the same.

    measured: of rows and the number of a candidate, its exact answers.
    rest: the rows of everybody else.
    answers: how many answers each column has.
    every: under replacement, every so manyth row is replaced by each.
    times: exact answers so many times stand for noisy ones: triples must be worth measuring.
    """
    everybody = list(product(*map(range, answers)))
    if relation == "add_remove":
        inputs = [(rest, [*rest, x]) for x in everybody]
    else:
        inputs = [([*rest, x], [*rest, y]) for x in everybody[::every] for y in everybody]
    distinct = {tuple(rows) for pair in inputs for rows in pair}
    noisy, costs, number = NoisyAnswers.none(), [], 0
    own = [Fraction(0)] * len(inputs)
    while (phase := plan.phase(number, noisy)) is not None:
        variances = phase.variances(residuals)
        for i in phase.candidates:
            answered = {rows: measured(list(rows), i) for rows in distinct}
            for place, (before, after) in enumerate(inputs):
                squared = np.square(answered[tuple(before)] - answered[tuple(after)]).sum()
                own[place] += Fraction(int(squared)) / (2 * variances[i])
        costs.append(max(own) - sum(costs))
        if relation == "add_remove":
            assert len(set(own)) == 1
        exact = [times * measured(inputs[0][0], i) for i in phase.candidates]
        noisy = noisy.joined(residuals, phase.candidates, np.concatenate(exact), variances)
        number += 1
    return costs, noisy


def spent(phases, workload, picked):
    """The rho of rounds that measured these candidates, phase after phase, by the filter."""
    return charged(phases, workload, picked).spent


def charged(phases, workload, picked):
    """The filter after rounds that measured these candidates, phase after phase."""
    after, picked = workload.filter, iter(picked)
    for phase in phases:
        if isinstance(phase, Everything):
            assert tuple(next(picked)) == phase.candidates
            after = phase.charged
            continue
        rounds = replace(phase, before=after)
        while rounds is not None:
            chosen = next(picked)
            after, rounds = rounds.charged(workload, chosen), rounds.after(workload, chosen)
    return after
