"""Rows with a location for each number (RAP++, Vietri et al. 2022). Needs JAX.

Better than the mixture of blocks for some predictions from the table, and worse for pairs, triples
and thresholds: `docs/results/papers.md` has the figures.

Row k of K = 1,000 is a product of one distribution for each column. A column of listed values has
softmax of free logits. A number has a location u, measured in bins. Its share below an edge e is

    P(number < e) = sigmoid(sigma (e - u)).

A sum of numbers (`projections.py`) has the location that follows from those of its numbers. Special
codes and 'absent' have logits beside the number. The rows are fitted to the noisy shares of single
columns, pairs and triples, with weights in proportion to the inverse variances (`mixture_goal`).
Adam (Kingma and Ba 2015) runs while sigma rises from `SIGMA[0]` to `SIGMA[1]` a bin (Algorithm 1's
annealing). People are drawn from the rows, a number as its location plus logistic noise.

The paper measures its history once, too, but selects queries in rounds. Here all pairs are measured
at once, as for the mixture. So the two kinds of rows differ in the model alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.scale import Numbers

from ..jax_extra import jax, jnp, optax
from ..rounds.adaptive_fit import Unasked
from ..rounds.phases import NoisyAnswers
from ..synthesizer import Known
from .block_mixture import Goal, Layout
from .mixture_model import FINEST, mixture_goal
from .people_table import People, PeopleDomain
from .projections import Projection
from .residual_counts import Residuals
from .target_shares import Past, Targets, fused

Arrays = dict[str, jax.Array]
ROWS, STEPS, RATE = 1000, 800, 0.1
SIGMA = 2.0, 32.0  # a bin, at the first and at the last step
_SPREAD, _LEAST_SHARE = 0.1, 1e-5  # of first logits


@dataclass(frozen=True, eq=False)
class LocatedRows(Unasked):
    """See `adaptive_fit.Model`.

    domain: of the table's columns.
    projections: whose columns follow them in what is measured.
    residuals: what is measured.
    seed: of the first parameters.
    known: interactions that others have published.
    past: what earlier tables of the release say.
    targets, params: of the fitted rows; None before they have learnt.
    """

    domain: PeopleDomain
    projections: tuple[Projection, ...]
    residuals: Residuals
    seed: int
    known: tuple[Known, ...] = ()
    past: Past | None = None
    targets: Targets | None = None
    params: Mapping[str, NDArray[np.float32]] | None = None

    def learn(self, measured: NoisyAnswers) -> tuple[LocatedRows, float]:
        targets = Targets.of(self.residuals, measured, self.known)
        learnt = replace(self, targets=fused(targets, self.past))
        params, ones = learnt._fitted()
        return replace(learnt, params=params), learnt._misfit(ones)

    def sample(self, seed: int) -> People:
        assert self.targets is not None  # it has learnt
        assert self.params is not None
        rng, people = np.random.default_rng(seed), self.targets.people
        row = np.sort(rng.permutation(np.arange(people) % ROWS))
        columns = []
        for c, size in enumerate(self.domain.sizes):
            numbers = self.domain.numbers.get(c)
            codes = np.zeros(people, np.int64)
            if f"tilt {c}" in self.params:
                logits = self.params[f"tilt {c}"].astype(np.float64)[row]
                likely = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
                codes = (likely < rng.random((people, 1)) * likely[:, -1:]).sum(axis=1)
            if numbers is not None:
                bins = size - numbers.non_numbers
                place = self.params[f"place {c}"][row] + rng.logistic(0, 1 / SIGMA[1], people)
                points = np.interp(
                    np.clip(place, 0, bins - 1e-6), np.arange(bins + 1), numbers.bin_starts
                )
                beyond = len(numbers.scale.points) - 1 + codes
                codes = np.where(codes > 0, beyond, np.floor(points).astype(np.int64))
            columns.append(codes)
        return People.of_answers(self.domain, rng.permutation(np.stack(columns, axis=1)))

    def _fitted(self) -> tuple[dict[str, NDArray[np.float32]], NDArray[np.float64]]:
        """The parameters of the least loss that Adam reaches, and the rows' distributions.

        The distributions, (K, values of all columns and projections), are those of `_ones`.
        """
        goal, sigmas = self._goal, jnp.array(np.geomspace(*SIGMA, STEPS), jnp.float32)
        transform = optax.scale_by_adam(b2=0.99, eps=1e-12)

        def loss(params: Arrays, sigma: jax.Array) -> jax.Array:
            """The weighted squared distances of single columns and of pairs from their goals."""
            ones = self._ones(params, sigma)
            singles = ones.mean(0) - goal.ones
            pairs = ones.T @ ones / ROWS - goal.outer
            of_singles = (goal.ones_weight * jnp.square(singles)).sum()
            return of_singles + (goal.outer_weight * jnp.square(pairs)).sum()

        def update(
            step: jax.Array, carry: tuple[Arrays, optax.OptState]
        ) -> tuple[Arrays, optax.OptState]:
            """A step of Adam, whose rate falls to 0 over the second half of the steps."""
            params, moments = carry
            gradient = jax.grad(loss)(params, sigmas[step])
            direction, moments = transform.update(gradient, moments)
            rate = RATE * jnp.minimum(1.0, 2.0 * (1 - step / STEPS))
            return jax.tree.map(lambda p, d: p - rate * d, params, direction), moments

        def run(params: Arrays) -> tuple[Arrays, jax.Array]:
            end, _ = jax.lax.fori_loop(0, STEPS, update, (params, transform.init(params)))
            return end, self._ones(end, sigmas[-1])

        end, ones = jax.jit(run)(self._start())
        return {name: np.asarray(value) for name, value in end.items()}, np.asarray(ones, float)

    @cached_property
    def _goal(self) -> Goal:
        """Single columns and pairs; every column is a block of its own."""
        assert self.targets is not None
        blocks = tuple((c,) for c in range(len(self.targets.sizes)))
        return mixture_goal(Layout(self.targets.sizes, blocks, ROWS, ()), self.targets)

    def _start(self) -> Arrays:
        """Rows near the noisy single columns, locations at their quantiles in random order."""
        assert self.targets is not None
        rng, params = np.random.default_rng(self.seed), Arrays()
        for c, size in enumerate(self.domain.sizes):
            shares, numbers = self.targets.one_ways[c], self.domain.numbers.get(c)
            if numbers is not None:
                bins = size - numbers.non_numbers
                ends = np.append(0, np.cumsum(shares[:bins])) + 1e-9 * np.arange(bins + 1)
                middles = (np.arange(ROWS) + 0.5) / ROWS * ends[-1]
                place = rng.permutation(np.interp(middles, ends, np.arange(bins + 1)))
                params[f"place {c}"] = jnp.array(place, jnp.float32)
                shares = np.append(ends[-1], shares[bins:])
            if len(shares) > 1:
                tilts = rng.normal(0, _SPREAD, (ROWS, len(shares)))
                logits = np.log(np.maximum(shares, _LEAST_SHARE)) + tilts
                params[f"tilt {c}"] = jnp.array(logits, jnp.float32)
        return params

    def _ones(self, params: Arrays, sigma: jax.Array) -> jax.Array:
        """(K, values of all columns and projections) the rows' distributions side by side."""
        result, present, values = [], dict[int, jax.Array](), dict[int, jax.Array]()
        for c, size in enumerate(self.domain.sizes):
            numbers = self.domain.numbers.get(c)
            if numbers is None:
                result.append(jax.nn.softmax(params[f"tilt {c}"], axis=1))
                continue
            bins, place = size - numbers.non_numbers, params[f"place {c}"]
            shares, present[c] = _cells(place, bins, sigma), jnp.ones((ROWS, 1))
            if numbers.non_numbers:
                kinds = jax.nn.softmax(params[f"tilt {c}"], axis=1)
                present[c] = kinds[:, :1]
                shares = jnp.concatenate([shares * present[c], kinds[:, 1:]], axis=1)
            result.append(shares)
            values[c] = _number(place, numbers)
        for projection in self.projections:
            result.append(self._projected(projection, values, present, sigma))
        return jnp.concatenate(result, axis=1)

    def _projected(
        self,
        projection: Projection,
        values: Mapping[int, jax.Array],
        present: Mapping[int, jax.Array],
        sigma: jax.Array,
    ) -> jax.Array:
        """(K, cells) of a sum: its location lies between the thresholds around it."""
        total, here, least, most = jnp.zeros(ROWS), jnp.ones((ROWS, 1)), 0, 0
        for c, weight in projection.weights:
            points = self.domain.numbers[c].scale.points
            ends = sorted((weight * points[0], weight * points[-1]))
            least, most = least + ends[0], most + ends[1]
            total, here = total + weight * values[c], here * present[c]
        cuts = np.array([least, *projection.thresholds, most], np.float32)
        place = jnp.interp(total, cuts, np.arange(len(cuts), dtype=np.float32))
        shares = _cells(place, len(cuts) - 1, sigma)
        if any(self.domain.numbers[c].non_numbers for c, _ in projection.weights):
            shares = jnp.concatenate([shares * here, 1 - here], axis=1)
        return shares

    def _misfit(self, ones: NDArray[np.float64]) -> float:
        assert self.targets is not None
        bounds = pairwise(np.cumsum([0, *self.targets.sizes]).tolist())
        joint, cells = ones.T @ ones / ROWS, [slice(*ends) for ends in bounds]
        shares = {a: joint[cells[a[0]], cells[a[1]]] for a in self.targets.dependence}
        return self.targets.misfit(shares, (FINEST / self.targets.people) ** 2)


def _cells(place: jax.Array, cells: int, sigma: jax.Array) -> jax.Array:
    """(K, cells) of a location among edges that are 1 apart."""
    below = jax.nn.sigmoid(sigma * (jnp.arange(1, cells) - place[:, None]))
    none = jnp.zeros((ROWS, 1))
    return jnp.diff(jnp.concatenate([none, below, none + 1], axis=1), axis=1)


def _number(place: jax.Array, numbers: Numbers) -> jax.Array:
    """(K,) the numbers at some locations."""
    starts = np.array(numbers.bin_starts, np.float32)
    codes = jnp.interp(place, np.arange(len(starts), dtype=np.float32), starts)
    return numbers.scale.points.start + numbers.scale.points.step * codes
