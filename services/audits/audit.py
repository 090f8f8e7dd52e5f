"""The audit of a release: the worst pair, repeated runs in both worlds, and the bounds on rho."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import msgspec

from stream_dp import __version__
from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.privacy.noise import NoiseSource
from stream_dp.release.audit_statement import AuditStatement
from stream_dp.study import DataSetRelease, Family, Release, Study
from stream_dp.study.families import Registry

from .data_set_runs import DataSetRuns
from .histories import WorstPair
from .household_runs import HouseholdRuns
from .panel_runs import PanelRuns
from .rho_bounds import TwoScores, counted_bound, gaussian_bound
from .scored_runs import AuditedRelease, Progress
from .sizes_runs import SizesRuns

RUNS, LEAST_RUNS, MOST_RUNS = 1000, 50, 10**6  # in each world
CONFIDENCE = 0.95
ALARM = 1e-4  # the probability that a release without a fault is reported as a violation
_APART = 4.0  # standard deviations that the worlds are to be apart
ASSUMPTION = "scores are normal, with one variance for both worlds"


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit.

    study: the declaration.
    release, kind: their names.
    subject: the audited part of the release, in words.
    rho: the declared cost.
    pair_rho: what the worst pair costs by the declared variances.
    scores: of all runs.
    """

    study: Study
    release: str
    kind: str
    subject: str
    rho: Fraction
    pair_rho: float
    scores: TwoScores

    @property
    def lower_bound(self) -> float:
        """The lower bound on rho for normal scores, at `CONFIDENCE`."""
        return gaussian_bound(self.scores, 1 - CONFIDENCE)

    @property
    def counted_bound(self) -> float:
        """The lower bound on rho without an assumption, at `CONFIDENCE`."""
        return counted_bound(self.scores, 1 - CONFIDENCE)

    @property
    def violation(self) -> bool:
        """Whether the release costs more than declared, at a confidence of 1 - `ALARM`."""
        bounds = gaussian_bound(self.scores, ALARM), counted_bound(self.scores, ALARM)
        return max(bounds) > self.rho

    @property
    def statement(self) -> AuditStatement:
        """What is stated in public."""
        return AuditStatement(
            study=self.study.name,
            release=self.release,
            kind=self.kind,
            audited=self.subject,
            rho_declared=float(self.rho),
            rho_lower_bound=self.lower_bound,
            rho_lower_bound_counted=self.counted_bound,
            confidence=CONFIDENCE,
            assumption=ASSUMPTION,
            runs=len(self.scores.first),
            violation=self.violation,
            code_version=__version__,
        )

    def as_dict(self) -> Json:
        return {
            **msgspec.to_builtins(self.statement),
            "rho_of_pair": self.pair_rho,
            "people": self.scores.size,
            "violation_confidence": 1 - ALARM,
        }

    def text(self) -> str:
        rho, scores = float(self.rho), self.scores
        people = "one person" if scores.size == 1 else f"{scores.size} people alike"
        verdict = (
            "VIOLATION: the release costs more than it declares; report it as SECURITY.md says"
            if self.violation
            else "no violation: the bounds are below the declared rho"
        )
        return "\n".join(
            [
                f"audit of {self.release} ({self.kind}) in {self.study.name}: {self.subject}",
                f"  declared rho:               {rho:.6g}",
                f"  rho of the worst pair:      {self.pair_rho:.6g}, by the declared variances",
                f"  rho is at least:            {self.lower_bound:.6g}"
                f" ({100 * self.lower_bound / rho:.1f} % of the declared), if {ASSUMPTION}",
                f"  without this assumption:    {self.counted_bound:.6g}",
                f"  confidence of each bound:   {100 * CONFIDENCE:g} %",
                f"  runs: {len(scores.first)} in each of two worlds that differ by {people}",
                verdict,
            ]
        )


AUDITED: Registry[Family, Callable[..., AuditedRelease]] = Registry(
    "audits of releases",
    Family,
    {
        Family.WINDOW: PanelRuns,
        Family.CUMULATIVE: PanelRuns,
        Family.JOINT: PanelRuns,
        Family.PEOPLE: DataSetRuns,
        Family.HOUSEHOLDS: HouseholdRuns,
        Family.EVENTS: DataSetRuns,
        Family.SIZES: SizesRuns,
    },
)


@dataclass(frozen=True)
class PreparedAudit:
    """A declared release whose worst pair is known.

    size: the number of people in whom the worlds differ.
    """

    study: Study
    release: Release | DataSetRelease
    audited: AuditedRelease
    pair: WorstPair
    size: int

    @staticmethod
    def of(study: Study, release: Release | DataSetRelease) -> PreparedAudit:
        """Searches the worst pair. Raises UserError for a release that cannot be audited."""
        audited = AUDITED[release.family](study, release)
        pair = audited.worst_pair()
        if pair.rho <= 0:
            raise UserError(f"audit: no simulated person changes what '{release.name}' publishes")
        return PreparedAudit(study, release, audited, pair, group_size(audited, pair))

    def run(self, source: NoiseSource, runs: int, progress: Progress = lambda: None) -> AuditResult:
        """Runs both worlds.

        source: the product's noise; it is drawn for simulated people alone.
        runs: in each world.
        progress: called after a run in both worlds.
        """
        return AuditResult(
            study=self.study,
            release=self.release.name,
            kind=self.release.kind,
            subject=self.audited.subject,
            rho=self.audited.rho,
            pair_rho=self.pair.rho,
            scores=self.audited.scores(self.pair, self.size, runs, source, progress),
        )


def audit(
    study: Study,
    release: Release | DataSetRelease,
    source: NoiseSource,
    *,
    runs: int = RUNS,
    progress: Progress = lambda: None,
) -> AuditResult:
    """Audits a declared release on simulated people; see `PreparedAudit.run`.

    Raises UserError for a release that cannot be audited, and for too few runs.
    """
    if runs < LEAST_RUNS:
        raise UserError(f"--runs: at least {LEAST_RUNS} runs tell anything; write a larger number")
    if runs > MOST_RUNS:
        raise UserError(f"--runs: {MOST_RUNS:,} runs are the most; write a smaller number")
    return PreparedAudit.of(study, release).run(source, runs, progress)


def group_size(audited: AuditedRelease, pair: WorstPair) -> int:
    """The number of people by which worlds differ, about `_APART` standard deviations apart."""
    size = round(_APART / math.sqrt(2 * pair.rho))
    return max(1, min(size, audited.most))
