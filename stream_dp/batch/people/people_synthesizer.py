"""Fits tables of people in four steps: compress, measure, select, model (`people_plan.py`).

Needs JAX, the `batch` extra.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import PeopleRelease

from ..data.domain import Int64Array
from ..rounds.annealing import Annealed
from ..rounds.loop import AdaptiveFit, AdaptiveMethod, Model, fit_adaptively
from ..rounds.phases import NoisyAnswers
from ..synthesizer import FitContext
from .compress.projections import declared_projections, widened
from .measure.residual_counts import all_residuals
from .model.linear_mixture import LinearMixture
from .model.mixture_model import BlockMixture
from .people_plan import PeoplePlan, mechanism_title, people_plan
from .people_table import People
from .select.at_once_plan import MOST_TRIPLE

Mixture = Callable[[int], "BlockMixture | LinearMixture"]  # from a seed


def fit_people(
    people: People, release: PeopleRelease, context: FitContext
) -> AdaptiveFit[Any, People]:
    """Fits the kinds `mixture` and `rap`; see `synthesizer.Synthesizer`."""
    plan = people_plan(people.domain, release, context.known)
    projections = declared_projections(people.domain, release)
    if not projections:
        return fit_plan(people, plan, release.kind, context)
    own = all_residuals(people.domain, 3, MOST_TRIPLE)

    def mixture(seed: int) -> LinearMixture:
        blocks = BlockMixture(own, seed, plan.known)
        return LinearMixture(blocks, projections, plan.workload)

    measured = widened(plan.workload.domain, people, projections)
    return fit_plan(measured, plan, release.kind, context, mixture)


def fit_plan(
    people: People,
    plan: PeoplePlan,
    kind: str,
    context: FitContext,
    mixture: Mixture | None = None,
) -> AdaptiveFit[Any, People]:
    """Measures people as a plan says, selects what else to measure, and fits the plan's model.

    people: by their measured columns. Confidential.
    mixture: the model where the plan has no graphical one; by default of all measured columns.
    """
    blocks: Mixture = mixture or (lambda seed: BlockMixture(plan.workload, seed, plan.known))

    def start(seed: int) -> Model[People]:
        model = _Undecided(plan, blocks, seed % (1 << 31))
        nothing = NoisyAnswers.none()
        # Rounds that pick first ask a model: the one that has what is known.
        picks = isinstance(plan.phase(0, nothing), Annealed)
        return model.learn(nothing)[0] if picks else model

    method = AdaptiveMethod(
        title=kind,
        workload=plan.workload,
        phase=plan.phase,
        rounds=plan.most_rounds,
        start=start,
    )
    fit = fit_adaptively(people, method, context)
    return replace(fit, title=mechanism_title(kind, plan.picks_pairs(fit.answers)))


@dataclass(frozen=True, eq=False)
class _Undecided:
    """A model of nothing: the first answers decide which model learns. See `loop.Model`."""

    plan: PeoplePlan
    mixture: Mixture
    seed: int

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        raise NotImplementedError("single columns are learnt before a phase picks")

    def learn(self, measured: NoisyAnswers) -> tuple[Model[People], float]:
        """The model of the plan, which has learnt these answers, and its error."""
        tree = self.plan.tree(measured)
        return (self.mixture(self.seed) if tree is None else tree).learn(measured)

    def sample(self, seed: int) -> People:
        raise NotImplementedError("nothing is learnt yet")
