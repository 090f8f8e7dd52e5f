"""The mixture of products of blocks of columns, fitted to noisy interactions: see `loop.Model`.

The defaults were chosen on three tables (a survey of 60,000, 3,000 of it, and six pairs of columns
that determine each other) and tried on others: `benchmarks/people.py`. Needs JAX, the `batch`
extra.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Int64Array
from ...rounds.phases import NoisyAnswers
from ..known import Known
from ..measure.month_fusion import Past, fused
from ..measure.residual_counts import Residuals, centred
from ..measure.targets import Targets, reduced_chi_squared
from ..people_table import People
from .block_mixture import Layout, Params, fitted, pair_shares, row_blocks, starting_params
from .column_blocks import column_blocks
from .goal import FINEST, mixture_goal
from .people_draw import drawn_cells, drawn_people

_STEPS, _RATE = 800, 0.1
_FEWEST, _MOST = 4, 400  # rows


@dataclass(frozen=True, eq=False)
class BlockMixture:
    """A mixture of products of blocks; see `loop.Model`.

    residuals: the measured interactions.
    known: interactions that others have published.
    seed: of the first parameters.
    people: the number of people, public or noisy.
    layout, params: of the fitted mixture; None before it has learnt.
    """

    residuals: Residuals
    seed: int
    known: tuple[Known, ...] = ()
    past: Past | None = None
    people: int = 1
    layout: Layout | None = None
    params: Params | None = None

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        raise NotImplementedError("no phase of residuals picks")

    def learn(self, measured: NoisyAnswers) -> tuple[BlockMixture, float]:
        return self.fitted_to(fused(Targets.of(self.residuals, measured, self.known), self.past))

    def fitted_to(self, targets: Targets) -> tuple[BlockMixture, float]:
        """Returns the mixture fitted to these shares, and its misfit of pairs."""
        layout = mixture_layout(targets, self.known)
        start = starting_params(layout, targets.one_ways, self.seed)
        goal = mixture_goal(layout, targets)
        end = fitted(layout, start, goal, steps=np.int32(_STEPS), rate=np.float32(_RATE))
        params = {name: np.asarray(values) for name, values in end.items()}
        error = misfit(layout, params, targets)
        return replace(self, people=targets.people, layout=layout, params=params), error

    def sample(self, seed: int) -> People:
        assert self.layout is not None  # it has learnt
        assert self.params is not None
        layout, rng = self.layout, np.random.default_rng(seed)
        people = np.full(layout.rows, self.people // layout.rows)
        people[: self.people - people.sum()] += 1
        codes = np.empty((self.people, len(layout.sizes)), np.min_scalar_type(max(layout.sizes)))
        for block, rows in zip(layout.blocks, row_blocks(layout, self.params), strict=True):
            flat = np.asarray(rows, np.float64).reshape(layout.rows, -1)
            cells = np.concatenate(drawn_cells(rng, flat, people))
            values = np.unravel_index(cells, [layout.sizes[c] for c in block])
            for c, column in zip(block, values, strict=True):
                codes[:, c] = column
        return drawn_people(rng, self.residuals.domain, codes[rng.permutation(self.people)])


def mixture_layout(targets: Targets, known: Sequence[Known] = ()) -> Layout:
    """Blocks and rows from the noisy dependence of pairs; its triples are those measured.

    The rows have about half as many parameters as the pairs of different blocks have effective
    degrees of freedom: more of them fit noise. Each known interaction of three columns, which is
    more precise than what the fit measures, adds all of its own: neither the pairs' logits nor so
    few rows can follow it.
    """
    blocks = column_blocks(targets)
    block_of = {c: block for block in blocks for c in block}
    freedom = sum(
        pair.freedom for (a, b), pair in targets.dependence.items() if block_of[a] != block_of[b]
    )
    triples = {k.columns for k in known if len(k.columns) == 3}
    freedom += sum(math.prod(targets.sizes[c] - 1 for c in columns) for columns in triples)
    rows = math.ceil(2 * freedom / sum(n - 1 for n in targets.sizes))
    measured = tuple(columns for columns in targets.interactions if len(columns) == 3)
    return Layout(targets.sizes, blocks, min(max(rows, _FEWEST), _MOST), measured)


def misfit(layout: Layout, params: Params, targets: Targets) -> float:
    """Chi squared of all pairs about the model, over its degrees of freedom. Costs nothing.

    A model that cannot hold the dependence of a table loses dependence, or invents it between pairs
    that have none; all pairs are measured, so either shows. The result is about 1 where only noise
    is missed, less as far as the model follows the noise, and larger where the model is far.
    """
    squares, freedom, finest = 0.0, 0, (FINEST / targets.people) ** 2
    shares = pair_shares(layout, params, targets.dependence)
    for columns in targets.dependence:
        measured, variance = targets.interactions[columns]
        error = centred(shares[columns]) - measured
        squares += float(np.square(error).sum()) / max(variance, finest)
        freedom += (measured.shape[0] - 1) * (measured.shape[1] - 1)
    return reduced_chi_squared(squares, freedom)
