"""What panels have published of a job's people and columns, which costs its fit nothing.

The releaser appends the interactions of panels' answers to the topic of jobs, before the job's
record. So a worker that has seen a job has seen them. Repeated records are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.people.all_pairs import MOST_TRIPLE
from stream_dp.batch.people.people_table import study_people
from stream_dp.batch.synthesizer import Known
from stream_dp.continual.mechanisms import mechanism, patterns_part
from stream_dp.continual.window.interactions import period_interactions
from stream_dp.log.log import Record
from stream_dp.log.message import canonical, parts_in_records
from stream_dp.release.arrow_parts import read_measurements
from stream_dp.study import DataSetRelease, JointRelease, Study, WindowRelease
from stream_dp.study.table_releases import PastAnswer, PeopleRelease
from stream_dp.study.topics import JOBS

from ..storage.job_records import Job
from ..storage.journal import Entry
from .job_board import KNOWN

_MOST_COLUMNS = 3  # of an interaction that a fit can use
Answers = Mapping[tuple[str, int], NDArray[np.int64]]  # by release and period, in their order


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
    domain, known = study_people(study, cast(PeopleRelease, release)), list[Known]()
    place = {answer: column for column, answer in enumerate(release.answers)}
    for (name, number), values in sorted(answers.items()):
        declared = study.release(name)
        chosen, time = mechanism(study, declared), study.time(declared, number)
        window = patterns_part(chosen)
        if window is None or time is None:
            continue
        size = sum(count for _, count in window.demand(time))
        for one in period_interactions(window, time, values[:size]):
            asked = [PastAnswer(str(declared.attribute), a + period - number) for a in one.ago]
            columns = tuple(place[a] for a in asked if a in place)
            if len(columns) == len(asked) <= _MOST_COLUMNS and domain.cells(columns) <= MOST_TRIPLE:
                known.append(Known(columns, one.values, one.variance))
    return tuple(known)


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
    for number, known in enumerate(known_interactions(study, batch, job.period, answers)):
        fields = {"type": KNOWN, "id": job.id, "number": number, "columns": known.columns}
        fields |= {"values": known.values.tolist(), "variance": known.variance}
        yield Record(JOBS, canonical(fields), job.id.encode(), partition=0)
