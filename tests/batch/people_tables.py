"""Small tables of people."""

import numpy as np

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.privacy.noise import SeededNoise


class CountedNoise(SeededNoise):
    """Notes all demands for noise, and the scale of each pick."""

    def __init__(self, seed):
        super().__init__(seed)
        self.demands, self.scales = [], []

    def draw(self, demand):
        self.demands.append(list(demand))
        return super().draw(demand)

    def top(self, scores, picks, variance):
        assert picks == 1
        self.scales.append(variance)
        return super().top(scores, picks, variance)


def domain(*sizes, moves=True, replaced=False, size=None):
    columns = tuple(Column(f"c{i}", tuple(range(n))) for i, n in enumerate(sizes))
    return PeopleDomain(columns, moves, replaced, size)


def paired(n=6000, values=8, pairs=2, seed=0):
    """Independent pairs of columns, the second a permutation of the first in 19 rows of 20."""
    rng = np.random.default_rng(seed)
    columns = []
    for _ in range(pairs):
        first = rng.choice(values, n, p=np.arange(values, 0, -1) / sum(range(values + 1)))
        second = np.where(
            rng.random(n) < 0.95, rng.permutation(values)[first], rng.integers(values, size=n)
        )
        columns += [first, second]
    return People(domain(*[values] * 2 * pairs), np.stack(columns, axis=1))
