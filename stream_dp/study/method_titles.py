"""The methods of data sets in words, by the kind of their release."""

from __future__ import annotations

from collections.abc import Callable

from .families import DATA_SET_FAMILIES, KINDS, Family, Kind, Registry
from .place_releases import SizesRelease
from .table_releases import DataSetRelease, PeopleRelease

# Of tables of people whose pairs are picked in rounds, whatever their kind.
PICKED_TITLE = "pairs of columns picked in rounds (AIM), residuals, a graphical model"


def kind_title(kind: str) -> str:
    """The name of a kind's method, in words."""
    return KINDS[Kind(kind)].title


def sizes_title(*, pure: bool) -> str:
    """The method of sizes. pure: whether the noise is double-geometric."""
    noise = "double-geometric" if pure else "discrete Gaussian"
    return f"sizes of groups in a tree of regions, {noise} noise, levels made consistent"


def possible_titles(release: DataSetRelease) -> tuple[str, ...]:
    """The possible titles in a certificate of this release; noisy numbers may choose."""
    return _POSSIBLE[release.family](release)


def _people_titles(release: PeopleRelease) -> tuple[str, ...]:
    """Rounds, sums or marginals are declared, or else noisy numbers may choose."""
    if release.chosen:
        return kind_title(release.kind), PICKED_TITLE
    return (PICKED_TITLE if release.declared_rounds else kind_title(release.kind),)


def _titles_of_two_tables(release: DataSetRelease) -> tuple[str, ...]:
    return (kind_title(release.kind),)


def _sizes_titles(release: SizesRelease) -> tuple[str, ...]:
    return (sizes_title(pure=release.epsilon is not None),)


_POSSIBLE: Registry[Family, Callable[..., tuple[str, ...]]] = Registry(
    "titles of data sets",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: _people_titles,
        Family.HOUSEHOLDS: _titles_of_two_tables,
        Family.EVENTS: _titles_of_two_tables,
        Family.SIZES: _sizes_titles,
    },
)
