"""Runs of a panel's mechanism on simulated people.

A run's score is the sum over all published measurements of d y / s2: y is the noisy value, d its
difference between the two worlds without noise, s2 the declared variance of its noise. It is the
likelihood ratio of the worlds for normal noise as declared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual.mechanism_interface import Mechanism
from stream_dp.continual.mechanisms import mechanism
from stream_dp.privacy.noise import Draw, Measurements, NoiseSource
from stream_dp.study import Release, Study
from stream_dp.study.declared_sections import DeclaredPopulation

from .histories import (
    History,
    Progress,
    WorstPair,
    cells_of,
    random_people,
    simulated_people,
    worst_pair,
)
from .rho_bounds import TwoScores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_OTHERS = 20  # people beside those in which the worlds differ
_MOST_SIZE = 400  # people of an audited study; fewer people make faster panels
_MOST_PAIRS = 1500  # of the search


class PanelRuns:
    """A release of a panel on simulated people; see `histories.AuditedRelease`."""

    def __init__(self, study: Study, release: Release) -> None:
        declared = study.revised(
            releases=(release,),
            attributes={name: study.attributes[name] for name in release.questions},
            batches=None,
            groups=None,
            places=None,
        )
        self.study, self.release, self.mechanism = _smaller(declared, release)
        first, last = self.study.span(release)
        self._last = last
        self.cells = cells_of(study, release.questions, range(first, last + 1))
        self.subject = f"{len(self.mechanism.charges)} periods, all together"
        self.rho = sum(self.mechanism.charges, Fraction(0))
        self.most = _MOST_SIZE - _OTHERS if study.size is None else self.study.size or 0
        self._known: dict[History | None, Floats] = {}

    @cached_property
    def _others(self) -> dict[str, History]:
        """People who are the same in both worlds; of a public number of people, silent ones."""
        if self.study.size is not None:
            return {}
        return random_people(self.cells, _OTHERS, "other")

    def worst_pair(self) -> WorstPair:
        absence = self.study.neighbours == "add_remove"
        return worst_pair(self.cells, self._costs, absence=absence, most=_MOST_PAIRS)

    def _costs(self, pairs: Sequence[tuple[History, History | None]]) -> list[float]:
        self._learn([history for pair in pairs for history in pair if history is not None])
        _, variances = self._silent
        shifts = (self._known[first] - self._known[second] for first, second in pairs)
        return [float((shift**2 / variances).sum() / 2) for shift in shifts]

    @cached_property
    def _silent(self) -> tuple[Floats, Floats]:
        """The answers without noise about the others alone, and the declared variances."""
        published = self._published(self._counts({}), noiseless_draw)
        variances = np.array(published.variances, np.float64)
        self._known[None] = published.values.astype(np.float64)
        return self._known[None], variances

    def _learn(self, histories: Sequence[History]) -> None:
        """Computes the answers without noise about the others and a person with a history."""
        _ = self._silent
        for history in histories:
            if history not in self._known:
                counts = self._counts({"canary 0": history})
                published = self._published(counts, noiseless_draw)
                self._known[history] = published.values.astype(np.float64)

    def _counts(self, people: dict[str, History]) -> list[Ints]:
        """The mechanism's input at every period, with these people added."""
        everybody = {**self._others, **people}
        closed = simulated_people(self.study, self.cells, everybody, self._last).closed
        return [period.counts[self.release.name] for period in closed][
            -len(self.mechanism.charges) :
        ]

    def _published(
        self, counts: Sequence[Ints], draw: Callable[[Sequence[tuple[Fraction, int]]], Draw]
    ) -> Measurements:
        """The measurements of all periods, as a releaser publishes them."""
        state, published = self.mechanism.init(), []
        for time, true in enumerate(counts, 1):
            state, step = self.mechanism.step(state, true, draw(self.mechanism.demand(time)))
            if step is not None:
                published.append(step.measurements)
        return Measurements.joined(published)

    def scores(
        self, pair: WorstPair, size: int, runs: int, source: NoiseSource, progress: Progress
    ) -> TwoScores:
        """See `AuditedRelease.scores`: sum of shift (value - exact value of world 0) / variance."""
        histories = (pair.second, pair.first)
        worlds = [
            self._counts({} if h is None else {f"canary {i}": h for i in range(size)})
            for h in histories
        ]
        exact = [self._published(counts, noiseless_draw) for counts in worlds]
        shift = (exact[1].values - exact[0].values).astype(np.float64)
        weights = shift / np.array(exact[0].variances, np.float64)
        scores = np.zeros((2, runs))
        for run in range(runs):
            for world, counts in enumerate(worlds):
                values = self._published(counts, source.draw).values
                scores[world, run] = weights @ (values - exact[0].values)
            progress()
        return TwoScores(scores[0], scores[1], float(weights @ shift / 2), size)


def noiseless_draw(demand: Sequence[tuple[Fraction, int]]) -> Draw:
    zeros = tuple(np.zeros(size, np.int64) for _, size in demand)
    return Draw(zeros, np.random.default_rng(0))


def _smaller(study: Study, release: Release) -> tuple[Study, Release, Mechanism[Any]]:
    """The study with fewer people, if they get the same noise at the same charges."""
    declared: Mechanism[Any] = mechanism(study, release)
    if study.size is None or study.size <= _MOST_SIZE:
        return study, release, declared
    small = study.revised(population=DeclaredPopulation(size=_MOST_SIZE))
    fewer = mechanism(small, release)
    times = range(1, len(declared.charges) + 1)
    same = all(fewer.demand(time) == declared.demand(time) for time in times)
    if same and fewer.charges == declared.charges:
        return small, release, fewer
    return study, release, declared
