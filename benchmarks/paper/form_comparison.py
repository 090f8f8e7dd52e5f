"""Compares every form of every release with the paper's, at equal rho and under equal relation.

CONFIDENTIAL if the panel is real, like every evaluation. The output tells if people are simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from comparison import AnswerErrors, Comparison, FormErrors, ReleaseComparison
from variants import Variant, variants

from stream_dp.answers.estimator import StreamEstimator, StreamMeasurements
from stream_dp.answers.measured_rows import PeriodMeasurements, ReleaseMeasurements
from stream_dp.services.evaluate.panel_judge import PatternsJudge
from stream_dp.services.evaluate.panel_report import QueryErrors, ReleaseErrors, root_mean_square
from stream_dp.services.evaluate.repeated_panels import (
    PanelJudge,
    SeededPlan,
    TrialPlan,
    Truth,
    count_people,
    release_errors,
    run_repetitions,
)
from stream_dp.services.evaluate.trial import Floats
from stream_dp.study import Release, Study

# The thresholds 1, _NAMED_THRESHOLD and T of a cumulative release are named, as in `estimate`.
_NAMED_THRESHOLD = 3
# Kinds of window queries: the paper's, and coarser queries of fewer periods.
_NAMED_KINDS = ("named", "narrower")
# The best answer solves a linear system: with more answers than this, no error is computed.
MOST_ANSWERS = 1500

# By kind of release: the name of all cells together, and the kind of the queries that are cells.
_CELLS = {"window": ("every pattern", "bin"), "cumulative": ("every cell", "total")}


def compare(
    study: Study,
    truth: Truth,
    repetitions: int,
    *,
    seed: int = 0,
    jobs: int | None = None,
    progress: bool = True,
    data: str | None = None,
    simulated: bool = False,
) -> Comparison:
    """Compares all forms of all releases, each over `repetitions` runs with simulated noise.

    data: the name of the panel, by default the study's.
    simulated: whether its people are simulated.

    The other parameters are those of `repeated_panels.evaluate_panels`.
    """
    people = count_people(study, truth)
    forms = [
        (release, variant)
        for release in study.releases
        for variant in variants(study, release, truth)
    ]
    plans = [SeededPlan(variant.plan, (seed,), key) for key, (_, variant) in enumerate(forms)]
    trials_by_form = run_repetitions(plans, repetitions, jobs=jobs, progress=progress)
    errors_by_contest: dict[tuple[str, str], list[FormErrors]] = {}
    widths: dict[tuple[str, str], int | None] = {}
    for (release, variant), trials in zip(forms, trials_by_form, strict=True):
        best = best_errors(variant.study, variant.release, variant.plan)
        for judge, trial, deviations in zip(variant.plan.judges, trials, best, strict=True):
            errors = release_errors(variant.release, judge, trial)
            quantities = [*_measured(errors, repetitions), *_best(judge, deviations)]
            contest = release.name, judge.kind
            widths.setdefault(contest, errors.width)
            errors_by_contest.setdefault(contest, []).append(
                _form_errors(variant, errors.rho, quantities)
            )
    contests = tuple(
        ReleaseComparison(
            release=name,
            kind=kind,
            rho=str(study.release(name).rho),
            width=widths[name, kind],
            forms=_with_ratios(form_errors),
        )
        for (name, kind), form_errors in errors_by_contest.items()
    )
    return Comparison(
        data=study.name if data is None else data,
        simulated=simulated,
        study=study.name,
        unit=study.unit,
        neighbours=study.neighbours,
        people=people,
        periods=study.periods.count,
        repetitions=repetitions,
        seed=seed,
        contests=contests,
    )


def _form_errors(variant: Variant, rho: str, quantities: list[AnswerErrors]) -> FormErrors:
    return FormErrors(
        label=variant.label,
        title=variant.title,
        rho=rho,
        paper=variant.paper,
        chosen=variant.chosen,
        quantities=tuple(quantities),
    )


def _with_ratios(forms: list[FormErrors]) -> tuple[FormErrors, ...]:
    """Adds the ratios to the errors of the paper's panel."""
    paper = next(form for form in forms if form.paper)
    yardstick = {q.query: q for q in paper.quantities if q.answer == "panel"}
    theory = {q.query: q.theory for q in paper.quantities if q.answer == "raw"}
    return tuple(
        replace(
            form,
            quantities=tuple(
                _compared(q, yardstick[q.query], theory.get(q.query)) for q in form.quantities
            ),
        )
        for form in forms
    )


def _compared(errors: AnswerErrors, base: AnswerErrors, theory: float | None) -> AnswerErrors:
    ratio = _ratio(errors.rmse, base.rmse)
    chance = 0.0 if errors is base else math.hypot(errors.chance, base.chance)
    return replace(
        errors,
        ratio=ratio,
        ratio_error=None if ratio is None else ratio * chance,
        worst_ratio=_ratio(errors.worst, base.worst),
        theory_ratio=_ratio(errors.theory, theory),
    )


