"""Many audits of one release at the cost of a few: its answers are learnt once.

A release without choices measures the same answers in every run. The functions check this with
whole runs. A further audit then needs new noise alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from stream_dp.privacy.noise import Draw, Measurements, NoiseSource
from stream_dp.services.audit.audit import AuditResult, PreparedAudit
from stream_dp.services.audit.rho_bounds import TwoScores
from stream_dp.services.audit.watched_fits import (
    Floats,
    Ints,
    log_ratio,
    noiseless_draw,
    repeated_fit,
    watched_fit,
    without_noise,
)
from stream_dp.services.audit.worlds import DataSet, WorldPeriod

World = tuple[WorldPeriod, ...]
CHECKED = 6  # whole runs that check the known answers


@dataclass(frozen=True)
class KnownAnswers:
    """The answers of a release in both worlds, without noise.

    shift: those of the first world less those of the second, (values,).
    variances: of their noise, as declared.
    """

    prepared: PreparedAudit
    shift: Floats
    variances: Floats

    def audit(self, source: NoiseSource, runs: int) -> AuditResult:
        """An audit with new noise."""
        first, second = (self._noise(source, runs) for _ in range(2))
        scores = self.log_ratios(first), -self.log_ratios(second, -1)
        return result(self.prepared, TwoScores(*scores, self.prepared.size))

    def log_ratios(self, noise: Ints, sign: int = 1) -> Floats:
        """By run, the log likelihood ratio of the other world to the own; see `log_ratio`.

        noise: (values, runs).
        sign: 1 in the first world, -1 in the second.
        """
        weights = sign * self.shift / self.variances
        return -weights @ noise - float(weights @ (sign * self.shift)) / 2

    def _noise(self, source: NoiseSource, runs: int) -> Ints:
        """Noise of (values, runs); values of one variance are drawn together."""
        noise = np.zeros((len(self.variances), runs), np.int64)
        for variance in np.unique(self.variances):
            rows = np.flatnonzero(self.variances == variance)
            demand = [(Fraction(variance).limit_denominator(10**9), len(rows) * runs)]
            noise[rows] = source.draw(demand).noise[0].reshape(-1, runs)
        return noise


def result(prepared: PreparedAudit, scores: TwoScores) -> AuditResult:
    """The result of an audit with these scores."""
    return AuditResult(
        study=prepared.study,
        release=prepared.release.name,
        kind=prepared.release.kind,
        subject=prepared.audited.subject,
        rho=prepared.audited.rho,
        pair=prepared.pair,
        scores=scores,
    )


def known_answers(prepared: PreparedAudit, source: NoiseSource) -> KnownAnswers | None:
    """The answers of a release; None if it makes choices, so that its answers differ by run."""
    audited, size = prepared.audited, prepared.size
    worlds = [
        audited.worlds.world(audited.cells, history, size)
        for history in (prepared.pair.second, prepared.pair.first)
    ]
    if audited.mechanisms:
        (name,) = audited.mechanisms
        return _of_panel(prepared, name, worlds, source)
    (data_set,) = audited.schedule
    if any(run.choices for run in audited._references[0].tables[data_set].rounds):
        return None
    return _of_data_set(prepared, data_set, worlds, source)


def _of_data_set(
    prepared: PreparedAudit, name: DataSet, worlds: Sequence[World], source: NoiseSource
) -> KnownAnswers:
    """Checks that whole fits have these answers and scores."""
    reference = prepared.audited._references[0].tables[name]
    fits = [prepared.audited._fit(name, world, reference) for world in worlds]
    exact = [repeated_fit(fit, reference.rounds) for fit in fits]
    answers = [np.concatenate([run.exact for run in rounds]) for rounds in exact]
    variances = np.concatenate([run.variances for run in exact[0]])
    known = KnownAnswers(prepared, answers[0] - answers[1], variances)
    for number in range(CHECKED):
        world = number % 2
        watched = watched_fit(fits[world], source, len(exact[0]))
        here, there = without_noise(watched), repeated_fit(fits[1 - world], watched)
        for rounds, expected in ((here, answers[world]), (there, answers[1 - world])):
            assert np.array_equal(np.concatenate([run.exact for run in rounds]), expected)
        assert np.array_equal(np.concatenate([run.variances for run in watched]), variances)
        noise = np.concatenate([run.noise for run in watched])
        (score,) = known.log_ratios(noise[:, None], 1 - 2 * world)
        assert abs(score - log_ratio(watched, here, there)) < 1e-6
    return known


@dataclass
class _Kept:
    """Draws noise and keeps it."""

    source: NoiseSource
    drawn: list[Ints] = field(default_factory=list)

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        noise = self.source.draw(demand)
        self.drawn.extend(noise.noise)
        return noise


def _of_panel(
    prepared: PreparedAudit, name: str, worlds: Sequence[World], source: NoiseSource
) -> KnownAnswers:
    """Checks that whole runs add their noise to these answers, in its order."""
    audited, exact, variances = prepared.audited, list[Floats](), np.zeros(0)
    for world in worlds:
        silent = Measurements.joined(audited._panel(name, world, noiseless_draw))
        exact.append(silent.values.astype(np.float64))
        variances = np.array(silent.variances, np.float64)
        for _ in range(CHECKED // 2):
            kept = _Kept(source)
            noisy = Measurements.joined(audited._panel(name, world, kept.draw)).values
            assert np.array_equal(noisy - silent.values, np.concatenate(kept.drawn))
    return KnownAnswers(prepared, exact[0] - exact[1], variances)


def found(audit: Callable[[], AuditResult], audits: int) -> int:
    """The number of audits that find a violation."""
    return sum(audit().violation for _ in range(audits))
