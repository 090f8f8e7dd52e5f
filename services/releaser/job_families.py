"""The jobs of every family: their inputs, fits and certificates.

People come in the order of the keyed hashes of their ids, then unclaimed slots; members in the
order of their table; sizes by region. So the same people give the same bytes, as one population or
as many parts. A table holds no ids.

Each part gives a table (`part`), and `joined` makes the inputs from the tables of all parts; a
population of everybody is one part. All of these tables are confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pyarrow as pa

from stream_dp.population.population import Population
from stream_dp.release.published_sizes import SizesCertificate
from stream_dp.release.published_tables import BatchCertificate, Provenance
from stream_dp.study import DataSetRelease, Family, Study
from stream_dp.study.families import DATA_SET_FAMILIES, Registry

from ..intake.group_tables import Members, PlacesTable
from . import event_jobs, household_jobs, people_jobs, sizes_jobs
from .table_results import table_certificate


@dataclass(frozen=True)
class JobFamily:
    """The jobs of a family. Each function takes the study and the release first.

    tables: the names of the input tables.
    asks_people: takes the release alone; whether the data set uses people's reports.
    part: the table of a part of the population, for a data set that asks people. Takes the
        population and, for groups, the slots of its members and their rows in the members' table.
    nobody: the table of an unclaimed slot; None for a part without one, and for groups.
    joined: the inputs by name, each a sequence of tables. Takes the tables of all parts, read once;
        the table of groups and members or of places; the result of `nobody`, None if each part
        holds all of its slots; and the number of unclaimed slots. Raises Inconsistent for a member
        of a group without a part.
    fitted: provenance and published parts. Takes the tables of the job's snapshot and the context
        of the fit. Raises UserError for tables of another release.
    certificate: of a result's parts and provenance. Raises UserError for other parts.
    """

    tables: tuple[str, ...]
    asks_people: Callable[..., bool]
    part: Callable[..., pa.Table]
    nobody: Callable[..., pa.Table | None]
    joined: Callable[..., Mapping[str, Iterable[pa.Table]]]
    fitted: Callable[..., tuple[Provenance, list[tuple[str, bytes]]]]
    certificate: Callable[..., BatchCertificate | SizesCertificate]


def _jobs_of(
    module: ModuleType, certificate: Callable[..., BatchCertificate | SizesCertificate]
) -> JobFamily:
    return JobFamily(
        module.TABLES,
        module.asks_people,
        module.part_table,
        module.nobody_table,
        module.joined_tables,
        module.fitted_parts,
        certificate,
    )


JOB_FAMILIES: Registry[Family, JobFamily] = Registry(
    "jobs of data sets",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: _jobs_of(people_jobs, table_certificate),
        Family.HOUSEHOLDS: _jobs_of(household_jobs, table_certificate),
        Family.EVENTS: _jobs_of(event_jobs, table_certificate),
        Family.SIZES: _jobs_of(sizes_jobs, sizes_jobs.certificate),
    },
)


def everybodys_tables(
    study: Study,
    release: DataSetRelease,
    population: Population,
    table: Members | PlacesTable | None,
) -> Mapping[str, Iterable[pa.Table]]:
    """The inputs of a data set from a population of everybody. table: as `JobFamily.joined`."""
    members = None
    if isinstance(table, Members):
        members = table.slots, np.arange(len(table.slots))
    family = JOB_FAMILIES[release.family]
    asks = family.asks_people(release)
    parts = [family.part(study, release, population, members)] if asks else []
    return family.joined(study, release, parts, table, None, 0)
