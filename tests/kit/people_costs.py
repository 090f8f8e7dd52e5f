"""The cost of a plan of residuals by brute force: over all that one person may answer."""

from fractions import Fraction
from itertools import product

import numpy as np

from stream_dp.batch.rounds.phases import NoisyAnswers


def brute_force_costs(plan, residuals, relation, measured, rest, answers, *, every, times):
    """What each phase costs at most, and the answers to all of them.

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
    noisy, costs, number = NoisyAnswers.none(), [], 0
    while (phase := plan.phase(number, noisy)) is not None:
        variances = phase.variances(residuals)
        own = [Fraction(0)] * len(inputs)
        for i in phase.candidates:
            for place, (before, after) in enumerate(inputs):
                squared = np.square(measured(before, i) - measured(after, i)).sum()
                own[place] += Fraction(int(squared)) / (2 * variances[i])
        costs.append(max(own))
        if relation == "add_remove":
            assert len(set(own)) == 1
        exact = [times * measured(inputs[0][0], i) for i in phase.candidates]
        noisy = noisy.joined(residuals, phase.candidates, np.concatenate(exact), variances)
        number += 1
    return costs, noisy


def spent(phases, workload, picked):
    """The exact rho of rounds that measured these candidates, phase after phase."""
    rounds = [phase for phase in phases for _ in range(phase.rounds)]
    costs = (phase.cost(workload, chosen) for phase, chosen in zip(rounds, picked, strict=True))
    return sum(costs, Fraction(0))
