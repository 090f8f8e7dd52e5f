"""True sizes of places for `evaluate`, from counts or from reports. CONFIDENTIAL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from stream_dp.batch.sizes.declared_sizes import declared_plan
from stream_dp.batch.sizes.histogram import Sizes
from stream_dp.batch.sizes.region_tables import counted_regions
from stream_dp.batch.sizes.sizes_plan import SizesPlan
from stream_dp.errors import UserError
from stream_dp.study import SizesRelease, Study
from stream_dp.study.place_releases import is_of_sizes

from ..groups.place_files import places_from_file
from ..groups.place_table import PlacesTable
from .table_evaluations import Panel, last_due


def known_places(study: Study, truth: Path, place_file: Path | None) -> PlacesTable | None:
    """The table of places of an evaluation; None without places. Raises UserError.

    truth: the table of counts of a study with `counted = true`.
    places: the table of places of any other.
    """
    if study.places is None:
        if place_file is not None:
            raise UserError("--places: goes with sizes of places, and the study has none")
        return None
    if study.places.counted:
        if place_file is not None:
            raise UserError("--places: the study has a table of counts, which is TRUTH itself")
        return places_from_file(study, truth)
    if place_file is None:
        raise UserError("evaluate: the study has places; name their table with --places FILE")
    return places_from_file(study, place_file)


@dataclass(frozen=True)
class KnownSizes:
    """The truth for a release of sizes.

    period: whose close it is.
    leaves: the true sizes of the smallest regions.
    plans: by the label of each budget.
    """

    release: SizesRelease
    period: str
    leaves: Sequence[Sizes]
    plans: Mapping[str, SizesPlan]


def known_sizes(
    study: Study, place_table: PlacesTable, panel: Panel, *, at: str | None, scales: Sequence[str]
) -> list[KnownSizes]:
    """The true sizes of each release of sizes, and its plans. Raises UserError.

    known: by attribute, symbols (people, periods); empty with a table of counts.
    at: the period; the last due one by default.
    scales: the budgets, as multiples of the declared ones.
    """
    judged = []
    for release in study.batches or ():
        if not is_of_sizes(release):
            continue
        label = at or last_due(study, release)
        codes = None
        if release.attribute is not None:
            codes = panel[release.attribute][:, study.periods.numbers[label] - 1]
        counts = place_table.sizes(codes, release.largest)
        regions, leaves = counted_regions(counts, place_table.columns)
        plans = {
            f"rho {scaled.rho}": declared_plan(study, scaled, regions)
            for scaled in _scaled(release, scales)
        }
        judged.append(KnownSizes(release, label, leaves, plans))
    return judged


def _scaled(release: SizesRelease, scales: Sequence[str]) -> list[SizesRelease]:
    """The release at each budget. Raises UserError."""
    if not scales:
        return [release]
    if release.epsilon is not None:
        raise UserError(f"--scales: '{release.name}' has its epsilon by level; leave it out")
    rhos = [release.rho * Fraction(scale) for scale in scales]
    return [release.model_copy(update={"rho": rho}) for rho in rhos]
