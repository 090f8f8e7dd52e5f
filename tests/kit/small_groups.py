"""A small table of groups, a workload of it, and a model that never learns."""

from dataclasses import dataclass

import numpy as np

from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.groups.workload.candidates import (
    default_marginals,
    marginal_workload,
    one_way_marginals,
)
from stream_dp.privacy.noise import Draw

DOMAIN = Domain(
    (Column("region", ("n", "s")),), (Column("a", (0, 1, 2)), Column("b", ("x", "y"))), 2
)


def hierarchy(seed=0, groups=60, domain=DOMAIN):
    """Members of a group are alike more often than not."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, domain.most + 1, groups)
    rows = np.stack([*(rng.integers(n, size=groups) for n in domain.group_values)], axis=1)
    rows[:, -1] = sizes - 1
    group_of = np.repeat(np.arange(groups), sizes)
    people = np.stack([rng.integers(n, size=groups) for n in domain.person_values], axis=1)
    people = people[group_of]
    moved = rng.random(len(people)) < 0.3
    people[moved, 0] = rng.integers(domain.person_values[0], size=moved.sum())
    return Hierarchy(domain, rows, people, group_of)


def workload(opening=True, ways=2, domain=DOMAIN):
    first = one_way_marginals(domain) if opening else ()
    return marginal_workload(default_marginals(domain, ways), first)


@dataclass(frozen=True)
class Still:
    """See `adaptive_fit.Model`; knows the last answers, and says the same to every query."""

    truth: Hierarchy
    seed: int
    heard: tuple = ()

    def answers(self, rows):
        return np.full(len(rows), 7.4 + self.seed % 3)

    def learn(self, answers):
        heard = (tuple(answers.rows), tuple(answers.values), answers.variances, answers.ends)
        return Still(self.truth, self.seed, (*self.heard, heard)), float(len(answers.rows))

    def sample(self, seed):
        return self.truth


class Silent:
    """No noise; the largest scores."""

    simulated = True

    def __init__(self):
        self.scores = []

    def draw(self, demand):
        return Draw(tuple(np.zeros(n, np.int64) for _, n in demand), np.random.default_rng(0))

    def top(self, scores, picks, variance):
        self.scores.append(scores)
        return np.argsort(-scores, kind="stable")[:picks]


class Never:
    simulated = False

    def draw(self, demand):
        raise AssertionError("a round was drawn again")

    def top(self, scores, picks, variance):
        raise AssertionError("a round was drawn again")
