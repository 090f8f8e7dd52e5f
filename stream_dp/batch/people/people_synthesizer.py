"""Fits tables of people in four steps: compress, measure, select, model (`people_plan.py`).

`fit_people` fits the kinds `mixture` and `rap`. The kinds `table` and `match` have a compressed
domain between two phases.

Source: McKenna, Miklau, Sheldon 2021, "Winning the NIST Contest" (arXiv 2108.04978). This version
measures interactions instead of marginals, as exact integers, takes no query from data, and fits
the models of the other kinds of people. JAX, of the `batch` extra, is imported where a mixture of
blocks is fitted.

`MatchFit` has what both phases measured, and samples the table's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import Measurements
from stream_dp.study import MatchRelease, PeopleRelease

from ..rounds.adaptive_fit import (
    AdaptiveFit,
    AdaptiveMethod,
    Annealed,
    Model,
    Unasked,
    fit_adaptively,
    recorded_answers,
)
from ..rounds.phases import CHARGES, NoisyAnswers
from ..synthesizer import (
    EarlierTable,
    FitContext,
    FitTranscript,
    Known,
    begun_rounds,
    chained_tables,
)
from .all_pairs import MOST_TRIPLE
from .compression import Compression, Encoding
from .match_plan import MatchPlan
from .people_plan import PeoplePlan, people_plan
from .people_table import People
from .projections import declared_projections, widened
from .residual_counts import Columns, Residuals, all_residuals
from .table_plan import TablePlan
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


_COUNTED = ("rounds", "candidates", "measured")
_OF_THE_MODEL = ("error_on_measurements", "duality_gap")


@dataclass(frozen=True, eq=False)
class MatchFit:
    """See `synthesizer.FittedModel`.

    encoding, compression: how the table's columns become those of the second phase, and back.
    first, second: what each phase measured; the second has the model.
    known: what the model learnt besides: single columns, and what others have published.
    dropped: listed marginals that were too large, by their columns' names.
    anew: columns that earlier data sets say nothing of, as other values of theirs were merged.
    """

    encoding: Encoding
    compression: Compression
    first: AdaptiveFit[Residuals, People]
    second: AdaptiveFit[Residuals, People]
    known: tuple[Known, ...]
    dropped: tuple[str, ...]
    anew: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.second.title

    @property
    def measurements(self) -> Measurements:
        return Measurements.joined([self.first.measurements, self.second.measurements])

    @property
    def notes(self) -> Mapping[str, int | float | str]:
        earlier, later = self.first.notes, self.second.notes
        added = {name: int(earlier[name]) + int(later[name]) for name in _COUNTED}
        columns = zip(self.encoding.names, self.compression.columns, strict=True)
        merged = [f"{column.merged} of {name}" for name, column in columns if column.merged]
        extra = {"values_merged": ", ".join(merged) or "none"}
        if self.dropped:
            extra["triples_too_large"] = "; ".join(self.dropped)
        if self.anew:
            extra["begun_anew"] = ", ".join(self.anew)
        model = {name: later[name] for name in _OF_THE_MODEL if name in later}
        charge = CHARGES[self.first.exact and self.second.exact]
        return {**added, "charge": charge, **model, **extra}

    def sample(self, seed: int) -> People:
        groups = self.second.sample(seed)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        return self.encoding.decoded(self.compression.undone(groups.codes, rng), rng)

    @property
    def measured(self) -> frozenset[Columns]:
        """The sets of the table's columns whose marginal was measured completely."""
        single = {(column,) for column in range(len(self.encoding.names))}
        unmerged = [p for (p,) in single if self.compression.columns[p].identity]
        later = {self.second.workload.sets[i] for i in self.second.answers.candidates}
        sets = single | {a for a in later if {*a} <= {*unmerged}}
        return frozenset(
            subset
            for a in sets
            for columns in [sorted(c for column in a for c in self.encoding.parts[column])]
            for ways in range(1, len(columns) + 1)
            for subset in combinations(columns, ways)
        )

    def shares(self, columns: Columns) -> NDArray[np.float64]:
        """The noisy shares of a marginal of `measured`, an axis a column."""
        column_of = {
            c: column for column, composite in enumerate(self.encoding.parts) for c in composite
        }
        measured = tuple(sorted({column_of[c] for c in columns}))
        if len(measured) == 1:
            noisy = self.compression.columns[measured[0]].noisy
            values = noisy.counts() / max(noisy.people, 1)
        else:
            targets = Targets.of(self.second.workload, self.second.answers, self.known)
            values = targets.marginal(measured)
        sources = [c for column in measured for c in self.encoding.parts[column]]
        values = values.reshape([self.encoding.source.sizes[c] for c in sources])
        values = values.sum(axis=tuple(i for i, c in enumerate(sources) if c not in columns))
        order = [c for c in sources if c in columns]
        return np.transpose(values, [order.index(c) for c in columns])


