"""Fits releases of people to a known table again and again: errors by class of query, and scores.

CONFIDENTIAL: errors are computed from true data. Beside each release, at the same rho, stand
independent columns, the noise in what was measured, and a second sample of as many people, drawn
from the true ones without any privacy: the floor of any synthetic table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch import kinds
from stream_dp.batch.people.known import Known
from stream_dp.batch.people.match_fit import MatchFit
from stream_dp.batch.people.measure.residual_counts import Columns, Residuals
from stream_dp.batch.people.measure.targets import Targets
from stream_dp.batch.people.people_table import People
from stream_dp.batch.rounds.loop import AdaptiveFit
from stream_dp.batch.synthesizer import FitContext, ProgressCallback
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease

from .baselines import independent_people
from .groups_trials import INDEPENDENT, FitProgress
from .table_judge import TableJudge
from .table_report import Quality, Score
from .threshold_judge import ThresholdJudge

SAMPLE = "another sample"


def evaluate_people(
    people: People,
    releases: Sequence[tuple[str, PeopleRelease]],
    repetitions: int,
    *,
    seed: int = 0,
    progress: FitProgress = lambda subject, done, rounds: None,
    known: Callable[[int], tuple[Known, ...]] = lambda seed: (),
) -> tuple[list[Quality], list[Score]]:
    """Errors and scores of each release, one entry for each repetition.

    people: the known table.
    releases: each with the label of its budget.
    repetitions: how often each is fitted.
    seed: of the simulated noise; entries are the same for the same seed, on the same machine.
    progress: called after each round of a fit.
    known: from a seed, what other releases would have published of the same people.

    Raises UserError for a kind that cannot be fitted here.
    """
    judge = TableJudge(people)
    qualities, scores = list[Quality](), list[Score]()
    for repetition in range(repetitions):
        for place, (budget, release) in enumerate(releases):
            own = seed + 1000 * repetition + place
            shown = _progress(progress, f"{release.kind}, {budget}")
            context = FitContext(SeededNoise(own), progress=shown, known=known(own))
            fit = kinds.load_synthesizer(release.kind)(people, release, context)
            measured = measured_sets(fit)
            tables = {
                release.kind: fit.sample(own),
                INDEPENDENT: independent_people(people, release.rho, SeededNoise(own), own),
                SAMPLE: _another_sample(people, own),
            }
            thresholds = ThresholdJudge(people, release)
            for method, table in tables.items():
                names = {"method": method, "budget": budget}
                qualities += judge.data_set(table, measured, **names)
                qualities += thresholds.data_set(table, measured, **names)
                scores += judge.scores(table, **names, seed=own)
            noisy = _noisy_shares(fit, context.known)
            if noisy is not None:
                names = {"method": release.kind, "budget": budget}
                qualities += judge.measurements(noisy, measured, **names)
                qualities += thresholds.measurements(noisy, measured, **names)
    return qualities, scores


def _another_sample(people: People, seed: int) -> People:
    again = np.random.default_rng(seed).choice(people.N, people.N)
    numbers = {c: codes[again] for c, codes in people.numbers.items()}
    return People(people.domain, people.codes[again], numbers)


def _progress(progress: FitProgress, subject: str) -> ProgressCallback:
    return lambda done, rounds, error: progress(subject, done, rounds)


def _noisy_shares(
    fit: object, known: tuple[Known, ...]
) -> Callable[[Columns], NDArray[np.float64]] | None:
    """The function that gives the noisy shares of a marginal that a fit measured."""
    if isinstance(fit, MatchFit):
        return fit.shares
    if isinstance(fit, AdaptiveFit) and isinstance(fit.workload, Residuals):
        return Targets.of(fit.workload, fit.answers, known).marginal
    return None


def measured_sets(fit: object) -> frozenset[Columns]:
    """The sets of columns of which a fit measured all that their marginal says."""
    if isinstance(fit, MatchFit):
        return fit.measured
    if not isinstance(fit, AdaptiveFit) or not isinstance(fit.workload, Residuals):
        return frozenset()
    return frozenset(fit.workload.sets[i] for i in fit.answers.candidates)
