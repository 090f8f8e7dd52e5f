"""Runs of a data set's fit on simulated people, up to its last measurement.

A run's score is the log likelihood ratio of the two worlds for its noisy values and its choices,
with normal noise of the declared variances.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.kinds import require_available
from stream_dp.population.population import Population
from stream_dp.privacy.noise import NoiseSource, SeededNoise
from stream_dp.study import DataSetRelease, Study
from stream_dp.study.declared_sections import DeclaredPopulation

from ..intake.group_tables import Members, PlacesTable
from ..releaser.job_families import JOB_FAMILIES, everybodys_tables
from .histories import (
    Cell,
    History,
    Progress,
    WorstPair,
    cells_of,
    random_people,
    simulated_people,
    worst_pair,
)
from .rho_bounds import TwoScores
from .watched_fits import (
    Fit,
    WatchedRound,
    log_ratio,
    repeated_fit,
    watched_fit,
    without_noise,
)

Floats = NDArray[np.float64]
_OTHERS = 400  # people who are the same in both worlds, at most
_MOST_SIZE = 20_000  # people of an audited study
_MOST_PAIRS, _SEARCH = 400, 15.0  # of the search: pairs, and CPU seconds, about
_NOISY_REFERENCES = 4  # for a fit that makes choices


class DataSetRuns:
    """The first data set of a release on simulated people; see `histories.AuditedRelease`."""

    def __init__(self, study: Study, release: DataSetRelease) -> None:
        """Raises UserError if this installation cannot fit the release."""
        require_available([release.kind])
        self.number = min(study.due_periods(release))
        self.release = study.schedule(release)[self.number]
        population, size = study.population, study.size
        if size is not None and size > _MOST_SIZE:
            population = DeclaredPopulation(size=_MOST_SIZE)
        self.study = study.revised(
            releases=(),
            batches=(release,),
            attributes={name: study.attributes[name] for name in release.questions},
            population=population,
        )
        size = self.study.size
        self.most = _OTHERS if size is None else max(1, min(_OTHERS, size // 2))
        self.others = _OTHERS if size is None else min(_OTHERS, size - self.most)
        label = study.periods.labels[self.number - 1]
        self.subject = f"the data set of {label}"
        if size is not None and size != study.size:
            self.subject += f", as of {size:,} people"
        self.rho: Fraction = self.release.rho
        self.cells = self._cells()
        self._exact: dict[History | None, Floats] = {}
        self._references: list[tuple[WatchedRound, ...]] = []

    def _cells(self) -> tuple[Cell, ...]:
        """The cells that a data set looks at: its answers in the periods before its close."""
        asked = {(self.number - answer.ago, answer.attribute) for answer in self.release.answers}
        return tuple(
            cell
            for number, name in sorted(asked)
            if number >= 1
            for cell in cells_of(self.study, [name], [number])
        )

    def _people(self, history: History | None, size: int) -> dict[str, History]:
        """The people in a world, by id: `size` people alike beside the others."""
        others = random_people(self.cells, self.others, "other")
        alike = {} if history is None else {f"canary {i}": history for i in range(size)}
        return {**others, **alike}

    def _fit(self, history: History | None, size: int) -> Fit:
        """The fit of a world's tables, as a worker does it."""
        tables = self._tables(self._people(history, size))
        fitted = JOB_FAMILIES[self.release.family].fitted
        return partial(fitted, self.study, self.release, tables)

    def _tables(self, people: Mapping[str, History]) -> dict[str, pa.Table]:
        """The tables of a job's snapshot."""
        simulated = simulated_people(self.study, self.cells, people, self.number)
        return self._snapshot(simulated.population, None)

    def _snapshot(
        self, population: Population, table: Members | PlacesTable | None
    ) -> dict[str, pa.Table]:
        tables = everybodys_tables(self.study, self.release, population, table)
        return {name: pa.concat_tables(parts) for name, parts in tables.items()}

    def worst_pair(self) -> WorstPair:
        """The pair with the largest mean cost over reference runs.

        A fit that makes choices measures something else in each run. For any other fit one run
        without noise is the reference.
        """
        fit = self._fit(None, 0)
        self._references = [watched_fit(fit, None)]
        if any(run.choices for run in self._references[0]):
            sources = map(SeededNoise, range(_NOISY_REFERENCES))
            self._references = [watched_fit(fit, source) for source in sources]
        absence = self.study.neighbours == "add_remove"
        began = time.process_time()
        self._answers(None)
        seconds = max(time.process_time() - began, 1e-3)
        most = max(8, min(_MOST_PAIRS, int(_SEARCH / seconds)))
        return worst_pair(self.cells, self._costs, absence=absence, most=most)

    def _costs(self, pairs: Sequence[tuple[History, History | None]]) -> list[float]:
        runs = len(self._references)
        variances = np.concatenate([r.variances for rounds in self._references for r in rounds])
        return [
            float(((self._answers(a) - self._answers(b)) ** 2 / variances).sum() / 2 / runs)
            for a, b in pairs
        ]

    def _answers(self, history: History | None) -> Floats:
        """What the rounds of the reference runs would have answered without noise."""
        if history not in self._exact:
            fit = self._fit(history, 1)
            repeated = [repeated_fit(fit, rounds) for rounds in self._references]
            self._exact[history] = np.concatenate([r.exact for rounds in repeated for r in rounds])
        return self._exact[history]

    def scores(
        self, pair: WorstPair, size: int, runs: int, source: NoiseSource, progress: Progress
    ) -> TwoScores:
        """See `AuditedRelease.scores`: the log likelihood ratio of the two worlds, of every fit."""
        fits = [self._fit(history, size) for history in (pair.second, pair.first)]
        rounds = len(self._references[0])
        scores = np.zeros((2, runs))
        for run in range(runs):
            for world, fit in enumerate(fits):
                watched = watched_fit(fit, source, rounds)
                here, there = without_noise(watched), repeated_fit(fits[1 - world], watched)
                ratio = log_ratio(watched, here, there)
                scores[world, run] = ratio if world == 0 else -ratio
            progress()
        return TwoScores(scores[0], scores[1], 0.0, size)
