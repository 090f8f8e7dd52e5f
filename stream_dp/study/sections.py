"""The sections of a study file that are sound by themselves, to be checked against each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from .attribute import Attribute
from .data_sets import DataSetRelease
from .groups import Groups
from .model import DeclaredPopulation, Neighbours, Release, Study
from .periods import Periods
from .places import Places


@dataclass(frozen=True)
class Sections:
    """The sections of a study; None for one that is missing or has faults of its own.

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
    unit: str | None
    neighbours: Neighbours | None
    rho: Fraction | None

    @property
    def releases(self) -> list[Release]:
        """The sound releases of panels."""
        return [
            release
            for _, release in self.numbered_releases
            if release is not None and not isinstance(release, DataSetRelease)
        ]

    @property
    def batches(self) -> list[DataSetRelease]:
        """The sound batch releases."""
        return [
            release for _, release in self.numbered_releases if isinstance(release, DataSetRelease)
        ]

    @classmethod
    def of(cls, study: Study) -> Sections:
        """The sections of a study, all of which are sound by themselves."""
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
            unit=study.unit,
            neighbours=study.neighbours,
            rho=study.rho,
        )
