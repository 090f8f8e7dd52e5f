"""What a job of each family looks at, how it is fitted, and what its certificate states.

People come in the order of the keyed hashes of their ids, then the places that nobody has; members
in the order of their table; sizes by region. So the same people give the same bytes, whether they
are one population or many parts. A table holds no ids.

Each part gives a table of its own (`part`), and `joined` makes the inputs from those of all parts;
a population of everybody is one part. All of these tables are confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_dp.population import Population
from stream_dp.release.published_tables import BatchCertificate, Provenance
from stream_dp.release.sizes_certificate import SizesCertificate
from stream_dp.study import DataSetRelease, Family, Study
from stream_dp.study.families import DATA_SET_FAMILIES, Registry

from ..groups.members import Members
from ..groups.place_table import PlacesTable
from . import household_jobs, people_jobs, sizes_jobs
from .table_results import table_certificate


@dataclass(frozen=True)
class JobFamily:
    """The jobs of a family. Each function takes the study and the release first.

    tables: the names of the tables that a data set looks at.
    asks_people: of the release alone: whether the data set looks at what people have said.
    part: what a part of the population gives to a data set that asks people. Takes the population
        and, of groups, the slots of members in it and their rows in the table of all members.
    nobody: what a place that nobody has gives; None where a part has no such place, and of groups.
    joined: the inputs by name, as tables that follow one another. Takes the tables of all parts,
        read once; the table of groups and members or of places; what `nobody` gives, None where
        each part holds all of its places; and how many places nobody has. Raises Inconsistent
        where a member of a group is in no part.
    fitted: how a job was fitted, and the parts of what is published. Takes the tables of the job's
        snapshot and the context of the fit. Raises UserError for tables of another release.
    certificate: of a result's parts and provenance. Raises UserError for other parts.
    """

    tables: tuple[str, ...]
    asks_people: Callable[..., bool]
    part: Callable[..., pa.Table]
    nobody: Callable[..., pa.Table | None]
    joined: Callable[..., Mapping[str, Iterable[pa.Table]]]
    fitted: Callable[..., tuple[Provenance, list[tuple[str, bytes]]]]
    certificate: Callable[..., BatchCertificate | SizesCertificate]


JOB_FAMILIES: Registry[Family, JobFamily] = Registry(
    "jobs of data sets",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: JobFamily(
            people_jobs.TABLES,
            people_jobs.asks_people,
            people_jobs.part_table,
            people_jobs.nobody_table,
            people_jobs.joined_tables,
            people_jobs.fitted_parts,
            table_certificate,
        ),
        Family.HOUSEHOLDS: JobFamily(
            household_jobs.TABLES,
            household_jobs.asks_people,
            household_jobs.part_table,
            household_jobs.nobody_table,
            household_jobs.joined_tables,
            household_jobs.fitted_parts,
            table_certificate,
        ),
        Family.SIZES: JobFamily(
            sizes_jobs.TABLES,
            sizes_jobs.asks_people,
            sizes_jobs.part_table,
            sizes_jobs.nobody_table,
            sizes_jobs.joined_tables,
            sizes_jobs.fitted_parts,
            sizes_jobs.certificate,
        ),
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
