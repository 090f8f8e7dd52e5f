"""The sound sections of a study file, for mutual checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from .attribute import Attribute
from .declared_sections import DeclaredPopulation, Gate, WeightingCells
from .families import Neighbours
from .group_releases import Groups
from .panel_releases import Release
from .periods import Periods
from .place_releases import Places
from .study import Study
from .table_releases import DataSetRelease

R = TypeVar("R", bound=DataSetRelease)


@dataclass(frozen=True)
class Sections:
    """The sections of a study; None for missing sections and sections with faults.

    attributes: the sound ones.
    attribute_names: the names of all attributes, sound or not.
    has_groups, has_places: whether groups and places are declared, sound or not.
    numbered_releases: the releases, each with its number in the file, from 1.
    """

    attributes: Mapping[str, Attribute]
    attribute_names: Collection[str]
    has_groups: bool
    groups: Groups | None
    has_places: bool
    places: Places | None
    numbered_releases: tuple[tuple[int, Release | DataSetRelease | None], ...]
    periods: Periods | None
    population: DeclaredPopulation | None
    gate: Gate | None
    weights: WeightingCells | None
    unit: str | None
    neighbours: Neighbours | None
    rho: Fraction | None

    @property
    def releases(self) -> list[Release]:
        """The sound releases of panels."""
        declared = (release for _, release in self.numbered_releases)
        return [r for r in declared if r is not None and not isinstance(r, DataSetRelease)]

    @property
    def batches(self) -> list[DataSetRelease]:
        """The sound releases of data sets."""
        return self.of(DataSetRelease)

    def of(self, model: type[R]) -> list[R]:
        """The sound releases of this model."""
        return [release for _, release in self.numbered_releases if isinstance(release, model)]

    @classmethod
    def of_study(cls, study: Study) -> Sections:
        """The sections of a sound study."""
        return cls(
            attributes=study.attributes,
            attribute_names=study.attributes.keys(),
            has_groups=study.groups is not None,
            groups=study.groups,
            has_places=study.places is not None,
            places=study.places,
            numbered_releases=tuple(enumerate((*study.releases, *(study.batches or ())), 1)),
            periods=study.periods,
            population=study.population,
            gate=study.gate,
            weights=study.weights,
            unit=study.unit,
            neighbours=study.neighbours,
            rho=study.rho,
        )
