"""Jobs of tables of people: present people by hash, and a table of synthetic people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.people_table import People, present_rows, study_people
from stream_dp.batch.synthesizer import FitContext, chained_tables
from stream_dp.errors import UserError
from stream_dp.population.population import Population, slots_by_hash, symbols_of
from stream_dp.release.published_tables import (
    Provenance,
    Tables,
    coded_people,
    column_values,
    with_derived,
)
from stream_dp.study import PeopleRelease, Study

from ..intake.place_table import PlacesTable
from ..intake.roster import Members
from .table_results import GROUP_OF_ROWS, OTHER_RELEASE, codes_of, fitted_table_parts

TABLES = ("people",)
CORRELATED = "correlated with those of the data sets that it is fused with"


def asks_people(release: PeopleRelease) -> bool:
    """A table of people always uses reports."""
    return True


def part_table(
    study: Study, release: PeopleRelease, population: Population, members: object = None
) -> pa.Table:
    """The coded rows of the present people of a part, by hash."""
    return _rows(study, release, population, slots_by_hash(population))


def nobody_table(study: Study, release: PeopleRelease, population: Population) -> pa.Table | None:
    """The row of an unclaimed slot; None for a part without unclaimed slots."""
    if not population.nobodies:
        return None
    return _rows(study, release, population, np.zeros(1, np.int64))


def _rows(
    study: Study, release: PeopleRelease, population: Population, slots: NDArray[np.int64]
) -> pa.Table:
    symbols = symbols_of(population)
    rows = present_rows(study, release, {name: symbols[name][slots] for name in release.names})
    names = column_values(study, release)["people"]
    return coded_people({name: names[name] for name in release.names}, rows)


def joined_tables(
    study: Study,
    release: PeopleRelease,
    parts: Iterable[pa.Table],
    table: Members | PlacesTable | None,
    nobody: pa.Table | None,
    unclaimed: int,
) -> dict[str, Iterable[pa.Table]]:
    """The rows of all parts, then of the unclaimed slots."""
    unclaimed_rows = (
        nobody.take(pa.array(np.zeros(min(GROUP_OF_ROWS, unclaimed - start), np.int64)))
        for start in range(0, unclaimed, GROUP_OF_ROWS)
        if nobody is not None and nobody.num_rows
    )
    return {"people": chain(parts, unclaimed_rows)}


def fitted_parts(
    study: Study, release: PeopleRelease, tables: Tables, context: FitContext
) -> tuple[Provenance, list[tuple[str, bytes]]]:
    """Fits a job: provenance and published parts. Raises UserError for other tables."""
    names = column_values(study, release)["people"]
    try:
        answers = codes_of(tables["people"], release.names)
        people = People.of_answers(study_people(study, release), answers)
    except (ValueError, KeyError):
        raise UserError(OTHER_RELEASE) from None

    def coded(sample: People) -> Tables:
        return {"people": coded_people(names, with_derived(study, release, sample.answers))}

    fit = load_synthesizer(release.kind)
    provenance, parts = fitted_table_parts(fit, people, release, context, coded)
    chain = chained_tables(context, context.transcript.rounds())
    if not chain:
        return provenance, parts
    declared = study.batch(release.name)
    assert declared is not None
    due = study.due_periods(declared)
    fused_with = tuple(due[table.number - 1] for table in chain)
    notes = {**provenance.notes, "errors": CORRELATED}
    return replace(provenance, notes=notes, fused_with=fused_with), parts
