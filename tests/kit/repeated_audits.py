"""Many audits of one release at the cost of a few: its answers are learnt once.

A release without choices measures the same answers in every run. The functions check this with
whole runs. A further audit then needs new noise alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from stream_dp.privacy.noise import Draw, NoiseSource
from stream_dp.services.audit.audit import AuditResult, PreparedAudit
from stream_dp.services.audit.data_set_runs import DataSetRuns, Floats
from stream_dp.services.audit.histories import History
from stream_dp.services.audit.panel_runs import PanelRuns, noiseless_draw
from stream_dp.services.audit.rho_bounds import TwoScores
from stream_dp.services.audit.watched_fits import (
    Ints,
    log_ratio,
    repeated_fit,
    watched_fit,
    without_noise,
)

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
        return result(self.prepared, TwoScores(*scores, 0.0, self.prepared.size))

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
    if isinstance(prepared.audited, PanelRuns):
        return _of_panel(prepared, prepared.audited, source)
    assert isinstance(prepared.audited, DataSetRuns)
    if any(run.choices for run in prepared.audited._references[0]):
        return None
    return _of_data_set(prepared, prepared.audited, source)


def _worlds(prepared: PreparedAudit) -> tuple[History | None, History]:
    return prepared.pair.second, prepared.pair.first


def _of_data_set(
    prepared: PreparedAudit, audited: DataSetRuns, source: NoiseSource
) -> KnownAnswers:
    """Checks that whole fits have these answers and scores."""
    fits = [audited._fit(history, prepared.size) for history in _worlds(prepared)]
    exact = [repeated_fit(fit, audited._references[0]) for fit in fits]
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


def _of_panel(prepared: PreparedAudit, audited: PanelRuns, source: NoiseSource) -> KnownAnswers:
    """Checks that whole runs add their noise to these answers, in its order."""
    exact, variances = list[Floats](), np.zeros(0)
    for history in _worlds(prepared):
        alike = {} if history is None else {f"canary {i}": history for i in range(prepared.size)}
        counts = audited._counts(alike)
        silent = audited._published(counts, noiseless_draw)
        exact.append(silent.values.astype(np.float64))
        variances = np.array(silent.variances, np.float64)
        for _ in range(CHECKED // 2):
            kept = _Kept(source)
            noisy = audited._published(counts, kept.draw).values
            assert np.array_equal(noisy - silent.values, np.concatenate(kept.drawn))
    return KnownAnswers(prepared, exact[0] - exact[1], variances)


def found(audit: Callable[[], AuditResult], audits: int) -> int:
    """The number of audits that find a violation."""
    return sum(audit().violation for _ in range(audits))