def _ratio(error: float | None, base: float | None) -> float | None:
    return None if error is None or not base else error / base


def _measured(errors: ReleaseErrors, repetitions: int) -> Iterator[AnswerErrors]:
    """Yields the measured errors of a form, without ratios."""
    name, cell = _CELLS[errors.kind]
    for cells in errors.cells:
        cell_lines = errors.of_kind(cell, cells.answer)
        rmse = np.concatenate([line.rmse for line in cell_lines]) if cell_lines else None
        yield AnswerErrors(
            query=name,
            answer=cells.answer,
            bias=_net_bias(cell_lines, repetitions) if cell_lines else None,
            rmse=cells.rmse,
            worst=None if rmse is None else float(rmse.max()),
            theory=cells.theory if cells.answer == "raw" else None,
            chance=cells.chance,
        )
        sums = cell_lines if cell == "total" else ()
        named = [sums[i] for i in _named(len(sums))] or [
            line for kind in _NAMED_KINDS for line in errors.of_kind(kind, cells.answer)
        ]
        for line in named:
            theory = line.theory if cells.answer == "raw" else None
            yield AnswerErrors(
                query=line.query,
                answer=cells.answer,
                bias=float(np.mean(line.bias)),
                rmse=root_mean_square(line.rmse),
                worst=max(line.rmse),
                theory=root_mean_square(theory) if theory else None,
                chance=line.chance,
            )


def _named(sums: int) -> list[int]:
    """Returns the indices of the named sums."""
    return list(dict.fromkeys((0, min(_NAMED_THRESHOLD, sums) - 1, sums - 1))) if sums else []


def best_errors(study: Study, release: Release, plan: TrialPlan) -> tuple[Floats | None, ...]:
    """Computes the standard deviations of the best linear unbiased answers, for each judge.

    They are (queries, periods), from all publications up to the horizon; NaN for a query without an
    answer, None for a judge without any. The weights of the client's estimator
    (`stream_dp.answers.estimator`) are fixed numbers, so the error is known exactly and nothing is
    repeated. The sums of a cumulative release alone are the best already: a counter measures as
    many numbers as there are sums, or uses its measurements in the best way.
    """
    patterns = any(judge.kind == "window" for judge in plan.judges)
    if not patterns or sum(judge.truth.size for judge in plan.judges) > MOST_ANSWERS:
        return (None,) * len(plan.judges)
    first, _ = study.span(release)
    messages = tuple(
        PeriodMeasurements(
            first + t - 1,
            step.measurements.values.astype(float),
            step.measurements.standard_errors() ** 2,
        )
        for t, step in plan.simulated_steps(0)
    )
    measured = ReleaseMeasurements(study, release, messages)
    estimator = StreamEstimator(StreamMeasurements((measured,)), measured)
    return tuple(_deviations(judge, estimator, first - 1) for judge in plan.judges)


def _deviations(judge: PanelJudge, estimator: StreamEstimator, earlier_periods: int) -> Floats:
    """Computes the standard deviations for a judge.

    earlier_periods: the number of periods of the study before the first period of the release.
    """
    deviations = np.full(judge.truth.shape, np.nan)
    for query, index in np.argwhere(~np.isnan(judge.truth)):
        number = earlier_periods + judge.first + int(index)
        if isinstance(judge, PatternsJudge):
            answer = estimator.patterns(number, judge.queries[query].mask.astype(float))
        else:
            answer = estimator.total(int(query) + 1, number)
        if answer is not None:
            deviations[query, index] = math.sqrt(answer.variance)
    return deviations


def _best(judge: PanelJudge, deviations: Floats | None) -> Iterator[AnswerErrors]:
    """Yields the errors of the best estimates, which are known without repetitions.

    deviations: the standard deviation of each answer, (queries, periods), or None.
    """
    if deviations is None:
        return
    name, cell = _CELLS[judge.kind]
    cells = [i for i, label in enumerate(judge.labels) if label.kind == cell]
    named = [cells[i] for i in _named(len(cells))] if cell == "total" else []
    named = named or [i for i, label in enumerate(judge.labels) if label.kind in _NAMED_KINDS]
    for query, rows in [(name, cells), *((judge.labels[i].text, [i]) for i in named)]:
        errors = deviations[rows][~np.isnan(judge.truth[rows])]
        if errors.size and not np.isnan(errors).any():
            rmse = root_mean_square(errors)
            yield AnswerErrors(
                query=query,
                answer="best",
                bias=0.0,
                rmse=rmse,
                worst=float(errors.max()),
                theory=rmse,
            )


def _net_bias(lines: tuple[QueryErrors, ...], repetitions: int) -> float:
    """Computes the root mean square bias of all cells, less the noise of their means."""
    bias = np.concatenate([line.bias for line in lines])
    noise = np.concatenate([line.deviation for line in lines]) ** 2 / max(repetitions - 1, 1)
    return math.sqrt(max(0.0, float((bias**2 - noise).mean())))
