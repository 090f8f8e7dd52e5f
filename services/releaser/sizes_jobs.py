"""Jobs of sizes of places: the people of every place by region, their fit, and their certificate.

A result states the method of each level, which may have been chosen privately. Cost and noise
follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.sizes.declared_sizes import declared_plan, fit_release, title
from stream_dp.batch.sizes.histogram import Regions
from stream_dp.batch.synthesizer import FitContext
from stream_dp.errors import UserError
from stream_dp.population.population import Population, slots_by_hash, symbols_of
from stream_dp.release.arrow_parts import NamedParts
from stream_dp.release.published_sizes import (
    LevelCertificate,
    SizesCertificate,
    SizesTables,
    read_sizes,
    sizes_certificate,
)
from stream_dp.release.published_tables import Provenance, Tables
from stream_dp.study import SizesRelease, Study

from ..intake.group_tables import Members, PlacesTable
from .table_results import OTHER_RELEASE

TABLES = ("sizes",)
_METHODS = "methods"  # the note of a result
_PLACE, _PEOPLE = "place", "people"  # columns of the tables of parts


def asks_people(release: SizesRelease) -> bool:
    """Whether people say where they are; otherwise sizes come from a table of counts."""
    return release.attribute is not None


def part_table(
    study: Study, release: SizesRelease, population: Population, members: object = None
) -> pa.Table:
    """The places (`place`) of a part's `people`."""
    return _counted(release, population, slots_by_hash(population))


def nobody_table(study: Study, release: SizesRelease, population: Population) -> pa.Table | None:
    """The place of an unclaimed slot; None for a part without unclaimed slots."""
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
    """The sizes of places by region.

    nobody: the place of one unclaimed slot, which counts `unclaimed` times.
    """
    assert isinstance(table, PlacesTable)
    if release.attribute is None:
        return {"sizes": [table.sizes(None, release.largest)]}
    assert table.keys is not None
    people = np.zeros(len(table.keys) + 1, np.int64)  # the last for those in no place
    for part in parts:
        people[part[_PLACE].to_numpy()] += part[_PEOPLE].to_numpy()
    if nobody is not None:
        people[nobody[_PLACE].to_numpy()] += unclaimed * nobody[_PEOPLE].to_numpy()
    return {"sizes": [table.sizes_of(people[:-1], release.largest)]}


def fitted_parts(
    study: Study, release: SizesRelease, tables: Tables, context: FitContext
) -> tuple[Provenance, list[tuple[str, bytes]]]:
    """Fits a job: provenance and published parts. Raises UserError for other tables."""
    if "sizes" not in tables:
        raise UserError(OTHER_RELEASE)
    fitted = fit_release(study, release, tables["sizes"], context)
    regions, no_values = fitted.plan.regions, np.zeros(0, np.int64)
    values = [
        level.values or [no_values] * len(paths)
        for level, paths in zip(fitted.levels, regions.levels, strict=True)
    ]
    sizes = SizesTables.of(
        regions.columns,
        [
            (depth, path, places)
            for depth, paths in enumerate(regions.levels)
            for path, places in zip(paths, regions.counts[depth].tolist(), strict=True)
        ],
        [(sizes.size, sizes.groups) for level in fitted.sizes for sizes in level],
        list(chain(*values)),
    )
    notes = {_METHODS: [level.plan.method for level in fitted.levels]}
    provenance = Provenance(title(fitted.plan), notes, context.source.simulated)
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
    """The certificate of a result. Raises UserError for parts of another release."""
    sizes = read_sizes(study.places.regions if study.places else (), parts)
    return sizes_certificate(
        study,
        release,
        number=number,
        tables=sizes,
        levels=_stated_levels(study, release, sizes, provenance),
        mechanism=provenance.mechanism,
        rho=rho,
        spent=spent,
        simulated=provenance.simulated,
    )


def _stated_levels(
    study: Study, release: SizesRelease, tables: SizesTables, provenance: Provenance
) -> tuple[LevelCertificate, ...]:
    """The levels in a certificate. Raises UserError for another mechanism or method."""
    plan = declared_plan(study, release, _tree(study, tables))
    methods = provenance.notes.get(_METHODS)
    if (
        provenance.mechanism != title(plan)
        or not isinstance(methods, list)
        or len(methods) != len(plan.levels)
        or any(
            method not in [candidate.method for candidate in level.candidates]
            for method, level in zip(methods, plan.levels, strict=True)
        )
    ):
        raise UserError("a result of another mechanism than its release declares")
    names = ("all", *plan.regions.columns)
    return tuple(
        LevelCertificate.model_validate(
            {
                "name": name,
                "regions": len(paths),
                "method": candidate.method,
                "rho": level.rho,
                "noise": "double-geometric" if level.pure else "discrete Gaussian",
                "parameter": candidate.parameter,
            }
        )
        for name, paths, method, level in zip(
            names, plan.regions.levels, methods, plan.levels, strict=True
        )
        for candidate in level.candidates
        if candidate.method == method
    )


def _tree(study: Study, tables: SizesTables) -> Regions:
    """The tree of regions in a result."""
    assert study.places is not None
    columns = study.places.regions
    level = tables.regions["level"].to_numpy()
    leaves = tables.regions.filter(pa.array(level == len(columns)))
    paths = zip(*(leaves[name].to_pylist() for name in columns), strict=True)
    return Regions.of(columns, dict(zip(paths, leaves["places"].to_pylist(), strict=True)))
