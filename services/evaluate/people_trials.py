"""Fits releases of people to a known table repeatedly: errors by class of query, and scores.

CONFIDENTIAL: errors are computed from true data. Beside each release, at the same rho, stand
independent columns, the noise of the measurements, and a sample of as many true people without any
privacy: the floor of any synthetic table.
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
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease

from .baselines import independent_people
from .groups_trials import INDEPENDENT, FitProgress, fit_progress
from .table_judge import TableJudge
from .table_report import DATA_SET, MEASURED, Quality, Score, qualities
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
    """Errors and scores of each release in each repetition.

    people: the known table.
    releases: with the labels of their budgets.
    repetitions: the number of fits of each release.
    seed: of the simulated noise; the same seed gives the same result on the same machine.
    progress: called after each round of a fit.
    known: gives, for a seed, the publications of other releases about the same people.

    Raises UserError for a kind that cannot be fitted here.
    """
    table, rows, scores = TableJudge(people), list[Quality](), list[Score]()
    for repetition in range(repetitions):
        for index, (budget, release) in enumerate(releases):
            noise_seed = seed + 1000 * repetition + index
            context = FitContext(
                SeededNoise(noise_seed),
                progress=fit_progress(progress, f"{release.kind}, {budget}"),
                known=known(noise_seed),
            )
            fit = kinds.load_synthesizer(release.kind)(people, release, context)
            measured, noisy = measured_sets(fit), _noisy_shares(fit, context.known)
            source = SeededNoise(noise_seed)
            tables = {
                release.kind: fit.sample(noise_seed),
                INDEPENDENT: independent_people(people, release.rho, source, noise_seed),
                SAMPLE: _another_sample(people, noise_seed),
            }
            judges = (table, ThresholdJudge(people, release))
            for method, synthetic in tables.items():
                for judge in judges:
                    errors = judge.data_set(synthetic, measured)
                    rows += qualities(errors, method, budget, DATA_SET)
                values = table.scores(synthetic, noise_seed)
                scores += [Score(method, budget, *score) for score in values.items()]
            if noisy is not None:
                for judge in judges:
                    errors = judge.measurements(noisy, measured)
                    rows += qualities(errors, release.kind, budget, MEASURED)
    return rows, scores


def _another_sample(people: People, seed: int) -> People:
    rows = np.random.default_rng(seed).choice(people.N, people.N)
    numbers = {c: codes[rows] for c, codes in people.numbers.items()}
    return People(people.domain, people.codes[rows], numbers)


def _noisy_shares(
    fit: object, known: tuple[Known, ...]
) -> Callable[[Columns], NDArray[np.float64]] | None:
    """The function from a measured marginal of a fit to noisy shares, or None."""
    if isinstance(fit, MatchFit):
        return fit.shares
    if isinstance(fit, AdaptiveFit) and isinstance(fit.workload, Residuals):
        return Targets.of(fit.workload, fit.answers, known).marginal
    return None


def measured_sets(fit: object) -> frozenset[Columns]:
    """The sets of columns whose whole marginals a fit measured."""
    if isinstance(fit, MatchFit):
        return fit.measured
    if not isinstance(fit, AdaptiveFit) or not isinstance(fit.workload, Residuals):
        return frozenset()
    return frozenset(fit.workload.sets[i] for i in fit.answers.candidates)