def _fitted(
    plan_of: type[MatchPlan], people: People, release: MatchRelease, context: FitContext
) -> MatchFit:
    encoding = Encoding.of(people.domain, release)
    plan, coded = plan_of(encoding, release), encoding.coded(people)
    tables = chained_tables(context, begun_rounds(context))
    months = [_month(plan_of(encoding, table.release), table) for table in tables]
    first = fit_plan(coded, plan.first, _partly(context, after=1), lambda seed: Unlearnt())
    compression = plan.compression(first.answers)
    known = _known(compression, (*_unmerged(context.known, encoding, compression),))
    number = compression.columns[0].noisy.people
    second = plan.second(compression.domain, number, known)
    columns = compression.domain.columns
    past = past_months(months, columns, context.number)
    later = _partly(context, before=len(first.picked))
    return MatchFit(
        encoding=encoding,
        compression=compression,
        first=first,
        second=fit_plan(compression.merged(coded), second, later, past=past),
        known=known,
        dropped=plan.dropped(compression.domain),
        anew=tuple(c.name for c in columns if months and c not in months[-1].columns),
    )


# The fits of the kinds `match` and `table`; see `synthesizer.Synthesizer`.
fit_match, fit_table = partial(_fitted, MatchPlan), partial(_fitted, TablePlan)


def _month(plan: MatchPlan, table: EarlierTable) -> Month:
    """The interactions that an earlier data set measured, of its compressed columns."""
    answers, rounds = recorded_answers(plan.first.workload, plan.first.phase, table.rounds)
    compression = plan.compression(answers)
    known = _known(compression, (*_unmerged(table.known, plan.encoding, compression),))
    second = plan.second(compression.domain, compression.columns[0].noisy.people, known)
    later = (table.rounds[0], *table.rounds[1 + rounds :])
    answers, _ = recorded_answers(second.workload, second.phase, later)
    return measured_month(table.number, second.workload, answers, _known(compression))


def _known(compression: Compression, others: tuple[Known, ...] = ()) -> tuple[Known, ...]:
    """What the second phase knows: people and single columns, measured first, and others' answers.

    others: interactions that other releases have published.
    """
    counted = [Known((), np.array(float(compression.columns[0].noisy.people)), 1.0)]
    singles = (merged.known(column) for column, merged in enumerate(compression.columns))
    return (*(counted if compression.source.moves else ()), *singles, *others)


def _unmerged(
    known: tuple[Known, ...], encoding: Encoding, compression: Compression
) -> list[Known]:
    """Published interactions of columns that compression leaves unchanged."""
    unchanged = {
        sources[0]: column
        for column, sources in enumerate(encoding.parts)
        if len(sources) == 1 and compression.columns[column].identity
    }
    result = []
    for published in known:
        if all(c in unchanged for c in published.columns):
            columns = [unchanged[c] for c in published.columns]
            values = np.transpose(published.values, np.argsort(columns))
            result.append(Known(tuple(sorted(columns)), values, published.variance))
    return result


def _partly(context: FitContext, before: int = 0, after: int = 0) -> FitContext:
    """The context of a phase. before, after: the rounds before the phase and after the phase."""

    def progress(done: int, rounds: int, error: float) -> None:
        context.progress(before + done, before + rounds + after, error)

    return replace(context, transcript=_Later(context.transcript, before), progress=progress)


@dataclass(frozen=True)
class _Later:
    """A transcript of a later phase: the seed, and the rounds after `skipped` rounds."""

    transcript: FitTranscript
    skipped: int

    def rounds(self) -> list[bytes]:
        rounds = self.transcript.rounds()
        return [*rounds[:1], *rounds[1 + self.skipped :]]

    def record(self, number: int, data: bytes) -> bytes:
        return self.transcript.record(number + self.skipped * (number > 0), data)
