"""Rows with a location for each number, the representation of RAP++: a table to compare with.

Vietri et al. 2022. A row of K is a product of distributions of listed values and of a location u
for each number, measured in bins: P(number <= edge e) = sigmoid(sigma (e - u)), and P(sum of
numbers <= threshold t) = sigmoid(sigma (t - v)), v the location of the sum between its thresholds.
Locations begin at the noisy one-ways' quantiles; Adam fits the noisy shares of `rap` with linear
thresholds, all of them in one goal; sigma is fixed, or rises during the fit. `people_numbers.py`
prints its errors.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from stream_dp.batch.people.block_mixture import Layout
from stream_dp.batch.people.mixture_model import mixture_goal
from stream_dp.batch.people.people_synthesizer import fit_people
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.projections import Projection, declared_projections
from stream_dp.batch.people.target_shares import Targets
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease

ROWS, STEPS, RATE = 1000, 800, 0.1
Params = dict[str, jax.Array]


def located_answers(
    people: People, release: PeopleRelease, seed: int, sigma: tuple[float, float]
) -> NDArray[np.int64]:
    """The answers of a table fitted to what `rap` measures, with the same noise.

    sigma: a bin, at the first and at the last step.
    """
    fit = fit_people(people, release, FitContext(SeededNoise(seed)))
    targets = Targets.of(fit.workload, fit.answers)
    rows = _Rows(people.domain, declared_projections(people.domain, release), targets)
    return rows.drawn(rows.fitted(seed, sigma), sigma[1], targets.people, seed)


class _Rows:
    def __init__(
        self, domain: PeopleDomain, sums: tuple[Projection, ...], targets: Targets
    ) -> None:
        self.domain, self.sums, self.targets = domain, sums, targets
        blocks = tuple((c,) for c in range(len(targets.sizes)))
        triples = tuple(a for a in targets.interactions if len(a) == 3)
        self.layout = Layout(targets.sizes, blocks, ROWS, triples)
        self.goal = mixture_goal(self.layout, targets)

    def start(self, rng: np.random.Generator) -> Params:
        params = {}
        for c, shares in enumerate(self.targets.one_ways[: len(self.domain.columns)]):
            of = self.domain.numbers.get(c)
            if of is None:
                tilts = rng.normal(0, 0.1, (ROWS, len(shares)))
                params[f"tilt {c}"] = jnp.array(np.log(np.maximum(shares, 1e-5)) + tilts)
                continue
            bins = len(of.starts) - 1
            ends = np.append(0, np.cumsum(shares[:bins])) + 1e-9 * np.arange(bins + 1)
            places = (np.arange(ROWS) + 0.5) / ROWS * ends[-1]
            own = np.interp(places, ends, np.arange(bins + 1))
            params[f"place {c}"] = jnp.array(rng.permutation(own))
            if of.absent:
                here = max(1e-4, shares[bins]) / max(1e-4, ends[-1])
                params[f"absent {c}"] = jnp.array(np.log(here) + rng.normal(0, 0.1, ROWS))
        return params

    def ones(self, params: Params, sigma: jax.Array) -> jax.Array:
        """(K, values of all columns and sums)."""
        result, numbers, here = [], {}, jnp.ones((ROWS, 1))
        for c in range(len(self.domain.columns)):
            of = self.domain.numbers.get(c)
            if of is None:
                result.append(jax.nn.softmax(params[f"tilt {c}"], axis=1))
                continue
            place, bins = params[f"place {c}"], len(of.starts) - 1
            shares = _cells(place, bins, sigma)
            if of.absent:
                absent = jax.nn.sigmoid(params[f"absent {c}"])[:, None]
                shares = jnp.concatenate([shares * (1 - absent), absent], axis=1)
                here = here * (1 - absent)
            result.append(shares)
            points = of.scale.points
            codes = jnp.interp(place, jnp.arange(bins + 1.0), jnp.array(of.starts, jnp.float32))
            numbers[c] = points.start + points.step * codes
        for number, one in enumerate(self.sums, len(self.domain.columns)):
            total = sum(w * numbers[c] for c, w in one.weights)
            ends = [
                sorted(w * x for x in (p[0], p[-1]))
                for w, p in ((w, self.domain.numbers[c].scale.points) for c, w in one.weights)
            ]
            least, most = (sum(end) for end in zip(*ends, strict=True))
            cuts = jnp.array([least, *one.thresholds, most], jnp.float32)
            place = jnp.interp(total, cuts, jnp.arange(float(len(cuts))))
            shares = _cells(place, len(cuts) - 1, sigma)
            if self.targets.sizes[number] == len(cuts):
                shares = jnp.concatenate([shares * here, 1 - here], axis=1)
            result.append(shares)
        return jnp.concatenate(result, axis=1)

    def fitted(self, seed: int, sigma: tuple[float, float]) -> Params:
        sigmas = jnp.array(np.geomspace(*sigma, STEPS), jnp.float32)
        adam, goal = optax.scale_by_adam(b2=0.99, eps=1e-12), self.goal

        def loss(params: Params, at: jax.Array) -> jax.Array:
            ones = self.ones(params, at)
            apart = (goal.ones_weight * jnp.square(ones.mean(0) - goal.ones)).sum()
            pairs = ones.T @ ones / ROWS - goal.outer
            return apart + (goal.outer_weight * jnp.square(pairs)).sum()

        def update(step: jax.Array, carry: tuple[Params, optax.OptState]):  # type: ignore[no-untyped-def]
            params, moments = carry
            along, moments = adam.update(jax.grad(loss)(params, sigmas[step]), moments)
            rate = RATE * jnp.minimum(1.0, 2.0 * (1 - step / STEPS))
            return jax.tree.map(lambda p, d: p - rate * d, params, along), moments

        start = self.start(np.random.default_rng(seed))
        run = jax.jit(lambda p: jax.lax.fori_loop(0, STEPS, update, (p, adam.init(p)))[0])
        end: Params = run(start)
        return end

    def drawn(self, params: Params, sigma: float, people: int, seed: int) -> NDArray[np.int64]:
        rng = np.random.default_rng(seed)
        row = np.sort(rng.permutation(np.arange(people) % ROWS))
        columns = []
        for c in range(len(self.domain.columns)):
            of = self.domain.numbers.get(c)
            if of is None:
                likely = np.asarray(jax.nn.softmax(params[f"tilt {c}"], axis=1))[row]
                columns.append((likely.cumsum(1) < rng.random((people, 1))).sum(1))
                columns[-1] = np.minimum(columns[-1], likely.shape[1] - 1)
                continue
            bins = len(of.starts) - 1
            place = np.asarray(params[f"place {c}"])[row] + rng.logistic(0, 1 / sigma, people)
            starts = np.interp(np.clip(place, 0, bins - 1e-6), np.arange(bins + 1), of.starts)
            codes = np.floor(starts).astype(np.int64)
            if of.absent:
                absent = np.asarray(jax.nn.sigmoid(params[f"absent {c}"]))[row]
                codes = np.where(rng.random(people) < absent, len(of) - 1, codes)
            columns.append(codes)
        return np.stack(columns, axis=1).astype(np.int64)


def _cells(place: jax.Array, cells: int, sigma: jax.Array) -> jax.Array:
    """(K, cells) of a location among edges that are 1 apart."""
    below = jax.nn.sigmoid(sigma * (jnp.arange(1, cells) - place[:, None]))
    none = jnp.zeros((ROWS, 1))
    return jnp.diff(jnp.concatenate([none, below, none + 1], axis=1), axis=1)
