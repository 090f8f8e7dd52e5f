"""Fits tables of people in four steps: compress, measure, select, model (`people_plan.py`).

JAX, of the `batch` extra, is imported where a mixture of blocks is fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stream_dp.study import PeopleRelease

from ..rounds.adaptive_fit import (
    AdaptiveFit,
    AdaptiveMethod,
    Model,
    Unasked,
    fit_adaptively,
    recorded_answers,
)
from ..rounds.annealing import Annealed
from ..rounds.phases import NoisyAnswers
from ..synthesizer import EarlierTable, FitContext, Known, begun_rounds, chained_tables
from .all_pairs import MOST_TRIPLE
from .people_plan import PeoplePlan, people_plan
from .people_table import People
from .projections import declared_projections, widened
from .residual_counts import Residuals, all_residuals
from .target_shares import Month, Past, Targets, past_months
from .tree_model import TreeModel
from .weighted_tree import WeightedTree


def fit_people(
    people: People, release: PeopleRelease, context: FitContext
) -> AdaptiveFit[Any, People]:
    """Fits the kinds `mixture` and `rap`; see `synthesizer.Synthesizer`."""
    plan = people_plan(people.domain, release, context.known)

    def month(table: EarlierTable) -> Month:
        earlier = people_plan(people.domain, table.release, table.known)
        answers, _ = recorded_answers(earlier.workload, earlier.phase, table.rounds)
        return measured_month(table.number, earlier.workload, answers)

    months = [month(table) for table in chained_tables(context, begun_rounds(context))]
    past = past_months(months, plan.workload.domain.columns, context.number)
    projections = declared_projections(people.domain, release)
    wide = widened(plan.workload.domain, people, projections) if projections else people
    if release.rows is not None:
        from .located_rows import LocatedRows

        def located(seed: int) -> LocatedRows:
            return LocatedRows(people.domain, projections, plan.workload, seed, plan.known, past)

        return fit_plan(wide, plan, context, located, past)
    if not projections:
        return fit_plan(people, plan, context, past=past)
    residuals = all_residuals(people.domain, 3, MOST_TRIPLE)

    from .mixture_model import BlockMixture, LinearMixture

    def mixture(seed: int) -> LinearMixture:
        blocks = BlockMixture(residuals, seed, plan.known, past)
        return LinearMixture(blocks, projections, plan.workload)

    return fit_plan(wide, plan, context, mixture, past)


def measured_month(
    number: int, residuals: Residuals, answers: NoisyAnswers, known: tuple[Known, ...] = ()
) -> Month:
    """The interactions that table `number` of a schedule measured. known: the others of its own."""
    targets = Targets.of(residuals, answers, known)
    return Month(number, residuals.domain.columns, targets.interactions)


def fit_plan(
    people: People,
    plan: PeoplePlan,
    context: FitContext,
    mixture: Callable[[int], Model[People]] | None = None,
    past: Past | None = None,
) -> AdaptiveFit[Any, People]:
    """Measures people by a plan, selects further measurements, and fits the plan's model.

    people: by their measured columns. Confidential.
    mixture: from a seed, the model where the plan has no graphical one; by default the mixture of
        blocks of all measured columns.
    past: what earlier tables of the release say.
    """

    def first_model(measured: NoisyAnswers, seed: int) -> Model[People]:
        tree = plan.steps(plan.number(measured)).tree
        if tree is not None:
            return replace(tree, past=past)
        if mixture is not None:
            return mixture(seed)
        from .mixture_model import BlockMixture

        return BlockMixture(plan.workload, seed, plan.known, past)

    def start(seed: int) -> Model[People]:
        model = Unlearnt(lambda measured: first_model(measured, seed % (1 << 31)))
        nothing = NoisyAnswers.none()
        # Rounds that pick first ask a model: the one that has what is known.
        picks = isinstance(plan.phase(0, nothing), Annealed)
        return model.learn(nothing)[0] if picks else model

    method = AdaptiveMethod(
        title=plan.titles[0],
        workload=plan.workload,
        phase=plan.phase,
        rounds=plan.most_rounds,
        start=start,
    )
    fit = fit_adaptively(people, method, context)
    remarks = (
        {"duality_gap": fit.model.gap} if isinstance(fit.model, TreeModel | WeightedTree) else {}
    )
    return replace(fit, title=plan.steps(plan.number(fit.answers)).title, remarks=remarks)


@dataclass(frozen=True, eq=False)
class Unlearnt(Unasked):
    """No model yet: answers decide which model learns. See `adaptive_fit.Model`.

    model: the model that learns these answers; None: none ever does.
    """

    model: Callable[[NoisyAnswers], Model[People]] | None = None

    def learn(self, measured: NoisyAnswers) -> tuple[Model[People], float]:
        """Returns the model fitted to these answers, and its error."""
        return self.model(measured).learn(measured) if self.model else (self, float("nan"))

    def sample(self, seed: int) -> People:
        raise NotImplementedError("nothing is learnt yet")
