"""The methods of data sets in words, by the kind of their release."""

from __future__ import annotations

from .data_sets import DataSetRelease, PeopleRelease
from .places import SizesRelease

TITLES = {
    "mixture": "residuals of people's columns, a mixture of products of blocks",
    "rap": "residuals of people's columns, numbers in public bins, a mixture of products of blocks",
    "match": "single columns, then marginals of the values that stand out; a mixture of products of"
    " blocks",
    "sizes": "sizes of groups in a tree of regions, levels made consistent",
    "independent": "independent attributes from noisy marginals",
    "mwem": "multiplicative weights over groups and members (MWEM)",
    "hpd-fixed": "hierarchical product distributions, fixed (HPD-Fixed)",
    "hpd-gen": "hierarchical product distributions, generated (HPD-Gen)",
}
# Of tables of people whose pairs are picked in rounds, whatever their kind.
PICKED_TITLE = "pairs of columns picked in rounds (AIM), residuals, a graphical model"


def kind_title(kind: str) -> str:
    """The name of a kind's method, in words."""
    return TITLES[kind]


def sizes_title(*, pure: bool, merge: str) -> str:
    """The method of sizes. pure: whether the noise is double-geometric. merge: as declared."""
    noise = "double-geometric" if pure else "discrete Gaussian"
    return f"sizes of groups in a tree of regions, {noise} noise, levels merged by '{merge}'"


def possible_titles(release: DataSetRelease) -> tuple[str, ...]:
    """The titles one of which a certificate of this release has; noisy numbers may choose it."""
    if isinstance(release, SizesRelease):
        return (sizes_title(pure=release.epsilon is not None, merge=release.merge),)
    if isinstance(release, PeopleRelease):
        return TITLES[release.kind], PICKED_TITLE
    return (TITLES[release.kind],)
