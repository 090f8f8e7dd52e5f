"""Jobs of people with their events: everybody by hash, and tables of synthetic people and events.

The input has a row for every declared person, and a column for every attribute of people and every
slot of an event.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.synthesizer import FitContext, with_events
from stream_dp.errors import UserError
from stream_dp.population.population import Population, symbols_of
from stream_dp.release.published_tables import (
    Provenance,
    Tables,
    coded_people,
    coded_tables,
    column_values,
)
from stream_dp.study import EventsRelease, Study

from .people_jobs import TABLES as TABLES
from .people_jobs import asks_people as asks_people
from .people_jobs import by_hash
from .people_jobs import joined_tables as joined_tables
from .table_results import OTHER_RELEASE, codes_of, fitted_table_parts


def _rows(
    study: Study, release: EventsRelease, population: Population, slots: NDArray[np.int64]
) -> pa.Table:
    symbols = symbols_of(population)
    names = {name: study.attributes[name].symbols for name in release.names}
    return coded_people(names, np.stack([symbols[name][slots] for name in names], axis=1))


part_table, nobody_table = by_hash(_rows)


def fitted_parts(
    study: Study, release: EventsRelease, tables: Tables, context: FitContext
) -> tuple[Provenance, list[tuple[str, bytes]]]:
    """Fits a job: provenance and published parts. Raises UserError for other tables."""
    try:
        answers = codes_of(tables["people"], release.names)
        hierarchy = with_events(study.attributes, release, answers)
    except (ValueError, KeyError):
        raise UserError(OTHER_RELEASE) from None
    names = column_values(study, release)

    def coded(sample: Hierarchy) -> Tables:
        return coded_tables(names, sample.groups, sample.people, sample.group_of)

    return fitted_table_parts(load_synthesizer(release.kind), hierarchy, release, context, coded)
