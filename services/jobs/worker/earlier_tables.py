"""The earlier tables of a job's release, from their transcripts.

A table is among them once its job has handed in a result: then its transcript is complete, and
nothing adds to it. Jobs are fitted in their order, so these are usually all tables before. A fit
states in round 0 which of them it uses (`stream_dp/batch/synthesizer.py`).
"""

from __future__ import annotations

from stream_dp.batch.synthesizer import EarlierTable
from stream_dp.log.log import Log
from stream_dp.study import Study
from stream_dp.study.table_releases import is_fused

from ..board import JobBoard
from ..job_records import Job
from ..known_interactions import known_interactions
from .transcript import recorded_rounds


def number_in_schedule(study: Study, job: Job) -> int:
    """The number of a job's data set among those of its release, from 1."""
    release = study.batch(job.release)
    assert release is not None
    return 1 + study.due_periods(release).index(job.period)


def earlier_tables(study: Study, log: Log, board: JobBoard, job: Job) -> tuple[EarlierTable, ...]:
    """The tables before a job's table, in order. Empty for a release without fusion."""
    release = study.batch(job.release)
    if release is None or not is_fused(release):
        return ()
    origin = board.studies[job.id]
    jobs = [
        earlier
        for earlier in board.jobs.values()
        if earlier.release == job.release
        and earlier.period < job.period
        and board.handed_in(earlier.id)
        and board.studies[earlier.id] == origin
    ]
    if not jobs:
        return ()
    rounds, schedule = (
        recorded_rounds(log, [earlier.id for earlier in jobs]),
        study.schedule(release),
    )
    tables = []
    for earlier in sorted(jobs, key=lambda earlier: earlier.period):
        declared = schedule[earlier.period]
        answers = board.published.complete.get(earlier.id, {})
        known = known_interactions(study, declared, earlier.period, answers)
        number = number_in_schedule(study, earlier)
        tables.append(EarlierTable(number, declared, tuple(rounds[earlier.id]), known))
    return tuple(tables)
