"""The planned measurements of a release of data sets, before any data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction

from stream_dp.batch.kinds import planned_phases
from stream_dp.batch.planned_phases import PlannedPhase
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import DataSetRelease, Family, Study
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Registry

from .group_errors import Count, GroupError, group_error, group_errors, panel_count


@dataclass(frozen=True)
class PlannedDataSet:
    """A planned release.

    release: with the rho of its last data set.
    first: the rho of its first.
    number: of data sets.
    phases: of the last fit; in an earlier one with another rho, noisy counts may decide otherwise.
    """

    study: Study
    release: DataSetRelease
    first: Fraction
    number: int
    phases: tuple[PlannedPhase, ...]

    @property
    def rho(self) -> Fraction:
        """Of all data sets together."""
        return self.first + (self.number - 1) * self.release.rho

    def as_dict(self) -> dict[str, object]:
        release, kind = self.release, self.release.data_set
        return {
            "name": release.name,
            "kind": release.kind,
            "data_sets": self.number,
            "rho_of_first": str(self.first),
            "rho_of_each": str(release.rho),
            "epsilon_of_each": str(epsilon(release.rho, self.study.delta)),
            "epsilon_of_all": str(epsilon(self.rho, self.study.delta)),
            "looks_at": release.family.looks_at,
            "relations_proved": list(kind.relations),
            "settings": release.model_dump(mode="json", include=set(kind.settings)),
            "tables": list(release.family.tables),
            "phases": [{**asdict(phase), "rho": str(phase.rho)} for phase in self.phases],
        }

    def lines(self, *, exact: bool) -> Iterator[str]:
        """In words. exact: with the properties of the kind."""
        release, kind, delta = self.release, self.release.data_set, self.study.delta
        eps = float(epsilon(release.rho, delta))
        yield (
            f"data set {release.name} ({release.kind}): {self.number} of them, each with"
            f" rho = {float(release.rho):.6g}, eps = {eps:.3g} at delta = {float(delta):g}"
        )
        if self.first != release.rho:
            yield (
                f"  but the first with rho = {float(self.first):.6g}, on which the later ones build"
            )
        yield from (f"  {phase.text}" for phase in self.phases)
        yield from (f"  every group keeps: {rule.text}" for rule in release.structural_rules)
        if exact:
            tables = ", ".join(release.family.tables)
            yield f"  looks at: {release.family.looks_at}; publishes: {tables}"
            yield f"  its cost is proved under: {', '.join(kind.relations)}"
            declared = self.release.model_dump(
                mode="json", include=set(kind.settings), exclude_none=True
            )
            settings = (f"{name} = {declared[name]}" for name in kind.settings if name in declared)
            yield f"  settings: {', '.join(settings) or 'none'}"


def planned_data_set(study: Study, release: DataSetRelease) -> PlannedDataSet:
    """Raises UserError for too large a workload."""
    data_sets = [*study.schedule(release).values()]
    last = data_sets[-1] if data_sets else release
    first = data_sets[0].rho if data_sets else release.rho
    return PlannedDataSet(study, last, first, len(data_sets), planned_phases(study, last))


def planned_group_errors(study: Study) -> tuple[GroupError, ...]:
    """The relative errors of groups of people, of every release that counts people."""
    return group_errors(study, _COUNTS)


def _table_count(study: Study, release: DataSetRelease) -> GroupError:
    """The largest error of a value of the columns that are measured first.

    A first phase of one query measures the number of people, which is no group.
    """
    phases = planned_data_set(study, release).phases
    first = next((phase for phase in phases if phase.queries > 1), phases[0])
    return group_error(study, release, "a value of a measured column", first.most)


def no_count(study: Study, release: DataSetRelease) -> None:
    """Sizes count places, whose error is not one of a number of people."""


_COUNTS: Registry[Family, Count] = Registry(
    "errors of a count of people",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, panel_count),
        **dict.fromkeys(TABLE_FAMILIES, _table_count),
        Family.SIZES: no_count,
    },
)
