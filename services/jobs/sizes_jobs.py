"""Jobs of sizes of places: the people of each place, by region, and noisy sizes."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.synthesizer import FitContext
from stream_dp.errors import UserError
from stream_dp.population import Population
from stream_dp.population.people_codes import slots_by_hash, symbols_of
from stream_dp.release.arrow import NamedParts
from stream_dp.release.published_sizes import read_sizes, sizes_certificate
from stream_dp.release.published_tables import Provenance
from stream_dp.release.sizes_certificate import SizesCertificate
from stream_dp.study import SizesRelease, Study

from ..groups.members import Members
from ..groups.place_table import PlacesTable
from .job_inputs import Tables
from .sizes_results import fitted_sizes, stated_levels
from .table_results import OTHER_RELEASE

TABLES = ("sizes",)
_PLACE, _PEOPLE = "place", "people"  # columns of the tables of parts


def asks_people(release: SizesRelease) -> bool:
    """Whether people say where they are; otherwise sizes come from a table of counts."""
    return release.attribute is not None


def part_table(
    study: Study, release: SizesRelease, population: Population, members: object = None
) -> pa.Table:
    """The places (`place`) with `people` of a part in them."""
    return _counted(release, population, slots_by_hash(population))


def nobody_table(study: Study, release: SizesRelease, population: Population) -> pa.Table | None:
    """The place of a slot that nobody has; None where a part has no such slot."""
    if not population.nobodies:
        return None
    return _counted(release, population, np.zeros(1, np.int64))


def _counted(release: SizesRelease, population: Population, slots: NDArray[np.int64]) -> pa.Table:
    assert release.attribute is not None
    symbols = symbols_of(population)[release.attribute][slots]
    places, people = np.unique(symbols, return_counts=True)
    return pa.table({_PLACE: places.astype(np.uint32), _PEOPLE: people})


def joined_tables(
    study: Study,
    release: SizesRelease,
    parts: Iterable[pa.Table],
    table: Members | PlacesTable | None,
    nobody: pa.Table | None,
    unclaimed: int,
) -> dict[str, Iterable[pa.Table]]:
    """The sizes of places by region."""
    assert isinstance(table, PlacesTable)
    if release.attribute is None:
        return {"sizes": [table.sizes(None, release.largest)]}
    assert table.keys is not None
    people = np.zeros(len(table.keys) + 1, np.int64)  # the last for those in no place
    for times, one in [*((1, part) for part in parts), (unclaimed, nobody)]:
        if one is not None:
            people[one[_PLACE].to_numpy()] += times * one[_PEOPLE].to_numpy()
    return {"sizes": [table.sizes_of(people[:-1], release.largest)]}


def fitted_parts(
    study: Study, release: SizesRelease, tables: Tables, context: FitContext
) -> tuple[Provenance, list[tuple[str, bytes]]]:
    """How a job was fitted, and what is published. Raises UserError for other tables."""
    if "sizes" not in tables:
        raise UserError(OTHER_RELEASE)
    provenance, sizes = fitted_sizes(study, release, tables["sizes"], context)
    return provenance, sizes.parts()


def certificate(
    study: Study,
    release: SizesRelease,
    parts: NamedParts,
    provenance: Provenance,
    *,
    number: int,
    rho: Fraction,
    spent: Fraction,
) -> SizesCertificate:
    """The certificate of a result. Raises UserError where the parts are not of this release."""
    sizes = read_sizes(study.places.regions if study.places else (), parts)
    return sizes_certificate(
        study,
        release,
        number=number,
        tables=sizes,
        levels=stated_levels(study, release, sizes, provenance),
        mechanism=provenance.mechanism,
        rho=rho,
        spent=spent,
        simulated=provenance.simulated,
    )
