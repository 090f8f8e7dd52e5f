"""Simulated tables whose dependence is not sparse, drawn by a seed, for `people_rounds.py`.

factor: every column depends on all of six hidden factors: yes or no, steps of a scale, choices
    among alternatives, and skewed amounts in bins. No column is independent of any other.
registry: a person's place, household, education, occupation, income and benefits, beside columns
    that are functions of others (region of a municipality, sector of an occupation, age groups).
skips: a survey whose filter questions leave out the blocks after them: a column's last value is
    "not asked", and one filter decides it for all columns of its block.

A variant (`factor-b`) has other sizes and another seed. No default was set on the variants b.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]


def factor(seed: int, people: int, columns: int) -> Codes:
    rng = np.random.default_rng(seed)
    factors = rng.normal(0, 1, (people, 6)) @ (np.eye(6) + rng.normal(0, 0.25, (6, 6)))
    result = []
    for c in range(columns):
        loadings = rng.normal(0, 0.6, 6)
        latent = factors @ loadings + rng.normal(0, 1, people)
        if c % 4 == 0:
            result.append((latent > rng.normal(0, 1)).astype(np.int64))
        elif c % 4 == 1:
            result.append(_steps(latent, rng.dirichlet(np.full(int(rng.integers(3, 8)), 2.0))))
        elif c % 4 == 2:
            result.append(_alternative(rng, factors, int(rng.integers(3, 11))))
        else:
            bins = int(rng.integers(8, 17))
            result.append(_steps(np.exp(latent), np.geomspace(1, 0.15, bins)))
    return np.stack(result, axis=1)


def registry(seed: int, people: int, columns: int) -> Codes:
    rng = np.random.default_rng(seed)
    towns, jobs = 30, 25
    town = rng.choice(towns, people, p=_skewed(towns, 1.0))
    region, coast = rng.integers(0, 6, towns)[town], rng.integers(0, 2, towns)[town]
    urban = rng.normal(0, 1, towns)[town]
    age = np.clip(rng.gamma(4, 11, people), 0, 95)
    woman = rng.integers(0, 2, people)
    school = _steps(
        0.6 * urban - 0.02 * age + rng.normal(0, 1, people), [0.15, 0.25, 0.3, 0.2, 0.1]
    )
    works = rng.random(people) < np.where(age < 18, 0.02, np.where(age < 66, 0.78, 0.06))
    job = np.where(
        works, _alternative(rng, np.stack([school - 2, woman * 2 - 1, urban], 1), jobs), 0
    )
    sector = np.concatenate([[0], rng.integers(1, 8, jobs - 1)])[job]
    pay = 0.5 * school + rng.normal(0, 0.5, jobs)[job] + 0.02 * age + rng.normal(0, 0.6, people)
    income = np.where(works, pay, 0.4 * rng.random(people) - 1)
    size = 1 + rng.poisson(np.where(age < 18, 2.4, np.where(age < 60, 1.2, 0.5)))
    partner = (rng.random(people) < np.where((age > 22) & (size > 1), 0.75, 0.0)).astype(int)
    own = [
        town, region, coast, woman, np.digitize(age, np.arange(5, 90, 5)),
        np.digitize(age, [18, 40, 66]), school, (school > 2).astype(int), job, sector,
        works.astype(int), _steps(income, _skewed(12, 0.3)), np.minimum(size, 6) - 1, partner,
        (age < 18).astype(int), np.where(age > 65, 2, np.where(works, 0, 1)),
    ]  # fmt: skip
    traits = np.stack([age / 20 - 2, income, urban, school - 2, size - 2, woman], 1)
    traits = (traits - traits.mean(0)) / traits.std(0)
    while len(own) < columns:
        k = int(rng.integers(2, 7))
        taken = _alternative(rng, traits * rng.integers(0, 2, 6), k)
        if rng.random() < 0.3:  # a benefit that only one group can have
            taken = np.where(rng.permutation([0, 1, 1])[own[15]], taken, 0)
        own.append(taken)
    return np.stack(own[:columns], axis=1).astype(np.int64)


def skips(seed: int, people: int, columns: int) -> Codes:
    rng = np.random.default_rng(seed)
    traits = rng.normal(0, 1, (people, 3))
    result = [
        _steps(traits[:, 0] + rng.normal(0, 0.3, people), np.full(8, 1 / 8)),
        rng.integers(0, 2, people),
        _alternative(rng, traits, 7),
    ]
    while len(result) < columns:
        filtered = traits @ rng.normal(0, 0.8, 3) + rng.normal(0, 0.7, people)
        asked = filtered > rng.normal(0, 0.7)
        result.append(asked.astype(np.int64))
        inner = asked
        for question in range(int(rng.integers(3, 8))):
            k = int(rng.integers(2, 9))
            latent = np.column_stack([traits, filtered])
            answer = _alternative(rng, latent, k) if question % 2 else _steps(
                latent @ rng.normal(0, 0.6, 4) + rng.normal(0, 1, people), _skewed(k, 0.5)
            )  # fmt: skip
            result.append(np.where(inner, answer, k))
            if question == 1:  # a second filter within the block
                inner = inner & (answer > 0)
    return np.stack(result[:columns], axis=1)


def _steps(latent: Floats, shares: Floats | list[float]) -> Codes:
    """Cuts a latent amount where these shares of people lie."""
    cuts = np.quantile(latent, np.cumsum(shares)[:-1] / np.sum(shares))
    return np.searchsorted(cuts, latent).astype(np.int64)


def _alternative(rng: np.random.Generator, traits: Floats, alternatives: int) -> Codes:
    """The alternative of the largest random utility."""
    loadings = rng.normal(0, 0.8, (traits.shape[1], alternatives))
    utility = traits @ loadings + rng.gumbel(0, 1, (len(traits), alternatives))
    return (utility + rng.normal(0, 0.7, alternatives)).argmax(1).astype(np.int64)


def _skewed(values: int, power: float) -> Floats:
    weights = 1 / np.arange(1, values + 1) ** power
    return weights / weights.sum()


DENSE: dict[str, Callable[[], Codes]] = {
    "factor": partial(factor, 1, 20_000, 24),
    "registry": partial(registry, 2, 6_500, 46),
    "skips": partial(skips, 3, 50_000, 60),
    "factor-20": partial(factor, 4, 5_500, 20),
    "factor-100": partial(factor, 5, 30_000, 100),
    "factor-b": partial(factor, 11, 20_000, 28),
    "registry-b": partial(registry, 12, 8_000, 40),
    "skips-b": partial(skips, 13, 25_000, 36),
}
