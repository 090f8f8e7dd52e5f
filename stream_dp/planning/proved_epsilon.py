"""The least proved eps of a study: below that of zCDP if all of its noise is discrete Gaussian."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from stream_dp.batch.kinds import planned_phases
from stream_dp.continual.mechanisms import AnyMechanism
from stream_dp.privacy.gaussian_epsilon import gaussian_epsilon
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.study_plan import panel_variances
from stream_dp.study import DataSetRelease, Family, Study
from stream_dp.study.families import Kind

# Tables of people whose phases follow from the study alone if the number of people is public.
_FIXED_PHASES = {Kind.MIXTURE, Kind.RAP}


@dataclass(frozen=True)
class ProvedEpsilon:
    """The eps of costs of a study, at its delta. mechanisms: of its panels, by release."""

    study: Study
    mechanisms: Mapping[str, AnyMechanism]

    @cached_property
    def least_variance(self) -> Fraction | None:
        """A bound below the variances of all noise in counts that somebody changes.

        None unless all noise is discrete Gaussian.
        """
        if not all(_is_gaussian(self.study, batch) for batch in self.study.batches or ()):
            return None
        return min((*panel_variances(self.study, self.mechanisms), *self._data_set_variances()))

    def _data_set_variances(self) -> Iterator[Fraction]:
        """A data set pays 1 / (2 variance) at least for what changes."""
        for batch in self.study.batches or ():
            yield from (1 / (2 * one.rho) for one in self.study.schedule(batch).values())

    def of(self, rho: Fraction) -> Decimal:
        if self.least_variance is None:
            return epsilon(rho, self.study.delta)
        return gaussian_epsilon(rho, self.study.delta, self.least_variance)

    def stated(self, spent: Fraction) -> dict[str, Any]:
        """The fields of a certificate. spent: rho of all releases up to its own."""
        if self.least_variance is None:
            return {}
        return {
            "least_variance": self.least_variance,
            "least_epsilon_spent": str(self.of(spent)),
            "least_epsilon_total": str(self.of(self.study.rho)),
        }

    def facts(self, planned: Fraction) -> dict[str, str]:
        """By name. planned: the rho of the plan."""
        return {
            "least_epsilon_planned": str(self.of(planned)),
            "least_epsilon_total": str(self.of(self.study.rho)),
        }

    def words(self, planned: Fraction) -> list[str]:
        """The eps of zCDP, and a line if less is proved."""
        study, whole = self.study, self.of(self.study.rho)
        lines = [
            f"in (eps, delta) at delta = {float(study.delta):g}: eps ="
            f" {epsilon(planned, study.delta)}; of the whole budget"
            f" {epsilon(study.rho, study.delta)}"
        ]
        if whole == epsilon(study.rho, study.delta):
            return lines
        return [
            *lines,
            f"all noise is discrete Gaussian, for which less is proved: eps = {self.of(planned)};"
            f" of the whole budget {whole}",
        ]


def _is_gaussian(study: Study, release: DataSetRelease) -> bool:
    """Whether all that reads the data is discrete Gaussian answers, whatever they are."""
    if release.family is Family.PEOPLE and (
        release.kind not in _FIXED_PHASES or study.neighbours == "add_remove"
    ):
        return False
    # The rho of a data set decides between mechanisms, as in `planned_titles`.
    data_sets = {one.rho: one for one in study.schedule(release).values()} or {release.rho: release}
    return all(phase.gaussian for one in data_sets.values() for phase in planned_phases(study, one))
