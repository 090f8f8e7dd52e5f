"""Jobs of tables of people: present people by hash, and a table of synthetic people.

What panels have published of a job's people and columns costs its fit nothing. The releaser appends
the interactions of panels' answers to the topic of jobs, before the job's record. So a worker that
has seen a job has seen them. Repeated records are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.all_pairs import MOST_TRIPLE
from stream_dp.batch.people.people_table import People, present_rows, study_people
from stream_dp.batch.synthesizer import FitContext, Known
from stream_dp.continual.mechanisms import mechanism, patterns_part
from stream_dp.continual.window.residuals import period_interactions
from stream_dp.errors import UserError
from stream_dp.log.log import Record
from stream_dp.log.message import canonical, parts_in_records
from stream_dp.population.population import Population, slots_by_hash, symbols_of
from stream_dp.release.arrow_parts import read_measurements
from stream_dp.release.published_tables import (
    Provenance,
    Tables,
    coded_people,
    column_values,
    with_derived,
)
from stream_dp.study import DataSetRelease, JointRelease, PeopleRelease, Study, WindowRelease
from stream_dp.study.table_releases import PastAnswer, TableRelease
from stream_dp.study.topics import JOBS

from ..intake.group_tables import Members, PlacesTable
from ..storage.job_records import Job
from ..storage.journal import Entry
from .job_board import KNOWN
from .table_results import (
    GROUP_OF_ROWS,
    OTHER_RELEASE,
    codes_of,
    fitted_table_parts,
    with_ancestors,
)

R = TypeVar("R", bound=TableRelease)
_NOBODY = np.zeros(1, np.int64)
_MOST_COLUMNS = 3  # of an interaction that a fit can use
Answers = Mapping[tuple[str, int], NDArray[np.int64]]  # by release and period, in their order


TABLES = ("people",)


def asks_people(release: TableRelease) -> bool:
    """A table of people, or of their events, always uses reports."""
    return True


Rows = Callable[[Study, R, Population, NDArray[np.int64]], pa.Table]  # of slots of a population


def by_hash(rows: Rows[R]) -> tuple[Callable[..., pa.Table], Callable[..., pa.Table | None]]:
    """The table of a part, with its people by hash, and of an unclaimed slot; see `JobFamily`."""

    def part_table(
        study: Study, release: R, population: Population, members: object = None
    ) -> pa.Table:
        return rows(study, release, population, slots_by_hash(population))

    def nobody_table(study: Study, release: R, population: Population) -> pa.Table | None:
        return rows(study, release, population, _NOBODY) if population.nobodies else None

    return part_table, nobody_table


def _rows(
    study: Study, release: PeopleRelease, population: Population, slots: NDArray[np.int64]
) -> pa.Table:
    symbols = symbols_of(population)
    rows = present_rows(study, release, {name: symbols[name][slots] for name in release.names})
    names = column_values(study, release)["people"]
    return coded_people({name: names[name] for name in release.names}, rows)


part_table, nobody_table = by_hash(_rows)


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
    return with_ancestors(provenance, study, release, context), parts


def panels_of(study: Study, batch: DataSetRelease | None) -> list[WindowRelease | JointRelease]:
    """The panels of a data set's columns and people."""
    if batch is None or not batch.data_set.learns:
        return []
    if study_people(study, cast(PeopleRelease, batch)).size is None:
        return []
    attributes = {answer.attribute for answer in batch.answers}
    return [
        patterns
        for release in study.releases
        if (patterns := release.patterns) is not None
        and release.attribute in attributes
        and release.where is None
        and study.attributes[str(release.attribute)].number is None
    ]


def known_interactions(
    study: Study, release: DataSetRelease, period: int, answers: Answers
) -> tuple[Known, ...]:
    """The measured interactions of a data set's columns; none for data sets of groups or places.

    period: the number of the data set's period.
    answers: of the panels.
    """
    if not release.data_set.learns:
        return ()
    domain, interactions = study_people(study, cast(PeopleRelease, release)), list[Known]()
    column_of = {answer: column for column, answer in enumerate(release.answers)}
    for (name, number), values in sorted(answers.items()):
        declared = study.release(name)
        chosen, time = mechanism(study, declared), study.time(declared, number)
        window = patterns_part(chosen)
        if window is None or time is None:
            continue
        size = sum(count for _, count in window.demand(time))
        for interaction in period_interactions(window.measurement, time, values[:size]):
            past_answers = [
                PastAnswer(str(declared.attribute), a + period - number) for a in interaction.ago
            ]
            columns = tuple(column_of[a] for a in past_answers if a in column_of)
            if (
                len(columns) == len(past_answers) <= _MOST_COLUMNS
                and domain.cells(columns) <= MOST_TRIPLE
            ):
                interactions.append(Known(columns, interaction.values, interaction.variance))
    return tuple(interactions)


def known_records(study: Study, job: Job, closes: Sequence[Entry]) -> Iterator[Record]:
    """The records for a job. closes: entry n closes period n, up to the job's."""
    batch = study.batch(job.release)
    panels = panels_of(study, batch)
    assert batch is not None
    answers = dict[tuple[str, int], NDArray[np.int64]]()
    for entry in closes[max(1, job.period - batch.past) : job.period + 1] if panels else ():
        records = entry.public_records()
        for release in panels:
            name = f"/{release.name}".encode()
            parts = parts_in_records([r for r in records if (r.key or b"").endswith(name)])
            if parts:
                answers[release.name, entry.number] = read_measurements(parts)["value"].to_numpy()
    for number, interactions in enumerate(known_interactions(study, batch, job.period, answers)):
        fields = {"type": KNOWN, "id": job.id, "number": number, "columns": interactions.columns}
        fields |= {"values": interactions.values.tolist(), "variance": interactions.variance}
        yield Record(JOBS, canonical(fields), job.id.encode(), partition=0)
